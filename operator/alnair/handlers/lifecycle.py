"""Starting, standing by, leading, stopping: one process from its first connection to its exit code.

    connect -> wait for the lease -> lead (see `leader`)
                                      |
    SIGTERM: stop planning, let what is under way end, release the lease
    lease lost: stop at once; the process ends and starts again as a stand-by

Kopf runs on a thread of its own (see `kopf_thread`), and begins when no first lists are under way.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import uuid
from collections.abc import Callable
from contextlib import suppress

from alnair.api import names
from alnair.console.readers import Readers
from alnair.console.server import Console
from alnair.control.metrics import Metrics
from alnair.extender.server import Server
from alnair.handlers.kopf_thread import Handovers, KopfThread
from alnair.handlers.leader import Leader
from alnair.handlers.reload import ConfigFile
from alnair.handlers.settings import RunSettings
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.clock import Clock
from alnair.ledger.lease import LeadershipLost, Lease, LeaseSettings

log = logging.getLogger(__name__)

STAND_BY_SECONDS = 2.0  # who does not lead after this stands by
KOPF_SECONDS = (
    20.0  # how long Kopf waits for the first lists: the liveness probe is Kopf's, and waits a minute
)


class Operator:
    """One process of Alnair. `run` returns the exit code."""

    def __init__(self, settings: RunSettings, *, on_ready: Callable[[int, int], None]) -> None:
        """`on_ready` hears the ports of metrics and extender (0 = there is none)."""
        self._settings = settings
        self._on_ready = on_ready
        self._clock = Clock()
        self._identity = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._metrics = Metrics()
        self._config = ConfigFile(
            settings.config_path, settings.config, registry=settings.registry, metrics=self._metrics
        )
        self._beat = self._clock.now()
        self._ready = False
        self._unhurried = asyncio.Event()  # no first lists are under way
        self._extender: Server | None = None

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        settings = self._settings
        handovers = Handovers.to(loop)
        kopf_thread = KopfThread(settings, handovers, silence=lambda: self._clock.now() - self._beat)
        observe = self._metrics.observe_call
        async with (
            Client(settings.connection, observer=observe) as client,
            Client(settings.connection, observer=observe, pool=2) as lease_client,
            Client(settings.connection, observer=observe, pool=2) as readers_client,
        ):
            readers = None
            if settings.metrics_authenticate:
                readers = Readers(
                    readers_client.create, clock=self._clock, audiences=settings.metrics_audiences
                )
            console = Console(
                self._metrics,
                ready=lambda: self._ready,
                host=settings.host,
                port=settings.metrics_port,
                readers=readers,
                tls=settings.metrics_tls,
            )
            await console.start()
            if settings.door is not None:
                self._extender = Server(settings.door, self._metrics)
                await self._extender.start()
            heart = asyncio.create_task(self._heartbeat(), name="heartbeat")
            lead = asyncio.create_task(self._lead(client, lease_client, console, handovers), name="lead")
            watching = asyncio.create_task(self._watch_kinds(client, kopf_thread), name="watch the kinds")
            reading = asyncio.create_task(self._config.run(), name="read the config again")
            stopped = asyncio.create_task(stop.wait(), name="stop")
            try:
                await asyncio.wait({lead, stopped}, return_when=asyncio.FIRST_COMPLETED)
                code = 0 if stop.is_set() else 1
                if lead.done() and (error := lead.exception()) is not None:
                    log.error("stopping: %s", error, exc_info=not isinstance(error, LeadershipLost) and error)
            finally:
                tasks = (lead, stopped, heart, watching, reading)
                for task in tasks:  # once: who leads lets what is under way come to its end
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                kopf_thread.stop()
                await console.stop()
                if self._extender is not None:
                    await self._extender.stop()
        return code

    async def _lead(
        self, client: Client, lease_client: Client, console: Console, handovers: Handovers
    ) -> None:
        """Wait for the lease, then lead until it is lost or we are cancelled.

        The lease has a client of its own: it must not stand in line behind a thousand Bindings.
        """
        settings = self._settings
        lease = Lease(
            lease_client,
            LeaseSettings(
                settings.lease_namespace, settings.lease_name, self._identity, settings.lease_seconds
            ),
            self._clock,
            serves=self._config.schedulers,
        )
        self._ready = True  # as a stand-by
        standing_by = asyncio.get_running_loop().call_later(STAND_BY_SECONDS, self._unhurried.set)
        await lease.acquire()
        standing_by.cancel()
        self._ready = False
        self._metrics.leader.set(1)

        def ready() -> None:
            self._ready = True
            self._on_ready(console.port, self._extender.port if self._extender is not None else 0)

        try:
            leader = Leader(
                settings,
                client=client,
                lease=lease,
                identity=self._identity,
                clock=self._clock,
                metrics=self._metrics,
                config_file=self._config,
                extender=self._extender,
            )
            await leader.lead(handovers, on_ready=ready, on_calm=self._unhurried.set)
        finally:
            self._ready = False
            self._metrics.leader.set(0)
            await lease.release()

    async def _watch_kinds(self, client: Client, kopf_thread: KopfThread) -> None:
        """Kopf looks once which kinds there are: it starts when all of them are served. It hears of every object that
        there is at a millisecond each, and what a new leader must know it lists itself: so Kopf lets that go first."""
        complaint = ""
        kinds = [names.API_PODGROUP, names.API_NRT, names.API_ALLOCATION]
        if self._settings.horovod_jobs:
            kinds.append(names.API_HOROVOD)
        for version in kinds:
            while True:
                try:
                    await client.get(f"/apis/{version}")
                    break
                except (Refused, Unanswered) as error:
                    if str(error) != complaint:
                        complaint = str(error)
                        log.warning("waiting for the kinds of %s; are its CRDs installed? %s", version, error)
                    await asyncio.sleep(1)
        with suppress(TimeoutError):
            async with asyncio.timeout(KOPF_SECONDS):
                await self._unhurried.wait()
        kopf_thread.start()

    async def _heartbeat(self) -> None:
        while True:
            self._beat = self._clock.now()
            await asyncio.sleep(1)
