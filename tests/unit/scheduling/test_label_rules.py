"""Rules about labels of nodes and shapes of use, which old policies have arguments for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from alnair.api.config import parse_config
from alnair.scheduling.plugins import FILTERS, SCORERS
from alnair.scheduling.profile import build
from alnair.state import wire
from harness.builders import NodeBuilder, node, pod
from unit.builders import Cluster, decoded, let_through, made, reasons, scores, times, where

WEB = {"app": "web"}


def rack_nodes() -> list[NodeBuilder]:
    """a and b in rack 1 of zone x, c in rack 2 of zone x, d in rack 1 of zone y, e in none."""
    places = {"a": ("1", "x"), "b": ("1", "x"), "c": ("2", "x"), "d": ("1", "y")}
    labelled = [node(name).labelled({"rack": rack, "zone": zone}) for name, (rack, zone) in places.items()]
    return [*labelled, node("e")]


def racks() -> Cluster:
    return Cluster(*rack_nodes())


def with_service(cluster: Cluster) -> Cluster:
    service = {"metadata": {"name": "web", "namespace": "team"}, "spec": {"selector": WEB}}
    cluster.state.services.put(decoded(service, wire.Service))
    return cluster


# -- NodeLabel, LabelPreference ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "abcde"),
        ({"present": ["rack"]}, "abcd"),
        ({"absent": ["rack"]}, "e"),
        ({"present": ["rack", "gone"]}, ""),
        ({"present": ["rack"], "absent": ["gone"]}, "abcd"),
    ],
)
def test_only_nodes_with_and_without_the_labels_pass(options: dict[str, Any], expected: str) -> None:
    assert let_through("NodeLabel", racks(), pod("p"), **options) == list(expected)


def test_a_node_that_fails_for_its_labels_is_told_which() -> None:
    told = reasons("NodeLabel", racks(), pod("p"), present=["rack"], absent=["gone"])
    assert told == [("does not have the labels that this profile is for (rack, no gone)", 1)]


def test_labels_are_liked_by_weight() -> None:
    likes = [{"label": "rack", "weight": 3}, {"label": "gone", "presence": False, "weight": 1}]
    found = scores("LabelPreference", racks(), pod("p"), labels=likes)
    assert found == {"a": 1, "b": 1, "c": 1, "d": 1, "e": 0.25}
    assert scores("LabelPreference", racks(), pod("p")) is None


# -- Services ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "labels", "expected"),
    [
        pytest.param("", ["rack"], "abcde", id="the first may go anywhere"),
        pytest.param("a", ["rack"], "abd", id="the rack of the first, in any zone"),
        pytest.param("a", ["rack", "zone"], "ab", id="by all labels at once"),
        pytest.param("ac", ["rack"], "abcd", id="where any is"),
        pytest.param("e", ["rack"], "abcde", id="a node without the label binds nobody"),
        pytest.param("a", [], "abcde", id="no labels, no rule"),
    ],
)
def test_pods_of_a_service_stay_in_its_group(there: str, labels: list[str], expected: str) -> None:
    cluster = with_service(racks())
    for place in there:
        cluster.running(pod(f"web-{place}").labelled(WEB), on=place)
    assert let_through("ServiceAffinity", cluster, pod("p").labelled(WEB), labels=labels) == list(expected)
    assert let_through("ServiceAffinity", cluster, pod("other"), labels=labels) == list("abcde")


def test_what_the_pod_itself_selects_goes_before_where_its_service_is() -> None:
    cluster = with_service(racks())
    cluster.running(pod("web").labelled(WEB), on="a")
    asking = pod("p").labelled(WEB).selecting({"rack": "2"})
    assert let_through("ServiceAffinity", cluster, asking, labels=["rack", "zone"]) == list("abc")
    assert let_through("ServiceAffinity", cluster, asking, labels=["rack"]) == list("abcde")


def test_a_node_outside_the_services_group_is_told_so() -> None:
    cluster = with_service(racks())
    cluster.running(pod("web").labelled(WEB), on="a")
    told = reasons("ServiceAffinity", cluster, pod("p").labelled(WEB), labels=["rack"])
    assert told == [("is not in the group of nodes (rack) where other pods of its Service are", 2)]


def test_members_of_a_gang_that_are_one_service_are_placed_in_one_group() -> None:
    cluster = with_service(Cluster(*(each.holding(cpu="4") for each in rack_nodes())))
    config = parse_config(
        "profiles: [{schedulerName: p, scorers: [LeastRequested], picker: best-fit, "
        "filters: {enable: [{name: ServiceAffinity, options: {labels: [rack, zone]}}]}}]",
        origin="f",
    )
    worker = pod("w").labelled(WEB).asking(cpu="3")
    plan = cluster.place(*times(worker, 2), profile=build(config.profiles[0]))
    assert sorted(where(plan).values()) == ["a", "b"]
    cluster.refuses(*times(worker, 3), profile=build(config.profiles[0]))


def test_groups_with_a_smaller_part_of_the_service_are_liked_better() -> None:
    cluster, asking, rack = with_service(racks()), pod("p").labelled(WEB), [{"label": "rack"}]
    assert scores("ServiceAntiAffinity", cluster, asking, labels=rack) == {
        "a": 1,
        "b": 1,
        "c": 1,
        "d": 1,
        "e": 0,
    }
    for place in ("a", "d", "c", "e"):
        cluster.running(pod(f"web-{place}").labelled(WEB), on=place)
    found = scores("ServiceAntiAffinity", cluster, asking, labels=rack)
    assert found == {"a": 0.5, "b": 0.5, "c": 0.75, "d": 0.5, "e": 0}
    both = scores(
        "ServiceAntiAffinity", cluster, asking, labels=[{"label": "rack", "weight": 3}, {"label": "zone"}]
    )
    assert both == {"a": 0.5, "b": 0.5, "c": 0.6875, "d": 0.5625, "e": 0}


# -- RequestedToCapacityRatio ------------------------------------------------------------------------------------


def use(cpu: int, **options: Any) -> float:
    """The score of a node of 10 cores of which so many are used, for a pod that asks for none."""
    cluster = Cluster(node("a").holding(cpu="10", memory="100Gi"))
    if cpu:
        cluster.running(pod("there").asking(cpu=str(cpu)), on="a")
    found = scores("RequestedToCapacityRatio", cluster, pod("p"), **options)
    assert found is not None
    return found["a"]


def points(*shape: tuple[int, int]) -> list[dict[str, int]]:
    return [{"utilization": utilization, "score": score} for utilization, score in shape]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param(points((0, 0), (100, 10)), (0, 0.5, 1), id="fills"),
        pytest.param(points((0, 10), (100, 0)), (1, 0.5, 0), id="spreads"),
        pytest.param(points((0, 0), (50, 10), (100, 0)), (0, 1, 0), id="half full is best"),
        pytest.param(points((50, 4)), (0.4, 0.4, 0.4), id="one point is a constant"),
        pytest.param(points((25, 0), (75, 10)), (0, 0.5, 1), id="flat outside the points"),
    ],
)
def test_scores_lie_on_the_lines_between_the_points(
    shape: list[dict[str, int]], expected: tuple[float, ...]
) -> None:
    assert tuple(use(cpu, shape=shape, resources=[{"name": "cpu"}]) for cpu in (0, 5, 10)) == expected


def test_resources_count_by_weight_and_those_that_a_node_lacks_do_not() -> None:
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory"}, {"name": "example.com/none", "weight": 9}]
    assert use(10, resources=resources) == 0.75
    assert use(10, resources=resources[2:]) == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, unique_by=lambda point: point[0]
    ),
    st.integers(0, 12),
)
def test_scores_are_from_0_to_1_whatever_the_shape(shape: list[tuple[int, int]], cpu: int) -> None:
    assert 0 <= use(cpu, shape=points(*sorted(shape))) <= 1


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("RequestedToCapacityRatio", {"shape": []}),
        ("RequestedToCapacityRatio", {"shape": points((5, 1), (5, 2))}),
        ("RequestedToCapacityRatio", {"shape": points((5, 11))}),
        ("RequestedToCapacityRatio", {"resources": [{"name": "cpu", "weight": 0}]}),
        ("NodeLabel", {"present": ["a b"]}),
        ("NodeLabel", {"presence": ["a"]}),
        ("LabelPreference", {"labels": [{"label": "a", "weight": 0}]}),
        ("ServiceAffinity", {"labels": "zone"}),
        ("ServiceAntiAffinity", {"labels": ["zone"]}),
    ],
)
def test_wrong_options_are_refused(rule: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        made({**SCORERS, **FILTERS}[rule], options)
