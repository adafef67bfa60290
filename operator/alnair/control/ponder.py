"""The exact search off the event loop: problems solved one at a time on a thread of their own.

The thread is a daemon: a solver that has a few seconds to go must not hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

from alnair.scheduling.exact import Problem, Solution


class Solver:
    """`solve` from the event loop; whoever comes second waits for the first."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turn = asyncio.Lock()

    async def solve(self, problem: Problem) -> Solution:
        answer: concurrent.futures.Future[Solution] = concurrent.futures.Future()

        def work() -> None:
            try:
                answer.set_result(problem.solve(self._seconds))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the waiter's
                answer.set_exception(error)

        async with self._turn:
            threading.Thread(target=work, name="exact search", daemon=True).start()
            return await asyncio.wrap_future(answer)
