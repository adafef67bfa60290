"""Pieces of one job: all end, or none goes on after one has failed."""

from __future__ import annotations

import asyncio

import pytest

from alnair.ledger.lease import LeadershipLost
from alnair.ledger.together import together


async def after(turns: int, result: int) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    return result


async def failing(error: Exception) -> int:
    await asyncio.sleep(0)
    raise error


async def test_results_come_in_the_order_of_the_pieces() -> None:
    assert await together(after(turns, turns) for turns in (3, 1, 2)) == [3, 1, 2]
    assert await together([]) == []


async def test_when_a_piece_fails_no_other_goes_on_and_the_error_is_what_it_was() -> None:
    stopped: list[str] = []

    async def endless() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it may take a moment to put things in order
            stopped.append("endless")
        return 0

    with pytest.raises(ValueError, match="broken"):
        await together([endless(), failing(ValueError("broken")), endless()])
    assert stopped == ["endless", "endless"]


async def test_a_lost_lease_goes_before_other_errors() -> None:
    with pytest.raises(LeadershipLost):
        await together([failing(ValueError("broken")), failing(LeadershipLost("gone"))])


async def test_who_is_cancelled_takes_the_pieces_along() -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def endless() -> int:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return 0

    job = asyncio.create_task(together([endless()]))
    await begun.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert stopped.is_set()
