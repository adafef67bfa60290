"""PodTopologySpread: skew, domains that count, policies, several constraints; within a gang."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness.builders import PodBuilder, line, node, pod, term
from unit.builders import Cluster, let_through, reasons, times, where

RULE = "PodTopologySpread"
X = {"app": "x"}
ZONE = {"a": "1", "b": "2", "c": "3", "d": ""}


def zones(counts: str = "", **changes: Any) -> Cluster:
    """Nodes a, b, c in zones 1, 2, 3 and d in none, with so many pods of app x on each: "210"."""
    cluster = Cluster()
    for name, zone in ZONE.items():
        there = node(name).labelled(host=name, pool="main", **({"zone": zone} if zone else {}))
        cluster.add(changes[name](there) if name in changes else there)
    for name, count in zip(ZONE, counts, strict=False):
        for number in range(int(count)):
            cluster.running(pod(f"{name}-{number}").labelled(X), on=name)
    return cluster


def one(**fields: Any) -> PodBuilder:
    return pod("p").labelled(X).spread_over("zone", X, **fields)


@pytest.mark.parametrize(
    ("counts", "asking", "nodes"),
    [
        pytest.param("000", one(), "abc", id="empty domains, and none for a node without the label"),
        pytest.param("100", one(), "bc", id="the fullest is full"),
        pytest.param("110", one(), "c", id="only the emptiest"),
        pytest.param("111", one(), "abc", id="even again"),
        pytest.param("210", one(max_skew=2), "bc", id="a skew of two"),
        pytest.param("110", one(max_skew=2), "abc", id="a skew of two, reached"),
        pytest.param("110", pod("p").spread_over("zone", X), "abc", id="a pod that does not count itself"),
        pytest.param("200", pod("p").spread_over("zone", X), "bc", id="and minds the others all the same"),
        pytest.param("500", one(hard=False), "abcd", id="a wish is no rule"),
        pytest.param("000", one(minDomains=4), "abc", id="too few domains: the least counts as none"),
        pytest.param("111", one(minDomains=4), "", id="so none may have more than maxSkew"),
        pytest.param("111", one(minDomains=3), "abc", id="enough domains"),
        pytest.param("111", one(minDomains=4, max_skew=2), "abc", id="too few domains, a skew of two"),
        pytest.param("900", pod("p").labelled(X).spread_over("zone", {}), "abc", id="an empty selector counts nothing"),
        pytest.param("900", pod("p").labelled(X).spread_over("zone", None), "abc", id="an absent one neither"),
        pytest.param("000", one().spread_over("rack", X), "", id="a label that no node has"),
        pytest.param("100", one().in_namespace("other"), "abc", id="its own namespace only"),
    ],
)  # fmt: skip
def test_where_a_pod_keeps_the_balance(counts: str, asking: PodBuilder, nodes: str) -> None:
    assert let_through(RULE, zones(counts), asking) == list(nodes)


def test_the_pod_itself_counts_for_an_empty_selector() -> None:
    """With minDomains out of reach the least is 0, and 0 pods + itself is more than a skew of 0 could take."""
    assert let_through(RULE, zones("000"), pod("p").spread_over("zone", {}, max_skew=0)) == []
    assert let_through(RULE, zones("000"), pod("p").spread_over("zone", None, max_skew=0)) == list("abc")


def test_pods_that_are_going_away_do_not_count() -> None:
    cluster = zones("000")
    cluster.running(pod("going").labelled(X), on="a", terminating=True)
    cluster.running(pod("done").labelled(X), on="b", phase="Succeeded")
    assert let_through(RULE, cluster, one()) == ["a", "b", "c"]


def test_all_nodes_of_a_domain_count_together() -> None:
    cluster = zones("100", b=lambda it: it.labelled(zone="1"))
    assert let_through(RULE, cluster, one()) == ["c"]


@pytest.mark.parametrize(
    ("counts", "asking", "nodes"),
    [
        pytest.param("110", one().spread_over("host", X), "c", id="both hold"),
        pytest.param("000", one().spread_over("host", X), "abc", id="both need their label"),
        pytest.param("0009", one().spread_over("host", X), "abc", id="a node that lacks one of them counts for none"),
        pytest.param("0009", pod("p").labelled(X).spread_over("host", X), "abc", id="with one constraint it counts"),
        pytest.param("1001", pod("p").labelled(X).spread_over("host", X), "bc", id="and may be full"),
        pytest.param("210", one().spread_over("host", X, max_skew=9), "c", id="the stricter one decides"),
        pytest.param("900", one(hard=False).spread_over("host", X, max_skew=9), "bcd", id="a wish asks for no label"),
    ],
)  # fmt: skip
def test_several_constraints(counts: str, asking: PodBuilder, nodes: str) -> None:
    assert let_through(RULE, zones(counts), asking) == list(nodes)


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        pytest.param({}, "ab", id="by default zone 3 does not count: the pod cannot go there"),
        pytest.param({"nodeAffinityPolicy": "Honor"}, "ab", id="Honor"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, "c", id="Ignore: zone 3 is the emptiest, and counts"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("by", ["selector", "affinity"])
def test_nodes_that_the_pod_may_not_go_to_by_their_labels(
    fields: dict[str, Any], nodes: str, by: str
) -> None:
    cluster = zones("110", c=lambda it: it.labelled(pool="other"))
    asking = one(**fields)
    asking = (
        asking.selecting(pool="main")
        if by == "selector"
        else asking.on_nodes(term(line("pool", "In", "main")))
    )
    found = let_through(RULE, cluster, asking)
    # Where a domain does not count, nothing is counted there, so its own node passes this rule.
    assert [name for name in found if name != "c"] == [name for name in nodes if name != "c"]
    assert "c" in found


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        pytest.param({}, "c", id="by default a tainted node counts"),
        pytest.param({"nodeTaintsPolicy": "Ignore"}, "c", id="Ignore"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, "abc", id="Honor: it does not"),
    ],
)
def test_nodes_whose_taints_the_pod_does_not_tolerate(fields: dict[str, Any], nodes: str) -> None:
    cluster = zones("110", c=lambda it: it.tainted("t"))
    assert let_through(RULE, cluster, one(**fields)) == list(nodes)
    tolerant = one(**fields).tolerating("t")
    assert let_through(RULE, cluster, tolerant) == ["c"]


def test_a_soft_taint_leaves_a_node_out_of_nothing() -> None:
    cluster = zones("110", c=lambda it: it.tainted("t", effect="PreferNoSchedule"))
    assert let_through(RULE, cluster, one(nodeTaintsPolicy="Honor")) == ["c"]


def test_pods_on_nodes_that_do_not_count_are_not_counted() -> None:
    """b's zone has a node that counts, empty, and one that does not, full."""
    cluster = zones("050", b=lambda it: it.labelled(zone="1", pool="other"))
    assert let_through(RULE, cluster, one().selecting(pool="main")) == ["a", "b", "c"]
    assert let_through(RULE, cluster, one(nodeAffinityPolicy="Ignore").selecting(pool="main")) == ["c"]


