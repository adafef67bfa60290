"""A control plane whose history can be read, and slots on it for runs side by side."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from alnair.sandbox import installation
from alnair.sandbox.kept import KeptControlPlane
from chaos.court import Court
from chaos.replica import Gate
from chaos.slot import Slot
from harness.api import Api
from harness.fixtures import install_crds, make_namespace
from harness.operator import install
from harness.rights import Note
from witness.history import History
from witness.plane import APISERVER_FLAGS, DELIVERY

SLOTS: Final = 3


@dataclass(frozen=True)
class Plane:
    slots: list[Slot]
    court: Court


@asynccontextmanager
async def start(
    folder: Path | None = None,
    *,
    slots: int = SLOTS,
    stderr: IO[str] | int | None = None,
    noted: Note | None = None,
) -> AsyncIterator[Plane]:
    """The operators' logs go to the folder; everything is gone again at the end, however it comes. `noted`: reads the
    audit log at the end; without it there is none."""
    async with AsyncExitStack() as stack:
        audit = noted is not None
        kept = stack.enter_context(
            KeptControlPlane.start(audit=audit, apiserver_flags=APISERVER_FLAGS, stderr=stderr)
        )
        if noted is not None:
            stack.callback(noted, kept.access)
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alnair-")))
        install_crds(kept.access)
        names = [make_namespace(kept.access, f"s{number}") for number in range(1, slots + 1)]
        releases = [
            await asyncio.to_thread(install, kept.access, name, own / name, delivery=DELIVERY)
            for name in names
        ]
        gate = Gate(releases[0], own)
        stack.callback(gate.close)
        api = await stack.enter_async_context(Api(kept.access))
        history = History(kept.access.directory / "etcd.sock")
        stack.push_async_callback(history.close)
        made = [
            Slot(name, kept, api, release, gate, folder or own)
            for name, release in zip(names, releases, strict=True)
        ]
        court = Court(history, frozenset(names))
        court.open()
        stack.push_async_callback(court.close)
        for slot in made:
            stack.push_async_callback(slot.close)
            await asyncio.to_thread(
                installation.wait_for_delivery, kept.access, slot.name, slot.release.scheduler
            )
        yield Plane(made, court)
