"""What a profiler's readings of a card (`gpu-<i>`, renewed every few seconds) say that stays: the card's size.

The reading is a Python literal or JSON, such as {'mem_used': '11GB', 'mem_free': '1GB', 'process_cnt': 1, …}. Only the
two sizes are looked for, by pattern: the text is renewed on every node all the time, and is never evaluated.
"""

from __future__ import annotations

import re

LONGEST_READING = 16_384
UNREADABLE = "?"

SIZE = re.compile(r"([0-9]{1,9})\s?(MB|GB|MiB|GiB|Mi|Gi|M|G)", re.ASCII)
# GB is read as decimal: a "12GB" card has 11,441 MiB, and 12 GiB would be more than there is.
_BYTES = {"M": 10**6, "G": 10**9, "Mi": 1 << 20, "Gi": 1 << 30}
_HALF = re.compile(rf"""["']mem_(used|free)["']\s*:\s*["']{SIZE.pattern}["']""", re.ASCII)


def bytes_of(match: re.Match[str], *, first: int = 1) -> int:
    """The size that SIZE matched, its groups counted from `first`."""
    return int(match[first]) * unit_of(match, first=first)


def unit_of(match: re.Match[str], *, first: int = 1) -> int:
    return _BYTES[match[first + 1].removesuffix("B")]


def size_read(text: str) -> str:
    """The card's MiB as digits: what is used and what is free, less one unit, for both were rounded somehow and their
    sum may be that much too large. UNREADABLE if the two are not there, each once."""
    if len(text) > LONGEST_READING:
        return UNREADABLE
    found = list(_HALF.finditer(text))
    if sorted(match[1] for match in found) != ["free", "used"]:
        return UNREADABLE
    total = sum(bytes_of(match, first=2) for match in found)
    return str(max(0, total - max(unit_of(match, first=2) for match in found)) >> 20)
