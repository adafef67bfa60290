"""The Pod and Node streams, poured into the books.

The order within one event matters: the books first, then the ledger (which may release), then the roster (which wakes
the loop): whoever is told later finds the earlier ones up to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from alnair.control.gangs import Roster
from alnair.control.reports import Reports
from alnair.handlers.owners import Owners, controller_of
from alnair.kube.clock import Clock
from alnair.ledger.ledger import Ledger
from alnair.state import wire
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.nodes import read_node
from alnair.state.pods import Pod, PodReader
from alnair.state.refusals import refused_by_kubelet
from alnair.state.shapes import PodClass


class PodFeed:
    def __init__(
        self,
        *,
        state: ClusterState,
        ledger: Ledger,
        roster: Roster,
        reports: Reports,
        clock: Clock,
        delivering: frozenset[str] = frozenset(),
        measuring: frozenset[str] = frozenset(),
        owners: Owners | None = None,
        on_arrival: Callable[[PodClass], None] = lambda pod: None,
        guests: Callable[[Pod], bool] = lambda pod: False,
    ) -> None:
        """`guests`: pods of another scheduler that gets their cards from us."""
        self._state = state
        self._ledger = ledger
        self._roster = roster
        self._reports = reports
        self._clock = clock
        self._reader = PodReader(delivering=delivering)
        self.measuring = measuring  # schedulers that care what a pod's like used before
        self._owners = owners
        self._held: dict[
            str, set[str]
        ] = {}  # UID of a controller that was asked -> UIDs of pods that wait for it
        if owners is not None:
            owners.on_answer = self._answered
        self._on_arrival = on_arrival
        self._guests = guests
        self.synced = asyncio.Event()

    def deliver(self, delivering: frozenset[str]) -> None:
        """From now on pods of these schedulers are read as getting their cards through their environment."""
        self._reader = PodReader(delivering=delivering)

    def teach(self) -> None:
        """Whoever learns from arrivals was made anew, and hears of all pods that are there, as after a restart."""
        for pod in list(self._state.pods.values()):
            if self._counts(pod):
                self._on_arrival(guest(pod))

    def _counts(self, pod: Pod) -> bool:
        return not pod.terminal and self._ours(pod)

    def replace(self, objects: list[wire.Pod]) -> None:
        listed = {pod.metadata.uid for pod in objects}
        for uid in [uid for uid in self._state.pods if uid not in listed]:
            self._ledger.sightings.pod_missing(uid)
            self._forget(uid)
        for pod in objects:
            self.put(pod)
        self.synced.set()

    def put(self, thing: wire.Pod) -> None:
        pod = self._reader.read(thing)
        before = self._state.pods.get(pod.uid)
        self._state.put_pod(pod)
        if before is None and self._counts(pod):
            self._on_arrival(guest(pod))
        if pod.terminal and before is not None and not before.terminal:
            self._note_refusal(pod)
        self._ledger.sightings.pod(pod)
        if not self._waits_for_owner(pod, thing, new=before is None or not before.waiting):
            self._roster.put_pod(pod)

    def _waits_for_owner(self, pod: Pod, thing: wire.Pod, *, new: bool) -> bool:
        """Whether its controller is asked first what pods of it used before. Who is in the queue does not leave it."""
        if self._owners is None or pod.scheduler not in self.measuring or not pod.waiting or pod.shape.peak:
            return False
        owner = controller_of(thing.metadata)
        if owner is None:
            return False
        new = new or pod.uid in self._held.get(owner.uid, ())
        if new and self._owners.ask(owner, pod.namespace):
            self._held.setdefault(owner.uid, set()).add(pod.uid)
            return True
        pod.peak = self._owners.peak(owner.uid)
        return False

    def _answered(self, owner: str) -> None:
        for uid in self._held.pop(owner, ()):
            pod = self._state.pods.get(uid)
            if pod is not None:
                pod.peak = self._owners.peak(owner) if self._owners is not None else None
                self._roster.put_pod(pod)

    def _ours(self, pod: Pod) -> bool:
        return pod.scheduler in self._ledger.schedulers or self._guests(pod)

    def _note_refusal(self, pod: Pod) -> None:
        if refused_by_kubelet(pod) and self._ours(pod) and _bound_by_us(pod):
            seconds = self._state.refusals.note(pod, self._clock.now())
            self._reports.pod_refused(pod, seconds)

    def drop(self, thing: wire.Pod) -> None:
        uid = thing.metadata.uid
        self._ledger.sightings.pod_deleted(uid)
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._state.drop_pod(uid)
        self._roster.drop_pod(uid)
        self._reports.forget_pod(uid)


def _bound_by_us(pod: Pod) -> bool:
    """Every Binding of ours writes its node on the pod, with a record or without, and the chart's policies let nobody
    else. Who chooses a node past us can have pods refused there at will: that must not keep others' off it."""
    return bool(pod.node) and pod.annotated_node == pod.node


