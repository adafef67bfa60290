"""BinPack and Spread, best-fit and worst-fit: they differ as documented, and only nodes that differ are told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.api import names
from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins import PICKERS, SCORERS
from alnair.scheduling.plugins.interface import Scope
from harness.builders import NodeBuilder, PodBuilder, line, node, pod, term
from unit.builders import GIB, Cluster, advertising, all_of, holds, part, scores

A, B = node("a"), node("b")


def favourite(scorer: str, cluster: Cluster, asking: PodBuilder) -> str:
    """The node that scores best; "" where the two are equal."""
    draft = cluster.state.draft()
    scores = SCORERS[scorer]().score(cluster.kind(asking), draft)
    a, b = scores[cluster.row("a")], scores[cluster.row("b")]
    return "" if a == b else ("a" if a > b else "b")


def used(cluster: Cluster, *taken: tuple[str, int, int]) -> Cluster:
    """(node, card, MiB) of slices that are out."""
    for number, (where, index, memory) in enumerate(taken):
        cluster.state.hold(f"u{number}", holds(where, part(where, index, memory)))
    return cluster


@pytest.mark.parametrize(
    ("cluster", "asking", "packs", "spreads"),
    [
        pytest.param(
            used(Cluster(A.with_cards(1), B.with_cards(1)), ("b", 0, 8 * GIB)),
            pod("p").slice(memory_gib=4),
            "b",
            "a",
            id="a slice goes to the card in use, or away from it",
        ),
        pytest.param(
            used(Cluster(A.with_cards(1), B.with_cards(2)), ("a", 0, 8 * GIB), ("b", 0, 16 * GIB)),
            pod("p").slice(memory_gib=4),
            "b",
            "b",
            id="the card counts, not the node: b has the fullest card and the emptiest",
        ),
        pytest.param(
            used(Cluster(A.with_cards(2), B.with_cards(2)), ("b", 0, 1)),
            pod("p").asking(gpu=1),
            "b",
            "a",
            id="a whole card goes where fewest, or most, stay idle",
        ),
        pytest.param(
            Cluster(A.with_cards(4), B.with_cards(8)),
            pod("p").asking(gpu=4),
            "a",
            "b",
            id="four cards of four leave none idle",
        ),
        pytest.param(
            Cluster(A.with_cards(2), B),
            pod("p").asking(cpu="1"),
            "b",
            "b",
            id="a pod without GPUs leaves cards alone",
        ),
        pytest.param(
            Cluster(advertising(A, names.NVIDIA_GPU, 8), B),
            pod("p").asking(cpu="1"),
            "b",
            "b",
            id="cards that are only advertised too",
        ),
        pytest.param(
            Cluster(A.holding(cpu="8"), B.holding(cpu="64")),
            pod("p").asking(cpu="4"),
            "a",
            "b",
            id="without GPUs, cpu and memory decide",
        ),
        pytest.param(
            Cluster(A.with_cards(2), B.with_cards(2)),
            pod("p").asking(gpu=1),
            "",
            "",
            id="equal nodes score equal",
        ),
    ],
)
def test_binpack_fills_and_spread_gives_air(
    cluster: Cluster, asking: PodBuilder, packs: str, spreads: str
) -> None:
    assert favourite("BinPack", cluster, asking) == packs
    assert favourite("Spread", cluster, asking) == spreads


def test_the_gpu_weighs_more_than_cpu_and_memory() -> None:
    cluster = used(Cluster(A.with_cards(1), B.with_cards(1)), ("b", 0, 12 * GIB))
    cluster.running(pod("hog").asking(cpu="50", memory="400Gi"), on="a")
    assert favourite("BinPack", cluster, pod("p").slice(memory_gib=4)) == "b"


@pytest.mark.parametrize("scorer", sorted(SCORERS.keys() - {"Random"}))
def test_a_node_scores_the_same_alone_and_among_others(scorer: str) -> None:
    cluster = used(Cluster(A.with_cards(2), B.with_cards(4).holding(cpu="8"), node("c")), ("a", 1, 5 * GIB))
    draft = cluster.state.draft()
    for asking in (pod("p").asking(cpu="1"), pod("p").slice(memory_gib=3), pod("p").asking(gpu=2)):
        shape = cluster.kind(asking)
        if not SCORERS[scorer]().concerns(shape, draft):
            continue
        together = SCORERS[scorer]().score(shape, draft)
        for row in np.flatnonzero(draft.exists):
            assert SCORERS[scorer]().score(shape, draft.only(int(row)))[0] == together[row]


@given(
    cards=st.lists(st.integers(0, 3), min_size=2, max_size=2),
    taken=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(1, 40_000)), max_size=4),
    cpu=st.integers(0, 200),
    memory=st.integers(1, 64),
    whole=st.booleans(),
)
def test_every_score_is_from_0_to_1(
    cards: list[int], taken: list[tuple[str, int, int]], cpu: int, memory: int, whole: bool
) -> None:
    cluster = used(Cluster(A.with_cards(cards[0]), B.with_cards(cards[1])), *taken)
    cluster.running(pod("hog").asking(cpu=str(cpu)), on="a")
    asking = pod("p").asking(gpu=1 + memory % 3) if whole else pod("p").slice(memory_gib=memory)
    for scorer in SCORERS.values():
        scores = scorer().score(cluster.kind(asking.asking(cpu=str(cpu))), cluster.state.draft())
        assert ((scores >= 0) & (scores <= 1)).all()


# -- pickers -----------------------------------------------------------------------------------------------------

ANY = Cluster().kind(pod("p"))
SLICE = CardDemand("main", 1, 4 * GIB, 0, whole=False)


def order(picker: str, there: NodeBuilder, *taken: tuple[str, int, int]) -> list[int]:
    cluster = used(Cluster(there), *taken)
    draft, row = cluster.state.draft(), cluster.row("a")
    return np.argsort(PICKERS[picker]().keys(ANY, SLICE, draft, row, np.arange(3)), kind="stable").tolist()


def test_best_fit_takes_the_tightest_card_and_worst_fit_the_roomiest() -> None:
    taken = (("a", 0, 4 * GIB), ("a", 1, 16 * GIB))
    assert order("best-fit", A.with_cards(3), *taken) == [1, 0, 2]
    assert order("worst-fit", A.with_cards(3), *taken) == [2, 0, 1]


@pytest.mark.parametrize("picker", sorted(PICKERS.keys() - {"Random"}))
def test_equal_cards_are_taken_in_order(picker: str) -> None:
    assert order(picker, A.with_cards(3)) == [0, 1, 2]


def test_on_different_cards_best_fit_counts_what_is_free_not_what_is_there() -> None:
    mixed = A.with_cards(1, model="T4", memory_mib=16384).with_cards(2, model="A100", memory_mib=40960)
    cluster = Cluster(mixed)
    cluster.state.hold("u", holds("a", part("a", 1, 30 * GIB)))
    cluster.state.hold("w", holds("a", all_of("a", 2, 40960)))
    draft, row = cluster.state.draft(), cluster.row("a")
    assert PICKERS["best-fit"]().keys(ANY, SLICE, draft, row, np.array([0, 1])).tolist() == [
        16 * GIB,
        10 * GIB,
    ]


# -- all of them -------------------------------------------------------------------------------------------------


EVERY_WISH = (
    pod("p")
    .labelled(app="x")
    .asking(cpu="1", memory="1Gi")
    .on_nodes(term(line("pool", "In", "x")), weight=5)
    .near_to({"app": "x"}, key="zone", weight=5)
    .spread_over("zone", {"app": "x"}, hard=False)
    .running_image("i")
)
NODES = [
    A.labelled(pool="x", zone="1").with_cards(2).with_image("i:latest", 1 << 30),
    B.labelled(zone="2").holding(cpu="2", memory="64Gi"),
    node("c").labelled(zone="1").tainted("t", effect="PreferNoSchedule").with_cards(1),
    node("d").holding(cpu="0", memory="0"),
]


@pytest.mark.parametrize("rule", sorted(SCORERS.keys() - {"Random"}))
@pytest.mark.parametrize(
    "asking", [pod("p"), EVERY_WISH, EVERY_WISH.asking(gpu=1), EVERY_WISH.slice(memory_gib=3)]
)
def test_every_score_is_from_0_to_1_and_the_same_for_one_node_as_for_all(
    rule: str, asking: PodBuilder
) -> None:
    cluster = Cluster(*NODES)
    cluster.running(EVERY_WISH.named("other"), on="a")
    cluster.running(pod("fan").near_to({"app": "x"}, key="zone"), on="b")
    scores(rule, cluster, asking)


@pytest.mark.parametrize(
    "rule", sorted(name for name, each in SCORERS.items() if each.scope is not Scope.DOMAIN)
)
def test_a_local_scorer_looks_at_the_node_alone(rule: str) -> None:
    """What is remembered of one node must not hang on the others."""
    asking = EVERY_WISH.slice(memory_gib=3)
    together = Cluster(*NODES)
    found = SCORERS[rule]().score(together.kind(asking), together.state.draft())
    for each in NODES:
        alone = Cluster(each)
        score = SCORERS[rule]().score(alone.kind(asking), alone.state.draft())[alone.row(each.name)]
        assert score == found[together.row(each.name)]
