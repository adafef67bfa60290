"""Memory that nobody uses goes back to the system.

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


def collect() -> None:
    """Kopf makes cycles of every object that it hears of. Those that are alive when the collector looks at the young
    move on to the old, which it looks at only when a quarter of them is new: that would be hours of garbage. Nothing
    else runs meanwhile, for a tenth of a second where there are 20,000 pods."""
    gc.collect()


def give_back() -> None:
    """Takes milliseconds, in which other threads run."""
    if _TRIM is not None:
        _TRIM(0)
