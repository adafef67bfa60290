"""Fault histories drawn from a seed: a scenario, and a few faults at calls of its."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from chaos.faults import OUTAGES, WORDS, Fault, History
from conformance.drawing.dice import Dice

MOST_FAULTS: Final = 4
MOST_ENDS: Final = 2
"""Kills and pauses of one history: each waits for the Lease."""
ENDS: Final = ("kill-before", "kill-after", "kill-late", "pause")
DRAWN: Final = tuple(
    (word, argument) for word in sorted(WORDS.keys() - OUTAGES) for argument in WORDS[word] or (0,)
)
"""Each status of an answer is a fault of its own, and so is each other argument."""
FIRST_BINDING: Final = 3
"""The call of `gang-4` that comes after its commit."""


def each_once() -> Iterator[History]:
    """Every fault by itself, between the commit of a gang and its first Binding."""
    for word, argument in DRAWN:
        yield History("gang-4", (Fault(FIRST_BINDING, word, argument),))


def draw(seed: int, number: int, calls: Mapping[str, int]) -> Iterator[History]:
    """So many of them. `calls`: how many each scenario makes by itself; faults make it make more."""
    dice = Dice(f"chaos/{seed}")
    names = sorted(calls)
    for _ in range(number):
        scenario = dice.pick(names)
        last = calls[scenario] * 3 // 2
        places = sorted(dice.some(range(1, last + 1), 1, MOST_FAULTS))
        ends = 0
        faults = []
        for at in places:
            word, argument = dice.pick(DRAWN)
            while word in ENDS and ends == MOST_ENDS:
                word, argument = dice.pick(DRAWN)
            ends += word in ENDS
            faults.append(Fault(at, word, argument))
        yield History(scenario, tuple(faults))
