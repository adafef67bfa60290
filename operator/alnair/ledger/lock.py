"""asyncio's lock, for thousands of objects that stay.

Once anybody had to wait for one of asyncio's, it keeps a deque of 528 bytes for as long as it lives. That is more than
Python's own pools take, so it comes to lie in the C library's heap, between answers that are free a moment later, and
the page that it lies on is resident for ever: 4 KiB for each record.
"""

from __future__ import annotations

import asyncio


class Lock:
    """Whoever waited longest has it next."""

    __slots__ = ("_held", "_waiting")

    def __init__(self) -> None:
        self._held = False
        self._waiting: list[asyncio.Future[None]] = []

    def locked(self) -> bool:
        return self._held

    async def acquire(self) -> None:
        if not self._held:
            self._held = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # it had just become ours
                self.release()
            turn.cancel()
            raise

    def release(self) -> None:
        """To the next one, without a moment between in which it is free."""
        if not self._held:
            raise RuntimeError("released, but nobody holds it")
        while self._waiting:
            turn = self._waiting.pop(0)
            if not turn.done():
                turn.set_result(None)
                return
        self._held = False

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()
