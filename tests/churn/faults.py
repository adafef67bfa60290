"""What goes wrong with a node and its cards: a Station in, the same Station in trouble out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from conformance.drawing.dice import Dice
from witness.stations import EQUAL, TOLD_BY_TOPOLOGY, Station


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    weight: float
    sources: tuple[str, ...]
    """Whose nodes it may befall; empty = anybody's."""
    befall: Callable[[Dice, Station], Station]


def _unhealthy(dice: Dice, station: Station) -> Station:
    ill = set(dice.some(range(len(station.cards)), 1, len(station.cards)))
    cards = tuple(replace(card, healthy=place not in ill) for place, card in enumerate(station.cards))
    return replace(station, cards=cards)


def _vanished(dice: Dice, station: Station) -> Station:
    """Where cards are only counted it is the last one that is not there any more, whichever broke."""
    by_number = station.source in ("labels", "device-plugin", "topology-over-labels")
    lost = len(station.cards) - 1 if by_number else dice.number(0, len(station.cards) - 1)
    return replace(station, cards=station.cards[:lost] + station.cards[lost + 1 :])


def _shrunk(dice: Dice, station: Station) -> Station:
    part = dice.pick((0.25, 0.5, 0.75))
    one = dice.number(0, len(station.cards) - 1)
    cards = tuple(
        replace(card, memory_mib=max(1024, int(card.memory_mib * part) // 1024 * 1024))
        if place == one or station.source in EQUAL
        else card
        for place, card in enumerate(station.cards)
    )
    return replace(station, cards=cards)


def _silent(dice: Dice, station: Station) -> Station:
    return replace(station, silent=True)


def _cordoned(dice: Dice, station: Station) -> Station:
    return replace(station, cordoned=True)


def _not_ready(dice: Dice, station: Station) -> Station:
    return replace(station, ready=False)


def _absent(dice: Dice, station: Station) -> Station:
    return replace(station, absent=True)


FAULTS = (
    Fault("unhealthy", 6, (*TOLD_BY_TOPOLOGY, "hami"), _unhealthy),
    Fault(
        "vanished",
        5,
        ("profiler", "profiler-list", "labels", "hami", "device-plugin", *TOLD_BY_TOPOLOGY),
        _vanished,
    ),
    Fault("shrunk", 4, ("profiler", "profiler-list", "labels", "hami", *TOLD_BY_TOPOLOGY), _shrunk),
    Fault("silent", 6, TOLD_BY_TOPOLOGY, _silent),
    Fault("cordoned", 1, (), _cordoned),
    Fault("not-ready", 1, (), _not_ready),
    Fault("absent", 2, (), _absent),
)


def draw(dice: Dice, stations: list[Station]) -> tuple[Fault, Station]:
    """A fault of one of these nodes, and the node in it."""
    station = dice.pick(stations)
    possible = [
        (fault, fault.weight)
        for fault in FAULTS
        if not fault.sources or (station.source in fault.sources and station.cards)
    ]
    fault = dice.weighted(possible)
    return fault, fault.befall(dice, station)
