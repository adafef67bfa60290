"""What a long run tells: findings on standard output, progress on standard error, the figures as the last line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping

from witness.findings import Finding

LINE_SECONDS = 10.0
MOST_SHOWN = 100


class Screen:
    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._shown = 0

    def show(self, finding: Finding, led: Iterable[object] = ()) -> None:
        """`led`: what led there."""
        self._shown += 1
        if self._shown <= MOST_SHOWN:
            print(finding, flush=True)
            for each in led:
                print(f"    {each}", flush=True)

    def progress(self, text: str, *, notable: bool = False) -> None:
        """One line that changes, in a terminal; else a line now and then, or where it is notable."""
        terminal, now = sys.stderr.isatty(), time.monotonic()
        if not terminal and now - self._last < LINE_SECONDS and not notable:
            return
        self._last = now
        line = f"{text}, {now - self._began:.0f} s"
        print(
            f"\r{line:<79}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True
        )

    def end(self, figures: Mapping[str, object]) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)
        if self._shown > MOST_SHOWN:
            print(f"… and {self._shown - MOST_SHOWN} more", flush=True)
        print(json.dumps(figures), flush=True)
