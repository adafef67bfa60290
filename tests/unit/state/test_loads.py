"""How busy cards are: since when that is known, how it is forgotten, and that nobody is woken for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.api import names
from alnair.state.loads import STEPS, Decay
from alnair.state.readings import BANDWIDTH, COMPUTE, CPU, IO, MEMORY
from harness.builders import node
from unit.builders import GIB, Cluster, as_node, card, holds, part
from unit.readings import of_cards, of_node, reading, tell

DECAY = Decay()
BUSY = of_cards(reading(compute=90, bandwidth=60, memory=12))
WALL = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def one_card(name: str = "n") -> Cluster:
    return Cluster(node(name).with_cards(1))


def weight(cluster: Cluster, name: str = "n", index: int = 0) -> float:
    return float(cluster.state.draft().load.card_weights[cluster.row(name), index, COMPUTE])


def test_loads_stand_in_the_draft_card_by_card_and_node_by_node() -> None:
    cluster = Cluster(node("a").with_cards(2), node("b").with_cards(1))
    tell(cluster, "b", of_cards(reading(compute=90, bandwidth=60, memory=12), node=of_node(40, 5)))
    draft, row = cluster.state.draft(), cluster.row("b")
    assert draft.load.cards[row, 0].tolist() == [0.9, 0.6, 0.5]
    assert draft.load.card_weights[row, 0].tolist() == [1, 1, 1]
    assert draft.load.nodes[row].tolist() == [0.4, 0.05]
    assert draft.load.node_weights[row].tolist() == [1, 1]
    assert not draft.load.card_weights[cluster.row("a")].any()  # nobody tells of the other node
    assert not draft.load.card_weights[row, 1].any()  # nor of a card that it does not have


def test_what_is_not_told_or_cannot_be_read_has_no_weight_and_what_can_does() -> None:
    cluster = one_card()
    tell(cluster, "n", of_cards("{'max_gpu_util': 90, 'max_mem_bw_util': 'NaN'}", node="{'io_util': 7}"))
    load, row = cluster.state.draft().load, cluster.row("n")
    assert load.card_weights[row, 0, [COMPUTE, BANDWIDTH, MEMORY]].tolist() == [1, 0, 0]
    assert load.node_weights[row, [CPU, IO]].tolist() == [0, 1]
    (problem,) = cluster.state.loads.problems("n")
    assert f"{names.PREFIX}gpu-0: max_mem_bw_util" in problem


def test_a_reading_is_of_the_card_that_the_driver_counts_so_wherever_it_stands() -> None:
    cluster = Cluster(node("n").with_cards(1, model="T4").with_cards(1, model="A10"))
    tell(cluster, "n", of_cards(None, reading(compute=90), reading(compute=50)))
    assert cluster.state.draft().load.cards[cluster.row("n"), :, COMPUTE].tolist() == [0.0, 0.9]


def test_cards_that_come_after_their_readings_find_them() -> None:
    cluster = Cluster(node("n"))
    tell(cluster, "n", BUSY)
    cluster.add(node("n").with_cards(1))
    assert weight(cluster) == 1


# -- when it was read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        pytest.param(0, 1.0, id="just read"),
        pytest.param(60, 1.0, id="two periods: still fresh"),
        pytest.param(120, 0.5, id="a half-life later"),
        pytest.param(180, 0.25, id="two half-lives"),
        pytest.param(299, 0.125, id="the last step"),
        pytest.param(300, 0.0, id="ten periods: forgotten"),
        pytest.param(1e9, 0.0, id="for ever"),
    ],
)
def test_a_reading_counts_in_full_then_less_and_less_then_not_at_all(age: float, expected: float) -> None:
    cluster = one_card()
    tell(cluster, "n", BUSY, now=1000)
    cluster.state.loads.pass_time(1000 + age)
    assert weight(cluster) == expected


def test_another_idea_of_old_holds_at_once() -> None:
    cluster = one_card()
    tell(cluster, "n", BUSY, now=0)
    cluster.state.loads.pass_time(50)
    cluster.state.loads.adopt(Decay(10, 10, 40))
    assert weight(cluster) == 0
    cluster.state.loads.adopt(Decay(50, 10, 60))
    assert weight(cluster) == 1


@given(st.lists(st.floats(0, 1000), min_size=2), st.floats(1, 100), st.floats(1, 100), st.floats(101, 1000))
def test_a_weight_only_falls_in_a_few_steps(
    ages: list[float], fresh: float, half_life: float, forgotten: float
) -> None:
    weights = Decay(fresh, half_life, forgotten).weights(np.array(sorted([*ages, fresh, forgotten])))
    assert (np.diff(weights) <= 0).all()
    assert set(weights.tolist()) <= {step / STEPS for step in range(STEPS + 1)}
    assert weights[0] == 1
    assert weights[-1] == 0


def test_text_that_stays_the_same_grows_old_whatever_else_changes_on_the_node() -> None:
    cluster = one_card()
    tell(cluster, "n", BUSY, now=0)
    cluster.state.put_node(as_node(node("n").with_cards(1).labelled(rack="r2").manifest()))
    tell(cluster, "n", {**BUSY, "somebody.else/says": "something"}, now=119)
    cluster.state.loads.pass_time(120)
    assert weight(cluster) == 0.5


def test_text_that_changes_is_fresh_and_so_are_the_other_cards_that_the_same_profiler_reads() -> None:
    cluster = Cluster(node("n").with_cards(2))
    tell(cluster, "n", of_cards(reading(compute=90), reading(compute=10)), now=0)
    cluster.state.loads.pass_time(200)
    assert weight(cluster) < 1
    tell(cluster, "n", of_cards(reading(compute=90), reading(compute=11)), now=200)
    assert [weight(cluster, index=index) for index in (0, 1)] == [1, 1]


def test_a_reading_that_says_when_it_was_made_is_as_old_as_it_says() -> None:
    cluster = one_card()
    tell(cluster, "n", of_cards(reading(compute=90, time=WALL - 120)), now=5000, wall=WALL)
    assert weight(cluster) == 0.5


def test_a_clock_that_runs_ahead_makes_no_reading_live_longer() -> None:
    cluster = one_card()
    tell(cluster, "n", of_cards(reading(compute=90, time=WALL + 3600)), now=5000, wall=WALL)
    cluster.state.loads.pass_time(5000 + 120)
    assert weight(cluster) == 0.5


def written(key: str, stamp: str) -> dict[str, Any]:
    return {
        "manager": "OpenAPI-Generator",
        "operation": "Update",
        "time": stamp,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{names.PREFIX}{key}": {}}}},
    }


@pytest.mark.parametrize(
    ("managed", "expected"),
    [
        pytest.param([written("gpu-0", "2025-12-31T23:58:00Z")], 0.5, id="written two minutes ago"),
        pytest.param(
            [written("gpu-0", "2025-12-31T20:00:00Z"), written("gpu-static", "2026-01-01T00:00:00Z")],
            0.0,
            id="what others wrote since does not renew it",
        ),
        pytest.param([], 1.0, id="nobody knows: as if just read"),
        pytest.param([written("gpu-0", "yesterday")], 1.0, id="not a time: as if just read"),
        pytest.param([{"time": 7}], 1.0, id="not what the apiserver writes: as if just read"),
        pytest.param([written("gpu-0", "2026-01-02T00:00:00Z")], 1.0, id="tomorrow"),
    ],
)
def test_a_reading_that_was_there_before_us_is_as_old_as_the_apiserver_says(
    managed: list[dict[str, Any]], expected: float
) -> None:
    cluster = one_card()
    tell(cluster, "n", BUSY, now=5000, wall=WALL, managed=managed)
    assert weight(cluster) == expected


def test_what_the_apiserver_says_is_asked_only_of_nodes_that_are_new() -> None:
    cluster = one_card()
    old = [written("gpu-0", "2025-12-31T20:00:00Z")]
    tell(cluster, "n", BUSY, now=0, wall=WALL, managed=old)
    tell(cluster, "n", of_cards(reading(compute=91)), now=1, wall=WALL, managed=old)
    assert weight(cluster) == 1


# -- what comes of it --------------------------------------------------------------------------------------------


def test_readings_are_no_change_of_the_books_and_wake_nobody() -> None:
    woken: list[None] = []
    cluster = one_card()
    cluster.state.on_freed = lambda: woken.append(None)
    before = (cluster.state.version, cluster.state.freed, cluster.state.arrived)
    tell(cluster, "n", BUSY)
    cluster.state.loads.pass_time(150)
    tell(cluster, "n", {}, now=200)
    assert (cluster.state.version, cluster.state.freed, cluster.state.arrived) == before
    assert not woken


def test_only_nodes_whose_readings_changed_or_grew_old_are_rated_anew() -> None:
    cluster = Cluster(*(node(name).with_cards(1) for name in "abc"))
    tell(cluster, "a", BUSY, now=0)
    tell(cluster, "b", BUSY, now=100)
    version = cluster.state.draft().load.version
    cluster.state.loads.pass_time(120)
    load = cluster.state.draft().load
    assert np.flatnonzero(load.changed_at > version).tolist() == [cluster.row("a")]
    cluster.state.loads.pass_time(121)
    assert cluster.state.draft().load.version == load.version  # it is still at the same step


def test_a_node_that_is_read_no_more_is_rated_a_few_times_in_all() -> None:
    cluster = one_card()
    tell(cluster, "n", BUSY, now=0)
    version = cluster.state.loads.version
    for second in range(1000):
        cluster.state.loads.pass_time(second)
    assert cluster.state.loads.version - version <= STEPS


def test_readings_that_are_taken_away_are_gone() -> None:
    cluster = one_card()
    tell(cluster, "n", BUSY)
    tell(cluster, "n", {})
    assert weight(cluster) == 0


def test_a_node_that_leaves_takes_its_readings_along() -> None:
    cluster = one_card("old")
    tell(cluster, "old", BUSY)
    cluster.state.drop_node("old")
    cluster.add(node("new").with_cards(1))
    assert cluster.row("new") == 0  # the same row
    assert weight(cluster, "new") == 0
    assert not cluster.state.loads.problems("old")


def test_what_is_free_when_a_card_is_read_is_remembered() -> None:
    cluster = one_card()
    tell(cluster, "n", BUSY)
    cluster.state.hold("u", holds("n", part("n", 0, 6 * GIB, 25)))
    draft, row = cluster.state.draft(), cluster.row("n")
    since = draft.load.free_memory[row, 0] - draft.card_free_memory[row, 0]
    assert (since, draft.load.free_compute[row, 0] - draft.card_free_compute[row, 0]) == (6 * GIB, 25)


def test_the_books_grow_and_readings_stay() -> None:
    cluster = one_card("first")
    tell(cluster, "first", BUSY)
    for number in range(40):
        cluster.add(node(f"n{number}").with_cards(8))
    assert weight(cluster, "first") == 1
    assert cluster.state.draft().load.cards.shape == (*cluster.state.draft().card_memory.shape, 3)


ANNOTATIONS = st.dictionaries(
    st.sampled_from([*(f"{names.PREFIX}gpu-{index}" for index in (0, 1, 99)), names.NODE_READING]),
    st.one_of(st.text(), st.sampled_from([reading(compute=90), of_node(40), "{'max_gpu_util': NaN}"])),
)


@given(st.lists(st.tuples(ANNOTATIONS, st.floats(0, 400)), max_size=6))
def test_whatever_is_written_on_a_node_no_load_is_nan_and_no_card_grows(
    told: list[tuple[dict[str, str], float]],
) -> None:
    cluster = Cluster(node("n").with_cards(2))
    before = cluster.cards("n")
    now = 0.0
    for texts, later in told:
        now += later
        tell(cluster, "n", texts, now=now)
        cluster.state.loads.pass_time(now)
        load = cluster.state.draft().load
        for array in (load.cards, load.card_weights, load.nodes, load.node_weights):
            assert ((array >= 0) & (array <= 1)).all()
    assert cluster.cards("n") == before
    assert [each.id for each in cluster.state.inventories["n"].cards] == [card("n", 0), card("n", 1)]
