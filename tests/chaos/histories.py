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


def draw(seed: int, number: int, calls: Mapping[str, int]) -> Iterator[History]:
    """So many of them. `calls`: how many each scenario makes by itself; faults make it make more."""
    dice = Dice(f"chaos/{seed}")
    names, words = sorted(calls), sorted(WORDS.keys() - OUTAGES)
    for _ in range(number):
        scenario = dice.pick(names)
        last = calls[scenario] * 3 // 2
        places = sorted(dice.some(range(1, last + 1), 1, MOST_FAULTS))
        ends = 0
        faults = []
        for at in places:
            word = dice.pick(words)
            while word in ENDS and ends == MOST_ENDS:
                word = dice.pick(words)
            ends += word in ENDS
            faults.append(Fault(at, word, dice.pick(WORDS[word]) if WORDS[word] else 0))
        yield History(scenario, tuple(faults))
