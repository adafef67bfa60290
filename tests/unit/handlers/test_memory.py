"""What was free in holes is the system's again, and what is garbage goes."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
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


MAPPED = """
import ctypes
from alnair.handlers import memory

class Told(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in "uordblks fordblks keepcost".split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Told
libc.malloc.restype = ctypes.c_void_p
assert memory.keep_holes_few()
for size in (2 * memory.LARGE_BYTES, memory.LARGE_BYTES // 2):
    before = libc.mallinfo2().hblks
    blocks = [libc.malloc(size) for _ in range(200)]
    print(libc.mallinfo2().hblks - before)
"""


def test_what_is_large_lies_outside_of_the_heap_and_arrays_do_not() -> None:
    """In a process of its own: it is so for good."""
    done = subprocess.run([sys.executable, "-c", MAPPED], capture_output=True, text=True, check=True)
    large, arrays = map(int, done.stdout.split())
    assert large > 150, "a few find a hole"
    assert arrays == 0


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
