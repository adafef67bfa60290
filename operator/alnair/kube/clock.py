"""Time, passed in so that tests can hold it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """`now` measures spans and never jumps; `wall` is the time of day, `stamp` as it is written into objects."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def stamp(self) -> str:
        return self.wall().strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