class NodeFeed:
    def __init__(self, *, state: ClusterState, ledger: Ledger, reports: Reports, clock: Clock) -> None:
        self._state = state
        self._ledger = ledger
        self._reports = reports
        self._clock = clock
        self.synced = asyncio.Event()

    def replace(self, objects: list[wire.Node]) -> None:
        listed = {node.metadata.name for node in objects}
        for name in [name for name in self._state.nodes if name not in listed]:
            self._forget(name)
        for node in objects:
            self.put(node)
        self.synced.set()

    def put(self, thing: wire.Node) -> None:
        node = read_node(thing)
        self._state.put_node(node)
        problems = node.problems + self._state.inventories[node.name].problems
        if dispute := self._state.dispute(node.name):
            problems += (dispute,)
        self._reports.node_problems(node.name, node.uid, "node", problems)
        self._state.put_readings(thing, now=self._clock.now(), wall=self._clock.wall().timestamp())
        self._reports.reading_problems(node.name, node.uid, self._state.loads.problems(node.name))
        self._ledger.sightings.node(node.name)

    def drop(self, thing: wire.Node) -> None:
        self._forget(thing.metadata.name)

    def _forget(self, name: str) -> None:
        self._state.drop_node(name)
        self._ledger.sightings.node(name)
        self._reports.forget_node(name)


class NamespaceFeed:
    """Namespaces by their labels: some rules select pods by those."""

    def __init__(self, *, state: ClusterState) -> None:
        self._state = state
        self._known: dict[str, dict[str, str]] = {}
        self.synced = asyncio.Event()

    def replace(self, objects: list[wire.Namespace]) -> None:
        for name in self._known.keys() - {namespace.metadata.name for namespace in objects}:
            self._forget(name)
        for namespace in objects:
            self.put(namespace)
        self.synced.set()

    def put(self, thing: wire.Namespace) -> None:
        name, labels = thing.metadata.name, thing.metadata.labels
        if self._known.get(name) != labels:
            self._known[name] = labels
            self._state.company.put_namespace(name, labels)
            self._state.free_everywhere()

    def drop(self, thing: wire.Namespace) -> None:
        self._forget(thing.metadata.name)

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._state.company.drop_namespace(name)
        self._state.free_everywhere()


class ServiceFeed:
    """Services by their selectors: where pods of one Service should be spread, or must be together."""

    def __init__(self, *, state: ClusterState) -> None:
        self._state = state
        self._services = state.services
        self.synced = asyncio.Event()

    def replace(self, objects: list[wire.Service]) -> None:
        listed = {(service.metadata.namespace, service.metadata.name) for service in objects}
        for namespace, name in self._services.names():
            if (namespace, name) not in listed:
                self._forget(namespace, name)
        for service in objects:
            self.put(service)
        self.synced.set()

    def put(self, thing: wire.Service) -> None:
        if self._services.put(thing):
            self._state.free_everywhere()

    def drop(self, thing: wire.Service) -> None:
        self._forget(thing.metadata.namespace, thing.metadata.name)

    def _forget(self, namespace: str, name: str) -> None:
        if self._services.drop(namespace, name):
            self._state.free_everywhere()
