"""Potential: places by what will be wasted, learned from arrivals; and what it learns from."""

from __future__ import annotations

import numpy as np
import pytest

from alnair.scheduling.mix import HALF_LIFE, MOST_KINDS, Habits, Kind, Mix
from alnair.scheduling.plugins.potential import BURDEN, Potential, Prospect, Supply, burden, supply_of
from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.policies import POLICIES, Policy
from alnair.simulate.trace import Job, Machine, Trace
from alnair.state.shapes import PodClass

SUPPLY = Supply(cpu=800_000, cards=40, card_mib=1000, most_cpu=64_000, most_cards=4)


def slice_(gpu: int, cpu: int = 1_000) -> Job:
    return Job(f"slice-{gpu}", cpu, 1, 1, gpu)


def supply(*, cpu: int, cards: int) -> Supply:
    return Supply(cpu, cards, card_mib=1000, most_cpu=cpu, most_cards=cards)


def habits(*jobs: Job) -> Habits:
    mix = Mix()
    for job in jobs:
        mix.note(job.shape)
    return mix.habits()


def filled(machines: list[Machine], *jobs: Job) -> SimulatedCluster:
    """One job after another, each on the first node that takes it and there on the fullest card."""
    cluster = SimulatedCluster(machines, Policy(POLICIES["packing"], Trace(tuple(machines), jobs), 1))
    for number, job in enumerate(jobs):
        assert cluster.start(Job(f"{number}", job.cpu, job.memory_mib, job.cards, job.gpu))
    return cluster


def best(scorer: Prospect, cluster: SimulatedCluster, job: Job) -> str:
    draft = cluster.state.draft()
    scores = np.where(draft.exists, scorer.score(PodClass(job.shape), draft), -1.0)
    return draft.names[int(scores.argmax())]


def test_a_slice_goes_where_it_fills_a_gap_that_nothing_else_would_fill() -> None:
    scorer = Prospect(habits(*[slice_(500)] * 9, slice_(300)), SUPPLY)
    machines = [Machine("open", 64_000, 1024, 1), Machine("gap", 64_000, 1024, 1)]
    cluster = filled(machines, slice_(500), slice_(700))
    assert best(scorer, cluster, slice_(300)) == "gap"  # 300 free: only a 300 fits; 500 free waits for a 500
    assert best(scorer, cluster, slice_(500)) == "open"


def test_an_idle_card_is_opened_last() -> None:
    scorer = Prospect(habits(*[slice_(300)] * 3), SUPPLY)
    cluster = filled([Machine("used", 64_000, 1024, 1), Machine("idle", 64_000, 1024, 1)], slice_(300))
    assert best(scorer, cluster, slice_(300)) == "used"


def test_cpu_is_not_taken_from_cards_that_will_need_it() -> None:
    machines = [Machine("tight", 8_000, 1024, 2), Machine("wide", 64_000, 1024, 2)]
    cluster = filled(machines)
    scorer = Prospect(habits(Job("whole", 4_000, 1, 1, 1000)), SUPPLY)
    assert best(scorer, cluster, Job("cpu", 6_000, 1)) == "wide"
    assert best(scorer, cluster, Job("heavy", 8_000, 1, 1, 1000)) == "wide"


def test_where_cards_are_taken_cpu_is_free_for_all() -> None:
    machines = [Machine("full", 16_000, 1024, 1), Machine("idle", 16_000, 1024, 1)]
    cluster = filled(machines, Job("whole", 4_000, 1, 1, 1000))
    scorer = Prospect(habits(Job("whole", 12_000, 1, 1, 1000)), SUPPLY)
    assert best(scorer, cluster, Job("cpu", 8_000, 1)) == "full"


def test_pods_without_a_gpu_are_a_burden_where_cpu_is_what_will_run_out() -> None:
    beside, alone = (Kind(10_000, 1, whole=True), 10.0), (Kind(10_000), 10.0)
    mix = Habits((beside, alone))  # 20 cores a card
    assert burden(mix, supply(cpu=40_000 * 10, cards=10)) == 0.0
    assert burden(mix, supply(cpu=20_000 * 10, cards=10)) == pytest.approx(BURDEN)
    assert 0 < burden(mix, supply(cpu=20_500 * 10, cards=10)) < BURDEN
    assert burden(Habits((alone,)), SUPPLY) == 0.0


