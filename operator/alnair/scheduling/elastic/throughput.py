"""Measured throughput, as members tell it: the pod annotation `ai.centaurus.io/throughput`.

    512.5              at the size that the gang has now
    512.5@4            at 4 members
    140@1,270@2,512@4  several at once

Anybody may write it, so nonsense is passed over and nothing here ever raises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from alnair.scheduling.elastic.curves import MOST_MEMBERS
from alnair.state.pods import LONGEST_MEASUREMENT

_ONE = re.compile(r"\s*([0-9.eE+-]{1,32})\s*(?:@\s*([0-9]{1,6})\s*)?", re.ASCII)


def measurements(text: str, size: int) -> Iterator[tuple[int, float]]:
    """(members, throughput), as far as it makes sense. `size`: how many members the gang has now."""
    if len(text) > LONGEST_MEASUREMENT:
        return
    for part in text.split(","):
        match = _ONE.fullmatch(part)
        if match is None:
            continue
        try:
            throughput = float(match[1])
        except ValueError:
            continue
        members = int(match[2]) if match[2] else size
        if 1 <= members <= MOST_MEMBERS and math.isfinite(throughput) and throughput > 0:
            yield members, throughput
