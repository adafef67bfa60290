"""What was free in holes is the system's again, and what is garbage goes."""

from __future__ import annotations

import ctypes
import gc
import weakref
from pathlib import Path

from alnair.handlers import memory

BLOCK = 64 * 1024  # small enough to come from the heap
BLOCKS = 1024


def test_holes_between_what_stays_are_given_back() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(BLOCK) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    for block in blocks[::2]:
        libc.free(block)
    full = resident_kib()
    memory.give_back()
    given_back = full - resident_kib()
    for block in blocks[1::2]:
        libc.free(block)
    assert given_back > BLOCKS // 2 * BLOCK // 1024 // 2


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text("ascii", "replace")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


class Knot:
    """What only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_in_cycles_goes_also_when_it_was_alive_at_an_earlier_look() -> None:
    knot = Knot()
    gone = weakref.ref(knot)
    try:
        memory.collect()
        del knot
        memory.collect()
        assert gone() is None
    finally:
        gc.unfreeze()
