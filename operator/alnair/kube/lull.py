"""Binds first, news later: a place in line for writes that can wait.

Settling a record, a PodGroup's status and events are for people and for a later restart; while gangs wait for their
binds, each of these writes takes a bind's time from the apiserver. So errands run when nothing urgent is under way,
a few at once, and at the latest after a while, however busy it is.

What must never happen: news that wait for ever. A write that is insisted on may take as long as somebody's webhook is
down, so an errand that gets nowhere goes on by itself, and its slot is the next one's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from alnair.kube.clock import Clock

ERRANDS = 8  # at once: more would stand in the way of what becomes urgent next
LONGEST_SECONDS = 20.0
SLOT_SECONDS = 5.0  # an errand that takes longer no longer counts against those at once


class Lull:
    """`busy` is set by who knows what is urgent; `errand` is for everybody else."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._busy: set[str] = set()
        self._slots = asyncio.Semaphore(ERRANDS)

    def busy(self, is_busy: bool, *, who: str = "") -> None:
        """It is quiet when nobody who said that it is busy still says so."""
        (self._busy.add if is_busy else self._busy.discard)(who)
        if self._busy:
            self._quiet.clear()
        else:
            self._quiet.set()

    @asynccontextmanager
    async def errand(self, *, since: float | None = None) -> AsyncIterator[None]:
        """Inside is the time to write. `since`: when it was first due, by the clock; now, if not given."""
        deadline = (self._clock.now() if since is None else since) + LONGEST_SECONDS
        await self._wait(deadline)
        await self._slots.acquire()
        with ExitStack() as slot:
            slot.callback(self._slots.release)
            await self._wait(deadline)  # a slot may have taken a while
            end = asyncio.get_running_loop().call_later(SLOT_SECONDS, slot.close)
            slot.callback(end.cancel)
            yield

    async def _wait(self, deadline: float) -> None:
        left = deadline - self._clock.now()
        if left > 0 and not self._quiet.is_set():
            try:
                # Not wait_for: before Python 3.12 it forgets that it was cancelled if it becomes quiet just then.
                async with asyncio.timeout(left):
                    await self._quiet.wait()
            except TimeoutError:
                return