def test_where_light_and_heavy_pods_come_a_light_one_spares_the_node_that_a_heavy_one_fits() -> None:
    # 8 cores a card are left on either node, the average of what is asked for; on "one" only light pods could follow.
    light, heavy = Job("light", 2_000, 1, 1, 1000), Job("heavy", 14_000, 1, 1, 1000)
    scorer = Prospect(habits(*[light, heavy] * 20), SUPPLY)
    cluster = filled([Machine("one", 8_000, 1024, 1), Machine("two", 16_000, 1024, 2)])
    assert best(scorer, cluster, light) == "one"


def test_what_the_cluster_has_is_counted_where_it_is_of_use() -> None:
    machines = [
        Machine("cards", 32_000, 1024, 4),
        Machine("small", 8_000, 1024, 1),
        Machine("none", 96_000, 1024, 0),
    ]
    found = supply_of(filled(machines).state.draft())
    assert found == Supply(cpu=136_000, cards=5, card_mib=1000, most_cpu=32_000, most_cards=4)


def test_nothing_is_asked_of_a_cluster_without_cards_or_nodes() -> None:
    for machines in ([], [Machine("none", 8_000, 1024, 0)]):
        rule = Potential()
        rule.arrived(PodClass(slice_(300).shape))
        draft = filled(machines).state.draft()
        assert np.isfinite(rule.score(PodClass(Job("cpu", 1_000, 1).shape), draft)).all()


@pytest.mark.parametrize(
    "asked", [slice_(300), slice_(810), Job("two", 1_000, 1, 2, 1000), Job("cpu", 1_000, 1)]
)
def test_the_score_of_a_node_is_the_same_whichever_others_are_looked_at(asked: Job) -> None:
    machines = [Machine(f"n{number}", 9_000 * (number + 1), 1024, 1 + number % 4) for number in range(8)]
    cluster = filled(machines, slice_(500), slice_(700), Job("whole", 2_000, 1, 1, 1000), slice_(460))
    scorer = Prospect(habits(slice_(500), slice_(460), asked), SUPPLY)
    draft, pod = cluster.state.draft(), PodClass(asked.shape)
    scores = scorer.score(pod, draft)
    assert ((scores >= 0) & (scores <= 1)).all()
    for row in range(len(machines)):
        assert scorer.score(pod, draft.only(row))[0] == scores[row]
    rows = np.array([5, 2, 7])
    assert scorer.score(pod, draft.at(rows)).tolist() == scores[rows].tolist()


def test_the_picker_takes_the_card_that_the_score_spoke_of() -> None:
    rule = Potential()
    for job in (*[slice_(500)] * 9, slice_(300)):
        rule.arrived(PodClass(job.shape))
    cluster = filled([Machine("n", 64_000, 1024, 3)], slice_(500), slice_(700))
    asking = PodClass(slice_(300).shape)
    demand = asking.shape.gpu.demands[0]
    keys = rule.keys(asking, demand, cluster.state.draft(), 0, np.array([0, 1, 2]))
    assert cluster.state.card_free_memory[0, int(keys.argmin())] == 300  # which no 500 will ever fill


def test_a_pod_without_a_gpu_keeps_off_nodes_with_cards_while_others_will_do() -> None:
    cluster = filled([Machine("cards", 64_000, 1024, 1), Machine("none", 8_000, 1024, 0)])
    assert best(Prospect(habits(slice_(500)), SUPPLY), cluster, Job("cpu", 1_000, 1)) == "none"


# -- the mix -------------------------------------------------------------------------------------------------------


def test_the_same_arrivals_teach_the_same() -> None:
    jobs = [slice_(100 + 7 * number % 800) for number in range(500)]
    assert habits(*jobs) == habits(*jobs)


def test_old_habits_fade() -> None:
    mix = Mix()
    for _ in range(HALF_LIFE):
        mix.note(slice_(100).shape)
    for _ in range(4 * HALF_LIFE):
        mix.note(slice_(900).shape)
    known = {kind.mib: count for kind, count in mix.habits().kinds}
    assert known[100] < known[900] / 6
    assert sum(known.values()) < 2 * HALF_LIFE


def test_it_remembers_no_more_kinds_than_it_says() -> None:
    mix = Mix()
    for number in range(3 * MOST_KINDS):
        mix.note(Job("", number + 1, 1, 1, 500).shape)
    assert len(mix.habits().kinds) == MOST_KINDS


def test_it_says_when_to_look_anew_often_at_first_and_then_seldom() -> None:
    mix = Mix()
    renewed = [number for number in range(10_000) if mix.note(slice_(300).shape)]
    assert renewed[:6] == [0, 1, 2, 3, 5, 8]
    assert len(renewed) < 30
