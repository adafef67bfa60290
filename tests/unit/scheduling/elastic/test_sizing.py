"""Who starts, who may change, and which members leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from alnair.scheduling.elastic.curves import default
from alnair.scheduling.elastic.jobs import Job, Pool, Room
from alnair.scheduling.elastic.leaving import leaving
from alnair.scheduling.elastic.sizing import LastChange, Pace, RoomFor, held_steady, size_all, who_starts

PACE = Pace(stabilization=60, grow_after=10, restart=30, horizon=600)
RUNS = Job("runs", 1, 8, 4, default(8))
WAITS = Job("waits", 2, 4, 0, default(8))


def bounds(last: LastChange | None, *, now: float = 100.0, grows: bool = True) -> tuple[int, int]:
    job = held_steady(RUNS, last, now, PACE, grows=grows)
    return job.low, job.high


def cards(count: int) -> RoomFor:
    def room_for(jobs: Sequence[Job]) -> tuple[Room, Pool | None]:
        pool = Pool(count, (1,) * len(jobs))
        return pool, pool

    return room_for


@pytest.mark.parametrize(
    ("last", "grows", "expected"),
    [
        (None, True, (1, 8)),
        (None, False, (1, 4)),
        (LastChange(50, grew=True), True, (4, 8)),
        (LastChange(50, grew=False), True, (1, 4)),
        (LastChange(40, grew=True), True, (1, 8)),  # just over
        (LastChange(50, grew=True), False, (4, 4)),
    ],
)
def test_a_change_is_not_undone_too_soon(
    last: LastChange | None, grows: bool, expected: tuple[int, int]
) -> None:
    assert bounds(last, grows=grows) == expected


def test_a_limit_that_the_job_has_already_is_kept() -> None:
    job = held_steady(replace(RUNS, floor=3, ceiling=3), LastChange(90, grew=True), 100, PACE, grows=True)
    assert (job.low, job.high) == (4, 4)
    job = held_steady(replace(RUNS, floor=3, ceiling=6), None, 100, PACE, grows=False)
    assert (job.low, job.high) == (3, 4)


def test_a_change_costs_the_work_that_is_not_done_meanwhile() -> None:
    assert held_steady(RUNS, None, 0, PACE, grows=True).change_cost == pytest.approx(
        RUNS.curve.at(4) * 30 / 600
    )


def test_who_waits_starts_in_order_and_nobody_overtakes() -> None:
    large, small = replace(WAITS, key="large", least=6, most=6), replace(WAITS, key="small", least=1, most=1)
    room_for = cards(6)
    assert [job.key for job in who_starts([RUNS], [small, WAITS, large], room_for)] == ["small", "waits"]
    assert who_starts([RUNS], [large, small], room_for) == []


def test_a_job_gives_way_only_as_far_as_its_limits_of_the_moment_allow() -> None:
    steady = held_steady(RUNS, LastChange(90, grew=True), 100, PACE, grows=False)
    assert who_starts([steady], [WAITS], cards(5)) == []
    assert len(who_starts([RUNS], [WAITS], cards(5))) == 1


def test_running_and_starting_jobs_are_sized_together() -> None:
    room_for = cards(6)
    jobs = [RUNS, *who_starts([RUNS], [WAITS], room_for)]
    assert sum(size_all(jobs, room_for).sizes) == 6


def test_members_that_stand_alone_leave_first_and_the_last_named_of_equals() -> None:
    members = {"m0": "a", "m1": "a", "m2": "b", "m3": "a", "m4": "c", "m5": "c"}
    assert leaving(members, 4) == ["m2", "m5", "m4", "m3"]
    assert leaving(members, 0) == []
