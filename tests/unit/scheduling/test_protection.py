"""Protection: places for large requests are kept, as many as will be needed, and refused to nobody."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alnair.scheduling.classes import Member
from alnair.scheduling.plugins.protection import EVERY, MOST_KINDS, Protection, exceeded
from alnair.scheduling.profile import Profile, build
from alnair.scheduling.search import Gang, Plan, place
from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.policies import POLICIES, Policy
from alnair.simulate.trace import Job, Machine, Trace
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

EIGHT = Job("eight", 64_000, 1, 8, 1000)
ONE = Job("one", 4_000, 1, 1, 1000)
DEAR = 0.6  # a score below this: the place is more likely to be missed than not, or nearly so
SLICE = Job("slice", 4_000, 1, 1, 300)
CPU = Job("cpu", 40_000, 1)


def big(name: str, model: str = "") -> Machine:
    return Machine(name, 96_000, 1024, 8, model)


def taught(*jobs: Job) -> Protection:
    rule = Protection()
    for job in jobs:
        rule.arrived(PodClass(job.shape))
    return rule


def cluster(*machines: Machine) -> SimulatedCluster:
    return SimulatedCluster(machines, Policy(POLICIES["packing"], Trace(machines, (ONE,)), 1))


def scores(rule: Protection, draft: Draft, job: Job) -> dict[str, float]:
    pod = PodClass(job.shape)
    if not rule.concerns(pod, draft):
        return {name: 1.0 for name in draft.names if name}
    found = rule.score(pod, draft)
    assert ((found >= 0) & (found <= 1)).all()
    return {name: float(score) for name, score in zip(draft.names, found, strict=True) if name}


@pytest.mark.parametrize("asked", [ONE, SLICE, CPU, EIGHT])
def test_a_place_that_will_be_missed_costs_whoever_spoils_it(asked: Job) -> None:
    draft = cluster(big("idle"), Machine("small", 96_000, 1024, 4)).state.draft()
    found = scores(taught(*[EIGHT, ONE] * 10), draft, asked)
    assert found["idle"] < DEAR
    assert found["small"] == 1.0  # never was a place for eight


def test_a_pod_that_spoils_nothing_costs_nothing() -> None:
    draft = cluster(big("idle")).state.draft()
    assert scores(taught(*[EIGHT, ONE] * 10), draft, Job("tiny", 1_000, 1))["idle"] == 1.0


def test_a_slice_shares_a_card_and_spoils_nothing_then() -> None:
    there = cluster(big("busy"), big("idle"))
    for number in range(5):
        assert there.start(Job(f"{number}", 4_000, 1, 1, 1000))
    assert there.start(Job("shared", 4_000, 1, 1, 500))  # 2 idle cards are left on "busy", and half of one
    rule = taught(*[Job("two", 8_000, 1, 2, 1000)] * 10)
    assert scores(rule, there.state.draft(), SLICE)["busy"] == 1.0
    assert scores(rule, there.state.draft(), SLICE)["idle"] < DEAR
    assert (
        scores(rule, there.state.draft(), Job("large", 4_000, 1, 1, 600))["busy"] < DEAR
    )  # half is too little


def test_where_there_are_many_more_places_than_requests_nothing_is_kept() -> None:
    machines = [big(f"n{number}") for number in range(60)]
    rule = taught(EIGHT, *[ONE] * 400)  # about one in 400 pods; 480 cards are gone after 480 pods
    assert set(scores(rule, cluster(*machines).state.draft(), ONE).values()) == {1.0}


def test_the_fewer_places_are_left_the_more_one_costs() -> None:
    there, costs = cluster(*[big(f"n{number:02}") for number in range(20)]), []
    for number in range(20):
        rule = taught(*[EIGHT] * 10, *[ONE] * 100)
        costs.append(1.0 - min(scores(rule, there.state.draft(), ONE).values()))
        assert there.start(Job(f"{number}", 96_000, 1))  # all the cpu of one node
    assert costs == sorted(costs)
    assert costs[0] < 0.1
    assert costs[-1] > 0.9


def test_who_may_have_one_model_only_has_places_there_only() -> None:
    picky = Job("picky", 64_000, 1, 8, 1000, models=("A100",))
    draft = cluster(big("a", "A100"), big("b", "T4")).state.draft()
    found = scores(taught(*[picky] * 10), draft, ONE)
    assert found["a"] < DEAR
    assert found["b"] == 1.0


def test_a_place_that_went_since_is_no_place_and_its_node_costs_nothing() -> None:
    there = cluster(big("a"), big("b"))
    rule = taught(*[EIGHT, ONE] * 10)
    assert set(scores(rule, there.state.draft(), ONE).values()) != {1.0}
    assert there.start(ONE)
    found = scores(rule, there.state.draft(), ONE)
    assert sorted(found.values())[1] == 1.0
    assert min(found.values()) < DEAR


def test_members_of_a_gang_open_one_node_not_two() -> None:
    profile = build(POLICIES["alnair"])
    for job in [EIGHT, ONE] * 10:
        profile = profile.after(PodClass(job.shape))
    placed = planned(profile, cluster(big("a"), big("b")).state, *[ONE] * 4)
    assert len(set(placed)) == 1


def test_scribbles_are_not_kept() -> None:
    state = cluster(big("a"), big("b")).state
    rule = taught(*[EIGHT, ONE] * 10)
    before = scores(rule, state.draft(), ONE)
    with state.draft() as draft:
        draft.take(0, PodClass(CPU.shape), ())
        assert scores(rule, draft, ONE) != before
    assert scores(rule, state.draft(), ONE) == before


def test_nobody_is_refused_for_the_sake_of_who_may_come() -> None:
    profile = build(POLICIES["alnair"])
    for job in [EIGHT, ONE] * 20:
        profile = profile.after(PodClass(job.shape))
    assert planned(profile, cluster(big("last")).state, ONE) == ["last"]


@pytest.mark.parametrize("asked", [ONE, SLICE, CPU])
def test_the_score_of_a_node_is_the_same_whichever_others_are_looked_at(asked: Job) -> None:
    machines = [Machine(f"n{number}", 20_000 * (number + 1), 1024, 2 * (number % 5)) for number in range(9)]
    draft = cluster(*machines).state.draft()
    rule, pod = taught(*[EIGHT, Job("two", 9_000, 1, 2, 1000)] * 10), PodClass(asked.shape)
    assert rule.concerns(pod, draft)
    all_of_them = rule.score(pod, draft)
    for row in range(len(machines)):
        assert rule.score(pod, draft.only(row))[0] == all_of_them[row]
    rows = np.array([7, 2, 4])
    assert rule.score(pod, draft.at(rows)).tolist() == all_of_them[rows].tolist()


def test_nodes_that_came_since_are_seen_after_some_arrivals() -> None:
    there = cluster(big("a"))
    rule = taught(*[EIGHT, ONE] * 10)
    assert scores(rule, there.state.draft(), ONE)["a"] < DEAR
    there.state.put_node(big("b").node())
    assert scores(rule, there.state.draft(), ONE)["b"] == 1.0
    for _ in range(EVERY):
        rule.arrived(PodClass(EIGHT.shape))
    assert scores(rule, there.state.draft(), ONE)["b"] < DEAR


def test_it_remembers_no_more_kinds_than_it_says() -> None:
    rule = taught(*[Job("", 1_000 + number, 1, 2, 1000) for number in range(3 * MOST_KINDS)])
    assert len(rule._large) == MOST_KINDS


def test_a_cluster_without_cards_concerns_nobody() -> None:
    rule, pod = taught(*[EIGHT] * 10), PodClass(ONE.shape)
    for machines in ((), (Machine("none", 8_000, 1024, 0),)):
        assert not rule.concerns(pod, cluster(*machines).state.draft())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 500), st.floats(0, 500), st.floats(0, 50))
def test_the_chance_falls_with_places_and_grows_with_who_is_to_come(
    places: int, mean: float, ahead: float
) -> None:
    assert 0.0 <= exceeded(places, mean, ahead) <= 1.0
    assert exceeded(places + 1, mean, ahead) <= exceeded(places, mean, ahead)
    if places > mean:
        assert exceeded(places, mean, ahead) <= exceeded(places, mean + (places - mean) / 2, ahead) + 1e-9


def planned(profile: Profile, state: ClusterState, *jobs: Job) -> list[str]:
    members = tuple(Member(f"{number}", f"{number}", PodClass(job.shape)) for number, job in enumerate(jobs))
    with state.draft() as draft:
        found = place(Gang(members, needed=len(members)), profile, draft)
    assert isinstance(found, Plan)
    return [holding.node for _, holding in found.placements]
