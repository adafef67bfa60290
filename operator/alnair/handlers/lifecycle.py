"""Starting, leading, stopping.

    connect -> wait for the lease -> stamp the records -> list pods, nodes, storage -> roll forward -> loop
                                                                                       |
    SIGTERM: stop planning, let what is under way end, release the lease   <-----------+
    lease lost: stop at once; the process ends and starts again as a stand-by

Kopf runs on a thread of its own (see handover), and begins when no first lists are under way. Its startup, login and
probe handlers are here.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import signal
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import kopf
import uvloop

from alnair.api import names
from alnair.api.config import Config
from alnair.console.readers import Readers
from alnair.console.server import Console
from alnair.control.elastic.elastic import Elastic
from alnair.control.events import Events, Regarding
from alnair.control.failures import Failures
from alnair.control.gangs import Gang, Roster
from alnair.control.horovod.reconciler import Reconciler
from alnair.control.loop import Loop
from alnair.control.metrics import Metrics
from alnair.control.outcomes import Outcomes
from alnair.control.profiles import Profiles
from alnair.control.publishing import Publisher
from alnair.control.reports import Reports, status_of
from alnair.extender import endpoint
from alnair.extender.door import Door
from alnair.extender.endpoint import Endpoint
from alnair.extender.server import Server
from alnair.extender.verbs import Verbs
from alnair.handlers import gpuallocation, horovod, podgroup, topology
from alnair.handlers.feeds import NamespaceFeed, NodeFeed, PodFeed, ServiceFeed
from alnair.handlers.handover import Handover
from alnair.handlers.owners import Owners
from alnair.handlers.reload import Adoption, ConfigFile, decay_of
from alnair.handlers.resync import Resync
from alnair.handlers.storage import KINDS, StorageFeed
from alnair.handlers.topology import LabelledFeed, Topologies
from alnair.kube import Client, Connection, Refused, Stream, Unanswered
from alnair.kube.clock import Clock
from alnair.kube.lull import Lull
from alnair.ledger import cards, recovery
from alnair.ledger.lease import LeadershipLost, Lease, LeaseSettings
from alnair.ledger.ledger import Ledger
from alnair.scheduling.guard import RuleFailed
from alnair.scheduling.registry import Registry
from alnair.state import wire
from alnair.state.cluster import ClusterState
from alnair.state.inventory import Inventory

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 30.0  # the loop must have turned within this, or the liveness probe fails
GRACE_SECONDS = 5.0
STAND_BY_SECONDS = 2.0  # who does not lead after this stands by
KOPF_SECONDS = (
    20.0  # how long Kopf waits for the first lists: the liveness probe is Kopf's, and waits a minute
)
RUSH_SECONDS = 3.0  # at most, in which a new leader only binds whom it found waiting
TOKEN_SECONDS = 300.0  # how long Kopf may use a token before it asks again; ours is read anew on each call


@dataclass(frozen=True, slots=True)
class RunSettings:
    connection: Connection
    config: Config
    config_path: Path | None
    registry: Registry
    lease_namespace: str
    lease_name: str
    lease_seconds: float = 15.0
    host: str = "127.0.0.1"
    metrics_port: int = 9090
    metrics_authenticate: bool = True  # on other addresses than loopback; else everybody may read them
    metrics_audiences: tuple[str, ...] = ()  # that readers' tokens must be for; () = the apiserver's own
    metrics_tls: ssl.SSLContext | None = None  # None = in the clear
    liveness_port: int = 0  # 0 = no liveness endpoint
    door: Door | None = None  # of the extender; None = there is none
    service: str = ""  # the Service of the extender that leads to the leader; empty = none does
    address: str = ""  # by which others reach this replica
    horovod_jobs: bool = True  # whether ElasticHorovodJobs are ours to reconcile
    config_map: str = ""  # in the lease's namespace, that the config file is mounted from; "" = none


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
        self._groups = Handover[Roster](loop, "PodGroup")
        self._zones = Handover[Topologies](loop, "NodeResourceTopology")
        self._records = Handover[Ledger](loop, "GPUAllocation")
        self._jobs = Handover[Reconciler](loop, "ElasticHorovodJob")
        settings = self._settings
        kopf_thread = KopfThread(self)
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
            lead = asyncio.create_task(self._lead(client, lease_client, console), name="lead")
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
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                kopf_thread.stop()
                await console.stop()
                if self._extender is not None:
                    await self._extender.stop()
        return code

    async def _lead(self, client: Client, lease_client: Client, console: Console) -> None:
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
        )
        self._ready = True  # as a stand-by
        standing_by = asyncio.get_running_loop().call_later(STAND_BY_SECONDS, self._unhurried.set)
        await lease.acquire()
        standing_by.cancel()
        self._ready = False
        self._metrics.leader.set(1)

        try:
            await self._schedule(client, console, lease)
        finally:
            self._ready = False
            self._metrics.leader.set(0)
            await lease.release()

    async def _schedule(self, client: Client, console: Console, lease: Lease) -> None:
        """What a leader does, from the first look at the records to the end of its time."""
        gc.disable()  # until `spare_the_collector`: nothing of what the lists bring is garbage
        clock, metrics, config = self._clock, self._metrics, self._config.config

        def rule_failed(name: str, failure: RuleFailed) -> None:
            note = f"profile {name}: {failure}; its fallback stands in for a while"
            self._say_about_config(events, "RuleFailed", note, True)

        profiles = Profiles(self._config.profiles(), clock=clock, metrics=metrics, on_failure=rule_failed)
        schedulers = frozenset(profiles)
        state = ClusterState(decay=decay_of(config))
        lull = Lull(clock)
        ledger = Ledger(
            client=client,
            state=state,
            lease=lease,
            clock=clock,
            schedulers=schedulers,
            lull=lull,
            instance=names.label_value(f"{self._settings.lease_namespace}.{self._settings.lease_name}"),
        )
        events = Events(client, clock=clock, metrics=metrics, identity=self._identity, lull=lull)

        def gang_changed(gang: Gang) -> None:
            reports.gang_changed(gang)
            scheduling.touch(gang)

        roster = Roster(schedulers, on_change=gang_changed)
        reports = Reports(client, events=events, roster=roster, clock=clock, lull=lull)
        scheduling = Loop(
            state=state,
            ledger=ledger,
            roster=roster,
            profiles=profiles,
            levels=config.topology.levels,
            reports=reports,
            metrics=metrics,
            clock=clock,
        )
        state.on_freed = scheduling.wake
        outcomes = Outcomes(
            roster=roster,
            loop=scheduling,
            failures=Failures(ledger=ledger, reports=reports, clock=clock),
            reports=reports,
            metrics=metrics,
            clock=clock,
        )
        ledger.listener = outcomes
        elastic = Elastic(
            client,
            state=state,
            ledger=ledger,
            roster=roster,
            loop=scheduling,
            profiles=profiles,
            reports=reports,
            metrics=metrics,
            clock=clock,
            settings=config.elastic,
        )
        metrics.watch(state, lambda: map(phase, roster.gangs.values()))
        publisher = Publisher(client, state=state, lull=lull)

        def cards_changed(name: str, before: Inventory, now: Inventory) -> None:
            publisher.cards_changed(name)
            cards.observe(ledger, name)
            if (node := state.nodes.get(name)) is not None:
                reports.node_cards(name, node.uid, before, now)

        state.on_cards = cards_changed
        topologies = Topologies(state, reports, publisher)
        published = LabelledFeed(topologies)
        reconciler = Reconciler(
            client, events=events, clock=clock, serves=lambda name: name in roster.schedulers
        )
        of_jobs = horovod.feeds(reconciler.books) if self._settings.horovod_jobs else []
        resync = Resync(
            client,
            roster=roster,
            topologies=topologies,
            ledger=ledger,
            reconciler=reconciler if self._settings.horovod_jobs else None,
        )
        extender = None
        if self._extender is not None:
            extender = Verbs(
                config,
                client=client,
                state=state,
                ledger=ledger,
                roster=roster,
                profiles=profiles,
                clock=clock,
            )
        pods = PodFeed(
            state=state,
            ledger=ledger,
            roster=roster,
            reports=reports,
            clock=clock,
            delivering=config.delivering(),
            measuring=config.measuring(),
            owners=Owners(client, clock=clock),
            on_arrival=profiles.arrived,
            guests=extender.concerns if extender is not None else lambda pod: False,
        )
        nodes = NodeFeed(state=state, ledger=ledger, reports=reports, clock=clock)
        namespaces = NamespaceFeed(state=state)
        services = ServiceFeed(state=state)
        storage = [StorageFeed(kind, state=state, ledger=ledger) for kind in KINDS]

        async with _Tasks() as tasks:
            tasks.start(lease.keep(), "keep the lease")
            lost = tasks.start(_raise_when_lost(lease), "lease lost")
            streams = [
                Stream(client, "/api/v1/nodes", wire.Node, nodes),
                Stream(client, "/api/v1/namespaces", wire.Namespace, namespaces),
                Stream(client, "/api/v1/services", wire.Service, services),
                published.stream(client),
                *(feed.stream(client) for feed in (*storage, *of_jobs)),
            ]
            for stream in streams:
                tasks.start(stream.run(), f"{stream.name} stream")
            # Records before pods: see ledger.recovery.
            pod_stream = Stream(client, "/api/v1/pods", wire.Pod, pods)
            settled = await recovery.stamp_open(
                ledger, listed=lambda: tasks.start(pod_stream.run(), "Pod stream")
            )
            self._groups.open(roster)
            self._zones.open(topologies)
            self._records.open(ledger)
            self._jobs.open(reconciler)
            await resync.until_done()
            feeds = (nodes.synced, pods.synced, namespaces.synced, services.synced, published.synced)
            for synced in (*feeds, *(feed.synced for feed in (*storage, *of_jobs))):
                await synced.wait()
            await lease.confirm()
            recovery.resume(ledger)
            scheduling.adopt_strays()
            calm = asyncio.Event()
            lull.busy(True, who="a new leader")
            tasks.start(resync.run(calm), "resync")
            ledger.spawn(self._calm_down(scheduling, lull, calm), "calm down")
            stamping = ledger.spawn(recovery.stamp_settled(ledger, settled), "stamp what is settled")
            tasks.start(reports.run(), "reports")
            tasks.start(events.run(), "events")
            tasks.start(publisher.run(), "publisher")
            tasks.start(reconciler.run(), "reconciler")
            tasks.start(outcomes.keep_time(ledger), "time")
            tasks.start(elastic.run(), "elastic gangs")
            spare_the_collector()
            adoption = Adoption(
                self._config,
                config,
                profiles=profiles,
                roster=roster,
                ledger=ledger,
                pods=pods,
                stream=pod_stream,
                loop=scheduling,
                elastic=elastic,
                extender=extender,
                say=partial(self._say_about_config, events),
            )
            adoption.begin()
            planning = tasks.start(scheduling.run(), "loop")
            if self._extender is not None and extender is not None:
                self._extender.verbs = extender
                tasks.start(extender.run(), "extender")
                self._show_the_way(client, tasks, self._extender.port)
            self._ready = True
            self._on_ready(console.port, self._extender.port if self._extender is not None else 0)
            log.info(
                "ready: %d nodes, %d pods, %d records", len(state.nodes), len(state.pods), len(ledger.records)
            )
            try:
                await asyncio.wait({*tasks.running, ledger.failure}, return_when=asyncio.FIRST_COMPLETED)
                for done in (lost, ledger.failure, *tasks.running):
                    if done.done() and not done.cancelled() and (error := done.exception()) is not None:
                        raise error
                raise RuntimeError("a task that never ends has ended")
            finally:
                adoption.end()
                if self._extender is not None:
                    self._extender.verbs = None
                planning.cancel()
                stamping.cancel()  # the next leader's own
                if lease.held:
                    await ledger.drain(GRACE_SECONDS)
                await ledger.close()

    async def _calm_down(self, scheduling: Loop, lull: Lull, calm: asyncio.Event) -> None:
        """Whoever waited for a leader is bound first; what can wait does."""
        with suppress(TimeoutError):
            await asyncio.wait_for(scheduling.rested.wait(), RUSH_SECONDS)
        lull.busy(False, who="a new leader")
        calm.set()
        self._unhurried.set()

    def _show_the_way(self, client: Client, tasks: _Tasks, port: int) -> None:
        settings = self._settings
        if settings.service:
            here = Endpoint(settings.lease_namespace, settings.service, settings.address, port)
            tasks.start(endpoint.keep(client, here), "say where the leader is")

    def _say_about_config(self, events: Events, reason: str, note: str, warning: bool) -> None:
        settings = self._settings
        if settings.config_map:
            about = Regarding("v1", "ConfigMap", settings.config_map, "", settings.lease_namespace)
            events.say(about, reason=reason, note=note, action="ReadingConfig", warning=warning)

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
            await asyncio.wait_for(self._unhurried.wait(), KOPF_SECONDS)
        kopf_thread.start()

    async def _heartbeat(self) -> None:
        while True:
            self._beat = self._clock.now()
            await asyncio.sleep(1)

    # -- Kopf ----------------------------------------------------------------------------------------------------

    def registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        podgroup.register(registry, self._groups)
        topology.register(registry, self._zones)
        gpuallocation.register(registry, self._records)
        if self._settings.horovod_jobs:
            horovod.register(registry, self._jobs)

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
            silence = self._clock.now() - self._beat
            if silence > HEARTBEAT_SECONDS:
                raise kopf.PermanentError(f"the loop has not turned for {silence:.0f} s")
            return "turning"

        return registry

    def liveness_endpoint(self) -> str | None:
        port = self._settings.liveness_port
        return f"http://{self._settings.host}:{port}/healthz" if port else None


def spare_the_collector() -> None:
    """What the lists brought stays. Looking for garbage among it every few hundred pods took 7 % of our CPU."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


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


class KopfThread:
    """Kopf on its own loop, started again when it ends before it should."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=GRACE_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                uvloop.run(
                    kopf.operator(
                        registry=self._operator.registry(),
                        liveness_endpoint=self._operator.liveness_endpoint(),
                        clusterwide=True,
                        standalone=True,
                        stop_flag=self._stop,
                    )
                )
            except Exception:
                log.exception("Kopf ended; starting it again")
            self._stop.wait(1.0)


class _Tasks:
    """Tasks that end together."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self.running.add(task)
        return task

    async def __aenter__(self) -> _Tasks:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


async def _raise_when_lost(lease: Lease) -> None:
    await lease.lost.wait()
    raise LeadershipLost("the lease is held by somebody else")


def phase(gang: Gang) -> str:
    if gang.group is not None:
        return str(status_of(gang, gang.group, now="")["phase"])
    placed = any(pod.node for pod in gang.pods.values())
    return "Scheduled" if placed else "Pending"
