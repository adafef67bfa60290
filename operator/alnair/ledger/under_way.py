"""Work that goes on beside the rest: commits, binds, releases, each a task of its own.

A lost lease ends the process; a mistake of ours concerns one gang and is logged: its slices stay taken, which is the
safe side, and every other gang goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from alnair.ledger.lease import LeadershipLost

log = logging.getLogger(__name__)


AGAIN_SECONDS = 1.0


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancelled until they are over. Once may not be enough: who is cancelled at the moment at which what it waits for
    comes, or fails, may never hear of it (asyncio.TaskGroup; rules of third parties), and a process that has lost its
    lease would stay for ever, as no stand-by and no leader."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=AGAIN_SECONDS)
        for task in ended:
            if not task.cancelled():
                task.exception()  # looked at, or asyncio would complain: nobody cares any more


class UnderWay:
    """`failure` is done when the lease was found lost."""

    def __init__(self) -> None:
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._can_wait: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self._tasks)

    def spawn(
        self, work: Coroutine[Any, Any, None], name: str, *, can_wait: bool = False
    ) -> asyncio.Task[None]:
        """`can_wait`: it holds no clean end up, for the next leader begins it anew."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        if can_wait:
            self._can_wait.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._can_wait.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LeadershipLost):
            if not self.failure.done():
                self.failure.set_exception(error)
        elif error is not None:
            log.error("%s failed", task.get_name(), exc_info=error)

    async def drain(self, seconds: float) -> None:
        """Let what is under way come to its end, for a while."""
        deadline = asyncio.get_running_loop().time() + seconds
        while (busy := self._tasks - self._can_wait) and (
            left := deadline - asyncio.get_running_loop().time()
        ) > 0:
            await asyncio.wait(busy, timeout=left)

    async def close(self) -> None:
        """Stop where we are. Whatever is half done is finished by the next leader from the records."""
        await end_all(self._tasks)
