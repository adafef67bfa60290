"""What workloads of a kind used at most when they ran before, as their profiler wrote it on them.

    ai.centaurus.io/peak-gpu-util: "35"        per cent of one card
    ai.centaurus.io/peak-gpu-memory: 6Gi       on one card
    ai.centaurus.io/peak-cpu: 1500m

Only a wish hangs on it: what cannot be read counts as not told, and never gives anybody less than was requested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from alnair.api import names
from alnair.api.quantity import BadQuantity, integer, milli, whole

T = TypeVar("T")

MOST_MIB = 1 << 24
MOST_CPU = 1 << 31


@dataclass(frozen=True, slots=True)
class Peak:
    """None: not told."""

    compute: float | None = None  # of one card, 0 to 1
    memory_mib: int | None = None  # on one card
    cpu: int | None = None  # thousandths


def peak_in(annotations: Mapping[str, str]) -> Peak | None:
    """None: nothing is told that can be read."""
    if names.PEAK_ANNOTATIONS.isdisjoint(annotations):
        return None  # nearly all pods
    peak = Peak(
        _told(
            annotations,
            names.PEAK_GPU_UTIL,
            lambda text, key: integer(text, field=key, low=0, high=100) / 100,
        ),
        _told(
            annotations, names.PEAK_GPU_MEMORY, lambda text, key: min(whole(text, field=key) >> 20, MOST_MIB)
        ),
        _told(annotations, names.PEAK_CPU, lambda text, key: min(milli(text, field=key), MOST_CPU)),
    )
    return peak if peak != Peak() else None


def _told(annotations: Mapping[str, str], key: str, read: Callable[[str, str], T]) -> T | None:
    try:
        return read(annotations[key], key) if key in annotations else None
    except BadQuantity:
        return None
