"""A control plane whose whole history can be read, the chart installed in it, and the operator as a process.

The apiserver keeps JSON in etcd and never compacts, so that `history` can read every revision of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from alnair.sandbox.kept import KeptControlPlane
from harness.api import Api, at
from harness.fixtures import install_crds, make_namespace
from harness.operator import Operator, install
from harness.rights import Note
from witness.history import History

APISERVER_FLAGS = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")

DELIVERY = {"wholeCards": "DevicePlugin"}
"""As shipped: whole cards come from device plugins, except for pods that can only go to nodes of Alnair's."""
LEASE = "--lease-duration=8"
"""Long enough that a machine with too much to do does not take it from the operator every few seconds."""
PROFILES = ("", "-cost-saving", "-high-performance")


@dataclass(frozen=True)
class Plane:
    kept: KeptControlPlane
    api: Api
    operator: Operator
    history: History

    @property
    def scheduler(self) -> str:
        return self.operator.scheduler

    @property
    def schedulers(self) -> frozenset[str]:
        return frozenset(self.scheduler + profile for profile in PROFILES)


@asynccontextmanager
async def start(
    folder: Path | None = None,
    *,
    namespaces: Sequence[str],
    elastic: dict[str, Any] | None = None,
    stderr: IO[str] | int | None = None,
    noted: Note | None = None,
) -> AsyncIterator[Plane]:
    """Everything runs but the operator, whose log goes to the folder; gone again at the end, however it comes.

    `elastic`: the chart's values of that name. `noted`: reads the audit log at the end; without it there is none.
    """
    audit = noted is not None
    with (
        KeptControlPlane.start(audit=audit, apiserver_flags=APISERVER_FLAGS, stderr=stderr) as kept,
        tempfile.TemporaryDirectory(prefix="alnair-") as scratch,
    ):
        install_crds(kept.access)
        for namespace in namespaces:
            kept.access.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        own = Path(scratch)
        release = install(
            kept.access, make_namespace(kept.access, "w"), own, delivery=DELIVERY, elastic=elastic
        )
        operator = Operator(release, folder or own, flags=(LEASE,))
        history = History(kept.access.directory / "etcd.sock")
        async with Api(kept.access) as api:
            for namespace in namespaces:  # pods are refused until it is there
                await api.until(at("serviceaccounts", namespace, "default"), lambda _: True)
            try:
                yield Plane(kept, api, operator, history)
            finally:
                operator.kill()
                await history.close()
                if noted is not None:
                    noted(kept.access)
