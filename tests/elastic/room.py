"""How much room there is: a simple reckoning of the judge's own, on purpose not the product's.

Members of a gang are alike and ask for one thing: whole cards, all of a member's on one node, or a part of one card. So
what fits can be counted node by node and card by card. Nothing else is scarce on the nodes of a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from elastic.seen import Shape, owned_by_alnair
from elastic.sizes import Picture
from witness import truth, uses
from witness.requests import Ask
from witness.seen import read_node
from witness.words import Object

REPELLING = ("NoSchedule", "NoExecute")


@dataclass(slots=True)
class Free:
    """What is left of a card."""

    memory_mib: int
    compute_percent: int
    slots: int
    untouched: bool = True


@dataclass(slots=True)
class Spot:
    """A node that pods may go to."""

    labels: dict[str, str]
    cards: dict[str, Free] = field(default_factory=dict)
    counted: int = 0
    """Whole cards that a device plugin has left."""
    total: int = 0

    def admits(self, shape: Shape) -> bool:
        return all(self.labels.get(key) == value for key, value in shape.selector)


class Room:
    """What is free now, or would be `without` the pods of these UIDs. `place` takes of it."""

    def __init__(self, picture: Picture, *, without: Collection[str] = ()) -> None:
        self._spots = {name: _spot(node) for name, node in picture.nodes.items() if _open(node)}
        recorded: set[str] = set()
        for record in picture.records.values():
            for uid, held in record.held.items():
                recorded.add(uid)
                spot = self._spots.get(held.node)
                if spot is not None and uid not in without:
                    spot.counted -= sum(number for _, number in held.counts)
                    for card, use in uses.uses(held).items():
                        _take(spot.cards.get(card), use)
        for pod in picture.pods.values():
            if pod.node in self._spots and pod.living and pod.uid not in recorded:
                self._spots[pod.node].counted -= pod.whole_cards

    @property
    def cards(self) -> int:
        """All that there are, free or not."""
        return sum(spot.total for spot in self._spots.values())

    def place(self, shape: Shape, most: int) -> int:
        """Takes room for as many such members as fit, at most so many; returns how many."""
        placed = 0
        for spot in self._spots.values():
            if spot.admits(shape):
                placed += _place(spot, shape, most - placed)
        return placed

    def fits(self, shape: Shape, members: int) -> bool:
        """Whether so many fit; nothing is taken."""
        found = 0
        for spot in self._spots.values():
            if spot.admits(shape):
                found += _place(spot, shape, members - found, taking=False)
        return found >= members


def _open(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    taints = node["spec"].get("taints") or []
    return (
        ready
        and not node["spec"].get("unschedulable")
        and not any(taint["effect"] in REPELLING for taint in taints)
    )


def _spot(node: Object) -> Spot:
    seen = read_node(node)
    counted = (seen.gpus if seen is not None else None) or 0
    cards = {
        card.id: Free(card.memory_mib, 100, card.slots)
        for card in truth.read(node) or ()
        if card.healthy and not counted
    }
    return Spot(node["metadata"].get("labels") or {}, cards, counted, counted + len(cards))


def _take(card: Free | None, use: uses.Use) -> None:
    if card is not None:
        card.untouched = False
        card.memory_mib -= use.memory_mib
        card.compute_percent -= use.compute_percent
        card.slots -= use.slots


def _place(spot: Spot, shape: Shape, most: int, *, taking: bool = True) -> int:
    ask = shape.ask
    if ask is None or most <= 0:
        return max(0, most)
    if not ask.whole:
        return _place_slices(spot.cards.values(), ask, most, taking=taking)
    if not owned_by_alnair(shape):
        number = min(most, max(0, spot.counted) // ask.cards)
        spot.counted -= number * ask.cards if taking else 0
        return number
    free = [
        card for card in spot.cards.values() if card.untouched and card.memory_mib >= (ask.memory_mib or 0)
    ]
    number = min(most, len(free) // ask.cards)
    if taking:
        for card in free[: number * ask.cards]:
            card.untouched = False
            card.memory_mib = card.compute_percent = card.slots = 0
    return number


def _place_slices(cards: Iterable[Free], ask: Ask, most: int, *, taking: bool) -> int:
    placed = 0
    for card in cards:
        number = min(most - placed, card.memory_mib // (ask.memory_mib or 1), card.slots)
        if ask.compute:
            number = min(number, card.compute_percent // ask.compute)
        number = max(0, number)
        placed += number
        if taking and number:
            use = uses.Use(number * (ask.memory_mib or 0), number * ask.compute, number, whole=False)
            _take(card, use)
    return placed
