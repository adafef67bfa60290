"""TaintToleration: which toleration helps against which taint, and what is said of one that none helps against."""

from __future__ import annotations

import pytest

from alnair.scheduling.plugins.taint_toleration import tolerates
from alnair.state import wire
from harness.builders import node, pod
from unit.builders import Cluster, let_through, reasons

A, B = node("a"), node("b")
TAINT = wire.Taint(key="gpu", value="yes", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "helps"),
    [
        (wire.Toleration(key="gpu", operator="Equal", value="yes", effect="NoSchedule"), True),
        (wire.Toleration(key="gpu", value="yes"), True),
        (wire.Toleration(key="gpu", operator="Exists"), True),
        (wire.Toleration(operator="Exists"), True),
        (wire.Toleration(operator="Exists", effect="NoSchedule"), True),
        (wire.Toleration(key="gpu", value="no"), False),
        (wire.Toleration(key="gpu"), False),
        (wire.Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (wire.Toleration(key="gp", operator="Exists"), False),
        (wire.Toleration(key="gpu", operator="Gt", value="1"), False),
        (wire.Toleration(key="gpu", operator="Resembles", value="yes"), False),
        # The apiserver lets an empty key stand with Exists only; the rule itself takes it for any key.
        (wire.Toleration(value="yes"), True),
        (wire.Toleration(value="no"), False),
        (wire.Toleration(), False),
    ],
)
def test_a_toleration_helps_against_the_taint_it_names(toleration: wire.Toleration, helps: bool) -> None:
    assert tolerates([toleration], TAINT) is helps


@pytest.mark.parametrize(
    ("operator", "bound", "there", "helps"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Gt", "-5", "-4", True),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Lt", "5", "-100", True),
        ("Gt", "five", "6", False),
        ("Gt", "5", "six", False),
        ("Gt", "5", "", False),
        ("Gt", "", "6", False),
        ("Gt", "5", "06", False),
        ("Gt", "05", "6", False),
        ("Gt", "5", "+6", False),
        ("Lt", "5", "-0", False),
        ("Lt", "1", "0", True),
        ("Gt", "5", str((1 << 63) - 1), True),
        ("Gt", "5", str(1 << 63), False),
        ("Lt", "5", str(-(1 << 63)), True),
        ("Lt", "5", str(-(1 << 63) - 1), False),
    ],
)
def test_numbers_are_compared_as_kubernetes_writes_them(
    operator: str, bound: str, there: str, helps: bool
) -> None:
    toleration = wire.Toleration(key="rank", operator=operator, value=bound)
    assert tolerates([toleration], wire.Taint(key="rank", value=there, effect="NoSchedule")) is helps


@pytest.mark.parametrize(
    ("effect", "keeps_away"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_only_hard_taints_keep_pods_away(effect: str, keeps_away: bool) -> None:
    cluster = Cluster(A.tainted("t", effect=effect))
    assert let_through("TaintToleration", cluster, pod("p")) == ([] if keeps_away else ["a"])


def test_every_taint_must_be_tolerated_and_the_first_that_is_not_is_named() -> None:
    cluster = Cluster(A.tainted("one").tainted("two", "x"), B.tainted("two", "x"))
    asking = pod("p").tolerating("one")
    assert reasons("TaintToleration", cluster, asking) == [("has the untolerated taint two=x:NoSchedule", 2)]
    assert let_through("TaintToleration", cluster, asking.tolerating("two", "x")) == ["a", "b"]


def test_nodes_are_counted_by_the_taint_that_they_have() -> None:
    cluster = Cluster(
        A.tainted("one"), B.tainted("two", effect="NoExecute"), node("c").tainted("one"), node("d")
    )
    assert reasons("TaintToleration", cluster, pod("p")) == [
        ("has the untolerated taint one:NoSchedule", 2),
        ("has the untolerated taint two:NoExecute", 1),
    ]


def test_a_taint_that_goes_lets_the_node_back_in() -> None:
    cluster = Cluster(A.tainted("t"))
    assert let_through("TaintToleration", cluster, pod("p")) == []
    cluster.add(A)
    assert let_through("TaintToleration", cluster, pod("p")) == ["a"]
