"""Time, passed in so that tests can hold it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """`now` measures spans and never jumps; `stamp` is what is written into objects."""

    def now(self) -> float:
        return time.monotonic()

    def stamp(self) -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def micro_stamp(self) -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
