"""What happened to a node's cards, in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alnair.state.inventory import NO_CARDS, Card, Inventory
from alnair.state.inventory.changes import changes

A, B = Card("a", "A10", 24576), Card("b", "A10", 24576)


def told(*cards: Card, renamed: bool = False) -> Inventory:
    return Inventory(cards, "HAMi", renamed=renamed)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        pytest.param(NO_CARDS, told(A), [], id="a node that is new"),
        pytest.param(told(A), told(A), [], id="nothing"),
        pytest.param(told(A, B), told(A), [("CardGone", "card b: gone")], id="a card vanishes"),
        pytest.param(told(A, B), NO_CARDS, [("CardGone", "cards a, b: gone")], id="all vanish"),
        pytest.param(told(A), told(A, B), [("CardAdded", "card b: new")], id="a card comes"),
        pytest.param(
            told(A),
            told(replace(A, healthy=False)),
            [("CardUnhealthy", "card a: unhealthy: nothing new is placed there")],
            id="a card falls ill",
        ),
        pytest.param(
            told(replace(A, healthy=False)), told(A), [("CardRecovered", "card a: healthy again")], id="and recovers"
        ),
        pytest.param(
            told(A),
            told(replace(A, memory_mib=100)),
            [("CardShrunk", "card a (24576 MiB, now 100): smaller than before")],
            id="a card shrinks",
        ),
        pytest.param(
            told(A),
            told(replace(A, memory_mib=30000)),
            [("CardGrew", "card a (24576 MiB, now 30000): larger than before")],
            id="a card grows",
        ),
        pytest.param(told(A), told(B, renamed=True), [], id="other names are told elsewhere"),
        pytest.param(told(B, renamed=True), told(A), [], id="the old names come back"),
    ],
)  # fmt: skip
def test_what_happened(before: Inventory, now: Inventory, said: list[tuple[str, str]]) -> None:
    assert changes(before, now) == said


def test_many_cards_are_one_sentence() -> None:
    many = [Card(f"g{n}", "A10", 1) for n in range(9)]
    assert changes(told(*many), told(many[0])) == [("CardGone", "cards g1, g2, g3, g4 and 4 more: gone")]
