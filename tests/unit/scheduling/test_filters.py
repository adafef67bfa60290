"""Each filter by itself: which nodes it lets through, and the phrase for those it does not."""

from __future__ import annotations

import numpy as np
import pytest

from alnair.scheduling.plugins import FILTERS
from harness.builders import NodeBuilder, PodBuilder, line, node, pod, term
from unit.builders import Cluster, advertising, let_through, reasons

A, B = node("a"), node("b")


def test_the_filters_are_asked_in_this_order() -> None:
    assert list(FILTERS) == [
        "NodeName",
        "NodeSelector",
        "NodeAffinity",
        "NodeLabel",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeReady",
        "KubeletRefusals",
        "NodePorts",
        "VolumeBinding",
        "VolumeZone",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "InterPodAffinity",
        "PodTopologySpread",
        "ServiceAffinity",
        "NodeResourcesFit",
        "NodeResourceTopologyMatch",
        "Delivery",
        "GPUCards",
    ]


@pytest.mark.parametrize("rule", sorted(FILTERS))
def test_every_filter_lets_a_plain_pod_onto_a_plain_node_and_onto_no_row_without_one(rule: str) -> None:
    cluster = Cluster(A, B)
    cluster.state.drop_node("a")
    assert let_through(rule, cluster, pod("p")) == ["b"]


@pytest.mark.parametrize("rule", sorted(FILTERS))
def test_every_filter_says_of_one_row_what_it_says_of_all(rule: str) -> None:
    cluster = Cluster(
        A.with_cards(2).labelled(pool="x"),
        B.tainted("t").holding(cpu="1"),
        node("c").cordoned().with_cards(1),
    )
    cluster.add(node("d"), ready=False)
    draft = cluster.state.draft()
    for asking in (
        pod("p").asking(cpu="2"),
        pod("p").slice(memory_gib=3),
        pod("p").asking(gpu=2).selecting(pool="x"),
        pod("p").on_nodes(term(line("pool", "In", "x"))).on_host_port(80),
        pod("p").near_to({"app": "x"}, key="pool").spread_over("pool", {"app": "x"}),
    ):
        shape = cluster.kind(asking)
        together = FILTERS[rule]().passes(shape, draft)
        for row in np.flatnonzero(draft.exists):
            assert FILTERS[rule]().passes(shape, draft.only(int(row)))[0] == together[row]
        assert FILTERS[rule]().passes(shape, draft.at(draft.rows[::-1])).tolist() == together[::-1].tolist()


# -- NodeReady, NodeUnschedulable, NodeSelector ------------------------------------------------------------------


def test_a_node_that_is_not_ready_takes_nobody() -> None:
    cluster = Cluster(A)
    cluster.add(B, ready=False)
    assert let_through("NodeReady", cluster, pod("p")) == ["a"]
    assert reasons("NodeReady", cluster, pod("p")) == [("is not Ready", 1)]


@pytest.mark.parametrize(
    ("asking", "nodes"),
    [
        (pod("p"), ["a"]),
        (pod("p").tolerating("node.kubernetes.io/unschedulable"), ["a", "b"]),
        (pod("p").tolerating("node.kubernetes.io/unschedulable", effect="NoExecute"), ["a"]),
        (pod("p").tolerating("something.else"), ["a"]),
    ],
)
def test_a_cordoned_node_takes_only_who_tolerates_it(asking: PodBuilder, nodes: list[str]) -> None:
    assert let_through("NodeUnschedulable", Cluster(A, B.cordoned()), asking) == nodes


@pytest.mark.parametrize(
    ("selector", "nodes"),
    [
        ({}, ["a", "b"]),
        ({"pool": "x"}, ["a", "b"]),
        ({"pool": "x", "disk": "ssd"}, ["b"]),
        ({"pool": "y"}, []),
        ({"pool": ""}, []),
        ({"absent": "x"}, []),
    ],
)
def test_a_node_carries_every_label_of_the_selector(selector: dict[str, str], nodes: list[str]) -> None:
    cluster = Cluster(A.labelled(pool="x"), B.labelled(pool="x", disk="ssd"))
    assert let_through("NodeSelector", cluster, pod("p").selecting(selector)) == nodes


def test_a_selector_that_no_node_matches_is_named_in_full() -> None:
    asking = pod("p").selecting(pool="y", disk="ssd")
    assert reasons("NodeSelector", Cluster(A, B), asking) == [
        ("does not match the node selector disk=ssd,pool=y", 2)
    ]


# -- NodeResourcesFit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "asking", "fits"),
    [
        pytest.param(A.holding(cpu="2"), pod("p").asking(cpu="2"), True, id="exactly enough"),
        pytest.param(A.holding(cpu="2"), pod("p").asking(cpu="2001m"), False, id="a thousandth too little"),
        pytest.param(A.holding(memory="1Gi"), pod("p").asking(memory="1025Mi"), False, id="too little memory"),
        pytest.param(A.holding(pods=0), pod("p"), False, id="no pod slot"),
        pytest.param(A, pod("p").asking(resources={"example.com/x": "1"}), False, id="nobody has the resource"),
        pytest.param(
            advertising(A, "example.com/x", 1),
            pod("p").asking(resources={"example.com/x": "1"}),
            True,
            id="an extended resource",
        ),
        pytest.param(A, pod("p").asking(resources={"example.com/x": "0"}), True, id="none of a resource nobody has"),
        pytest.param(A, pod("p").asking(gpu=8), True, id="whole GPUs are GPUCards' to count"),
        pytest.param(A, pod("p").slice(memory_gib=8), True, id="and slices too"),
    ],
)  # fmt: skip
def test_what_a_node_has_must_be_enough(there: NodeBuilder, asking: PodBuilder, fits: bool) -> None:
    assert let_through("NodeResourcesFit", Cluster(there), asking) == (["a"] if fits else [])


def test_what_others_take_counts() -> None:
    cluster = Cluster(A.holding(cpu="4"))
    cluster.running(pod("other").asking(cpu="3"), on="a")
    assert let_through("NodeResourcesFit", cluster, pod("p").asking(cpu="1")) == ["a"]
    assert reasons("NodeResourcesFit", cluster, pod("p").asking(cpu="1500m")) == [
        ("has too little cpu (1.5 needed, at most 1 free)", 1)
    ]


def test_each_node_is_counted_under_its_first_lack() -> None:
    cluster = Cluster(A.holding(cpu="1", memory="1Gi"), B.holding(memory="1Gi"))
    assert reasons("NodeResourcesFit", cluster, pod("p").asking(cpu="2", memory="2Gi")) == [
        ("has too little cpu (2 needed, at most 1 free)", 1),
        ("has too little memory (2 GiB needed, at most 1 GiB free)", 1),
    ]


def test_an_overcommitted_node_has_nothing_free_not_less() -> None:
    cluster = Cluster(A.holding(cpu="1"))
    cluster.running(pod("other").asking(cpu="3"), on="a")
    assert reasons("NodeResourcesFit", cluster, pod("p").asking(cpu="1")) == [
        ("has too little cpu (1 needed, at most 0 free)", 1)
    ]
