"""The wishes of manifests about nodes: preferred node affinity, PreferNoSchedule taints, images that are there."""

from __future__ import annotations

import pytest

from alnair.scheduling import search
from alnair.scheduling.board import Boards
from alnair.scheduling.classes import Member
from harness.builders import NodeBuilder, PodBuilder, line, node, pod, term
from unit.builders import PACK, Cluster, scores, where

MIB = 1 << 20
X, Y = term(line("zone", "In", "x")), term(line("disk", "Exists"))


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(pod("p"), None, id="no wish"),
        pytest.param(pod("p").on_nodes(X), None, id="a rule is no wish"),
        pytest.param(pod("p").on_nodes(X, weight=5), {"a": 1, "b": 1, "c": 0}, id="one wish"),
        pytest.param(
            pod("p").on_nodes(X, weight=30).on_nodes(Y, weight=10),
            {"a": 1, "b": 0.75, "c": 0.25},
            id="by weight, of all that was wished for",
        ),
        pytest.param(pod("p").on_nodes(term(), weight=9), {"a": 0, "b": 0, "c": 0}, id="an empty wish is for nothing"),
        pytest.param(
            pod("p").on_nodes(X, weight=1).on_nodes(term(), weight=99),
            {"a": 1, "b": 1, "c": 0},
            id="and does not count",
        ),
        pytest.param(
            pod("p").on_nodes(term(fields=[line("metadata.name", "In", "c")]), weight=1),
            {"a": 0, "b": 0, "c": 1},
            id="a node by name",
        ),
    ],
)  # fmt: skip
def test_preferred_node_affinity(asking: PodBuilder, expected: dict[str, float] | None) -> None:
    cluster = Cluster(
        node("a").labelled(zone="x", disk="ssd"), node("b").labelled(zone="x"), node("c").labelled(disk="")
    )
    assert scores("NodeAffinity", cluster, asking) == expected


def soft(name: str, *keys: str) -> NodeBuilder:
    there = node(name)
    for key in keys:
        there = there.tainted(key, effect="PreferNoSchedule")
    return there


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(pod("p"), {"a": 1, "b": 0.5, "c": 0.333333}, id="the fewer the better"),
        pytest.param(pod("p").tolerating("t"), {"a": 1, "b": 1, "c": 0.5}, id="tolerated ones do not count"),
        pytest.param(
            pod("p").tolerating("t", effect="PreferNoSchedule"),
            {"a": 1, "b": 1, "c": 0.5},
            id="named by effect",
        ),
        pytest.param(
            pod("p").tolerating("t", effect="NoSchedule"),
            {"a": 1, "b": 0.5, "c": 0.333333},
            id="another effect does not help",
        ),
    ],
)
def test_soft_taints(asking: PodBuilder, expected: dict[str, float]) -> None:
    cluster = Cluster(node("a").tainted("hard"), soft("b", "t"), soft("c", "t", "u"))
    assert scores("TaintToleration", cluster, asking) == expected


def test_where_no_taint_is_soft_all_nodes_are_as_good_as_can_be() -> None:
    cluster = Cluster(node("a").tainted("hard"), node("b"))
    assert scores("TaintToleration", cluster, pod("p")) == {"a": 1.0, "b": 1.0}


def test_the_first_soft_taint_of_the_cluster_makes_no_favourite_of_its_node() -> None:
    """Ratings are remembered from before there was such a taint: they must be on the same scale as those after."""
    cluster, boards = Cluster(node("a"), node("b")), Boards()
    gang = search.Gang((Member("u", "p", cluster.kind(pod("p"))),), needed=1)
    for _ in range(2):
        with cluster.state.draft() as draft:
            plan = search.place(gang, PACK, draft, boards)
        assert where(plan) == {"p": "a"}
        cluster.add(node("b").tainted("soft", effect="PreferNoSchedule"))


# -- images ------------------------------------------------------------------------------------------------------


def with_images(**sizes: int) -> Cluster:
    """Nodes by name; each with an image `i:latest` of so many MiB, or none for 0."""
    return Cluster(
        *(
            node(name).with_image("i:latest", size * MIB) if size else node(name)
            for name, size in sizes.items()
        )
    )


I = pod("p").running_image("i")  # noqa: E741


@pytest.mark.parametrize(
    ("cluster", "asking", "expected"),
    [
        pytest.param(with_images(a=1000, b=1000), I, {"a": 1, "b": 1}, id="as large as counts, everywhere"),
        pytest.param(with_images(a=5000, b=5000), I, {"a": 1, "b": 1}, id="larger counts no more"),
        pytest.param(with_images(a=23, b=23), I, {"a": 0, "b": 0}, id="as small as counts for nothing"),
        pytest.param(
            with_images(a=1000, b=0),
            I,
            {"a": round((500 - 23) / (1000 - 23), 6), "b": 0},
            id="what half of the nodes have counts half",
        ),
        pytest.param(
            with_images(a=1000, b=1000),
            I.with_container("second").running_image("elsewhere"),
            {"a": round((1000 - 23) / (2000 - 23), 6)} | {"b": round((1000 - 23) / (2000 - 23), 6)},
            id="two containers, one image there",
        ),
        pytest.param(
            with_images(a=1000, b=1000),
            I.with_container("second").running_image("i"),
            {"a": 1, "b": 1},
            id="both there",
        ),
        pytest.param(
            with_images(a=1000, b=1000),
            pod("p")
            .running_image("none")
            .with_(lambda it: it["spec"].update(volumes=[{"name": "v", "image": {"reference": "i"}}])),
            {"a": 1, "b": 1},
            id="an image that is mounted counts, and asks for no more",
        ),
        pytest.param(with_images(a=1000, b=1000), pod("p").running_image("i:1"), None, id="another tag"),
        pytest.param(with_images(a=0, b=0), I, None, id="nobody has it"),
    ],
)  # fmt: skip
def test_images_that_are_there(
    cluster: Cluster, asking: PodBuilder, expected: dict[str, float] | None
) -> None:
    assert scores("ImageLocality", cluster, asking) == expected


def test_an_image_that_spreads_counts_for_more() -> None:
    cluster = with_images(a=800, b=0, c=0, d=0)
    before = scores("ImageLocality", cluster, I)
    cluster.add(node("b").with_image("i:latest", 800 * MIB))
    after = scores("ImageLocality", cluster, I)
    assert before is not None
    assert after is not None
    assert after["a"] > before["a"] > before["b"] == 0
    cluster.state.drop_node("b")
    cluster.state.drop_node("a")
    assert scores("ImageLocality", cluster, I) is None
