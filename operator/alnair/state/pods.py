"""A pod as scheduling sees it: who it is, where it is, and its shape.

Pods with equal rules share one `PodShape` object, so that filters and scores run once a shape and not once a pod.
A pod whose request cannot be read keeps its place in the books (it may be bound already) and carries the reason
in `problem`; reading it never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from alnair.api import names
from alnair.api.gpurequest import NO_GPU, BadRequest, gpu_request
from alnair.api.nearness import Wish, wish_in
from alnair.api.peaks import Peak, peak_in
from alnair.api.quantity import BILLION, BadQuantity, nano
from alnair.state import wire
from alnair.state.alignment import CARD_RESOURCES, AlignmentReader
from alnair.state.bounds import MOST_CONTAINERS, bounded
from alnair.state.environment import environment
from alnair.state.rules import placement_rules
from alnair.state.shapes import PodShape

# More than any node has of anything, and little enough that thousands of such amounts add up in 64 bits.
MOST_OF_A_RESOURCE = 1 << 52

LONGEST_MEASUREMENT = 4096  # characters: more is no throughput

ALWAYS = "Always"  # the restart policy that makes an init container a sidecar

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class Pod:
    """One pod. `node` is where it is bound, empty before; `version` is what a Binding must name."""

    uid: str
    namespace: str
    name: str
    version: str
    scheduler: str
    shape: PodShape
    node: str = ""
    phase: str = ""
    reason: str = ""  # why it failed, in the kubelet's word
    group: str = ""
    priority: int = 0
    created: str = ""
    gated: bool = False
    terminating: bool = False
    controlled: bool = False  # something would make it anew if it were evicted
    problem: str = ""
    excess: str = ""  # what it says too much of, so that we do not place it; kube-scheduler may
    slices: str = ""  # the annotation that a Binding wrote, as it stands
    annotated_node: str = ""
    nominated: str = ""  # the node that a preemption made room on for it
    wish: Wish | None = None  # where its gang is to be together
    labels: Mapping[str, str] = field(default_factory=dict)
    throughput: str = ""  # what it measured of its gang, as it stands in its annotation
    peak: Peak | None = (
        None  # what its controller tells that its like used; what it tells itself is in the shape
    )

    @property
    def terminal(self) -> bool:
        return self.phase in TERMINAL_PHASES

    @property
    def waiting(self) -> bool:
        """To be placed: not bound, not gated, not going away."""
        return not (self.node or self.gated or self.terminating or self.terminal)

    @property
    def ordinal(self) -> int | None:
        """Its number among a StatefulSet's pods."""
        text = self.labels.get(names.POD_INDEX, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None

    def says_the_same(self, other: Pod) -> bool:
        """Nothing that scheduling looks at is different: only versions, annotations or conditions moved on."""
        return self._told() == other._told()

    def _told(self) -> tuple[object, ...]:
        return (
            self.shape,
            self.labels,
            self.priority,
            self.problem,
            self.excess,
            self.nominated,
            self.wish,
            *self._stage(),
        )

    def _stage(self) -> tuple[str, str, bool, bool]:
        return self.node, self.phase, self.gated, self.terminating

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodReader:
    """Turns wire pods into `Pod`s and keeps one object for each distinct shape.

    `delivering`: the schedulers whose pods get their cards through their environment, which is looked at then.
    """

    def __init__(self, *, delivering: frozenset[str] = frozenset()) -> None:
        self._delivering = delivering
        self._shapes: WeakValueDictionary[int, PodShape] = WeakValueDictionary()  # by hash
        self._alignments = AlignmentReader()

    def read(self, pod: wire.Pod) -> Pod:
        meta = pod.metadata
        spec, excess = bounded(pod.spec)
        shape, problem = self._shape(meta, spec, pod.status)
        return Pod(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            version=meta.resource_version,
            scheduler=spec.scheduler_name,
            shape=self._one(shape),
            node=spec.node_name,
            phase=pod.status.phase,
            reason=pod.status.reason,
            group=meta.labels.get(names.POD_GROUP_LABEL, ""),
            priority=spec.priority,
            created=meta.creation_timestamp,
            gated=bool(spec.scheduling_gates),
            terminating=meta.deletion_timestamp is not None,
            controlled=any(owner.controller for owner in meta.owner_references),
            problem=problem,
            excess=excess,
            slices=meta.annotations.get(names.GPU_SLICES, ""),
            annotated_node=meta.annotations.get(names.NODE, ""),
            nominated=pod.status.nominated_node_name,
            wish=wish_in(meta.annotations),
            labels=meta.labels,
            throughput=_short(meta.annotations.get(names.THROUGHPUT, "")),
        )

    def _one(self, shape: PodShape) -> PodShape:
        """The object that equal shapes share, for as long as any pod has one. Of two that differ and have one hash the
        later has an object of its own: nothing but time hangs on it."""
        known = self._shapes.setdefault(hash(shape), shape)
        return known if known == shape else shape

    def _shape(self, meta: wire.Metadata, spec: wire.PodSpec, status: wire.PodStatus) -> tuple[PodShape, str]:
        problem = unsupported_rule(spec)
        alignment = None
        try:
            requests = effective_requests(spec, status)
            if len(spec.containers) + len(spec.init_containers) <= MOST_CONTAINERS:
                alignment = self._alignments.read(spec)  # else nobody works out where each of them would be
        except BadQuantity as error:
            requests, problem = {"pods": 1}, problem or str(error)
        for name in (name for name, amount in requests.items() if amount > MOST_OF_A_RESOURCE):
            requests[name] = MOST_OF_A_RESOURCE
            problem = (
                problem
                or f"resources.requests[{name}]: the pod's sum is more than any node has; ask for less"
            )
        try:
            gpu = gpu_request(
                ((each.name, _asked(each)) for each in spec.containers),
                meta.annotations,
                init=(
                    (each.name, each.restart_policy == ALWAYS, _asked(each)) for each in spec.init_containers
                ),
            )
        except BadRequest as error:
            gpu, problem = NO_GPU, problem or str(error)
        told: bool | None = None
        if gpu.demands and spec.scheduler_name in self._delivering:
            told, lacking = environment(spec, gpu)
            problem = problem or lacking
        shape = PodShape(
            requests=tuple(sorted(requests.items())),
            gpu=gpu,
            alignment=alignment,
            told=told,
            peak=peak_in(meta.annotations),
            **placement_rules(meta, spec),
        )
        return shape, problem


NO_STATUS = wire.PodStatus()
A_THOUSANDTH = BILLION // 1000
OF_A_POD = ("cpu", "memory", "hugepages-")  # what can be requested for a pod as a whole


def effective_requests(spec: wire.PodSpec, status: wire.PodStatus = NO_STATUS) -> dict[str, int]:
    """What the pod takes from its node, as Kubernetes counts it: cpu in thousandths, everything else in units.

    Ordinary init containers run one after another beside the sidecars started before them, so the largest such
    moment counts, not the sum. Requests of the pod as a whole go before its containers' sum. While a resize is under
    way the largest of what is wanted, promised and given counts (see `_resized`). Everything is added up and compared
    to the billionth; only the pod's own sum is rounded, and up.
    """
    given = {
        each.name: each
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None
    }
    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, _of_container(container, given, status))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        if container.restart_policy == ALWAYS:
            asked = _of_container(container, given, status)
            _add(total, asked)
            _add(sidecars, asked)
            _raise(peak, {name: sidecars[name] for name in asked})
        else:
            # What it does not ask for itself was in the peak when its sidecars came.
            moment = _amounts(container.resources.requests)
            _raise(peak, {name: amount + sidecars.get(name, 0) for name, amount in moment.items()})
    _raise(total, peak)
    if spec.resources is not None:
        wanted = {
            name: amount
            for name, amount in _amounts(spec.resources.requests).items()
            if name.startswith(OF_A_POD)
        }
        if status.resources is not None:
            effective = _resized(wanted, status.resources, status.allocated_resources, status)
            wanted = {name: effective.get(name, 0) for name in wanted}
        total.update(wanted)
    if spec.overhead:
        _add(total, _amounts(spec.overhead))
    total["pods"] = BILLION
    return {name: _rounded_up(name, amount) for name, amount in total.items() if amount}


