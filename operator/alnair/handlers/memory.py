"""Memory that nobody uses goes back to the system.

Every minute all records and groups are listed: tens of megabytes in a large cluster, which are free again a second
later, as holes between what stays. The C library keeps those for itself, and what is resident creeps up with every hole
that the next list does not fit into.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def _trim() -> Callable[[int], int] | None:
    """glibc's; other C libraries have none, and no such holes."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None


_TRIM = _trim()


def give_back() -> None:
    """Takes milliseconds, in which other threads run."""
    if _TRIM is not None:
        _TRIM(0)
