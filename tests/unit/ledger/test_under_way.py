"""What a clean end waits for, and what ends the process."""

from __future__ import annotations

import asyncio

import pytest

from alnair.ledger import under_way as room
from alnair.ledger.lease import LeadershipLost
from alnair.ledger.under_way import UnderWay, end_all


async def test_a_clean_end_waits_for_what_is_being_placed_and_for_nothing_that_can_wait() -> None:
    under_way, bound, never = UnderWay(), asyncio.Event(), asyncio.Event()

    async def bind() -> None:
        await asyncio.sleep(0.01)
        bound.set()

    async def wait_for_a_budget() -> None:
        await never.wait()

    under_way.spawn(bind(), "bind")
    evicting = under_way.spawn(wait_for_a_budget(), "evict", can_wait=True)
    async with asyncio.timeout(5):
        await under_way.drain(60)
    assert bound.is_set()
    assert not evicting.done()
    await under_way.close()
    assert evicting.cancelled()
    assert not under_way


async def test_a_clean_end_waits_no_longer_than_it_may() -> None:
    under_way = UnderWay()
    stuck = under_way.spawn(asyncio.sleep(60), "stuck")
    async with asyncio.timeout(5):
        await under_way.drain(0.01)
    assert not stuck.done()
    await under_way.close()


async def test_a_lost_lease_is_told_and_a_mistake_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    under_way = UnderWay()

    async def fails(error: Exception) -> None:
        raise error

    under_way.spawn(fails(ZeroDivisionError("one gang's")), "commit of g")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "commit of g failed" in caplog.text
    assert not under_way.failure.done()
    under_way.spawn(fails(LeadershipLost("gone")), "bind")
    with pytest.raises(LeadershipLost):
        await under_way.failure


async def test_who_does_not_hear_of_its_end_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "AGAIN_SECONDS", 0.01)
    heard = 0

    async def deaf() -> None:
        nonlocal heard
        while heard < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard += 1

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await end_all([task])
    assert (heard, task.done()) == (3, True)
