"""Whose turn it is: jobs that are due, several at once, each one at a time, again later where that failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from alnair.control.horovod.job import Key
from alnair.kube import Refused, Unanswered

log = logging.getLogger(__name__)

AT_ONCE = 8
FIRST_RETRY, LONGEST_RETRY = 0.5, 30.0


class Moved(Exception):
    """Something else stands there than was planned for; the books know it by now. To be planned again."""


class Rounds:
    """`mark` from anywhere on the loop. A mark that comes while its job is being worked on is not lost."""

    def __init__(self, work: Callable[[Key], Awaitable[bool]]) -> None:
        """`work` says whether all is well; if not, it is called again, the later the longer that lasts."""
        self._work_on = work
        self._due: dict[Key, None] = {}
        self._busy: set[Key] = set()
        self._wake = asyncio.Event()
        self._later: dict[Key, asyncio.TimerHandle] = {}
        self._troubles: dict[Key, int] = {}  # in a row

    def mark(self, key: Key) -> None:
        self._due[key] = None
        self._wake.set()

    async def run(self) -> None:
        await asyncio.gather(*(self._work() for _ in range(AT_ONCE)))

    async def _work(self) -> None:
        while True:
            key = await self._next()
            try:
                if await self._work_on(key):
                    self._troubles.pop(key, None)
                else:
                    self._try_later(key)
            except Moved:
                self.mark(key)
            except (Refused, Unanswered) as error:
                log.warning("ElasticHorovodJob %s: trying again: %s", "/".join(key), error)
                self._try_later(key)
            except Exception:
                log.exception("ElasticHorovodJob %s: reconciling failed", "/".join(key))
                self._try_later(key)
            finally:
                self._busy.discard(key)
                if key in self._due:
                    self._wake.set()

    async def _next(self) -> Key:
        while True:
            for key in self._due:
                if key not in self._busy:
                    del self._due[key]
                    self._busy.add(key)
                    return key
            self._wake.clear()
            await self._wake.wait()

    def _try_later(self, key: Key) -> None:
        troubles = self._troubles[key] = self._troubles.get(key, 0) + 1
        seconds = min(FIRST_RETRY * 2.0 ** min(troubles, 10), LONGEST_RETRY)
        if (waiting := self._later.pop(key, None)) is not None:
            waiting.cancel()
        self._later[key] = asyncio.get_running_loop().call_later(seconds, self._now_due, key)

    def _now_due(self, key: Key) -> None:
        del self._later[key]
        self.mark(key)
