"""What happened to a node's cards, in sentences: for an event on the node."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.state.inventory.cards import Inventory

GONE, UNHEALTHY, SHRUNK = "CardGone", "CardUnhealthy", "CardShrunk"
RECOVERED, ADDED, GREW = "CardRecovered", "CardAdded", "CardGrew"
TROUBLES = (GONE, UNHEALTHY, SHRUNK)
SHOWN = 4


def changes(before: Inventory, now: Inventory) -> list[tuple[str, str]]:
    """(reason, sentence); empty for a node that is new, and for one whose cards only have other names: that is said
    elsewhere."""
    if not before.cards or now.renamed or (before.renamed and now.cards):
        return []
    known = {card.id: card for card in before.cards}
    there = {card.id: card for card in now.cards}
    both = [(known[name], card) for name, card in there.items() if name in known]
    told = (
        (GONE, "gone", [name for name in known if name not in there]),
        (ADDED, "new", [name for name in there if name not in known]),
        (
            UNHEALTHY,
            "unhealthy: nothing new is placed there",
            [a.id for b, a in both if b.healthy > a.healthy],
        ),
        (RECOVERED, "healthy again", [a.id for b, a in both if b.healthy < a.healthy]),
        (
            SHRUNK,
            "smaller than before",
            [_sizes(a.id, b.memory_mib, a.memory_mib) for b, a in both if a.memory_mib < b.memory_mib],
        ),
        (
            GREW,
            "larger than before",
            [_sizes(a.id, b.memory_mib, a.memory_mib) for b, a in both if a.memory_mib > b.memory_mib],
        ),
    )
    return [(reason, _sentence(cards, what)) for reason, what, cards in told if cards]


def _sizes(name: str, before: int, now: int) -> str:
    return f"{name} ({before} MiB, now {now})"


def _sentence(cards: Sequence[str], what: str) -> str:
    more = f" and {len(cards) - SHOWN} more" if len(cards) > SHOWN else ""
    return f"{'card' if len(cards) == 1 else 'cards'} {', '.join(cards[:SHOWN])}{more}: {what}"
