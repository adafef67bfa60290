"""Whether something grows: the slope of figures over time, and how far to trust it. Pure.

Samples follow each other closely and are not independent, so the spread is taken between the means of blocks, not
between single samples: a wave that happens to rise at the end is no leak.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

BLOCKS = 10
SURE = 2.31
"""Student's t for 95 per cent with BLOCKS - 2 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Units a minute, and the half-width of the interval in which the true slope lies nineteen times out of twenty."""

    a_minute: float
    error: float
    mean: float

    @property
    def flat(self) -> bool:
        """Within the noise, or so small that an hour changes nothing that matters."""
        return abs(self.a_minute) <= self.error or abs(self.a_minute) * 60 <= 0.01 * abs(self.mean)


def trend(samples: Sequence[tuple[float, float]]) -> Trend:
    """Of (seconds, value), in order of time."""
    blocks = _blocks(samples)
    if len(blocks) < 3:
        raise ValueError(f"{len(samples)} samples are too few to see a trend in")
    minutes = [at / 60 for at, _ in blocks]
    values = [value for _, value in blocks]
    middle, mean = fmean(minutes), fmean(values)
    spread = sum((at - middle) ** 2 for at in minutes)
    slope = sum((at - middle) * (value - mean) for at, value in zip(minutes, values, strict=True)) / spread
    left = sum((value - mean - slope * (at - middle)) ** 2 for at, value in zip(minutes, values, strict=True))
    error = SURE * math.sqrt(left / (len(blocks) - 2) / spread)
    return Trend(slope, error, mean)


def _blocks(samples: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The means of up to BLOCKS equally long runs of samples."""
    number = min(BLOCKS, len(samples))
    edges = [round(len(samples) * edge / number) for edge in range(number + 1)] if number else []
    runs = [samples[low:high] for low, high in pairwise(edges)]
    return [(fmean(at for at, _ in run), fmean(value for _, value in run)) for run in runs]
