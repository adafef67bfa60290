"""The model: one card, the cards of one node, and what makes a list of cards credible.

Nothing is guessed upwards: what cannot be read is an error of its source, never infinite, and a card of which it is
not sure that pods may share it is there and takes nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alnair.api.gpurequest import MOST_MEMORY_MIB
from alnair.api.quantity import shown

MOST_CARDS_A_NODE = 64
MOST_SLOTS = 1024
LONGEST_ANNOTATION = 16_384
LONGEST_CARD_NAME = 128  # what a record takes
WORDS_OF_THE_RUNTIME = (
    "all",
    "none",
    "void",
)  # in NVIDIA_VISIBLE_DEVICES, where a card's name may come to stand


class Unreadable(ValueError):
    """A source that is there but cannot be understood. The message names the field and the value."""


@dataclass(frozen=True, slots=True)
class Card:
    """One physical card, with 100 per cent of compute. `id` is its UUID, or NODE/INDEX where nobody tells the UUID."""

    id: str
    model: str
    memory_mib: int
    healthy: bool = True  # False: what runs there runs on, nothing new comes
    index: int = 0  # as the driver counts it
    numa: int = -1  # NUMA node that it hangs on; -1 = nobody tells
    links: tuple[tuple[str, int], ...] = ()  # (id of another card of the node, distance): smaller is nearer
    slots: int = 0  # most sharers; 0 = nobody tells, so as many as everywhere
    made_up: bool = False  # the id is no UUID but our own NODE/INDEX
    why: str = ""  # it takes nobody for another reason than its health


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cards of one node, who told, and what could not be read."""

    cards: tuple[Card, ...] = ()
    source: str = ""
    problems: tuple[str, ...] = ()
    renamed: bool = False  # closed, see renaming

    def card(self, name: str) -> Card | None:
        return next((card for card in self.cards if card.id == name), None)


NO_CARDS = Inventory()


def made_up_name(node: str, index: int) -> str:
    """What a card is called of which nobody tells the UUID: the same after every restart."""
    return f"{node}/{index}"


def is_made_up(node: str, name: str) -> bool:
    return name.startswith(f"{node}/")


def check(cards: Sequence[Card]) -> None:
    """Raises Unreadable for a list of cards that cannot be one node's."""
    if len(cards) > MOST_CARDS_A_NODE:
        raise Unreadable(f"{len(cards)} cards on one node; {MOST_CARDS_A_NODE} are the most")
    ids = [card.id for card in cards]
    if len(set(ids)) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise Unreadable(f"card {shown(twice)} is listed twice")
    for card in cards:
        if (
            not card.id
            or len(card.id) > LONGEST_CARD_NAME
            or not card.id.isascii()
            or not card.id.isprintable()
        ):
            raise Unreadable(
                f"{shown(card.id)} is no card name (1 to {LONGEST_CARD_NAME} printable ASCII characters)"
            )
        if card.id.lower() in WORDS_OF_THE_RUNTIME:
            raise Unreadable(f"card name {shown(card.id)} means other cards to NVIDIA's runtime")
        if "," in card.id:
            raise Unreadable(f"card name {shown(card.id)} holds a comma")
        if not 1 <= card.memory_mib <= MOST_MEMORY_MIB:
            raise Unreadable(f"card {card.id} has {card.memory_mib} MiB; 1 to {MOST_MEMORY_MIB} are possible")
