"""The nodes of a run: Alnair's own, whose cards are given by name, and a device plugin's, whose cards are counted."""

from __future__ import annotations

from typing import Final

from alnair.sandbox import fleet
from witness.stations import Station
from witness.truth import Card

OWN, COUNTED = "own", "counted"
CARDS: Final = 4


def stations(own: int, counted: int) -> list[Station]:
    """All alike within their pool, so that a reckoning by hand can follow."""
    made = []
    for pool, number, source in ((OWN, own, "profiler"), (COUNTED, counted, "device-plugin")):
        for index in range(number):
            name = f"{pool}-{index:02d}"
            cards = tuple(_card(name, place, counted=pool == COUNTED) for place in range(CARDS))
            made.append(Station(name, source, cards, rack=f"rack-{index % 3}", style=0))
    return made


def _card(node: str, place: int, *, counted: bool) -> Card:
    name = f"{node}/{place}" if counted else fleet.card_uuid(node, place)
    return Card(name, f"{node}#{place}", fleet.A10.model, fleet.A10.memory_mib)


def pool_of(station: Station) -> str:
    return COUNTED if station.counted else OWN
