"""One node of a draft: what is published of it, who else is on the way there, and what the kubelet would say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from alnair.scheduling.numa.orders import all_admitted, crowd, masks
from alnair.state.alignment import Alignment
from alnair.state.draft import Draft
from alnair.state.zones import NodeZones


def with_zones(draft: Draft) -> Iterable[tuple[int, NodeZones]]:
    """The nodes of the draft of which NUMA nodes are published: (place in the draft, zones)."""
    nodes = draft.zones.nodes
    return ((place, nodes[name]) for place, name in enumerate(draft.names) if name in nodes)


def standing(draft: Draft) -> Mapping[int, list[Alignment]]:
    """By row of the books, what those ask for who stand there in the draft."""
    found: dict[int, list[Alignment]] = {}
    # Of all nodes: a scratch of one node has a journal of its own.
    for row, pod, _, sign in draft.all_nodes().journal:
        if pod is None or pod.shape.alignment is None:
            continue
        there = found.setdefault(row, [])
        if sign > 0:
            there.append(pod.shape.alignment)
        elif pod.shape.alignment in there:
            there.remove(pod.shape.alignment)
    return found


def admitted(alignment: Alignment, zones: NodeZones, others: Sequence[Alignment]) -> bool:
    """Whether it and the others are all admitted, in whatever order they come."""
    machine = zones.published()
    if machine is None:
        return False
    return all_admitted(machine, zones.rules, crowd([alignment, *others, *zones.pending()]))


def likely_masks(
    alignment: Alignment, zones: NodeZones, others: Sequence[Alignment]
) -> set[tuple[int | None, ...]]:
    """By container, where the kubelet would put the pod if it comes after the others. More than one answer where that
    hangs on the order in which they come, none where somebody may be refused or nothing can be read."""
    machine = zones.published()
    if machine is None:
        return set()
    return masks(machine, zones.rules, crowd([*others, *zones.pending()]), alignment)
