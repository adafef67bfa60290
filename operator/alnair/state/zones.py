"""NUMA nodes as published, and the pods that the publisher has not counted yet.

A NodeResourceTopology is up to a minute old, and between two of them pods come: ours, from the moment of the plan, and
other schedulers'. Each pod on the node is `counted` once the published numbers are known to hold it; the others are
`pending`, and whoever asks what is free has to put them on the machine first. A pod is counted

    where the object carries a fingerprint of pods: when it is that of a set that holds the pod;
    else: when an object came after the pod was seen running, for the kubelet gives it its NUMA nodes before it runs;
    and at the latest when three objects came since, should the fingerprint fit no set of pods that we can think of.

Pods that leave are forgotten at once. What they had is free when the publisher says so: until then too little is free,
which is safe. What must never happen here: a pod counted before it is in the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from alnair.api.quantity import BadQuantity
from alnair.api.topology import NodeResourceTopology
from alnair.state.alignment import Alignment
from alnair.state.fingerprint import ATTRIBUTE, METHOD_ATTRIBUTE, ONLY_EXCLUSIVE, fingerprint, pod_hash
from alnair.state.machine import (
    NONE,
    RESTRICTED,
    SINGLE,
    Machine,
    Rules,
    Unclear,
    costs_of,
    machine_of,
    rules_of,
)
from alnair.state.pods import Pod

RUNNING = "Running"
MOST_ZONES_TOGETHER = 10  # where every set of NUMA nodes has to be looked at
OBJECTS_AT_MOST = 3  # that a running pod waits for a fingerprint that fits
NEWEST_AT_MOST = 32  # pods that came last, of which each may be the first that is not counted

CLOSED = 3 << 60  # a group of NUMA nodes that is like no other: memory there is pinned nobody knows how


@dataclass(slots=True)
class Resident:
    """A pod on the node, or on its way there."""

    namespace: str
    name: str
    alignment: Alignment | None
    bound: bool
    running: bool
    counted: bool = False
    objects: int = 0  # that came since it runs

    @property
    def exclusive(self) -> bool:
        containers = self.alignment.containers if self.alignment is not None else ()
        return any(each.cpus or each.devices for each in containers)


@dataclass(slots=True)
class NodeZones:
    """One node. `machine` None: its zones cannot be read though the kubelet aligns there; `problem` says why."""

    rules: Rules
    machine: Machine | None
    costs: tuple[tuple[int, ...], ...] = ()
    problem: str = ""
    told: str = ""  # the fingerprint
    only_exclusive: bool = False
    matched: bool = False
    residents: dict[str, Resident] = field(default_factory=dict)  # by UID, in the order in which they came
    _pending: tuple[Alignment, ...] | None = None

    def pending(self) -> tuple[Alignment, ...]:
        """What the pods that are not counted will take, or have taken."""
        if self._pending is None:
            if self.told and not self.matched:
                self._match()
            self._pending = tuple(
                each.alignment
                for each in self.residents.values()
                if each.alignment is not None and not each.counted
            )
        return self._pending

    def published(self) -> Machine | None:
        """The machine without the pending ones. Where a pod's memory must lie on several NUMA nodes, nobody tells on
        which, so those with memory in use are closed to all others (with two NUMA nodes there is no doubt)."""
        machine = self.machine
        if machine is None or not machine.memory or not any(self._spans(each) for each in self._counted()):
            return machine
        together = machine.every if len(machine.ids) == 2 else CLOSED
        return replace(machine, groups=tuple(together if group else 0 for group in machine.groups))

    def changed(self) -> None:
        self._pending = None

    def _counted(self) -> Iterable[Alignment]:
        return (
            each.alignment for each in self.residents.values() if each.counted and each.alignment is not None
        )

    def _spans(self, alignment: Alignment) -> bool:
        assert self.machine is not None
        largest = {name: max(stock.there, default=0) for name, stock in self.machine.memory}
        return any(
            amount > largest.get(name, amount)
            for each in alignment.containers
            for name, amount in each.memory
        )

    def _match(self) -> None:
        """Is the fingerprint that of the pods here, or of those without the last few that came?"""
        for only_running in (False, True):
            here = [
                each
                for each in self.residents.values()
                if each.bound
                and (each.running or not only_running)
                and (each.exclusive or not self.only_exclusive)
            ]
            newest = [each for each in reversed(here) if not each.counted][:NEWEST_AT_MOST]
            for without in range(len(newest) + 1):
                left_out = {id(each) for each in newest[:without]}
                held = [each for each in here if id(each) not in left_out]
                if fingerprint(pod_hash(each.namespace, each.name) for each in held) == self.told:
                    for each in held:
                        each.counted = True
                    self.matched = True
                    return


class Zones:
    """Of all nodes where the kubelet aligns something, by name."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeZones] = {}

    def publish(self, name: str, topology: NodeResourceTopology, present: Iterable[tuple[str, Pod]]) -> None:
        """`present`: pods on the node, should it be new to us."""
        read = _read(topology)
        known = self.nodes.get(name)
        if read is None:
            self.nodes.pop(name, None)
            return
        if known is None:
            self.nodes[name] = read
            for uid, pod in sorted(present, key=lambda each: (each[1].created, each[1].name)):
                self.seen(name, uid, pod)
            return
        for each in known.residents.values():
            if each.running and not each.counted:
                each.objects += 1
                each.counted = not read.told or each.objects >= OBJECTS_AT_MOST
        read.residents = known.residents
        read.matched = known.matched and known.told == read.told
        self.nodes[name] = read

    def drop(self, name: str) -> None:
        self.nodes.pop(name, None)

    def seen(self, name: str, uid: str, pod: Pod) -> bool:
        """A pod is on this node, or planned to be. Whether more may be free for that than before."""
        node = self.nodes[name]
        known = node.residents.get(uid)
        running, bound = pod.phase == RUNNING, bool(pod.node)
        if known is None:
            # Where nothing tells which pods are counted, one that ran before we saw it is.
            counted = running and not node.told
            node.residents[uid] = Resident(
                pod.namespace, pod.name, pod.shape.alignment, bound, running, counted=counted
            )
            node.changed()
            return False
        starts = running and not known.running
        known.running, known.bound, known.alignment = running, bound, pod.shape.alignment
        if starts:
            node.changed()
        return starts and bool(node.told) and not node.matched

    def moved(self, uid: str, pod: Pod | None, before: str, here: str) -> bool:
        """The pod is `here` now, a node or nowhere, or said something new there; `seen` says what is returned."""
        if before != here and before in self.nodes:
            self.left(before, uid)
        return pod is not None and here in self.nodes and self.seen(here, uid, pod)

    def left(self, name: str, uid: str) -> None:
        node = self.nodes[name]
        if node.residents.pop(uid, None) is not None:
            node.changed()


def _read(topology: NodeResourceTopology) -> NodeZones | None:
    """None: the kubelet aligns nothing there that it could refuse a pod for."""
    told = {each.name: each.value for each in reversed(topology.attributes or ())}
    rules = Rules()
    try:
        rules = rules_of(topology)
        machine = machine_of(topology)
    except (Unclear, BadQuantity) as error:
        if rules.policy not in (RESTRICTED, SINGLE):
            return None
        return NodeZones(rules, None, problem=f"NodeResourceTopology: {error}")
    if machine is None or (rules.policy == NONE and not machine.memory):
        return None
    if rules.policy != SINGLE and len(machine.ids) > MOST_ZONES_TOGETHER:
        problem = (
            f"NodeResourceTopology: {len(machine.ids)} zones of type Node; {MOST_ZONES_TOGETHER} are the most"
        )
        return NodeZones(rules, None, problem=problem) if rules.policy == RESTRICTED else None
    return NodeZones(
        rules,
        machine,
        costs=costs_of(topology, machine.ids),
        told=told.get(ATTRIBUTE, ""),
        only_exclusive=told.get(METHOD_ATTRIBUTE) == ONLY_EXCLUSIVE,
    )
