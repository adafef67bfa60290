"""A control plane whose kube-scheduler asks the extender, and the operator that answers, as a process to be killed.

kube-scheduler's configuration is what `alnair extender config` prints. The address stands in it, so the port is chosen
before anybody listens on it.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from alnair.api.extender import DEFAULT_SCHEDULER, Extender
from alnair.extender.advice import Way, kube_scheduler_configuration
from alnair.sandbox import installation
from alnair.sandbox.fleet import card_uuid
from alnair.sandbox.kept import KeptControlPlane
from harness.api import Api
from harness.builders import NodeBuilder
from harness.certificates import Authority
from harness.fixtures import Fleet, install_crds, make_namespace
from harness.operator import Operator, install
from witness.checker import Checker
from witness.history import History
from witness.plane import APISERVER_FLAGS
from witness.truth import Card, told
from witness.words import CARDS


@dataclass(frozen=True)
class Plane:
    kept: KeptControlPlane
    api: Api
    namespace: str
    operator: Operator
    fleet: Fleet
    history: History
    checker: Checker
    reading: asyncio.Task[None]

    async def judged(self) -> None:
        """Every revision so far was looked at, and nothing was wrong with any."""
        target = await self.history.current()
        while self.history.revision < target:
            if self.reading.done():
                self.reading.result()
            await asyncio.sleep(0.02)
        assert not self.checker.findings, "\n".join(str(each) for each in self.checker.findings)


@dataclass(frozen=True)
class Ends:
    """Both ends of the way from kube-scheduler to the extender: what each is given."""

    way: Way
    flags: tuple[str, ...]


def by_secret(folder: Path) -> Ends:
    port, secret = _free_port(), folder / "secret"
    secret.write_text(secrets.token_hex(16))
    flags = (f"--extender-address=127.0.0.1:{port}", f"--extender-secret-file={secret}")
    return Ends(Way(f"http://127.0.0.1:{port}", secret.read_text()), flags)


def by_certificates(folder: Path) -> Ends:
    """On every address of the machine."""
    port, ours = _free_port(), Authority(folder, "ours")
    serving, asking = ours.signs("127.0.0.1"), ours.signs("kube-scheduler")
    way = Way(
        f"https://127.0.0.1:{port}",
        certificate=str(asking.certificate),
        key=str(asking.key),
        authority=str(ours.certificate),
    )
    flags = (
        f"--extender-address=0.0.0.0:{port}",
        f"--extender-cert-file={serving.certificate}",
        f"--extender-key-file={serving.key}",
        f"--extender-client-ca-file={ours.certificate}",
    )
    return Ends(way, flags)


@asynccontextmanager
async def start(
    folder: Path,
    *,
    ends: Callable[[Path], Ends] = by_secret,
    flags: tuple[str, ...] = (),
    audit: bool = False,
    stderr: IO[str] | int | None = None,
) -> AsyncIterator[Plane]:
    """Everything runs, the operator too; gone again at the end, however it comes."""
    terms, both = Extender(), ends(folder)
    told = {**kube_scheduler_configuration(terms, both.way), "leaderElection": {"leaderElect": False}}
    config = folder / "kube-scheduler.json"
    config.write_text(json.dumps(told))
    kept = KeptControlPlane.start(
        scheduler=True,
        scheduler_config=config,
        audit=audit,
        apiserver_flags=APISERVER_FLAGS,
        stderr=stderr,
    )
    with kept, tempfile.TemporaryDirectory(prefix="extender-") as scratch:
        install_crds(kept.access)
        namespace = make_namespace(kept.access, "extender")
        values = {"enabled": True, "profile": namespace}
        release = install(kept.access, namespace, Path(scratch), extender=values)
        operator = Operator(release, folder, flags=(*both.flags, *flags))
        history = History(kept.access.directory / "etcd.sock")
        checker = Checker(frozenset({DEFAULT_SCHEDULER, release.scheduler}), delivering=True)
        reading = asyncio.create_task(_judge(history, checker))
        async with Api(kept.access) as api:
            fleet = Fleet(api, namespace)
            try:
                await operator.start()
                await asyncio.to_thread(
                    installation.wait_for_delivery, kept.access, namespace, DEFAULT_SCHEDULER
                )
                yield Plane(kept, api, namespace, operator, fleet, history, checker, reading)
            finally:
                operator.kill()
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading
                await history.close()


def declared(made: NodeBuilder, fleet: Fleet) -> NodeBuilder:
    """The node with its cards told to the checker as well, in words that the operator does not read."""
    name = fleet.name(made.name)
    ids = [card_uuid(name, index) for index in range(len(made.cards))]
    cards = [
        Card(id=id_, card=id_, model=kind.model, memory_mib=kind.memory_mib)
        for id_, kind in zip(ids, made.cards, strict=True)
    ]
    return made.annotated({CARDS: told(cards)})


async def _judge(history: History, checker: Checker) -> None:
    async for change in history.changes():
        checker.see(change)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


__all__ = ["DEFAULT_SCHEDULER", "Plane", "by_certificates", "declared", "start"]
