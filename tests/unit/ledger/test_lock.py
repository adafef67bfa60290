"""A lock that is handed on: to one at a time, in order, and never to somebody who has left."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from alnair.ledger.lock import Lock


async def test_whoever_waited_longest_has_it_next_and_nobody_comes_between() -> None:
    lock, order = Lock(), list[str]()

    async def take(name: str) -> None:
        async with lock:
            order.append(name)
            await asyncio.sleep(0)

    await lock.acquire()
    waiting = [asyncio.create_task(take(name)) for name in "abc"]
    await asyncio.sleep(0)
    lock.release()
    assert lock.locked(), "handed on, not free for a moment"
    await take("late")
    await asyncio.gather(*waiting)
    assert order == ["a", "b", "c", "late"]
    assert not lock.locked()


async def test_who_left_the_queue_is_passed_over() -> None:
    lock = Lock()
    await lock.acquire()
    gone, next_one = (asyncio.create_task(lock.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    lock.release()  # before the one who leaves has run again
    await next_one
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert lock.locked(), "the next one still has it"


async def test_who_leaves_when_it_has_just_become_theirs_hands_it_on() -> None:
    lock = Lock()
    await lock.acquire()
    leaves, next_one = (asyncio.create_task(lock.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    lock.release()
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    await next_one
    lock.release()
    assert not lock.locked()


def test_what_nobody_holds_is_not_released() -> None:
    with pytest.raises(RuntimeError, match="nobody holds it"):
        Lock().release()


@pytest.mark.parametrize("seed", range(20))
async def test_never_two_at_once_and_never_stuck_whoever_is_cancelled(seed: int) -> None:
    chance, lock = random.Random(seed), Lock()
    inside = most = done = 0

    async def take() -> None:
        nonlocal inside, most, done
        async with lock:
            inside += 1
            most = max(most, inside)
            try:
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
            finally:
                inside -= 1
        done += 1

    tasks = list[asyncio.Task[None]]()
    for _ in range(200):
        tasks.append(asyncio.create_task(take()))
        if chance.random() < 0.4:
            chance.choice(tasks).cancel()
        if chance.random() < 0.5:
            await asyncio.sleep(0)
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert most == 1
    assert done == sum(not task.cancelled() for task in tasks)
    assert not lock.locked()
