"""What a leader is made of, and what it does with it.

    stamp the records -> list pods, nodes, storage -> fence lone pods -> roll forward -> loop

`Leader` is one term: it is made anew each time, so nothing is left in it of an earlier one's. The order is the one that
`ledger.recovery` asks for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from alnair.api import names
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
from alnair.extender.endpoint import Endpoint
from alnair.extender.server import Server
from alnair.extender.verbs import Verbs
from alnair.handlers import horovod, memory
from alnair.handlers.feeds import NamespaceFeed, NodeFeed, PodFeed, ServiceFeed
from alnair.handlers.kopf_thread import Handovers
from alnair.handlers.owners import Owners
from alnair.handlers.reload import Adoption, ConfigFile, decay_of
from alnair.handlers.resync import Resync
from alnair.handlers.settings import RunSettings
from alnair.handlers.storage import KINDS, StorageFeed
from alnair.handlers.topology import LabelledFeed, Topologies
from alnair.kube import Client, Stream
from alnair.kube.clock import Clock
from alnair.kube.lull import Lull
from alnair.ledger import cards, recovery
from alnair.ledger.lease import LeadershipLost, Lease
from alnair.ledger.ledger import Ledger
from alnair.ledger.under_way import end_all
from alnair.scheduling.guard import RuleFailed
from alnair.state import wire
from alnair.state.cluster import ClusterState
from alnair.state.inventory import Inventory

log = logging.getLogger(__name__)

GRACE_SECONDS = 5.0
RUSH_SECONDS = 3.0  # at most, in which a new leader only binds whom it found waiting


class Leader:
    """All that a leader has, wired together. `lead` is its term."""

    def __init__(
        self,
        settings: RunSettings,
        *,
        client: Client,
        lease: Lease,
        identity: str,
        clock: Clock,
        metrics: Metrics,
        config_file: ConfigFile,
        extender: Server | None,
    ) -> None:
        config = config_file.config
        self._settings = settings
        self._client = client
        self._lease = lease
        self._config_file = config_file
        self._config = config
        self._server = extender
        self._calm = asyncio.Event()

        self._profiles = Profiles(
            config_file.profiles(), clock=clock, metrics=metrics, on_failure=self._rule_failed
        )
        schedulers = frozenset(self._profiles)
        self._lull = Lull(clock)
        self._state = ClusterState(decay=decay_of(config))
        self._ledger = Ledger(
            client=client,
            state=self._state,
            lease=lease,
            clock=clock,
            schedulers=schedulers,
            lull=self._lull,
            instance=names.label_value(f"{settings.lease_namespace}.{settings.lease_name}"),
        )
        self._events = Events(client, clock=clock, metrics=metrics, identity=identity, lull=self._lull)
        self._roster = Roster(
            schedulers,
            on_change=self._gang_changed,
            on_status=self._status_changed,
        )
        self._reports = Reports(
            client, events=self._events, roster=self._roster, clock=clock, lull=self._lull
        )
        self._loop = Loop(
            state=self._state,
            ledger=self._ledger,
            roster=self._roster,
            profiles=self._profiles,
            levels=config.topology.levels,
            reports=self._reports,
            metrics=metrics,
            clock=clock,
        )
        self._outcomes = Outcomes(
            roster=self._roster,
            loop=self._loop,
            failures=Failures(ledger=self._ledger, reports=self._reports, clock=clock),
            reports=self._reports,
            metrics=metrics,
            clock=clock,
        )
        self._elastic = Elastic(
            client,
            state=self._state,
            ledger=self._ledger,
            roster=self._roster,
            loop=self._loop,
            profiles=self._profiles,
            reports=self._reports,
            metrics=metrics,
            clock=clock,
            settings=config.elastic,
        )
        self._publisher = Publisher(client, state=self._state, lull=self._lull)
        self._topologies = Topologies(self._state, self._reports, self._publisher)
        self._reconciler = Reconciler(
            client, events=self._events, clock=clock, serves=lambda name: name in self._roster.schedulers
        )
        self._resync = Resync(
            client,
            roster=self._roster,
            topologies=self._topologies,
            ledger=self._ledger,
            reconciler=self._reconciler if settings.horovod_jobs else None,
        )
        self._verbs: Verbs | None = None
        if extender is not None:
            self._verbs = Verbs(
                config,
                client=client,
                state=self._state,
                ledger=self._ledger,
                roster=self._roster,
                profiles=self._profiles,
                clock=clock,
            )
        self._ledger.listener = self._outcomes
        self._state.on_freed = self._loop.wake
        self._state.on_cards = self._cards_changed
        metrics.watch(self._state, lambda: map(phase, self._roster.gangs.values()))

        self._pods = PodFeed(
            state=self._state,
            ledger=self._ledger,
            roster=self._roster,
            reports=self._reports,
            clock=clock,
            delivering=config.delivering(),
            measuring=config.measuring(),
            owners=Owners(client, clock=clock),
            on_arrival=self._profiles.arrived,
            guests=self._verbs.concerns if self._verbs is not None else lambda pod: False,
        )
        self._pod_stream = Stream(client, "/api/v1/pods", wire.Pod, self._pods)
        self._nodes = NodeFeed(state=self._state, ledger=self._ledger, reports=self._reports, clock=clock)

    # -- a term --------------------------------------------------------------------------------------------------

    async def lead(
        self, handovers: Handovers, *, on_ready: Callable[[], None], on_calm: Callable[[], None]
    ) -> None:
        """Until the lease is lost, something fails or we are cancelled. `on_calm` hears when there is time for what can
        wait."""
        memory.await_the_lists()
        ledger = self._ledger
        async with _Tasks() as tasks:
            tasks.start(self._lease.keep(), "keep the lease")
            lost = tasks.start(_raise_when_lost(self._lease), "lease lost")
            settled = await self._learn(tasks, handovers)
            await recovery.fence_alone(ledger)
            await self._lease.confirm()
            recovery.resume(ledger)
            self._loop.adopt_strays()
            self._lull.busy(True, who="a new leader")
            ledger.spawn(self._calm_down(on_calm), "calm down", can_wait=True)
            ledger.spawn(recovery.stamp_settled(ledger, settled), "stamp what is settled", can_wait=True)
            self._begin_errands(tasks)
            memory.spare_the_collector()
            adoption = self._adopt_config()
            planning = tasks.start(self._loop.run(), "loop")
            self._open_extender(tasks)
            on_ready()
            log.info(
                "ready: %d nodes, %d pods, %d records",
                len(self._state.nodes),
                len(self._state.pods),
                len(ledger.records),
            )
            try:
                await asyncio.wait({*tasks.running, ledger.failure}, return_when=asyncio.FIRST_COMPLETED)
                for done in (lost, ledger.failure, *tasks.running):
                    if done.done() and not done.cancelled() and (error := done.exception()) is not None:
                        raise error
                raise RuntimeError("a task that never ends has ended")
            finally:
                adoption.end()
                if self._server is not None:
                    self._server.verbs = None
                planning.cancel()
                if self._lease.held:
                    await ledger.under_way.drain(GRACE_SECONDS)
                await ledger.under_way.close()

    async def _learn(self, tasks: _Tasks, handovers: Handovers) -> recovery.Settled:
        """What is there: the records before the pods (see `ledger.recovery`), all else beside them."""
        client, state = self._client, self._state
        namespaces, services = NamespaceFeed(state=state), ServiceFeed(state=state)
        published = LabelledFeed(self._topologies)
        storage = [StorageFeed(kind, state=state, ledger=self._ledger) for kind in KINDS]
        of_jobs = horovod.feeds(self._reconciler.books) if self._settings.horovod_jobs else []
        streams = [
            Stream(client, "/api/v1/nodes", wire.Node, self._nodes),
            Stream(client, "/api/v1/namespaces", wire.Namespace, namespaces),
            Stream(client, "/api/v1/services", wire.Service, services),
            published.stream(client),
            *(feed.stream(client) for feed in (*storage, *of_jobs)),
        ]
        for stream in streams:
            tasks.start(stream.run(), f"{stream.name} stream")
        settled = await recovery.stamp_open(
            self._ledger, listed=lambda: tasks.start(self._pod_stream.run(), "Pod stream")
        )
        handovers.groups.open(self._roster)
        handovers.zones.open(self._topologies)
        handovers.records.open(self._ledger)
        handovers.jobs.open(self._reconciler)
        await self._resync.until_done()
        for feed in (self._nodes, self._pods, namespaces, services, published, *storage, *of_jobs):
            await feed.synced.wait()
        return settled

    async def _calm_down(self, on_calm: Callable[[], None]) -> None:
        """Whoever waited for a leader is bound first; what can wait does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RUSH_SECONDS):
                await self._loop.rested.wait()
        self._lull.busy(False, who="a new leader")
        self._calm.set()
        on_calm()

    def _begin_errands(self, tasks: _Tasks) -> None:
        tasks.start(self._resync.run(self._calm), "resync")
        tasks.start(self._reports.run(), "reports")
        tasks.start(self._events.run(), "events")
        tasks.start(self._publisher.run(), "publisher")
        tasks.start(self._reconciler.run(), "reconciler")
        tasks.start(self._outcomes.keep_time(self._ledger), "time")
        tasks.start(self._elastic.run(), "elastic gangs")
        tasks.start(memory.keep_giving_back(), "memory")

    def _adopt_config(self) -> Adoption:
        adoption = Adoption(
            self._config_file,
            self._config,
            profiles=self._profiles,
            roster=self._roster,
            ledger=self._ledger,
            pods=self._pods,
            stream=self._pod_stream,
            loop=self._loop,
            elastic=self._elastic,
            extender=self._verbs,
            say=self._say_about_config,
        )
        adoption.begin()
        return adoption

    def _open_extender(self, tasks: _Tasks) -> None:
        """And say where it is, so that kube-scheduler finds the leader."""
        if self._server is None or self._verbs is None:
            return
        self._server.verbs = self._verbs
        tasks.start(self._verbs.run(), "extender")
        settings = self._settings
        if settings.service:
            here = Endpoint(settings.lease_namespace, settings.service, settings.address, self._server.port)
            tasks.start(endpoint.keep(self._client, here), "say where the leader is")

    # -- what its parts tell each other --------------------------------------------------------------------------

    def _gang_changed(self, gang: Gang) -> None:
        self._reports.gang_changed(gang)
        self._loop.touch(gang)

    def _status_changed(self, gang: Gang) -> None:
        self._reports.gang_changed(gang)

    def _cards_changed(self, name: str, before: Inventory, now: Inventory) -> None:
        self._publisher.cards_changed(name)
        cards.observe(self._ledger, name)
        if (node := self._state.nodes.get(name)) is not None:
            self._reports.node_cards(name, node.uid, before, now)

    def _rule_failed(self, name: str, failure: RuleFailed) -> None:
        note = f"profile {name}: {failure}; its fallback stands in for a while"
        self._say_about_config("RuleFailed", note, True)

    def _say_about_config(self, reason: str, note: str, warning: bool) -> None:
        settings = self._settings
        if settings.config_map:
            about = Regarding("v1", "ConfigMap", settings.config_map, "", settings.lease_namespace)
            self._events.say(about, reason=reason, note=note, action="ReadingConfig", warning=warning)


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
        await end_all(self.running)


async def _raise_when_lost(lease: Lease) -> None:
    await lease.lost.wait()
    raise LeadershipLost("the lease is held by somebody else")


def phase(gang: Gang) -> str:
    if gang.group is not None:
        return str(status_of(gang, gang.group, now="")["phase"])
    placed = any(pod.node for pod in gang.pods.values())
    return "Scheduled" if placed else "Pending"
