"""The placement rules of a manifest, read into the shape: nothing lost, nothing judged, equal rules equal."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.state.selectors import NodeTerm, PodSet, PodTerm, Requirement, Selector, whole_number
from alnair.state.shapes import HostPort, PodShape, SpreadRule
from harness.builders import PodBuilder, line, pod, term
from unit.builders import as_pod

APP = Requirement("app", "In", ("x",))


def shape(sentence: PodBuilder) -> PodShape:
    return as_pod(sentence).shape


def meant(*requirements: Requirement, namespaces: tuple[str, ...] = ("team",), **more: Any) -> PodSet:
    return PodSet(namespaces, Selector(requirements), **more)


# -- nodes -------------------------------------------------------------------------------------------------------


def test_a_required_node_affinity_is_read_term_by_term() -> None:
    sentence = pod("p").on_nodes(
        term(line("zone", "In", "b", "a"), line("old", "DoesNotExist")),
        term(fields=[line("metadata.name", "In", "n")]),
        term(),
    )
    assert shape(sentence).node_terms == (
        NodeTerm((Requirement("zone", "In", ("a", "b")), Requirement("old", "DoesNotExist"))),
        NodeTerm(fields=(Requirement("metadata.name", "In", ("n",)),)),
        NodeTerm(),
    )


def test_no_node_affinity_is_not_an_empty_one() -> None:
    assert shape(pod("p")).node_terms is None
    assert shape(pod("p").on_nodes()).node_terms == ()


def test_wishes_about_nodes_keep_their_weights() -> None:
    sentence = pod("p").on_nodes(term(line("zone", "Exists")), weight=7).on_nodes(term(), weight=1)
    assert shape(sentence).preferred_nodes == (
        (7, NodeTerm((Requirement("zone", "Exists"),))),
        (1, NodeTerm()),
    )
    assert shape(sentence).node_terms is None


# -- other pods --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "pods"),
    [
        pytest.param({}, meant(APP), id="the pod's own namespace if none is named"),
        pytest.param({"namespaces": ["b", "a", "b"]}, meant(APP, namespaces=("a", "b")), id="named ones instead"),
        pytest.param(
            {"namespaceSelector": {}},
            meant(APP, namespaces=(), namespace_selector=Selector()),
            id="an empty namespaceSelector is every namespace",
        ),
        pytest.param(
            {"namespaces": ["a"], "namespaceSelector": {"matchLabels": {"tier": "gold"}}},
            meant(
                APP,
                namespaces=("a",),
                namespace_selector=Selector((Requirement("tier", "In", ("gold",)),)),
            ),
            id="named and selected ones together",
        ),
        pytest.param(
            {"matchLabelKeys": ["rev", "absent"]},
            meant(APP, Requirement("rev", "In", ("7",))),
            id="the value of its own label, where it has it",
        ),
        pytest.param(
            {"mismatchLabelKeys": ["rev"]},
            meant(APP, Requirement("rev", "NotIn", ("7",))),
            id="any value but that of its own label",
        ),
    ],
)  # fmt: skip
def test_whom_a_pod_term_means(fields: dict[str, Any], pods: PodSet) -> None:
    sentence = pod("p").labelled(rev="7")
    term = PodTerm(pods, "zone")
    assert shape(sentence.near_to({"app": "x"}, key="zone", **fields)).near == (term,)
    assert shape(sentence.apart_from({"app": "x"}, key="zone", **fields)).apart == (term,)


def test_label_keys_that_the_apiserver_has_written_into_the_selector_already_are_not_read_twice() -> None:
    told = {
        "labelSelector": {"matchLabels": {"app": "x"}, "matchExpressions": [line("rev", "In", "7")]},
        "matchLabelKeys": ["rev"],
    }
    sentence = pod("p").labelled(rev="7")
    expected = (APP, Requirement("rev", "In", ("7",)))
    (near,) = shape(sentence.near_to(None, key="zone", **told)).near
    (rule,) = shape(sentence.spread_over("zone", None, **told)).spread
    assert near.pods.selector == rule.pods.selector == Selector(expected)


def test_an_absent_selector_means_nobody_and_an_empty_one_everybody() -> None:
    (nobody,) = shape(pod("p").near_to(None, key="zone")).near
    (everybody,) = shape(pod("p").near_to({}, key="zone")).near
    assert not nobody.pods.has("team", {"app": "x"}, {})
    assert everybody.pods.has("team", {}, {})
    assert not everybody.pods.has("other", {}, {})


def test_wishes_about_pods_are_weighed_up_or_down() -> None:
    sentence = (
        pod("p").near_to({"app": "x"}, key="zone", weight=5).apart_from({"app": "x"}, key="host", weight=3)
    )
    assert shape(sentence).preferred_pods == (
        (5, PodTerm(meant(APP), "zone")),
        (-3, PodTerm(meant(APP), "host")),
    )
    assert (shape(sentence).near, shape(sentence).apart) == ((), ())


# -- spread ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"max_skew": 3, "hard": False}, {"max_skew": 3, "hard": False}),
        ({"minDomains": 4}, {"min_domains": 4}),
        ({"nodeAffinityPolicy": "Ignore"}, {"honor_affinity": False}),
        ({"nodeAffinityPolicy": "Honor"}, {"honor_affinity": True}),
        ({"nodeTaintsPolicy": "Honor"}, {"honor_taints": True}),
        ({"nodeTaintsPolicy": "Ignore"}, {"honor_taints": False}),
    ],
)
def test_a_spread_constraint_is_read_with_its_defaults(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    default = SpreadRule("zone", 1, meant(APP, living=True))
    (rule,) = shape(pod("p").spread_over("zone", {"app": "x"}, **fields)).spread
    changed = {**{name: getattr(default, name) for name in SpreadRule.__dataclass_fields__}, **expected}
    assert rule == SpreadRule(**changed)


def test_a_spread_constraint_takes_values_from_the_pods_own_labels() -> None:
    sentence = pod("p").labelled(rev="7").spread_over("zone", {"app": "x"}, matchLabelKeys=["rev", "absent"])
    (rule,) = shape(sentence).spread
    assert rule.pods == meant(APP, Requirement("rev", "In", ("7",)), living=True)


# -- ports, images -----------------------------------------------------------------------------------------------


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    def more(it: dict[str, Any]) -> None:
        it["spec"]["initContainers"] = [
            {"name": "side", "restartPolicy": "Always", "ports": [{"hostPort": 81, "protocol": "UDP"}]},
            {"name": "init", "ports": [{"hostPort": 82}]},
        ]
        it["spec"]["containers"][0]["ports"].append({"containerPort": 83})

    sentence = pod("p").on_host_port(80, ip="10.0.0.1").on_host_port(80, ip="10.0.0.1").with_(more)
    assert shape(sentence).ports == (HostPort("TCP", "10.0.0.1", 80), HostPort("UDP", "0.0.0.0", 81))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("pause", "pause:latest"),
        ("pause:3", "pause:3"),
        ("registry.example:5000/pause", "registry.example:5000/pause:latest"),
        ("registry.example:5000/pause:3", "registry.example:5000/pause:3"),
        ("team/pause@sha256:00", "team/pause@sha256:00"),
    ],
)
def test_an_image_is_called_as_kubelets_call_it(written: str, read: str) -> None:
    assert shape(pod("p").running_image(written)).images == (read,)


def test_images_are_those_of_all_containers_and_those_of_volumes_apart() -> None:
    def more(it: dict[str, Any]) -> None:
        it["spec"]["initContainers"] = [{"name": "init", "image": "a"}]
        it["spec"]["volumes"] = [
            {"name": "model", "image": {"reference": "weights"}},
            {"name": "no", "emptyDir": {}},
        ]

    sentence = pod("p").running_image("a").with_container("second").running_image("b:1").with_(more)
    assert shape(sentence).images == ("a:latest", "a:latest", "b:1")
    assert shape(sentence).mounted_images == ("weights:latest",)


# -- equal rules are equal ---------------------------------------------------------------------------------------


def test_pods_with_equal_rules_have_equal_shapes_whatever_their_labels() -> None:
    sentence = (
        pod("p")
        .on_nodes(term(line("zone", "In", "a", "b")))
        .near_to({"app": "x", "role": "y"}, key="zone")
        .spread_over("host", {"app": "x"})
        .on_host_port(80)
    )
    other = (
        pod("q")
        .labelled(index="1")
        .on_nodes(term(line("zone", "In", "b", "a")))
        .near_to({"role": "y", "app": "x"}, key="zone")
        .spread_over("host", {"app": "x"})
        .on_host_port(80, protocol="TCP", ip="0.0.0.0")
    )
    assert shape(sentence) == shape(other)
    assert hash(shape(sentence)) == hash(shape(other))
    for different in (
        sentence.on_nodes(term()),
        sentence.on_nodes(term(), weight=1),
        sentence.near_to({"app": "x"}, key="host"),
        sentence.near_to({"app": "x"}, key="zone", weight=1),
        sentence.apart_from({"app": "x"}, key="zone"),
        sentence.spread_over("host", {"app": "z"}),
        sentence.on_host_port(81),
        sentence.running_image("other"),
    ):
        assert shape(different) != shape(sentence)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("007", 7),
        (str((1 << 63) - 1), (1 << 63) - 1),
        (str(1 << 63), None),
        (str(-(1 << 63)), -(1 << 63)),
        ("", None),
        ("+-7", None),
        ("7.0", None),
        (" 7", None),
        ("1_0", None),
        ("٣", None),
        ("0" * 30 + "7", 7),
        (None, None),
    ],
)  # fmt: skip
def test_whole_numbers_are_read_as_go_reads_them(text: str | None, number: int | None) -> None:
    assert whole_number(text) == number
