"""Time, passed in so that tests can hold it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

_FORM = "%Y-%m-%dT%H:%M:%SZ"


class Clock:
    """`now` measures spans and never jumps; `wall` is the time of day, `stamp` as it is written into objects."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def stamp(self, *, after: float = 0.0) -> str:
        """Of now, or of so many seconds later."""
        return (self.wall() + timedelta(seconds=after)).strftime(_FORM)

    def since(self, stamp: str) -> float | None:
        """Seconds since then, negative if it is still to come; None if that is no time."""
        try:
            return (self.wall() - datetime.strptime(stamp, _FORM).replace(tzinfo=UTC)).total_seconds()
        except ValueError:
            return None


def micro_stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
