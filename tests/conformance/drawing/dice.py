"""Chance with a memory of nothing but its seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def number(self, low: int, high: int) -> int:
        """Both ends included."""
        return self._random.randint(low, high)

    def pick(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def weighted(self, choices: Sequence[tuple[T, float]]) -> T:
        return self._random.choices([each for each, _ in choices], [weight for _, weight in choices])[0]

    def some(self, choices: Sequence[T], low: int, high: int) -> list[T]:
        """Between so many of them, each once, in random order."""
        return self._random.sample(choices, min(self.number(low, high), len(choices)))

    def shares(self, amount: int, parts: int) -> list[int]:
        """The amount cut into so many parts, some of which may be nothing."""
        cuts = sorted(self._random.randint(0, amount) for _ in range(parts - 1))
        return [after - before for before, after in zip([0, *cuts], [*cuts, amount], strict=True)]
