"""Wishes about other pods: preferred (anti-)affinity both ways, soft spread, Services."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.api import profiles
from alnair.scheduling.classes import Member, classes_of
from alnair.scheduling.profile import build
from alnair.state import wire
from harness.builders import PodBuilder, line, node, pod, term
from unit.builders import Cluster, decoded, scores, times, where

X = {"app": "x"}
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def zones(*there: tuple[PodBuilder, str]) -> Cluster:
    """a and b in zone 1, c in zone 2, d in none."""
    cluster = Cluster(
        *(
            node(name).labelled({HOST: name, **({"zone": zone, ZONE: zone} if zone else {})})
            for name, zone in (("a", "1"), ("b", "1"), ("c", "2"), ("d", ""))
        )
    )
    for number, (sentence, place) in enumerate(there):
        cluster.running(sentence, on=place, uid=f"there-{number}")
    return cluster


SOME = pod("some").labelled(X)
FAN = pod("fan").near_to(X, key="zone", weight=2)  # wishes for SOME
SPREAD = SOME.spread_over("zone", X, hard=False)

# -- InterPodAffinity --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "asking", "expected"),
    [
        pytest.param([(SOME, "a")], pod("p"), None, id="no wish"),
        pytest.param([(SOME, "a")], pod("p").near_to(X, key="zone"), None, id="a rule of its own is no wish"),
        pytest.param(
            [(SOME, "a")], pod("p").near_to(X, key="zone", weight=5), {"a": 1, "b": 1, "c": 0, "d": 0}, id="near"
        ),
        pytest.param(
            [(SOME, "a")], pod("p").apart_from(X, key="zone", weight=5), {"a": 0, "b": 0, "c": 1, "d": 1}, id="apart"
        ),
        pytest.param(
            [(SOME, "a"), (SOME, "a"), (SOME, "c")],
            pod("p").near_to(X, key="zone", weight=5),
            {"a": 1, "b": 1, "c": 0.5, "d": 0},
            id="two are better than one",
        ),
        pytest.param(
            [(SOME, "a")],
            pod("p").near_to(X, key="zone", weight=30).apart_from(X, key=HOST, weight=10),
            {"a": round(20 / 30, 6), "b": 1, "c": 0, "d": 0},
            id="wishes add up: 20, 30, 0, 0",
        ),
        pytest.param(
            [(SOME.in_namespace("other"), "a")],
            pod("p").near_to(X, key="zone", weight=5),
            {"a": 0, "b": 0, "c": 0, "d": 0},
            id="its own namespace only: all the same",
        ),
        pytest.param([(FAN, "c")], SOME, {"a": 0, "b": 0, "c": 1, "d": 0}, id="others like it"),
        pytest.param(
            [(pod("foe").apart_from(X, key="zone", weight=5), "c")],
            SOME,
            {"a": 1, "b": 1, "c": 0, "d": 1},
            id="others would rather not",
        ),
        pytest.param(
            [(pod("fan").near_to(X, key="zone"), "c")],
            SOME,
            {"a": 0, "b": 0, "c": 1, "d": 0},
            id="others need it",
        ),
        pytest.param(
            [(pod("fan").near_to(X, key="zone"), "c"), (pod("fond").near_to(X, key=HOST, weight=4), "a")],
            SOME,
            {"a": 1, "b": 0, "c": 0.25, "d": 0},
            id="a need of others counts as a wish of weight 1",
        ),
        pytest.param(
            [(FAN, "a"), (FAN, "b"), (FAN, "c")],
            SOME,
            {"a": 1, "b": 1, "c": 0.5, "d": 0},
            id="each that has the wish counts",
        ),
        pytest.param(
            [(FAN, "a"), (FAN, "a"), (FAN, "c")],
            SOME,
            {"a": 1, "b": 1, "c": 0.5, "d": 0},
            id="on one node too",
        ),
        pytest.param([(FAN, "c")], pod("p"), None, id="not meant by others"),
        pytest.param([(pod("foe").apart_from(X, key="zone"), "c")], SOME, None, id="a grudge is the filter's"),
        pytest.param(
            [(FAN, "d")],
            SOME,
            {"a": 0, "b": 0, "c": 0, "d": 0},
            id="a wish from no domain reaches nowhere",
        ),
    ],
)  # fmt: skip
def test_preferred_company(
    there: list[tuple[PodBuilder, str]], asking: PodBuilder, expected: dict[str, float] | None
) -> None:
    assert scores("InterPodAffinity", zones(*there), asking) == expected


def test_a_wish_of_others_ends_when_they_leave() -> None:
    cluster = zones((FAN, "c"))
    assert scores("InterPodAffinity", cluster, SOME) is not None
    cluster.state.drop_pod("there-0")
    assert scores("InterPodAffinity", cluster, SOME) is None


def test_others_wishes_by_the_labels_of_namespaces() -> None:
    chosen = {"namespaceSelector": {"matchLabels": {"tier": "gold"}}}
    cluster = zones((pod("fan").near_to(X, key="zone", weight=5, **chosen), "c"))
    assert scores("InterPodAffinity", cluster, SOME) is None
    cluster.namespace("team", tier="gold")
    assert scores("InterPodAffinity", cluster, SOME) == {"a": 0, "b": 0, "c": 1, "d": 0}


# -- PodTopologySpread -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "asking", "expected"),
    [
        pytest.param([], SOME, None, id="no wish"),
        pytest.param([], SOME.spread_over("zone", X), None, id="a rule is no wish"),
        pytest.param([], SPREAD, {"a": 1, "b": 1, "c": 1, "d": 0}, id="nobody is there yet"),
        pytest.param([(SOME, "a")], SPREAD, {"a": 0, "b": 0, "c": 1, "d": 0}, id="the emptier zone"),
        pytest.param(
            [(SOME, "a"), (SOME, "b"), (SOME, "c")],
            SPREAD,
            {"a": 0.5, "b": 0.5, "c": 1, "d": 0},
            id="2 pods against 1: (2 + 1 - 2) / 2",
        ),
        pytest.param(
            [(SOME, "a")],
            SOME.spread_over(HOST, X, hard=False),
            {"a": 0, "b": 1, "c": 1, "d": 1},
            id="by host",
        ),
        pytest.param(
            [(SOME, "a")],
            SOME.spread_over("zone", {}, hard=False),
            {"a": 1, "b": 1, "c": 1, "d": 0},
            id="an empty selector counts nothing",
        ),
        pytest.param(
            [(SOME, "a")],
            SOME.spread_over("zone", X, hard=False, nodeAffinityPolicy="Honor").selecting(zone="2"),
            {"a": 1, "b": 1, "c": 1, "d": 0},
            id="nodes that the pod may not go to are not counted",
        ),
        pytest.param(
            [(SOME, "a")],
            SOME.spread_over("zone", X, hard=False, nodeAffinityPolicy="Ignore").selecting(zone="2"),
            {"a": 0, "b": 0, "c": 1, "d": 0},
            id="unless they are to be",
        ),
        pytest.param(
            [(SOME, "a")],
            SOME.spread_over(HOST, X, hard=False).on_nodes(term(line("zone", "In", "2"))),
            {"a": 0, "b": 1, "c": 1, "d": 1},
            id="a host is counted all the same",
        ),
        pytest.param(
            [],
            SOME.spread_over("rack", X, hard=False),
            {"a": 0, "b": 0, "c": 0, "d": 0},
            id="a label that no node has",
        ),
    ],
)  # fmt: skip
def test_soft_spread(
    there: list[tuple[PodBuilder, str]], asking: PodBuilder, expected: dict[str, float] | None
) -> None:
    assert scores("PodTopologySpread", zones(*there), asking) == expected


def test_a_larger_skew_waters_the_difference_down() -> None:
    cluster = zones((SOME, "a"))
    strict = scores("PodTopologySpread", cluster, SPREAD)
    lax = scores("PodTopologySpread", cluster, SOME.spread_over("zone", X, hard=False, max_skew=5))
    assert strict is not None
    assert lax is not None
    assert strict["c"] == lax["c"] == 1
    assert strict["a"] < lax["a"] < 1


def test_many_domains_count_for_more_than_few() -> None:
    """One pod too many on the host of b weighs ln(4 + 2), one too many in the zone of c ln(2 + 2)."""
    places = zip("abcd", "1122", strict=True)
    cluster = Cluster(*(node(name).labelled({HOST: name, "zone": zone}) for name, zone in places))
    cluster.running(SOME.labelled(by="host"), on="b")
    cluster.running(pod("other").labelled(by="zone"), on="c")
    asking = (
        pod("p").spread_over(HOST, {"by": "host"}, hard=False).spread_over("zone", {"by": "zone"}, hard=False)
    )
    found = scores("PodTopologySpread", cluster, asking)
    assert found is not None
    assert found["a"] == 1
    assert found["a"] > found["d"] == found["c"] > found["b"] == 0


def test_what_others_require_counts_by_option() -> None:
    cluster = zones((FAN, "a"), (pod("needy").near_to(X, key="zone"), "c"))
    assert scores("InterPodAffinity", cluster, SOME) == {"a": 1, "b": 1, "c": 0.5, "d": 0}
    heavy = scores("InterPodAffinity", cluster, SOME, hardPodAffinityWeight=4)
    assert heavy == {"a": 0.5, "b": 0.5, "c": 1, "d": 0}
    assert scores("InterPodAffinity", cluster, SOME, hardPodAffinityWeight=0) == {
        "a": 1,
        "b": 1,
        "c": 0,
        "d": 0,
    }


# -- ServiceSpreading --------------------------------------------------------------------------------------------


def serving(cluster: Cluster, *, name: str = "s", namespace: str = "team", selector: Any = X) -> Cluster:
    manifest = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}
    cluster.state.services.put(decoded(manifest, wire.Service))
    return cluster


def third(node: float, zone: float) -> float:
    return round(node / 3 + 2 * zone / 3, 6)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param([], {"a": 1, "b": 1, "c": 1, "d": 1}, id="nobody is there yet"),
        pytest.param(
            [(SOME, "a")], {"a": 0, "b": third(1, 0), "c": 1, "d": 1}, id="the zone counts twice as much as the node"
        ),
        pytest.param(
            [(SOME, "a"), (SOME, "a"), (SOME, "c")],
            {"a": 0, "b": third(1, 0), "c": third(0.5, 0.5), "d": 1},
            id="by how many",
        ),
        pytest.param([(SOME, "d")], {"a": 1, "b": 1, "c": 1, "d": 0}, id="a node in no zone by itself"),
        pytest.param(
            [(SOME.in_namespace("other"), "a")], {"a": 1, "b": 1, "c": 1, "d": 1}, id="pods of the namespace only"
        ),
    ],
)  # fmt: skip
def test_services_are_spread(there: list[tuple[PodBuilder, str]], expected: dict[str, float]) -> None:
    assert scores("ServiceSpreading", serving(zones(*there)), SOME) == expected


def test_pods_that_are_going_away_do_not_count() -> None:
    cluster = serving(zones())
    cluster.running(SOME, on="a", terminating=True)
    assert scores("ServiceSpreading", cluster, SOME) == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_a_pod_of_two_services_minds_the_pods_of_both() -> None:
    cluster = zones(
        (SOME, "a"), (pod("other").labelled(tier="web"), "c"), (pod("other").labelled(tier="web"), "c")
    )
    serving(cluster)
    serving(cluster, name="t", selector={"tier": "web"})
    serving(cluster, name="again", selector={"tier": "web"})
    assert scores("ServiceSpreading", cluster, SOME.labelled(tier="web")) == {
        "a": third(0.5, 0.5),
        "b": third(1, 0.5),
        "c": 0,
        "d": 1,
    }


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(zones(), id="no Service"),
        pytest.param(serving(zones(), namespace="other"), id="of another namespace"),
        pytest.param(serving(zones(), selector={"app": "y"}), id="for other pods"),
        pytest.param(serving(zones(), selector={}), id="without a selector"),
        pytest.param(serving(zones(), selector=None), id="without even an empty one"),
        pytest.param(serving(serving(zones()), selector=None), id="that gave its selector up"),
    ],
)
def test_a_pod_of_no_service_has_nothing_to_mind(cluster: Cluster) -> None:
    assert scores("ServiceSpreading", cluster, SOME) is None


def test_a_service_that_is_gone_is_forgotten() -> None:
    cluster = serving(zones())
    assert list(cluster.state.services.names()) == [("team", "s")]
    cluster.state.services.drop("team", "s")
    cluster.state.services.drop("team", "never there")
    assert scores("ServiceSpreading", cluster, SOME) is None
    assert list(cluster.state.services.names()) == []


def test_members_of_different_services_are_told_apart() -> None:
    members = [
        Member(name, name, zones().kind(pod(name).labelled(app=app)))
        for name, app in (("p", "x"), ("q", "y"), ("r", "x"))
    ]

    def classes(cluster: Cluster) -> list[list[str]]:
        return [
            [member.uid for member in each.members] for each in classes_of(members, cluster.state.draft())
        ]

    assert classes(zones()) == [["p", "q", "r"]]
    assert classes(serving(zones())) == [["p", "r"], ["q"]]
    assert classes(serving(zones(), namespace="other")) == [["p", "q", "r"]]


# -- in a gang, in a profile -------------------------------------------------------------------------------------


def profile(*scorers: str) -> Any:
    return build(
        profiles.Profile(
            scheduler_name="mine",
            scorers=[profiles.Scorer(name=name) for name in scorers],
            picker=profiles.Rule(name="best-fit"),
        )
    )


def test_members_of_a_service_are_spread_among_themselves() -> None:
    cluster = serving(zones())
    plan = cluster.place(*times(SOME.named("m"), 4), profile=profile("ServiceSpreading"))
    assert sorted(where(plan).values()) in (["a", "b", "c", "d"], ["a", "c", "d", "d"], ["b", "c", "d", "d"])


def test_members_that_would_rather_be_together_are_and_those_that_would_not_are_not() -> None:
    together = times(SOME.named("m").near_to(X, key="zone", weight=1).selecting({ZONE: "1"}), 1)
    more = times(SOME.named("n").near_to(X, key="zone", weight=1), 3)
    plan = where(zones().place(*together, *more, profile=profile("InterPodAffinity")))
    assert set(plan.values()) <= {"a", "b"}
    apart = times(SOME.named("m").apart_from(X, key=HOST, weight=1), 4)
    assert sorted(where(zones().place(*apart, profile=profile("InterPodAffinity"))).values()) == list("abcd")


def test_members_spread_softly_among_themselves() -> None:
    members = times(SOME.named("m").spread_over("zone", X, hard=False), 4)
    plan = where(zones().place(*members, profile=profile("PodTopologySpread")))
    assert sum(each == "c" for each in plan.values()) == 2
    assert "d" not in plan.values()
