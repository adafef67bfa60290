"""Who is believed about a node's cards.

The sources, best first; the first that says anything about a node is believed alone, never mixed with another:
1. zones of type GPU in a NodeResourceTopology that somebody else publishes: links, NUMA nodes, different cards;
2. HAMi's registration: each card with its UUID, NUMA node and slots, and links where it publishes its scores;
3. the profiler's annotations `physical-gpu-*`, `gpu-static` and `gpu-<i>`: UUIDs where they are told;
4. GFD's labels `nvidia.com/gpu.*`: equal cards, no UUIDs.

A source that is there and cannot be read is named and passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from alnair.api import names
from alnair.api.quantity import BadQuantity
from alnair.api.topology import NodeResourceTopology
from alnair.state.inventory import hami, labels, profiler, zones
from alnair.state.inventory.cards import NO_CARDS, Card, Inventory, Unreadable, check
from alnair.state.nodes import Node

CARDS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Told:
    """All that anybody says about one node's cards."""

    node: str
    topology: NodeResourceTopology | None
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    remarks: list[str] = field(default_factory=list)  # what is wrong, and no reason not to believe the rest


# As they are called in events, and in what is published of a node.
SOURCES: tuple[tuple[str, Callable[[Told], list[Card]]], ...] = (
    ("NodeResourceTopology", lambda told: zones.read(told.topology) if told.topology else []),
    ("HAMi", lambda told: hami.read(told.annotations, told.remarks)),
    ("annotations", lambda told: profiler.read(told.node, told.annotations)),
    ("labels", lambda told: labels.read(told.node, told.labels)),
)


def conclude(node: Node, topology: NodeResourceTopology | None) -> Inventory:
    if topology is None and not node.annotations and names.GFD_COUNT not in node.labels:
        return NO_CARDS  # most nodes of most clusters
    told = Told(node.name, topology, dict(node.annotations), node.labels)
    problems: list[str] = []
    for source, read in SOURCES:
        try:
            cards = read(told)
            check(cards)
        except (Unreadable, BadQuantity) as error:
            problems.append(f"{source}: {error}")
            told.remarks.clear()
            continue
        if cards:
            problems += [f"{source}: {remark}" for remark in told.remarks]
            return Inventory(tuple(cards), source, (*problems, *_closed(source, cards)))
    return Inventory(problems=tuple(problems)) if problems else NO_CARDS


def _closed(source: str, cards: Sequence[Card]) -> list[str]:
    """One sentence a reason for cards that take nobody though they may be in good health."""
    by_reason: dict[str, list[str]] = {}
    for card in cards:
        if card.why:
            by_reason.setdefault(card.why, []).append(card.id)
    sentences = []
    for why, ids in by_reason.items():
        more = f" and {len(ids) - CARDS_SHOWN} more" if len(ids) > CARDS_SHOWN else ""
        sentences.append(f"{source}: {', '.join(ids[:CARDS_SHOWN])}{more}: {why}; nothing is placed there")
    return sentences
