"""Kopf, on a thread and a loop of its own: its handlers, its login, its settings and its probe.

What its handlers hear goes through `Handovers` to the loop that owns the state.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
import uvloop

from alnair.api import names
from alnair.control.gangs import Roster
from alnair.control.horovod.reconciler import Reconciler
from alnair.handlers import gpuallocation, horovod, podgroup, topology
from alnair.handlers.handover import Handover
from alnair.handlers.settings import RunSettings
from alnair.handlers.topology import Topologies
from alnair.kube.loop import Loop
from alnair.ledger.ledger import Ledger

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 30.0  # the main loop must have turned within this, or the liveness probe fails
STOP_SECONDS = 5.0  # for Kopf to end in; it is a daemon's thread, and holds nobody up for longer
TOKEN_SECONDS = 300.0  # how long Kopf may use a token before it asks again; ours is read anew on each call


@dataclass(frozen=True, slots=True)
class Handovers:
    """One for each kind that Kopf watches."""

    groups: Handover[Roster]
    zones: Handover[Topologies]
    records: Handover[Ledger]
    jobs: Handover[Reconciler]

    @classmethod
    def to(cls, loop: asyncio.AbstractEventLoop) -> Handovers:
        return cls(
            groups=Handover(loop, "PodGroup"),
            zones=Handover(loop, "NodeResourceTopology"),
            records=Handover(loop, "GPUAllocation"),
            jobs=Handover(loop, "ElasticHorovodJob"),
        )


class KopfThread:
    """Started again when it ends before it should."""

    def __init__(self, settings: RunSettings, handovers: Handovers, *, silence: Callable[[], float]) -> None:
        """`silence`: for how many seconds the main loop has not turned, asked from this thread."""
        self._settings = settings
        self._handovers = handovers
        self._silence = silence
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                uvloop.run(
                    kopf.operator(
                        registry=self._registry(),
                        liveness_endpoint=self._liveness_endpoint(),
                        clusterwide=True,
                        standalone=True,
                        stop_flag=self._stop,
                    ),
                    loop_factory=Loop,
                )
            except Exception:
                log.exception("Kopf ended; starting it again")
            self._stop.wait(1.0)

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        podgroup.register(registry, self._handovers.groups)
        topology.register(registry, self._handovers.zones)
        gpuallocation.register(registry, self._handovers.records)
        if self._settings.horovod_jobs:
            horovod.register(registry, self._handovers.jobs)

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            connection = self._settings.connection
            return kopf.ConnectionInfo(
                server=connection.server,
                ca_path=connection.ca_path,
                insecure=not connection.verified,
                token=connection.token,
                certificate_path=connection.certificate_path,
                private_key_path=connection.key_path,
                expiration=datetime.now(UTC) + timedelta(seconds=TOKEN_SECONDS),
            )

        @kopf.on.startup(registry=registry)
        async def tune(settings: kopf.OperatorSettings, **_: Any) -> None:
            settings.posting.enabled = False  # events are ours to write, deduplicated
            settings.scanning.disabled = True  # a few fixed kinds: no right to list CRDs or namespaces needed
            settings.networking.error_backoffs = Patience()
            settings.networking.request_timeout = 30
            settings.watching.server_timeout = 590
            # What bears our label has a stream of its own.
            settings.watching.label_selectors[names.GROUP_NRT, names.PLURAL_NRT] = topology.UNLABELLED
            settings.queueing.idle_timeout = 1
            settings.persistence.diffbase_storage = NothingKept()
            settings.persistence.progress_storage = kopf.StatusProgressStorage()

        @kopf.on.probe(registry=registry, id="loop")
        async def loop_turns(**_: Any) -> str:
            if (silence := self._silence()) > HEARTBEAT_SECONDS:
                raise kopf.PermanentError(f"the loop has not turned for {silence:.0f} s")
            return "turning"

        return registry

    def _liveness_endpoint(self) -> str | None:
        port = self._settings.liveness_port
        return f"http://{self._settings.host}:{port}/healthz" if port else None


class NothingKept(kopf.DiffBaseStorage):
    """Kopf compares each object with what it has kept of it, for handlers that we do not have."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


class Patience:
    """Back-offs without end: a watch that cannot be made now is made later, never given up."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.1, 0.3, 1.0, 2.0), itertools.repeat(5.0))
