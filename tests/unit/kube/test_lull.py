"""The lull: errands wait while something urgent is under way, but not for ever."""

from __future__ import annotations

import asyncio

import pytest

from alnair.kube import lull
from alnair.kube.lull import Lull
from unit.builders import HandClock


class Errands:
    def __init__(self, place: Lull) -> None:
        self._lull = place
        self.done: list[str] = []
        self.most_at_once = self._now = 0

    async def run(self, name: str, *, since: float | None = None) -> None:
        async with self._lull.errand(since=since):
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            await asyncio.sleep(0)
            self._now -= 1
            self.done.append(name)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_errands_run_at_once_when_it_is_quiet() -> None:
    errands = Errands(Lull(HandClock()))
    await errands.run("a")
    assert errands.done == ["a"]


async def test_errands_wait_until_nothing_is_urgent() -> None:
    place = Lull(HandClock())
    errands = Errands(place)
    place.busy(True)
    task = asyncio.create_task(errands.run("a"))
    await turns()
    assert errands.done == []
    place.busy(False)
    await task
    assert errands.done == ["a"]


async def test_who_has_waited_long_enough_goes_though_it_is_busy() -> None:
    clock = HandClock()
    place = Lull(clock)
    errands = Errands(place)
    place.busy(True)
    since = clock.now()
    clock.pass_(lull.LONGEST_SECONDS)
    await errands.run("old", since=since)
    assert errands.done == ["old"]


async def test_only_a_few_run_at_once() -> None:
    errands = Errands(Lull(HandClock()))
    await asyncio.gather(*(errands.run(str(number)) for number in range(100)))
    assert len(errands.done) == 100
    assert errands.most_at_once == lull.ERRANDS


async def test_errands_that_get_nowhere_do_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lull, "SLOT_SECONDS", 0.01)
    place = Lull(HandClock())
    errands = Errands(place)
    answered = asyncio.Event()

    async def stuck() -> None:
        async with place.errand():
            await answered.wait()

    tasks = [asyncio.create_task(stuck()) for _ in range(lull.ERRANDS)]
    await turns()
    async with asyncio.timeout(5):
        await errands.run("news")
    answered.set()
    await asyncio.gather(*tasks)
    await asyncio.gather(*(errands.run(str(number)) for number in range(100)))
    assert errands.most_at_once == lull.ERRANDS, "no slot was given back twice"


async def test_who_waits_for_quiet_keeps_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or all who wait would run at once when it gets quiet."""
    monkeypatch.setattr(lull, "SLOT_SECONDS", 0.01)
    place = Lull(HandClock())
    errands = Errands(place)
    first = [asyncio.create_task(errands.run(str(number))) for number in range(3 * lull.ERRANDS)]
    await asyncio.sleep(0)
    place.busy(True)  # while all slots are taken, so that the next ones wait in theirs
    await asyncio.sleep(0.05)
    place.busy(False)
    await asyncio.gather(*first)
    assert errands.most_at_once == lull.ERRANDS


async def test_who_got_a_slot_looks_again_whether_it_is_quiet() -> None:
    place = Lull(HandClock())
    errands = Errands(place)
    tasks = [asyncio.create_task(errands.run(str(number))) for number in range(lull.ERRANDS + 1)]
    await asyncio.sleep(0)
    place.busy(True)  # while all slots are taken
    await turns()
    assert len(errands.done) == lull.ERRANDS
    place.busy(False)
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("between", range(5))
async def test_who_is_cancelled_at_the_moment_when_it_becomes_quiet_hears_of_it(between: int) -> None:
    """As where a lease is lost: binds fail, so that it is quiet, and then everybody is cancelled."""
    place = Lull(HandClock())
    place.busy(True)

    async def wait() -> None:
        async with place.errand():
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await turns()
    place.busy(False)
    await turns(between)
    waiting.cancel()
    await turns()
    assert waiting.cancelled()
