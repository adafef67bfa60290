"""The mixed cluster: sixty nodes whose cards are told by every source that Alnair reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from alnair.sandbox import fleet
from alnair.sandbox.fleet import CardKind
from churn.drawn import MODELS
from conformance.drawing.dice import Dice
from witness.stations import EQUAL, Station
from witness.truth import Card

NODES: Final = 60

SOURCES: Final = (
    ("profiler", 16.0),
    ("profiler-list", 8.0),
    ("topology", 14.0),
    ("topology-over-labels", 6.0),
    ("labels", 6.0),
    ("hami", 6.0),
    ("device-plugin", 10.0),
    ("none", 2.0),
)


def draw(dice: Dice, number: int = NODES) -> list[Station]:
    stations = []
    for index in range(number):
        # Every source is there, however few nodes there are.
        source = SOURCES[index][0] if index < len(SOURCES) else dice.weighted(SOURCES)
        name = f"{source}-{index:02d}"
        count = 0 if source == "none" else dice.pick((1, 2, 2, 4, 4, 4, 8, 8))
        kinds = _kinds(dice, source, count)
        cards = tuple(
            Card(fleet.card_uuid(name, place), f"{name}#{place}", kind.model, kind.memory_mib)
            for place, kind in enumerate(kinds)
        )
        if source in ("labels", "device-plugin"):
            cards = tuple(replace(card, id=f"{name}/{place}") for place, card in enumerate(cards))
        if source == "hami":
            cards = tuple(replace(card, slots=dice.pick((2, 5, 10))) for card in cards)
        stations.append(Station(name, source, cards, f"rack-{index % 6}", dice.number(0, 2)))
    return stations


def _kinds(dice: Dice, source: str, count: int) -> list[CardKind]:
    if source in EQUAL:
        return [dice.pick(MODELS)] * count
    if source == "profiler-list":  # one model, sizes card by card, in GiB
        model = dice.pick(MODELS)
        return [CardKind(model.model, 1024 * dice.pick((16, 24, 40, 80))) for _ in range(count)]
    return [dice.pick(MODELS) for _ in range(count)]
