"""Several pieces of one job at once: all come to their end, or none is left running.

Who does the pieces holds a record's lock. What must never happen: a piece that goes on writing after the job has failed
and the lock is somebody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from alnair.ledger.lease import LeadershipLost

T = TypeVar("T")


async def together(pieces: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. When a piece fails the others are stopped, and its error is raised as it is; if several
    fail at once, a lost lease goes before everything else."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(piece) for piece in pieces]
    except BaseExceptionGroup as failed:
        errors = failed.exceptions
        raise next((each for each in errors if isinstance(each, LeadershipLost)), errors[0]) from None
    return [task.result() for task in tasks]
