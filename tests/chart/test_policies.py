"""Who may write what: the chart's policies name this release's operator, its records and its pods, and nobody else's.

What they refuse is tried on a real apiserver in tests/cluster/test_attacks.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from alnair.api import names
from alnair.api.podgroup import MOST_MEMBERS
from chart.test_delivery import PROFILES, policies

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]


def expressions(spec: Manifest) -> str:
    return " ".join(each["expression"] for each in spec["matchConditions"])


@pytest.mark.parametrize(
    ("namespace", "release", "override"),
    [
        ("gpu", "alnair", ""),
        ("gpu", "blue", ""),
        ("n" * 63, "alnair", ""),
        ("n" * 9, "a", "f" * 53),
        ("n" * 53 + "-1", "alnair", ""),
    ],
)
def test_records_are_known_by_the_label_that_the_operator_gives_them(
    render: Render, namespace: str, release: str, override: str
) -> None:
    objects = render({"fullnameOverride": override}, namespace=namespace, release=release)
    (operator,) = (each for each in objects if each["kind"] == "Deployment")
    arguments = operator["spec"]["template"]["spec"]["containers"][0]["args"]
    lease = arguments[arguments.index("--lease-name") + 1]
    label = names.label_value(f"{namespace}.{lease}")
    assert f"'{names.INSTANCE}'].orValue('') == '{label}'" in expressions(policies(objects)["records"])


def test_records_have_one_writer_and_it_is_this_releases_account(render: Render) -> None:
    spec = policies(render({"serviceAccount": {"name": "robot"}, "profiles": PROFILES}, namespace="ns"))[
        "records"
    ]
    assert (
        spec["matchConditions"][0]["expression"]
        == "request.userInfo.username != 'system:serviceaccount:ns:robot'"
    )
    assert "schedulerName.orValue('') in ['mine', 'yours']" in expressions(spec)
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["apiGroups"] == [names.GROUP_ALLOCATION]
    assert rule["resources"] == [names.PLURAL_ALLOCATION, f"{names.PLURAL_ALLOCATION}/status"]
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]


def test_editors_are_named_one_by_one(render: Render) -> None:
    assert "not-by-an-editor" not in json.dumps(policies(render())["records"])
    spec = policies(render({"policies": {"recordEditors": ["jane@example.com", "ops:root"]}}))["records"]
    assert '!(request.userInfo.username in ["jane@example.com","ops:root"])' in expressions(spec)


def test_the_groups_label_and_its_bound_are_the_operators(render: Render) -> None:
    assert names.POD_GROUP_LABEL in json.dumps(policies(render())["pods-update"])
    spec = policies(render())["podgroups"]
    assert f"> {MOST_MEMBERS}" in expressions(spec)
    assert "> 12 " in expressions(policies(render({"policies": {"groupMembers": 12}}))["podgroups"])


def test_switched_off_they_leave_what_delivery_needs(render: Render) -> None:
    off = {"policies": {"enabled": False}}
    assert policies(render(off)).keys() == {"delivery", "pods-create", "pods-update", "bindings"}
    (rule,) = policies(render(off))["pods-update"]["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["pods", "pods/ephemeralcontainers"]
    assert "nodeName" not in json.dumps(policies(render(off)))
    assert policies(render({**off, "delivery": {"enabled": False}})) == {}


def test_they_need_no_delivery(render: Render) -> None:
    found = policies(render({"delivery": {"enabled": False}}))
    assert found.keys() == {"pods-create", "pods-update", "bindings", "records", "podgroups"}
    assert names.ENV_VISIBLE_DEVICES not in json.dumps(found["pods-create"])
    assert f"'{names.GPU_SLICES}'" in json.dumps(found["pods-create"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"enabled": "yes"},
        {"groupMembers": 0},
        {"groupMembers": 8193},
        {"recordEditors": ["it's"]},
        {"recordEditors": "admin"},
        {"exempt": []},
    ],
    ids=str,
)
def test_wrong_values_are_refused(helm: Any, values_file: Callable[[Manifest], str], wrong: Manifest) -> None:
    result = helm.template("--values", values_file({"policies": wrong}))
    assert result.returncode != 0
    assert "don't meet the specifications of the schema" in result.stderr


def network_policy(objects: list[Manifest]) -> Manifest | None:
    return next((each["spec"] for each in objects if each["kind"] == "NetworkPolicy"), None)


def test_only_the_releases_own_namespace_reads_the_metrics_unless_others_are_named(render: Render) -> None:
    objects = render()
    spec = network_policy(objects)
    assert spec is not None
    (operator,) = (each for each in objects if each["kind"] == "Deployment")
    assert (
        spec["podSelector"]["matchLabels"].items()
        <= operator["spec"]["template"]["metadata"]["labels"].items()
    )
    ports = {each["name"] for each in operator["spec"]["template"]["spec"]["containers"][0]["ports"]}
    (metrics,) = spec["ingress"]
    assert {each["port"] for each in metrics["ports"]} == {"metrics"} <= ports
    assert metrics["from"] == [{"podSelector": {}}]
    assert spec["policyTypes"] == ["Ingress"]

    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    rule = {"ports": [{"port": 6443}]}
    given = {"metricsFrom": [prometheus], "egress": [rule], "extenderFrom": [prometheus]}
    spec = network_policy(render({"networkPolicy": given, "extender": {"enabled": True}}))
    assert spec is not None
    metrics, extender = spec["ingress"]
    assert metrics["from"] == [{"podSelector": {}}, prometheus]
    assert (extender["ports"], extender["from"]) == ([{"port": "extender", "protocol": "TCP"}], [prometheus])
    assert (spec["policyTypes"], spec["egress"]) == (["Ingress", "Egress"], [rule])
    assert network_policy(render({"networkPolicy": {"enabled": False}})) is None
