"""A process that runs for months: garbage is looked for when there is time, and what is free goes back to the system.

Lists and the answers of thousands of calls are free again a moment later, as holes between what stays. The C library
keeps those for itself, and what is resident creeps up with every hole that nothing fits into.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable


def _trim() -> Callable[[int], int] | None:
    """glibc's; other C libraries have none, and no such holes."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None


_TRIM = _trim()


def await_the_lists() -> None:
    """Nothing of what the first lists bring is garbage: until `spare_the_collector` none is looked for."""
    gc.disable()


def spare_the_collector() -> None:
    """What the lists brought stays. Looking for garbage among it every few hundred pods took 7 % of our CPU."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def collect() -> None:
    """Kopf makes cycles of every object that it hears of. Those that are alive when the collector looks at the young
    move on to the old, which it looks at only when a quarter of them is new. An hour's garbage is a megabyte where
    twenty pods come and go a second; to look at everything takes half a second where there are 20,000."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Takes milliseconds, in which other threads run."""
    if _TRIM is not None:
        _TRIM(0)
