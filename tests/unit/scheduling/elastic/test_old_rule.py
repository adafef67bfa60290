"""The old rule: what it does, and one test for each fault of the original that it must not have."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from alnair.scheduling.elastic.allocator import Job, Pool, allocate
from alnair.scheduling.elastic.curves import default
from alnair.scheduling.elastic.old_rule import allocate_by_old_rule
from unit.scheduling.elastic.rooms import Quotas, drawn_job, drawn_room

CURVE = default(16)


def job(key: str, least: int, most: int, has: int = 0) -> Job:
    return Job(key, least, most, has, CURVE)


def sizes(*jobs: Job, cards: int) -> tuple[int, ...]:
    return allocate_by_old_rule(jobs, Pool(cards, (1,) * len(jobs))).sizes


def test_it_gives_the_most_if_that_is_free_else_what_is_free_else_it_shrinks_the_largest_surplus() -> None:
    assert sizes(job("a", 2, 4), cards=9) == (4,)
    assert sizes(job("a", 2, 4), cards=3) == (3,)
    assert sizes(job("a", 1, 8, 3), job("b", 1, 8, 5), job("c", 2, 4), cards=8) == (3, 3, 2)


def test_fault_one_namespace_is_not_counted_against_the_whole_cluster() -> None:
    """The original saw 8 cards in all and none in use in its own namespace, and gave 4 that were taken."""
    elsewhere, here = job("elsewhere/a", 6, 6, 6), job("here/b", 1, 4)
    assert sizes(elsewhere, here, cards=8) == (6, 2)


def test_fault_nobody_exceeds_its_most() -> None:
    assert sizes(job("a", 1, 3), cards=100) == (3,)


def test_fault_nobody_is_shrunk_in_vain() -> None:
    assert sizes(job("a", 2, 4, 4), job("b", 3, 3), cards=4) == (4, 0)
    # Two may shrink, and a limit of another kind still keeps the third out.
    jobs = [job("a", 1, 4, 4), job("b", 1, 4, 4), job("c", 2, 2)]
    limited = Quotas(Pool(8, (1, 1, 1)), jobs=(2,), limit=1)
    assert allocate_by_old_rule(jobs, limited).sizes == (4, 4, 0)


def test_fault_no_more_is_taken_from_others_than_is_needed() -> None:
    assert sizes(job("a", 1, 8, 8), job("b", 2, 8), cards=8) == (6, 2)


def test_known_limit_a_job_never_grows_again_and_ours_grows_it() -> None:
    small = job("a", 1, 8, 2)
    assert sizes(small, cards=8) == (2,)
    assert allocate([small], Pool(8, (1,))).sizes == (8,)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_comes_sizes_fit_and_keep_their_bounds(seed: int) -> None:
    chance = random.Random(f"old {seed}")
    for _ in range(50):
        jobs = [replace(drawn_job(chance, f"j{n}"), floor=None, ceiling=None) for n in range(4)]
        room, _ = drawn_room(chance, jobs)
        found = allocate_by_old_rule(jobs, room)
        if not found.fits:
            assert found.sizes == tuple(each.has for each in jobs)
            continue
        assert room.fits(found.sizes)
        for each, size in zip(jobs, found.sizes, strict=True):
            assert each.least <= size <= each.most or each.has == size == 0
            assert not each.has or size <= each.has
