"""InterPodAffinity: near, apart, and kept away by others; domains, namespaces, the first of its kind; within a gang."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness.builders import PodBuilder, node, pod
from unit.builders import Cluster, let_through, reasons, times, where

RULE = "InterPodAffinity"
X = {"app": "x"}


def zones(*more: Any) -> Cluster:
    """a and b in zone 1, c in zone 2, d in no zone; each its own host."""
    cluster = Cluster(
        *(
            node(name).labelled(host=name, **({"zone": zone} if zone else {}))
            for name, zone in (("a", "1"), ("b", "1"), ("c", "2"), ("d", ""))
        )
    )
    for sentence, place in more:
        cluster.running(sentence, on=place)
    return cluster


def somebody(name: str = "somebody", **labels: str) -> PodBuilder:
    return pod(name).labelled({"app": "x", **labels})


# -- near --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asking", "nodes"),
    [
        pytest.param(pod("p").near_to(X, key="zone"), "ab", id="in the zone of the pod"),
        pytest.param(pod("p").near_to(X, key="host"), "a", id="on the host of the pod"),
        pytest.param(pod("p").near_to(X, key="rack"), "", id="a label that no node has"),
        pytest.param(pod("p").near_to({"app": "y"}, key="zone"), "", id="nobody is meant"),
        pytest.param(pod("p").near_to({}, key="zone"), "ab", id="an empty selector means everybody"),
        pytest.param(pod("p").near_to(None, key="zone"), "", id="an absent selector means nobody"),
        pytest.param(pod("p").near_to(X, key="zone").near_to(X, key="host"), "a", id="each term in its own domain"),
        pytest.param(pod("p").near_to(X, key="zone", weight=9), "abcd", id="a wish is no rule"),
        pytest.param(
            pod("p").near_to(X, key="zone").near_to({"role": "db"}, key="zone"),
            "",
            id="only pods that all terms mean count",
        ),
        pytest.param(pod("p").in_namespace("other").near_to(X, key="zone"), "", id="its own namespace only"),
    ],
)  # fmt: skip
def test_where_a_pod_is_near_enough(asking: PodBuilder, nodes: str) -> None:
    cluster = zones((somebody(), "a"), (pod("role").labelled(role="db"), "b"))
    assert let_through(RULE, cluster, asking) == list(nodes)


def test_one_pod_that_all_terms_mean_is_near_by_all_of_them() -> None:
    cluster = zones((somebody(role="db"), "a"))
    asking = pod("p").near_to(X, key="zone").near_to({"role": "db"}, key="host")
    assert let_through(RULE, cluster, asking) == ["a"]


def test_a_pod_in_no_domain_is_near_nobody() -> None:
    assert let_through(RULE, zones((somebody(), "d")), pod("p").near_to(X, key="zone")) == []


def test_a_terminating_pod_is_still_near_and_a_finished_one_is_not() -> None:
    cluster = zones()
    cluster.running(somebody(), on="a", terminating=True)
    assert let_through(RULE, cluster, pod("p").near_to(X, key="zone")) == ["a", "b"]
    cluster.running(somebody(), on="a", phase="Succeeded")
    assert let_through(RULE, cluster, pod("p").near_to(X, key="zone")) == []


@pytest.mark.parametrize(
    ("there", "asking", "nodes"),
    [
        pytest.param(None, somebody("p").near_to(X, key="zone"), "abc", id="the first may start any domain"),
        pytest.param(None, pod("p").near_to(X, key="zone"), "", id="but must be of the kind itself"),
        pytest.param((somebody(), "c"), somebody("p").near_to(X, key="zone"), "c", id="the second follows the first"),
        pytest.param(
            (somebody(), "d"), somebody("p").near_to(X, key="zone"), "abc", id="one in no domain is no first"
        ),
        pytest.param(
            (somebody().in_namespace("other"), "c"),
            somebody("p").near_to(X, key="zone"),
            "abc",
            id="one of another namespace is no first",
        ),
        pytest.param(
            None, somebody("p").near_to(X, key="zone").near_to({"role": "db"}, key="zone"), "", id="of all the kinds"
        ),
        pytest.param(
            None,
            somebody("p", role="db").near_to(X, key="zone").near_to({"role": "db"}, key="host"),
            "abc",
            id="and with all the labels",
        ),
        pytest.param(
            (somebody(), "d"),
            somebody("p").near_to(X, key="zone").near_to(X, key="host"),
            "",
            id="one in some domain of some term is a first: d has a host and no zone",
        ),
    ],
)  # fmt: skip
def test_the_first_of_its_kind(there: tuple[PodBuilder, str] | None, asking: PodBuilder, nodes: str) -> None:
    assert let_through(RULE, zones(*([there] if there else [])), asking) == list(nodes)


# -- apart -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asking", "nodes"),
    [
        pytest.param(pod("p").apart_from(X, key="zone"), "cd", id="no domain is not too near"),
        pytest.param(pod("p").apart_from(X, key="host"), "bcd", id="only that host"),
        pytest.param(pod("p").apart_from({"app": "y"}, key="zone"), "abcd", id="nobody is meant"),
        pytest.param(pod("p").apart_from(None, key="zone"), "abcd", id="an absent selector means nobody"),
        pytest.param(pod("p").apart_from({}, key="zone"), "d", id="an empty one everybody"),
        pytest.param(
            pod("p").apart_from(X, key="host").apart_from({"role": "db"}, key="zone"), "bd", id="each term by itself"
        ),
        pytest.param(pod("p").apart_from(X, key="zone", weight=9), "abcd", id="a wish is no rule"),
        pytest.param(pod("p").apart_from(X, key="host").near_to(X, key="zone"), "b", id="near and yet apart"),
    ],
)  # fmt: skip
def test_where_a_pod_is_far_enough(asking: PodBuilder, nodes: str) -> None:
    cluster = zones((somebody(), "a"), (pod("role").labelled(role="db"), "c"))
    assert let_through(RULE, cluster, asking) == list(nodes)


@pytest.mark.parametrize(
    ("grudge", "asking", "nodes"),
    [
        pytest.param(pod("g").apart_from(X, key="zone"), somebody("p"), "cd", id="kept out of the zone"),
        pytest.param(pod("g").apart_from(X, key="host"), somebody("p"), "bcd", id="kept off the host"),
        pytest.param(pod("g").apart_from(X, key="zone"), pod("p"), "abcd", id="somebody else is welcome"),
        pytest.param(pod("g").apart_from(X, key="rack"), somebody("p"), "abcd", id="in no domain it keeps nobody away"),
        pytest.param(
            pod("g").apart_from(X, key="zone"), somebody("p").in_namespace("other"), "abcd", id="own namespace only"
        ),
        pytest.param(
            pod("g").apart_from(X, key="zone", namespaces=["other"]),
            somebody("p").in_namespace("other"),
            "cd",
            id="a namespace that it names",
        ),
        pytest.param(pod("g").apart_from(X, key="zone", weight=9), somebody("p"), "abcd", id="a wish is no rule"),
        pytest.param(
            pod("g").apart_from({"role": "db"}, key="host").apart_from(X, key="zone"),
            somebody("p", role="db"),
            "cd",
            id="any of its terms",
        ),
    ],
)  # fmt: skip
def test_whom_a_pod_that_runs_already_keeps_away(grudge: PodBuilder, asking: PodBuilder, nodes: str) -> None:
    assert let_through(RULE, zones((grudge, "a")), asking) == list(nodes)


def test_a_grudge_ends_with_its_last_bearer() -> None:
    cluster = zones((pod("g").apart_from(X, key="zone"), "a"), (pod("h").apart_from(X, key="zone"), "b"))
    cluster.state.drop_pod("uid-g")
    assert let_through(RULE, cluster, somebody("p")) == ["c", "d"]
    cluster.state.drop_pod("uid-h")
    assert let_through(RULE, cluster, somebody("p")) == list("abcd")


def test_a_grudge_that_comes_later_is_heeded_though_others_were_asked_about_before() -> None:
    cluster = zones((pod("g").apart_from(X, key="host"), "a"))
    asking = pod("p").labelled(app="y")
    assert let_through(RULE, cluster, asking) == list("abcd")
    cluster.running(pod("h").apart_from({"app": "y"}, key="host"), on="b")
    assert let_through(RULE, cluster, asking) == ["a", "c", "d"]
    cluster.running(pod("i").apart_from({"app": "y"}, key="host"), on="c")
    cluster.state.drop_pod("uid-h")
    assert let_through(RULE, cluster, asking) == ["a", "b", "d"]
    cluster.state.drop_pod("uid-i")
    assert let_through(RULE, cluster, asking) == list("abcd")


# -- namespaces, label keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        pytest.param({}, "a", id="its own"),
        pytest.param({"namespaces": ["gold"]}, "b", id="named"),
        pytest.param({"namespaces": ["gold", "team"]}, "ab", id="two named"),
        pytest.param({"namespaceSelector": {"matchLabels": {"tier": "1"}}}, "b", id="selected"),
        pytest.param({"namespaceSelector": {"matchLabels": {"tier": "1"}}, "namespaces": ["tin"]}, "bc", id="or named"),
        pytest.param({"namespaceSelector": {}}, "abcd", id="all of them, known or not"),
        pytest.param({"namespaceSelector": {"matchLabels": {"tier": "9"}}}, "", id="none"),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}},
            "ad",
            id="a namespace that nobody told us of has no labels",
        ),
    ],
)  # fmt: skip
def test_pods_of_which_namespaces_count(fields: dict[str, Any], nodes: str) -> None:
    cluster = zones(
        *(
            (somebody(where).in_namespace(namespace), where)
            for where, namespace in zip("abcd", ("team", "gold", "tin", "new"), strict=True)
        )
    )
    cluster.namespace("team")
    cluster.namespace("gold", tier="1")
    cluster.namespace("tin", tier="2")
    assert let_through(RULE, cluster, pod("p").near_to(X, key="host", **fields)) == list(nodes)
    apart = let_through(RULE, cluster, pod("p").apart_from(X, key="host", **fields))
    assert apart == [name for name in "abcd" if name not in nodes]


def test_a_namespace_that_changes_its_labels_changes_who_is_meant() -> None:
    cluster = zones((somebody().in_namespace("other"), "a"))
    chosen = {"namespaceSelector": {"matchLabels": {"tier": "1"}}}
    asking = pod("p").near_to(X, key="host", **chosen)
    assert let_through(RULE, cluster, asking) == []
    cluster.namespace("other", tier="1")
    assert let_through(RULE, cluster, asking) == ["a"]
    cluster.state.company.drop_namespace("other")
    assert let_through(RULE, cluster, asking) == []


def test_a_grudge_against_namespaces_with_a_label() -> None:
    chosen = {"namespaceSelector": {"matchLabels": {"tier": "1"}}}
    cluster = zones((pod("g").apart_from(X, key="host", **chosen), "a"))
    cluster.namespace("gold", tier="1")
    assert let_through(RULE, cluster, somebody("p").in_namespace("gold")) == ["b", "c", "d"]
    assert let_through(RULE, cluster, somebody("p")) == list("abcd")


def test_label_keys_take_their_values_from_the_pod() -> None:
    cluster = zones((somebody("one", rev="1"), "a"), (somebody("two", rev="2"), "c"))
    asking = somebody("p", rev="2")
    same = asking.near_to(X, key="zone", matchLabelKeys=["rev"])
    other = asking.apart_from(X, key="zone", mismatchLabelKeys=["rev"])
    assert let_through(RULE, cluster, same) == ["c"]
    assert let_through(RULE, cluster, other) == ["c", "d"]


# -- words -------------------------------------------------------------------------------------------------------


def test_each_node_is_counted_under_the_first_of_the_three_reasons() -> None:
    cluster = zones(
        (somebody(), "a"), (pod("g").labelled(role="g").apart_from({"app": "p"}, key="host"), "b")
    )
    asking = pod("p").labelled(app="p").near_to(X, key="zone").apart_from(X, key="host")
    assert reasons(RULE, cluster, asking) == [
        ("has no pods near that match app=x in one zone", 2),
        ("has pods near that match app=x in one host", 1),
        ("has pods near whose anti-affinity keeps the pod away", 1),
    ]


# -- within a gang -----------------------------------------------------------------------------------------------


def test_members_that_shun_each_other_are_placed_apart_in_one_step() -> None:
    shy = somebody("p").apart_from(X, key="zone")
    plan = where(zones().place(*times(shy, 3)))
    assert Counter("zone 1" if each in "ab" else each for each in plan.values()) == {
        "zone 1": 1,
        "c": 1,
        "d": 1,
    }
    assert "2 of 3 members fit" in Cluster(
        node("a").labelled(zone="1"), node("b").labelled(zone="1"), node("c").labelled(zone="2")
    ).refuses(*times(shy, 3))


def test_a_member_that_others_shun_keeps_away_from_them_whoever_is_placed_first() -> None:
    king = pod("king").labelled(role="king").apart_from({"role": "hand"}, key="zone").asking(cpu="4")
    hands = times(pod("hand").labelled(role="hand").asking(cpu="8"), 2)
    plan = where(zones().place(king, *hands))
    domain = {"a": "1", "b": "1", "c": "2", "d": "d"}
    assert domain[plan["king"]] not in {domain[plan["hand-0"]], domain[plan["hand-1"]]}


def test_members_that_must_be_together_go_to_one_zone_with_room_for_all() -> None:
    close = somebody("p").near_to(X, key="zone").asking(cpu="40")
    cluster = zones()
    plan = where(cluster.place(*times(close, 2)))
    assert set(plan.values()) in ({"a", "b"}, {"c"})


def test_a_follower_finds_the_leader_of_its_own_gang() -> None:
    leader = pod("leader").labelled(role="leader").selecting(host="c").asking(cpu="1")
    followers = times(pod("f").near_to({"role": "leader"}, key="zone").asking(cpu="1"), 3)
    plan = where(zones().place(*followers, leader))
    assert set(plan.values()) == {"c"}


# -- pods that are only expected ---------------------------------------------------------------------------------


def test_a_lone_pod_may_not_lean_on_a_pod_that_may_never_come() -> None:
    cluster = zones()
    cluster.waiting(somebody("vip").nominated_to("a"))
    assert "has no pods near" in cluster.refuses(pod("p").near_to(X, key="zone")).replace("have", "has")


def test_a_pod_keeps_away_from_one_that_is_expected() -> None:
    cluster = zones()
    cluster.waiting(somebody("vip").nominated_to("c"))
    asking = pod("p").apart_from(X, key="host").selecting(zone="2")
    assert cluster.refuses(asking)
    cluster.state.drop_pod("uid-vip")
    assert where(cluster.place(asking)) == {"p": "c"}


def test_a_pod_of_higher_priority_does_not_mind_those_that_are_expected() -> None:
    cluster = zones()
    cluster.waiting(somebody("vip").nominated_to("c"))
    asking = pod("p").apart_from(X, key="host").selecting(zone="2")
    high = asking.with_(lambda it: it["spec"].update(priority=10))
    assert where(cluster.place(high)) == {"p": "c"}
