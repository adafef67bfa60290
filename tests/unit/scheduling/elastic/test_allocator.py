"""The allocator: against every combination of sizes on small cases, and by cases that can be told in a sentence."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from alnair.scheduling.elastic.allocator import Allocation, Job, Pool, Room, allocate, objective
from alnair.scheduling.elastic.curves import LINEAR, default, from_points
from unit.scheduling.elastic.rooms import Nodes, drawn_job, drawn_room

CASES, SEEDS = 2000, 20
CURVE = default(32)


def brute_force(jobs: Sequence[Job], room: Room) -> float | None:
    """The best objective of all, or None if nothing fits."""
    fitting = (sizes for sizes in itertools.product(*(job.sizes() for job in jobs)) if room.fits(sizes))
    return max((objective(jobs, sizes) for sizes in fitting), default=None)


def must_hold(jobs: Sequence[Job], room: Room, found: Allocation) -> None:
    assert room.fits(found.sizes)
    assert found.objective == pytest.approx(objective(jobs, found.sizes))
    for job, size in zip(jobs, found.sizes, strict=True):
        assert size in job.sizes()
        assert job.least <= size <= job.most or (size == 0 and job.has == 0 and not job.starts)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_better_on_two_thousand_small_cases(seed: int) -> None:
    chance = random.Random(f"small {seed}")
    for _ in range(CASES // SEEDS):
        jobs = [drawn_job(chance, f"j{number}") for number in range(chance.randint(1, 4))]
        room, pool = drawn_room(chance, jobs)
        best, found = brute_force(jobs, room), allocate(jobs, room, pool=pool)
        if best is None:
            assert not found.fits
            assert found.sizes == tuple(job.has for job in jobs)
            continue
        must_hold(jobs, room, found)
        assert found.exact
        assert found.objective == pytest.approx(best)


@pytest.mark.parametrize("seed", range(10))
def test_few_looks_give_sizes_that_fit_and_are_worth_no_less_than_the_present(seed: int) -> None:
    chance = random.Random(f"few {seed}")
    for looks in (3, 5, 20):
        jobs = [drawn_job(chance, f"j{number}") for number in range(12)]
        room, _ = drawn_room(chance, jobs)
        found = allocate(jobs, room, most_looks=looks)
        assert found.looks <= looks
        if not found.fits:
            assert not room.fits([job.smallest for job in jobs])
            continue
        must_hold(jobs, room, found)
        if room.fits(present := [job.present for job in jobs]):
            assert found.objective >= objective(jobs, present) - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_climbing_is_near_the_best_where_branch_and_bound_is_cut_short(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alnair.scheduling.elastic.allocator.MOST_BRANCHES", 0)
    chance = random.Random(f"climb {seed}")
    worst = 1.0
    for _ in range(40):
        jobs = [replace(drawn_job(chance, f"j{number}"), change_cost=0.0) for number in range(4)]
        room, _ = drawn_room(chance, jobs)
        best = brute_force(jobs, room)
        if best:
            worst = min(worst, allocate(jobs, room).objective / best)
    assert worst > 0.8


def test_two_hundred_jobs_share_two_thousand_cards_by_counting_in_one_look() -> None:
    chance = random.Random(7)
    jobs = [
        Job(
            f"j{n}",
            least := chance.randint(1, 8),
            least * 4,
            chance.choice([0, least]),
            default(32),
            change_cost=0.2,
        )
        for n in range(200)
    ]
    found = allocate(jobs, Pool(2000, (1,) * 200))
    assert found.exact
    assert found.looks <= 2
    assert sum(found.sizes) == 2000


def job(key: str, least: int, most: int, has: int = 0, **more: object) -> Job:
    return Job(key, least, most, has, CURVE, **more)  # type: ignore[arg-type]


def sizes(*jobs: Job, cards: int, each: int = 1) -> tuple[int, ...]:
    return allocate(jobs, Pool(cards, (each,) * len(jobs))).sizes


def test_it_starts_with_what_is_free() -> None:
    assert sizes(job("a", 2, 5), cards=4) == (4,)


def test_it_does_not_start_below_its_least() -> None:
    assert sizes(job("a", 2, 5), cards=1) == (0,)


def test_equal_jobs_get_equal_parts() -> None:
    assert sizes(job("a", 1, 8, 2), job("b", 1, 8, 2), cards=8) == (4, 4)


def test_a_weight_draws_members() -> None:
    heavy, light = sizes(job("a", 1, 8, 4, weight=3.0), job("b", 1, 8, 4), cards=8)
    assert heavy > light


def test_a_flat_curve_draws_none() -> None:
    flat = Job("flat", 1, 8, 1, from_points([(2, 1.0)]))
    assert allocate([flat], Pool(8, (1,))).sizes == (1,)


def test_a_running_job_stays_where_the_change_costs_more_than_it_gains() -> None:
    assert sizes(job("a", 1, 8, 4, change_cost=10.0), cards=8) == (4,)
    assert sizes(job("a", 1, 8, 4, change_cost=0.1), cards=8) == (8,)


def test_whose_turn_it_is_starts_though_others_would_gain_more() -> None:
    running = Job("fast", 1, 4, 4, LINEAR)
    slow = Job("slow", 2, 2, 0, from_points([(2, 1.0)]))
    assert sizes(running, slow, cards=4) == (4, 0)
    assert sizes(running, replace(slow, starts=True), cards=4) == (2, 2)


def test_nobody_is_shrunk_for_a_job_that_would_not_fit_by_it_either() -> None:
    found = allocate([job("a", 3, 4, 4), job("b", 2, 2, 0, starts=True)], Pool(4, (1, 1)))
    assert not found.fits
    assert found.sizes == (4, 0)


def test_a_floor_keeps_members_and_a_ceiling_keeps_them_out() -> None:
    assert sizes(job("a", 1, 8, 4, floor=4), job("b", 1, 8, starts=True), cards=5) == (4, 1)
    assert sizes(job("a", 1, 8, 4, ceiling=4), cards=8) == (4,)
    assert sizes(job("a", 1, 8, 4, floor=5, ceiling=3), cards=8) == (5,)


def test_what_counting_promises_and_the_nodes_do_not_hold_is_not_given() -> None:
    jobs = [job("a", 1, 4), job("b", 1, 4)]
    nodes = Nodes((3, 3), (2, 2))  # six cards, but one member on each node
    found = allocate(jobs, nodes, pool=nodes.pool())
    assert (sorted(found.sizes), found.exact) == ([1, 1], True)


@pytest.mark.parametrize("bounds", [(0, 1), (3, 2), (-1, 4)])
def test_bounds_that_make_no_sense_are_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not 1 <= least"):
        Job("a", *bounds, 0, CURVE)
