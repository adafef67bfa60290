"""Ends a call of somebody else's code that does not come back: an alarm of the operating system, which raises in it.

Only on the main thread, where the loop runs and Python delivers signals. A call that is stuck inside one operation of a
C library goes on until that returns; the liveness probe is for those.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CALL_SECONDS = 2.0  # for one question to one rule; ours take less than a millisecond


class Overtime(BaseException):
    """The call took too long. Not an Exception: code that goes on after any of those would go on after this one."""


def _ring(_number: int, _frame: FrameType | None) -> None:
    raise Overtime(f"it took more than {CALL_SECONDS:g} s")


@contextmanager
def overtime(seconds: float = CALL_SECONDS) -> Iterator[None]:
    """Raises Overtime within, if it comes to that. One at a time: calls are not nested."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
