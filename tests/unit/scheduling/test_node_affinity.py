"""NodeAffinity and NodeName: every operator, fields, several terms; empty and absent terms as Kubernetes has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.builders import line, node, pod, term
from unit.builders import Cluster, let_through, reasons

CLUSTER = Cluster(
    node("a").labelled(zone="x", rank="5"),
    node("b").labelled(zone="y", rank="ten"),
    node("c").labelled(zone="z", rank="-7", old=""),
    node("d"),
)
NAMES = "metadata.name"


@pytest.mark.parametrize(
    ("terms", "nodes"),
    [
        pytest.param([term(line("zone", "In", "x", "y"))], "ab", id="In"),
        pytest.param([term(line("zone", "NotIn", "x"))], "bcd", id="NotIn holds without the label too"),
        pytest.param([term(line("zone", "Exists"))], "abc", id="Exists"),
        pytest.param([term(line("old", "Exists"))], "c", id="Exists with an empty value"),
        pytest.param([term(line("zone", "DoesNotExist"))], "d", id="DoesNotExist"),
        pytest.param([term(line("rank", "Gt", "4"))], "a", id="Gt"),
        pytest.param([term(line("rank", "Gt", "5"))], "", id="Gt is not at least"),
        pytest.param([term(line("rank", "Lt", "5"))], "c", id="Lt, a word is no number"),
        pytest.param([term(line("rank", "Lt", "ten"))], "", id="Lt of what is no number"),
        pytest.param([term(line("rank", "Gt", "1", "2"))], "", id="Gt of two numbers"),
        pytest.param([term(line("zone", "Resembles", "x"))], "", id="an operator that there is none of"),
        pytest.param([term(line("absent", "In", "x"))], "", id="a label that no node has"),
        pytest.param(
            [term(line("zone", "In", "x", "z"), line("old", "DoesNotExist"))], "a", id="lines of a term all hold"
        ),
        pytest.param(
            [term(line("zone", "In", "x")), term(line("zone", "In", "z"))], "ac", id="one term is enough"
        ),
        pytest.param([term(fields=[line(NAMES, "In", "b")])], "b", id="matchFields In"),
        pytest.param([term(fields=[line(NAMES, "NotIn", "b")])], "acd", id="matchFields NotIn"),
        pytest.param([term(fields=[line("metadata.uid", "NotIn", "b")])], "", id="a field that cannot be selected by"),
        pytest.param(
            [term(line("zone", "Exists"), fields=[line(NAMES, "In", "b", "d")])], "b", id="labels and fields both hold"
        ),
        pytest.param([term()], "", id="an empty term matches nothing"),
        pytest.param([term(), term(line("zone", "In", "x"))], "a", id="and does not spoil the others"),
        pytest.param([], "", id="no term at all matches nothing"),
    ],
)  # fmt: skip
def test_which_nodes_a_required_affinity_lets_through(terms: list[dict[str, Any]], nodes: str) -> None:
    assert let_through("NodeAffinity", CLUSTER, pod("p").on_nodes(*terms)) == list(nodes)


def test_no_affinity_and_mere_wishes_let_everything_through() -> None:
    assert let_through("NodeAffinity", CLUSTER, pod("p")) == list("abcd")
    wish = pod("p").on_nodes(term(line("zone", "In", "x")), weight=100)
    assert let_through("NodeAffinity", CLUSTER, wish) == list("abcd")


def test_selector_and_affinity_both_hold() -> None:
    asking = pod("p").on_nodes(term(line("zone", "In", "x", "y"))).selecting(rank="ten")
    assert let_through("NodeAffinity", CLUSTER, asking) == ["a", "b"]
    assert let_through("NodeSelector", CLUSTER, asking) == ["b"]


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        ([term(line("zone", "In", "q"))], "zone=q"),
        ([term(line("zone", "In", "q", "p"), line("old", "Exists"))], "zone in (p,q),old"),
        ([term(line("rank", "Gt", "9")), term(line("zone", "NotIn", "x"), line("zone", "Lt", "1"))],
         "rank>9 or zone!=x,zone<1"),
        ([term(fields=[line(NAMES, "In", "z")])], "metadata.name=z"),
        ([term()], "nothing"),
        ([], "nothing"),
    ],
)  # fmt: skip
def test_what_was_wanted_is_named_in_full(terms: list[dict[str, Any]], wanted: str) -> None:
    told = reasons("NodeAffinity", CLUSTER, pod("p").on_nodes(*terms))
    assert told == [(f"does not match the node affinity {wanted}", 4)]


def test_a_node_that_changes_its_labels_is_asked_anew() -> None:
    cluster = Cluster(node("a").labelled(zone="x"))
    asking = pod("p").on_nodes(term(line("zone", "In", "y")))
    assert let_through("NodeAffinity", cluster, asking) == []
    cluster.add(node("a").labelled(zone="y"))
    assert let_through("NodeAffinity", cluster, asking) == ["a"]


# -- NodeName ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("named", "nodes"), [("", "abcd"), ("b", "b"), ("elsewhere", "")])
def test_a_pod_that_names_its_node_goes_nowhere_else(named: str, nodes: str) -> None:
    kind = replace(CLUSTER.kind(pod("p")), node_name=named)
    assert let_through("NodeName", CLUSTER, kind) == list(nodes)


def test_the_named_node_is_told() -> None:
    kind = replace(CLUSTER.kind(pod("p")), node_name="b")
    assert reasons("NodeName", CLUSTER, kind) == [("is not the node b that the pod names", 3)]
