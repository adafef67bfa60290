"""What a profiler reads of a card (`gpu-<i>`) and of a node (`node-util`) every few seconds: size and load.

A reading is a Python literal or JSON, such as {'mem_used': '11GB', 'mem_free': '1GB', 'max_gpu_util': 88, …}. A
few fields are looked for, by pattern: the text is renewed on every node all the time, and is never evaluated. What
cannot be read of one field is named and left out; it is never 0, and the other fields count all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

LONGEST_READING = 16_384
UNREADABLE = "?"
# Rounding may have cost a reading two units, and one was taken off: nearer than this it is the same card.
ROUNDING_MIB = 3 * 1024

SIZE = re.compile(r"([0-9]{1,9})\s?(MB|GB|MiB|GiB|Mi|Gi|M|G)", re.ASCII)
# GB is read as decimal: a "12GB" card has 11,441 MiB, and 12 GiB would be more than there is.
_BYTES = {
    "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9,
    "Mi": 1 << 20, "MiB": 1 << 20, "Gi": 1 << 30, "GiB": 1 << 30,
}  # fmt: skip

COMPUTE, BANDWIDTH, MEMORY = range(3)  # of a card
CPU, IO = range(2)  # of a node
# In per cent. DCGM's MEM_COPY_UTIL is how busy the memory is, not how full; profilers have had three names for it.
OF_CARD = {
    "max_gpu_util": COMPUTE,
    "max_mem_bw_util": BANDWIDTH,
    "max_mem_util": BANDWIDTH,
    "max_mem_cpy_util": BANDWIDTH,
}
OF_NODE = {"cpu_util": CPU, "io_util": IO}
USED, FREE, TIME = "mem_used", "mem_free", "time"
LATEST = 4_102_444_800.0  # 2100; a larger number is no time in seconds

# NumPy 2 writes np.float64(88.0) where it used to write 88.0.
_NUMBER = re.compile(
    r"(np\.(?:float|int)(?:32|64)\()?([0-9]{1,12}(?:\.[0-9]{0,20})?(?:e[+-]?[0-9]{1,3})?)(?(1)\))\s*",
    re.ASCII,
)
_QUOTED_SIZE = re.compile(rf"""["']{SIZE.pattern}["']\s*""", re.ASCII)
_STAMP = re.compile(
    r"""["']([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2}))["']\s*""",
    re.ASCII,
)


def _entry(*fields: str) -> re.Pattern[str]:
    return re.compile(rf"""["']({"|".join(fields)})["']\s*:\s*([^,}}]*)""", re.ASCII)


_CARD_ENTRY = _entry(*OF_CARD, USED, FREE, TIME)
_NODE_ENTRY = _entry(*OF_NODE, TIME)


class Reading(NamedTuple):
    """`loads` from 0 (idle) to 1, None where nobody tells; `at`: when it was made, in seconds since 1970, if it says
    that; `bad`: what is there and cannot be read; `mib`: the card's size as digits."""

    loads: tuple[float | None, ...]
    at: float | None = None
    bad: tuple[str, ...] = ()
    mib: str = UNREADABLE


_TOO_LONG = f"it is longer than {LONGEST_READING} characters"
_NO_MAPPING = "it is no mapping"


def card_read(text: str) -> Reading:
    """How busy a card was: compute, memory bandwidth, memory."""
    if len(text) > LONGEST_READING:
        return Reading((None,) * 3, bad=(_TOO_LONG,))
    return _card_read(text)


def node_read(text: str) -> Reading:
    """How busy a node was: CPU, I/O."""
    if len(text) > LONGEST_READING:
        return Reading((None,) * 2, bad=(_TOO_LONG,))
    return _read(text, _NODE_ENTRY, OF_NODE, 2)


# Asked for a card's size and then for its loads, and idle cards tell the same.
@lru_cache(maxsize=1024)
def _card_read(text: str) -> Reading:
    return _read(text, _CARD_ENTRY, OF_CARD, 3)


def _read(text: str, entry: re.Pattern[str], places: Mapping[str, int], width: int) -> Reading:
    found = entry.findall(text)
    told = dict(found)
    bad = []
    if len(told) != len(found):  # twice: which of the two is true?
        fields = [field for field, _ in found]
        bad = [field for field in told if fields.count(field) > 1]
        told = {field: value for field, value in found if field not in bad}
    loads: list[float | None] = [None] * width
    at: float | None = None
    for field, value in told.items():
        if (place := places.get(field)) is not None:
            match = _NUMBER.fullmatch(value)
            if match and (number := float(match[2])) <= 100:
                loads[place] = number / 100
            else:
                bad.append(field)
        elif field == TIME and (at := _time(value)) is None:
            bad.append(field)
    mib = UNREADABLE
    if USED in told or FREE in told:
        loads[MEMORY], mib, wrong = _memory(told)
        bad += wrong
    if not (text.startswith("{") and text.endswith("}")):
        return Reading((None,) * width, bad=(_NO_MAPPING,), mib=mib)
    return Reading(tuple(loads), at, tuple(bad), mib)


def _memory(told: Mapping[str, str]) -> tuple[float | None, str, list[str]]:
    """The part that is used, the size in MiB, and what cannot be read.

    What is used and what is free were rounded somehow, and their sum may be too large by one unit, which is taken off
    the size.
    """
    used = _QUOTED_SIZE.fullmatch(told.get(USED, ""))
    free = _QUOTED_SIZE.fullmatch(told.get(FREE, ""))
    if used is None or free is None:
        halves = ((USED, used), (FREE, free))
        return None, UNREADABLE, [field for field, half in halves if field in told and half is None]
    taken, left = bytes_of(used), bytes_of(free)
    size = max(0, taken + left - max(_BYTES[used[2]], _BYTES[free[2]])) >> 20
    return taken / (taken + left) if taken + left else None, str(size), []


def bytes_of(match: re.Match[str]) -> int:
    """The size that SIZE matched."""
    return int(match[1]) * _BYTES[match[2]]


def _time(value: str) -> float | None:
    """Seconds since 1970, or RFC 3339."""
    if match := _NUMBER.fullmatch(value):
        number = float(match[2])
        return number if number <= LATEST else None
    return stamp_read(match[1]) if (match := _STAMP.fullmatch(value)) else None


def stamp_read(text: str) -> float | None:
    """RFC 3339 as seconds since 1970."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
