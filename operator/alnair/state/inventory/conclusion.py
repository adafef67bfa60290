"""Who is believed about a node's cards.

The sources, best first; the first that says anything about a node is believed alone, never mixed with another:
1. zones of type GPU in a NodeResourceTopology that somebody else publishes: links, NUMA nodes, different cards;
2. HAMi's registration: each card with its UUID, NUMA node and slots, and links where it publishes its scores;
3. the profiler's annotations `physical-gpu-*`, `gpu-static` and `gpu-<i>`: UUIDs where they are told;
4. GFD's labels `nvidia.com/gpu.*`: equal cards, no UUIDs.

A source that is there and cannot be read is named and passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alnair.api.quantity import BadQuantity
from alnair.api.topology import NodeResourceTopology
from alnair.state.inventory import hami, labels, profiler, zones
from alnair.state.inventory.cards import NO_CARDS, Card, Inventory, Unreadable, check
from alnair.state.nodes import Node

CARDS_SHOWN = 3

Reader = Callable[[Node, NodeResourceTopology | None, list[str]], list[Card]]

# As they are called in events, and in what is published of a node.
SOURCES: tuple[tuple[str, Reader], ...] = (
    ("NodeResourceTopology", lambda node, topology, remarks: zones.read(topology) if topology else []),
    ("HAMi", lambda node, topology, remarks: hami.read(dict(node.annotations), remarks)),
    ("annotations", lambda node, topology, remarks: profiler.read(node.name, dict(node.annotations))),
    ("labels", lambda node, topology, remarks: labels.read(node.name, node.labels)),
)


def conclude(node: Node, topology: NodeResourceTopology | None) -> Inventory:
    problems: list[str] = []
    for source, read in SOURCES:
        remarks: list[str] = []
        try:
            cards = read(node, topology, remarks)
            check(cards)
        except (Unreadable, BadQuantity) as error:
            problems.append(f"{source}: {error}")
            continue
        if cards:
            problems += [f"{source}: {remark}" for remark in remarks]
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
