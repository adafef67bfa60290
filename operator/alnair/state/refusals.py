"""Kubelets that refused a pod after its bind, and how long pods of that shape keep off their nodes.

A kubelet knows what no book tells (CPUs it keeps for itself, how its NUMA nodes stand by now), and its refusal is final
for the pod. A controller makes an equal pod at once: sent to the same node it would be refused again, as fast as both
can go. So the node is left alone by that shape for a while, longer each time. Nothing of this is kept over a restart:
that costs one refusal more. Only refusals of pods that Alnair bound are told here: see `handlers.feeds`.

The clock is the caller's. What must never happen here: a node that is left alone for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from alnair.state.pods import Pod
from alnair.state.shapes import PodShape

FIRST_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 1800.0
MOST_SHAPES: Final = 10_000
REASONS: Final = frozenset(
    {
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "SMTAlignmentError",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
    }
)
OUT_OF: Final = "OutOf"  # OutOfcpu, OutOfmemory, OutOfpods, OutOfnvidia.com/gpu


@dataclass(slots=True)
class Refusal:
    """`times` in a row for `reason`. Until `until` nothing of that shape is sent there (`closed`); the count is kept as
    long again as a node can be closed, so that the next refusal weighs more."""

    reason: str
    times: int
    until: float
    closed: bool = True


def refused_by_kubelet(pod: Pod) -> bool:
    """The pod never ran: its kubelet would not have it."""
    return pod.phase == "Failed" and (pod.reason in REASONS or pod.reason.startswith(OUT_OF))


class Refusals:
    """By shape, then by node. `on_change` hears the name of each node where something changed, and whether it is open
    again.

    A refusal outlives its pod, and a shape may be megabytes: what is kept of it is a hash. Two shapes of one hash would
    keep off each other's nodes for a while. What its like used before is no business of the kubelet's.
    """

    def __init__(self, on_change: Callable[[str, bool], None]) -> None:
        self._by_shape: dict[int, dict[str, Refusal]] = {}  # the one refused longest ago first
        self._on_change = on_change

    def of(self, shape: PodShape) -> Mapping[str, Refusal]:
        """Node -> refusal, for the nodes that a pod of this shape is to keep off."""
        nodes = self._by_shape.get(shape.as_told) if self._by_shape else None
        return {node: each for node, each in nodes.items() if each.closed} if nodes else {}

    def note(self, pod: Pod, now: float) -> float:
        """The kubelet of the pod's node refused it. Returns for how many seconds its like keep off."""
        nodes = self._by_shape.pop(pod.shape.as_told, {})
        self._by_shape[pod.shape.as_told] = nodes
        times = nodes[pod.node].times + 1 if pod.node in nodes else 1
        seconds = min(FIRST_SECONDS * (1 << min(times - 1, 10)), LONGEST_SECONDS)
        nodes[pod.node] = Refusal(pod.reason, times, now + seconds)
        self._on_change(pod.node, False)
        if len(self._by_shape) > MOST_SHAPES:
            for node in self._by_shape.pop(next(iter(self._by_shape))):
                self._on_change(node, True)
        return seconds

    def pass_time(self, now: float) -> None:
        """Open what has been left alone for long enough; forget what was not refused again for long after that."""
        for shape, nodes in list(self._by_shape.items()):
            for node, each in list(nodes.items()):
                if each.closed and now >= each.until:
                    each.closed = False
                    self._on_change(node, True)
                if now >= each.until + LONGEST_SECONDS:
                    del nodes[node]
            if not nodes:
                del self._by_shape[shape]
