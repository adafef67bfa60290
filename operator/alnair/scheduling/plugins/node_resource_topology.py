"""NodeResourceTopologyMatch: the kubelet would not turn the pod away for want of aligned NUMA nodes.

Asked is the arithmetic of the kubelet (scheduling/numa) with what is published of the node, the pods that the publisher
has not counted yet, and the members that stand there in the draft; in whatever order they reach the kubelet, each must
be admitted. A node of which no NUMA nodes are published passes. So does a resource that no zone tells of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from alnair.scheduling.numa.admit import admit
from alnair.scheduling.numa.masks import places
from alnair.scheduling.numa.node import admitted, likely_masks, standing, with_zones
from alnair.scheduling.plugins.interface import Floats, Scope, by_phrase
from alnair.scheduling.words import count
from alnair.state.alignment import Alignment
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.machine import Machine
from alnair.state.shapes import PodClass
from alnair.state.zones import NodeZones

_Worth = Callable[[int, Sequence[Sequence[int]]], float]


class NodeResourceTopologyMatch:
    name = "NodeResourceTopologyMatch"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return pod.shape.alignment is not None and bool(draft.zones.nodes)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        alignment = pod.shape.alignment
        if alignment is None:
            return mask
        there = standing(draft)
        for place, zones in with_zones(draft):
            mask[place] &= admitted(alignment, zones, there.get(int(draft.rows[place]), []))
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        return by_phrase(
            failed, lambda row: _why(pod.shape.alignment, draft.zones.nodes.get(draft.names[row]))
        )


class LeastNUMANodes:
    """Rather where the pod is spread over few NUMA nodes. A node of which none are published is as bad as it gets."""

    name = "LeastNUMANodes"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return pod.shape.alignment is not None

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return _score(pod, draft, lambda mask, _: 1 / mask.bit_count())


class NUMACost:
    """Rather where the pod's NUMA nodes are near each other, by the costs that are published between them."""

    name = "NUMACost"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return pod.shape.alignment is not None

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return _score(pod, draft, _nearness)


def _nearness(mask: int, costs: Sequence[Sequence[int]]) -> float:
    """1 where nothing is nearer, 0 where nothing is farther, and where no costs are told."""
    if not costs:
        return 0.0
    inside = places(mask)
    mean = sum(costs[one][other] for one in inside for other in inside) / len(inside) ** 2
    every = [cost for row in costs for cost in row]
    span = max(every) - min(every)
    return 1.0 - (mean - min(every)) / span if span else 1.0


def _score(pod: PodClass, draft: Draft, worth: _Worth) -> Floats:
    scores = np.zeros(len(draft.names))
    alignment = pod.shape.alignment
    if alignment is None:
        return scores
    there = standing(draft)
    for place, zones in with_zones(draft):
        machine = zones.published()
        if machine is not None:
            found = likely_masks(alignment, zones, there.get(int(draft.rows[place]), []))
            spread = [_union(each, machine) for each in found]
            scores[place] = min((worth(each, zones.costs) for each in spread), default=0.0)
    return scores


def _union(each: tuple[int | None, ...], machine: Machine) -> int:
    whole = 0
    for mask in each:
        whole |= machine.every if mask is None else mask
    return whole or machine.every


def _why(alignment: Alignment | None, zones: NodeZones | None) -> str:
    if alignment is None or zones is None:
        return "has no NUMA nodes to align the pod with"
    machine = zones.published()
    if machine is None:
        return "has a NodeResourceTopology that cannot be read, so that nobody knows what its kubelet would refuse"
    policy = f"topology policy {zones.rules.policy}, {zones.rules.scope} scope"
    if not admit(alignment, machine, zones.rules).admitted:
        return f"has no NUMA nodes to align the pod with ({policy})"
    waiting = len(zones.pending())
    beside = (
        f" beside {count(waiting, 'pod')} that its NodeResourceTopology does not count yet" if waiting else ""
    )
    return f"has no NUMA nodes left to align the pod with{beside} ({policy})"
