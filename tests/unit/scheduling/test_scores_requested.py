"""LeastRequested, MostRequested, BalancedResource and Equal: kube-scheduler's formulas, from 0 to 1."""

from __future__ import annotations

import pytest

from harness.builders import PodBuilder, node, pod
from unit.builders import Cluster, scores

TEN = node("a").holding(cpu="10", memory="10Gi")


def used(cpu: str, memory: str, there: Cluster | None = None) -> Cluster:
    cluster = there or Cluster(TEN)
    cluster.running(pod("other").asking(cpu=cpu, memory=memory), on="a")
    return cluster


@pytest.mark.parametrize(
    ("cluster", "asking", "least", "most"),
    [
        pytest.param(Cluster(TEN), pod("p"), 1.0, 0.0, id="an empty node"),
        pytest.param(Cluster(TEN), pod("p").asking(cpu="5", memory="5Gi"), 0.5, 0.5, id="half of it"),
        pytest.param(used("4", "2Gi"), pod("p").asking(cpu="1", memory="1Gi"), 0.6, 0.4, id="others count"),
        pytest.param(used("4", "2Gi"), pod("p"), 0.7, 0.3, id="a pod that asks for nothing"),
        pytest.param(used("20", "2Gi"), pod("p"), 0.4, 0.6, id="overcommitted is full, not fuller"),
        pytest.param(used("10", "10Gi"), pod("p").asking(cpu="1"), 0.0, 1.0, id="full"),
        pytest.param(
            Cluster(node("a").holding(cpu="10", memory="0")), pod("p").asking(cpu="4"), 0.6, 0.4, id="no memory at all"
        ),
        pytest.param(
            Cluster(node("a").holding(cpu="0", memory="0")), pod("p"), 0.0, 0.0, id="nothing at all"
        ),
        pytest.param(Cluster(TEN.with_cards(4)), pod("p").asking(gpu=4), 1.0, 0.0, id="GPUs are not looked at"),
    ],
)  # fmt: skip
def test_what_is_left_and_what_is_taken(
    cluster: Cluster, asking: PodBuilder, least: float, most: float
) -> None:
    assert scores("LeastRequested", cluster, asking) == {"a": least}
    assert scores("MostRequested", cluster, asking) == {"a": most}


@pytest.mark.parametrize(
    ("cluster", "asking", "score"),
    [
        pytest.param(Cluster(TEN), pod("p").asking(cpu="5", memory="5Gi"), 0.75, id="as even as before"),
        pytest.param(Cluster(TEN), pod("p").asking(cpu="10"), 0.5, id="the worst: one full, the other empty"),
        pytest.param(used("10", "0"), pod("p").asking(memory="10Gi"), 1.0, id="the best: both full"),
        pytest.param(Cluster(TEN), pod("p").asking(cpu="4"), 0.65, id="0.4 apart instead of even"),
        pytest.param(used("4", "0"), pod("p").asking(memory="2Gi"), 0.8, id="0.2 apart instead of 0.4"),
        pytest.param(used("20", "0"), pod("p").asking(cpu="1"), 0.75, id="beyond full is full"),
        pytest.param(
            Cluster(node("a").holding(cpu="10", memory="0")), pod("p").asking(cpu="4"), 0.75, id="no memory at all"
        ),
        pytest.param(Cluster(TEN), pod("p"), None, id="a pod that asks for neither has no say"),
        pytest.param(Cluster(TEN.with_cards(1)), pod("p").asking(gpu=1), None, id="nor one that asks for a GPU alone"),
    ],
)  # fmt: skip
def test_how_even_the_pod_makes_the_node(cluster: Cluster, asking: PodBuilder, score: float | None) -> None:
    assert scores("BalancedResource", cluster, asking) == (None if score is None else {"a": score})


def test_the_three_pull_in_their_own_directions() -> None:
    cluster = Cluster(TEN, TEN.named("b"))
    cluster.running(pod("other").asking(cpu="6"), on="a")
    asking = pod("p").asking(memory="4Gi")

    def favourite(rule: str) -> str:
        found = scores(rule, cluster, asking)
        assert found is not None
        assert found["a"] != found["b"]
        return max(found, key=lambda name: found[name])

    assert [favourite(rule) for rule in ("LeastRequested", "MostRequested", "BalancedResource")] == [
        "b",
        "a",
        "a",
    ]


def test_equal_has_nothing_to_say_of_any_node() -> None:
    assert scores("Equal", Cluster(TEN), pod("p").asking(cpu="1")) is None