def _short(text: str) -> str:
    """Nobody looks at what is longer, and it would be kept for as long as the pod is there."""
    return text if len(text) <= LONGEST_MEASUREMENT else ""


def _asked(container: wire.Container) -> Mapping[str, str | int]:
    """Limits over requests."""
    return {**container.resources.requests, **container.resources.limits}


def _of_container(
    container: wire.Container, given: Mapping[str, wire.ContainerStatus], status: wire.PodStatus
) -> dict[str, int]:
    wanted = _amounts(container.resources.requests)
    told = given.get(container.name)
    if told is None or told.resources is None:
        return wanted
    return _resized(wanted, told.resources, told.allocated_resources, status)


def _resized(
    wanted: Mapping[str, int],
    actual: wire.Resources,
    allocated: wire.Quantities,
    status: wire.PodStatus,
) -> dict[str, int]:
    """What is wanted does not count where the kubelet has said that it will never fit."""
    kept = _amounts(actual.requests)
    _raise(kept, _amounts(allocated))
    pending = next((each for each in status.conditions if each.type == "PodResizePending"), None)
    if pending is not None and pending.reason == "Infeasible":
        return kept
    _raise(kept, wanted)
    return kept


def unsupported_rule(spec: wire.PodSpec) -> str:
    """A rule in the pod that this version does not schedule by. Better said aloud than silently broken."""
    if not spec.resource_claims:
        return ""
    return "spec.resourceClaims: this version of Alnair cannot honour it; remove it or use another scheduler"


def _amounts(quantities: wire.Quantities) -> dict[str, int]:
    """In billionths."""
    return {
        name: nano(amount, field=f"resources.requests[{name}]")
        for name, amount in quantities.items()
        if name not in CARD_RESOURCES
    }


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _raise(amounts: dict[str, int], others: Mapping[str, int]) -> None:
    """To the larger of the two, each."""
    for name, amount in others.items():
        if amount > amounts.get(name, 0):
            amounts[name] = amount


def _rounded_up(name: str, amount: int) -> int:
    return -(-amount // (A_THOUSANDTH if name == "cpu" else BILLION))
