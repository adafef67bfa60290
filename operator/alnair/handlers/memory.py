"""A process that runs for months: garbage is looked for when there is time, and what is free goes back to the system.

Lists and the answers of thousands of calls are free again a moment later, as holes between what stays. The C library
keeps those for itself, and what is resident creeps up with every hole that nothing fits into.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable
from typing import Final

# glibc's mallopt.
ARENA_MAX: Final = -8
MMAP_THRESHOLD: Final = -3
GIVE_BACK_SECONDS: Final = 10.0
YOUNG: Final = 5_000
"""Objects, before garbage is looked for among them. Kopf makes 32 of every event, in cycles: four times as many were
four times as much garbage, and as many holes after it."""
LARGE_BYTES: Final = 1024 * 1024
"""Pages of lists, not the arrays of a plan: outside of the heap each of those would be pages that the kernel clears
anew, which made sums over the cards of 2,000 nodes take three times as long."""


def _of_the_c_library(name: str) -> Callable[..., int] | None:
    """glibc's; other C libraries have none, and no such holes."""
    try:
        return getattr(ctypes.CDLL(None), name)  # type: ignore[no-any-return]
    except (AttributeError, OSError):
        return None


_TRIM = _of_the_c_library("malloc_trim")
_OPTION = _of_the_c_library("mallopt")


def keep_holes_few() -> bool:
    """One heap for all threads, and what is large outside of it: else every thread's heap has its own holes, and the
    bytes of a list that was thrown away make the next ones come to lie among what stays. Before there are threads.

    Whether the C library does so.
    """
    if _OPTION is None:
        return False
    return bool(_OPTION(ARENA_MAX, 1)) and bool(_OPTION(MMAP_THRESHOLD, LARGE_BYTES))


def await_the_lists() -> None:
    """Nothing of what the first lists bring is garbage: until `spare_the_collector` none is looked for."""
    gc.disable()


def spare_the_collector() -> None:
    """What the lists brought stays. Looking for garbage among it every few hundred pods took 7 % of our CPU."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)


def collect() -> None:
    """Kopf makes cycles of every object that it hears of. Those that are alive when the collector looks at the young
    move on to the old, which it looks at only when a quarter of them is new. An hour's garbage is a megabyte where
    twenty pods come and go a second; to look at everything takes half a second where there are 20,000."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Takes a millisecond, in which other threads run."""
    if _TRIM is not None:
        _TRIM(0)


async def keep_giving_back() -> None:
    """Seldom is not enough: in a minute of pods coming and going six MiB of what was given back are touched again."""
    while True:
        await asyncio.sleep(GIVE_BACK_SECONDS)
        await asyncio.to_thread(give_back)
