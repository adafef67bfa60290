"""The research baselines over arrays say what the paper's formulas say in plain loops, node by node."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from alnair.scheduling.plugins.baselines import KIND, Clustering, DotProduct, Packing, TightestNode, kind_of
from alnair.scheduling.plugins.fragmentation import FGD, Fragmentation, typical
from alnair.scheduling.plugins.interface import Scorer
from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.policies import POLICIES, Policy
from alnair.simulate.trace import Job, Machine, Trace
from alnair.state.shapes import PodClass
from unit.scheduling import published
from unit.scheduling.published import PlainNode

MACHINES = st.builds(
    Machine,
    name=st.just(""),
    cpu=st.sampled_from([8_000, 32_000, 96_000]),
    memory_mib=st.just(1 << 20),
    cards=st.sampled_from([1, 2, 4, 8]),
    model=st.sampled_from(["T4", "G2"]),
)
SLICES = st.builds(lambda gpu: (1, gpu), st.sampled_from([120, 300, 460, 500, 810]))
WHOLE = st.builds(lambda cards: (cards, 1000), st.sampled_from([1, 2, 4, 8]))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    cards, gpu = draw(st.one_of(st.just((0, 0)), SLICES, SLICES, WHOLE))
    models = draw(st.sampled_from([(), (), ("T4",), ("G2", "T4")])) if cards else ()
    cpu = draw(st.sampled_from([1_000, 4_000, 12_000, 31_000]))
    return Job("", cpu=cpu, memory_mib=1024, cards=cards, gpu=gpu, models=models)


@st.composite
def filled(draw: st.DrawFn) -> tuple[SimulatedCluster, tuple[Job, ...]]:
    """A cluster on which some jobs were placed at random, and the jobs of the trace."""
    machines = tuple(
        Machine(f"n{number}", each.cpu, each.memory_mib, each.cards, each.model)
        for number, each in enumerate(draw(st.lists(MACHINES, min_size=1, max_size=5)))
    )
    came = tuple(draw(st.lists(jobs(), min_size=1, max_size=25)))
    trace = Trace(machines, came)
    cluster = SimulatedCluster(machines, Policy(POLICIES["random"], trace, draw(st.integers(0, 99))))
    for number, job in enumerate(came):
        cluster.start(Job(f"j{number}", job.cpu, job.memory_mib, job.cards, job.gpu, job.models))
    return cluster, came


def plain(cluster: SimulatedCluster) -> list[PlainNode]:
    """Every node as the plain loops see it, in the order of rows."""
    draft = cluster.state.draft()
    kinds: dict[str, list[str]] = {}
    for uid, holding in cluster.state.holdings.items():
        kind = kind_of(cluster.state.pods[uid].shape)
        kinds.setdefault(holding.node, []).extend([kind] if kind else [])
    return [
        PlainNode(
            cpu=int(draft.free[row, draft.columns["cpu"]]),
            cards=tuple(int(draft.card_free_memory[row, card]) for card in range(len(draft.card_ids[row]))),
            model=draft.models[draft.card_model[row, 0]],
            kinds=tuple(kinds.get(draft.names[row], ())),
        )
        for row in np.flatnonzero(draft.exists)
    ]


def asking(job: Job) -> PodClass:
    kind = kind_of(job.shape)
    return PodClass(job.shape, namespace="trace", labels={KIND: kind} if kind else {})


def compared(scorer: Scorer, cluster: SimulatedCluster, job: Job) -> list[tuple[PlainNode, int]]:
    """Each node that can take the job, and its score; the same asked of all nodes or of one."""
    draft, pod = cluster.state.draft(), asking(job)
    scores = scorer.score(pod, draft) if scorer.concerns(pod, draft) else np.zeros(len(draft.names))
    found = []
    for row, node in enumerate(plain(cluster)):
        if published.can_run(node, job):
            if scorer.concerns(pod, draft):
                assert scorer.score(pod, draft.only(row))[0] == scores[row]
            found.append((node, round(100 * scores[row])))
    return found


def foreseeing(came: tuple[Job, ...]) -> FGD:
    rule = FGD()
    rule.foresee(each.shape for each in came)
    return rule


@settings(max_examples=120, deadline=None)
@given(filled(), jobs())
def test_fgd_scores_by_the_growth_of_fragmentation(
    world: tuple[SimulatedCluster, tuple[Job, ...]], job: Job
) -> None:
    cluster, came = world
    counts = Counter((each.cpu, each.cards, each.gpu, each.models) for each in came)
    kept, covered = [], 0
    for (cpu, cards, gpu, models), count in sorted(
        counts.items(), key=lambda it: _as_paper(*it), reverse=True
    ):
        if covered >= 0.95 * len(came):
            break
        kept.append((Job("", cpu, 1, cards, gpu, models), count))
        covered += count
    mix = [(each, count / covered) for each, count in kept]
    scorer = foreseeing(came)
    for node, score in compared(scorer, cluster, job):
        assert abs(score - published.fgd(node, job, mix)) <= _on_the_edge(node, job, mix)


def _as_paper(key: tuple[int, int, int, tuple[str, ...]], count: int) -> tuple[object, ...]:
    cpu, cards, gpu, models = key
    return count, cpu, gpu if gpu < 1000 else 1 << 40, cards, models


def _on_the_edge(node: PlainNode, job: Job, mix: list[tuple[Job, float]]) -> int:
    """1 where the score before the cut is a whole number but for rounding: either side of it is right."""
    before = published.fragmentation(node, mix)
    for taken in published.choices(node, job):
        fall = (before - published.fragmentation(published.after(node, job, taken), mix)) / 1000
        exact = 100 / (1 + np.exp(-fall))
        if abs(exact - round(exact)) < 1e-9:
            return 1
    return 0


@settings(max_examples=60, deadline=None)
@given(filled(), jobs().filter(lambda job: job.cards == 1 and job.gpu < 1000))
def test_fgd_picks_the_card_where_fragmentation_grows_least(
    world: tuple[SimulatedCluster, tuple[Job, ...]], job: Job
) -> None:
    cluster, came = world
    rule = foreseeing(came)
    measure = Fragmentation(typical(each.shape for each in came))
    draft = cluster.state.draft()
    for row, node in enumerate(plain(cluster)):
        if not published.can_run(node, job):
            continue
        fitting = np.array([index for index, free in enumerate(node.cards) if free >= job.gpu])
        keys = rule.keys(asking(job), job.shape.gpu.demands[0], draft, row, fitting)
        first = int(fitting[keys.argmin()])
        alone = [index for index in range(len(node.cards)) if index == first]
        best = rule.score(asking(job), draft)[row]
        taken = np.zeros((1, draft.card_memory.shape[1]), dtype=np.bool_)
        taken[0, alone] = True
        got = measure._scores(job.cpu, job.shape.gpu.demands[0], draft, np.array([row]), taken)[0]
        assert got == best


@settings(max_examples=80, deadline=None)
@given(filled(), jobs())
def test_the_simple_ones_score_as_published(
    world: tuple[SimulatedCluster, tuple[Job, ...]], job: Job
) -> None:
    cluster, _ = world
    for node, score in compared(TightestNode(), cluster, job):
        assert score == published.best_fit(node, job)
    for node, score in compared(DotProduct(), cluster, job):
        assert score == published.dot_product(node, job)
    for node, score in compared(Packing(), cluster, job):
        assert score == (published.packing(node, job) if job.cards else 0)
    for node, score in compared(Clustering(), cluster, job):
        assert score == (published.clustering(node, job, kind_of(job.shape)) if job.cards else 0)


def test_fragmentation_is_all_that_is_free_where_nothing_of_the_mix_runs() -> None:
    large = Job("large", cpu=64_000, memory_mib=1, cards=8, gpu=1000)
    trace = Trace((Machine("small", 8_000, 1024, 2, "T4"),), (large,))
    cluster = SimulatedCluster(trace.machines, Policy(POLICIES["fgd"], trace, 1))
    measure = Fragmentation(typical(job.shape for job in trace.jobs))
    assert measure.fragmented(cluster.state.draft())[0] == 2.0