def test_label_keys_take_their_values_from_the_pod() -> None:
    cluster = zones("100")
    cluster.running(pod("old").labelled(X, rev="1"), on="b")
    asking = pod("p").labelled(X, rev="1").spread_over("zone", X, matchLabelKeys=["rev"])
    assert let_through(RULE, cluster, asking) == ["a", "c"]


def test_a_domain_whose_last_node_goes_is_no_domain_any_more() -> None:
    cluster = zones("110")
    assert let_through(RULE, cluster, one()) == ["c"]
    cluster.state.drop_node("c")
    assert let_through(RULE, cluster, one()) == ["a", "b"]


def test_what_is_full_and_what_has_no_label_is_told_apart() -> None:
    assert reasons(RULE, zones("210"), one()) == [
        ("has no label zone to spread by", 1),
        ("has too many such pods in its zone already (maxSkew 1)", 2),
    ]


def test_of_several_constraints_each_node_is_counted_under_the_first() -> None:
    asking = pod("p").labelled(X).spread_over("host", X, max_skew=2).spread_over("zone", X)
    assert reasons(RULE, zones("310"), asking) == [
        ("has too many such pods in its host already (maxSkew 2)", 1),
        ("has no label zone to spread by", 1),
        ("has too many such pods in its zone already (maxSkew 1)", 1),
    ]


# -- within a gang -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("members", "expected"), [(3, [1, 1, 1]), (4, [1, 1, 2]), (7, [2, 2, 3])])
def test_members_spread_among_themselves(members: int, expected: list[int]) -> None:
    plan = where(zones().place(*times(one(), members)))
    assert sorted(Counter(plan.values()).values()) == expected
    assert "d" not in plan.values()


def test_members_spread_beside_those_that_run_already() -> None:
    plan = where(zones("200").place(*times(one(), 4)))
    assert Counter(plan.values()) == {"b": 2, "c": 2}


def test_a_gang_that_the_smallest_domain_holds_back_is_refused_with_the_reason() -> None:
    cluster = zones("", b=lambda it: it.holding(pods=1), c=lambda it: it.holding(pods=1))
    message = cluster.refuses(*times(one(), 5))
    assert message.startswith("4 of 5 members fit. 1 more needs a place, but of 4 nodes: ")
    assert "1 has no label zone to spread by" in message
    assert "has too many such pods in its zone already (maxSkew 1)" in message


def test_a_pod_that_is_expected_counts() -> None:
    cluster = zones("000")
    cluster.waiting(pod("vip").labelled(X).nominated_to("a"))
    cluster.waiting(pod("vip2").labelled(X).nominated_to("b"))
    assert where(cluster.place(one(), needed=1)) == {"p": "c"}
