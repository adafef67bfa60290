"""What will be left of cards and nodes: against the formulas in plain loops, and what must hold of any mix."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alnair.scheduling.plugins.leftovers import CARD_AHEAD, CPU_STEPS, GPU_STEP, NODE_AHEAD, Stranding, waste

CORE = 1_000
STEP = 64 * CORE // CPU_STEPS  # of a node with 64 cores

mixes = st.lists(
    st.tuples(st.sampled_from([0.25, 0.5, 1.0, 2.0]), st.integers(0, 24), st.integers(1, 9)),
    min_size=1,
    max_size=4,
    unique_by=lambda kind: kind[:2],
)


def stranding(
    kinds: list[tuple[float, int, int]], alone: tuple[tuple[int, int], ...] = (), burden: float = 0.0
) -> Stranding:
    """Cpu in cores."""
    return Stranding(
        [(gpu, cores * CORE, count) for gpu, cores, count in kinds],
        [(cores * CORE, count) for cores, count in alone],
        burden=burden,
        most_gpu=4,
        most_cpu=64 * CORE,
    )


def at(table: Stranding, gpu: float, cores: float) -> float:
    return float(table.stranded(np.array([gpu]), np.array([cores * CORE]))[0])


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.integers(1, 999), st.integers(1, 50), min_size=1, max_size=4), st.integers(0, 1000))
def test_waste_is_what_is_left_of_a_card_when_many_slices_have_come(
    counts: dict[int, int], free: int
) -> None:
    total = sum(counts.values())

    @cache
    def plain(left: int, ahead: int) -> float:
        if ahead == 0:
            return left / 1000
        stays = plain(left, ahead - 1)
        return sum(
            count / total * (min(stays, plain(left - size, ahead - 1)) if size <= left else stays)
            for size, count in counts.items()
        )

    assert math.isclose(waste(sorted(counts.items()))[free], plain(free, CARD_AHEAD), abs_tol=1e-9)


def test_nothing_known_wastes_all_that_is_free_of_a_card_in_use() -> None:
    assert waste([])[250] == 0.25


@settings(max_examples=15, deadline=None)
@given(
    mixes, st.sampled_from([(), ((8, 3),), ((5, 1), (30, 2))]), st.integers(0, 16), st.integers(0, CPU_STEPS)
)
def test_stranded_is_what_is_left_of_a_node_beyond_what_plenty_of_cpu_would_leave(
    kinds: list[tuple[float, int, int]], alone: tuple[tuple[int, int], ...], gpu: int, cpu: int
) -> None:
    total, burden = sum(count for *_, count in kinds), 0.1

    @cache
    def plain(gpu: int, cpu: int, ahead: int) -> float:
        """In steps."""
        return gpu * GPU_STEP if ahead == 0 else put_up(gpu, cpu, ahead)

    @cache
    def put_up(gpu: int, cpu: int, ahead: int) -> float:
        left = taken(gpu, cpu, ahead)
        burdens = [(cores * CORE // STEP, burden * count / total) for cores, count in alone]
        return left + sum(
            chance * (taken(gpu, cpu - asked, ahead) - left) for asked, chance in burdens if asked <= cpu
        )

    @cache
    def taken(gpu: int, cpu: int, ahead: int) -> float:
        stays, mean = plain(gpu, cpu, ahead - 1), 0.0
        for wanted, cores, count in kinds:
            less, asked = round(wanted / GPU_STEP), cores * CORE // STEP
            fits = less <= gpu and asked <= cpu
            mean += count / total * (min(stays, plain(gpu - less, cpu - asked, ahead - 1)) if fits else stays)
        return mean

    expected = max(plain(gpu, cpu, NODE_AHEAD) - plain(gpu, CPU_STEPS, NODE_AHEAD), 0.0)
    found = at(stranding(kinds, alone, burden), gpu * GPU_STEP, cpu * STEP / CORE)
    assert math.isclose(found, expected, abs_tol=1e-9)


@settings(max_examples=50, deadline=None)
@given(mixes, st.floats(0, 4), st.floats(0, 64), st.floats(0, 16))
def test_more_cpu_never_strands_more_and_never_more_than_there_is(
    kinds: list[tuple[float, int, int]], gpu: float, cores: float, more: float
) -> None:
    table = stranding(kinds)
    there = at(table, gpu, cores)
    assert 0.0 <= there <= gpu + 1e-9
    assert at(table, gpu, cores + more) <= there + 1e-9


def test_without_cpu_all_of_it_is_stranded_and_with_plenty_nothing() -> None:
    table = stranding([(1.0, 8, 1)])
    assert at(table, 3.0, 0) == pytest.approx(3.0)
    assert at(table, 3.0, 64) == 0.0
    assert at(table, 3.0, 500) == 0.0  # more than the largest node is as much as it has
    assert at(table, -1.0, -5) == 0.0  # nobody's mistake in the books makes it fall over


def test_pods_that_ask_for_no_cpu_strand_nothing_where_there_is_a_core() -> None:
    assert at(stranding([(1.0, 0, 1)]), 4.0, 1) == 0.0


def test_between_the_steps_it_is_in_proportion() -> None:
    table = stranding([(1.0, 8, 3), (0.5, 2, 1)])
    low, high = at(table, 2.0, 8), at(table, 2.0, 8 + STEP / CORE)
    assert at(table, 2.0, 8 + STEP / CORE / 4) == pytest.approx(low + (high - low) / 4)


def test_a_burden_makes_cpu_worth_more() -> None:
    kinds = [(1.0, 8, 1)]
    assert at(stranding(kinds, ((8, 5),), 0.2), 2.0, 16) > at(stranding(kinds, ((8, 5),), 0.0), 2.0, 16)


def test_nobody_came_yet_and_nothing_is_known() -> None:
    assert at(stranding([]), 2.0, 0) == 0.0
