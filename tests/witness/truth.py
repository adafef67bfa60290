"""Which cards there were, and when: as whoever made them declared, whatever source it told the operator by.

A card has one identity however its node calls it (`Card.card`): when a source that told UUIDs falls silent and the
next one says NODE/INDEX, these are the same cards, and what is given out under both names adds up.

The operator learns of a change a moment after it is written. So whoever asks what a card can hold is told the most
that it could hold within the last moments, and no more: see `Cards.lately`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

from witness.words import CARDS, Object

SLOTS: Final = 16
"""Sharers a card has unless its node tells otherwise."""


@dataclass(frozen=True, slots=True)
class Card:
    """One card as a node tells of it."""

    id: str
    card: str
    """Which physical card it is."""
    model: str
    memory_mib: int
    healthy: bool = True
    slots: int = SLOTS


def told(cards: Iterable[Card]) -> str:
    """For the annotation `words.CARDS`."""
    return json.dumps([asdict(card) for card in cards])


def read(manifest: Object | None) -> tuple[Card, ...] | None:
    """What an object tells; None if it says nothing of cards."""
    text = ((manifest or {}).get("metadata", {}).get("annotations") or {}).get(CARDS)
    return None if text is None else tuple(Card(**fields) for fields in json.loads(text))


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most that a card could hold within a stretch of time; all 0 if it was never usable in it."""

    memory_mib: int = 0
    slots: int = 0
    models: frozenset[str] = frozenset()
    sizes: frozenset[int] = frozenset()
    """Every memory that it had in that time."""
    usable: bool = False


@dataclass(frozen=True, slots=True)
class _Spell:
    since: float
    card: Card | None


class Cards:
    """What all nodes tell, now and in the past. Time never goes back."""

    def __init__(self) -> None:
        self._nodes: dict[str, Object] = {}
        self._topologies: dict[str, Object] = {}
        self._told: dict[str, dict[str, Card]] = {}
        self._spells: dict[tuple[str, str], list[_Spell]] = {}
        self._identity: dict[str, str] = {}

    def node(self, name: str, manifest: Object | None, at: float) -> None:
        _keep(self._nodes, name, manifest)
        self._renew(name, at)

    def topology(self, name: str, manifest: Object | None, at: float) -> None:
        _keep(self._topologies, name, manifest)
        self._renew(name, at)

    def physical(self, card_id: str) -> str:
        """Which card that is; a name that nobody ever told is a card of its own."""
        return self._identity.get(card_id, card_id)

    def lately(self, node: str, card_id: str, *, since: float) -> Capacity:
        """What the card, under that name and on that node, could hold at some time from `since` until now."""
        most = Capacity()
        for spell in reversed(self._spells.get((node, card_id), [])):
            if spell.card is not None and spell.card.healthy:
                most = replace(
                    most,
                    memory_mib=max(most.memory_mib, spell.card.memory_mib),
                    slots=max(most.slots, spell.card.slots),
                    models=most.models | {spell.card.model},
                    sizes=most.sizes | {spell.card.memory_mib},
                    usable=True,
                )
            if spell.since <= since:
                break
        return most

    def out_of_use_since(self, node: str, card_id: str) -> float | None:
        """Since when the card cannot be used under that name; None if it can."""
        since: float | None = None
        for spell in reversed(self._spells.get((node, card_id), [])):
            if spell.card is not None and spell.card.healthy:
                break
            since = spell.since
        return since

    def _renew(self, name: str, at: float) -> None:
        cards: tuple[Card, ...] = ()
        if name in self._nodes:
            # A topology goes first, where it tells of cards.
            cards = read(self._topologies.get(name)) or read(self._nodes[name]) or ()
        before, after = self._told.get(name, {}), {card.id: card for card in cards}
        for card_id in before.keys() | after.keys():
            if before.get(card_id) != (card := after.get(card_id)):
                self._spells.setdefault((name, card_id), []).append(_Spell(at, card))
                if card is not None:
                    self._identity[card_id] = card.card
        self._told[name] = after


def _keep(things: dict[str, Object], name: str, manifest: Object | None) -> None:
    if manifest is None:
        things.pop(name, None)
    else:
        things[name] = manifest
