"""The chart's delivery policies: whose pods they look at, and that they spell everything as the operator does.

What they do is tried on a real apiserver in tests/cluster/test_delivery.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alnair.api import names
from alnair.api.config import parse_config

CHART = str(Path(__file__).parents[2] / "charts" / "alnair")
Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
PROFILES = [
    {"schedulerName": name, "scorers": [{"name": "Spread"}], "picker": "worst-fit"} for name in ("mine", "yours")
]  # fmt: skip
KINDS = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")


def policies(objects: list[Manifest]) -> dict[str, Manifest]:
    """By the last part of their names."""
    return {e["metadata"]["name"].rpartition(".")[2]: e["spec"] for e in objects if e["kind"] in KINDS}


def test_every_policy_is_in_force_and_refuses_when_it_fails(render: Render) -> None:
    objects = render()
    bound = {
        each["spec"]["policyName"]: each
        for each in objects
        if each["kind"].endswith("AdmissionPolicyBinding")
    }
    made = {each["metadata"]["name"]: each for each in objects if each["kind"] in KINDS}
    assert bound.keys() == made.keys()
    for name, each in made.items():
        assert each["spec"]["failurePolicy"] == "Fail"
        assert bound[name]["kind"] == f"{each['kind']}Binding"
        assert bound[name]["spec"].get("validationActions", ["Deny"]) == ["Deny"]


def test_only_pods_of_the_releases_profiles_are_changed(render: Render) -> None:
    (first, *_) = policies(render({"profiles": PROFILES}))["delivery"]["matchConditions"]
    assert first["expression"] == "object.spec.schedulerName in ['mine', 'yours']"


@pytest.mark.parametrize("policy", ["pods-create", "pods-update"])
@pytest.mark.parametrize("values", ["Refuse", "Override"])
def test_of_pods_of_others_only_the_claim_to_cards_is_looked_at(
    render: Render, policy: str, values: str
) -> None:
    made = policies(render({"profiles": PROFILES, "delivery": {"userValues": values}}))[policy]
    (only,) = made["matchConditions"]
    assert "bject.spec.schedulerName in ['mine', 'yours']" in only["expression"]
    assert f"'{names.GPU_SLICES}'" in only["expression"]


def test_only_this_releases_operator_is_let_through_without_a_question(render: Render) -> None:
    objects = render({"serviceAccount": {"name": "robot"}}, namespace="gpu")
    (first, _) = policies(objects)["bindings"]["matchConditions"]
    assert first["expression"] == "request.userInfo.username != 'system:serviceaccount:gpu:robot'"


def test_the_mutating_policy_spells_everything_as_the_operator_does(render: Render) -> None:
    text = json.dumps(policies(render())["delivery"])
    for variable, value in names.env_of_container(0, whole=False).items():
        assert f"['{variable}', '{value}']" in text
    assert f"'{names.ENV_MEMORY_LIMIT}' + string(i), '{names.MEMORY_LIMIT}' + string(i)" in text
    assert f"lists.range({names.MOST_LIMITED_CARDS})" in text
    assert f"'.{names.ENV_DOMAIN}/'" in text
    for name in (*names.GPU_RESOURCES, names.GPU_MEMORY, names.GPU_COUNT, names.GPU_OWNER):
        assert f"'{name}'" in text


def test_all_that_a_binding_writes_is_protected(render: Render) -> None:
    found = policies(render())
    for policy in ("pods-create", "pods-update", "bindings"):
        text = json.dumps(found[policy])
        assert f"key.contains('.{names.ENV_DOMAIN}/')" in text
        assert f"['{names.NODE}', '{names.GPU_ID}', '{names.GPU_SLICES}']" in text


def test_annotations_and_new_containers_are_looked_at_on_every_way_to_a_pod(render: Render) -> None:
    (rule,) = policies(render())["pods-update"]["matchConstraints"]["resourceRules"]
    assert rule["operations"] == ["UPDATE"]
    assert rule["resources"] == ["pods", "pods/ephemeralcontainers", "pods/status"]


def test_values_of_users_are_refused_only_where_they_are_not_overridden(render: Render) -> None:
    (refusing,) = policies(render())["pods-create"]["matchConditions"]
    assert names.ENV_VISIBLE_DEVICES in refusing["expression"]
    overriding = policies(render({"delivery": {"userValues": "Override"}}))
    (not_refusing,) = overriding["pods-create"]["matchConditions"]
    assert names.ENV_VISIBLE_DEVICES not in not_refusing["expression"]
    assert "op: 'remove'" in json.dumps(overriding["delivery"])


def test_the_policy_runs_again_after_what_others_change(render: Render) -> None:
    assert policies(render())["delivery"]["reinvocationPolicy"] == "IfNeeded"


def test_whole_cards_are_a_matter_of_choice(render: Render) -> None:
    def whole_too(choice: str) -> str:
        spec = policies(render({"delivery": {"wholeCards": choice}}))["delivery"]
        return next(str(e["expression"]) for e in spec["variables"] if e["name"] == "wholeToo")

    assert whole_too("Environment") == "true"
    assert names.GPU_OWNER in whole_too("DevicePlugin")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_operator_asks_for_what_the_chart_installs(render: Render, enabled: bool) -> None:
    objects = render({"delivery": {"enabled": enabled}, "profiles": PROFILES})
    (config,) = (each["data"]["config.yaml"] for each in objects if each["kind"] == "ConfigMap")
    assert ("delivery" in policies(objects)) is enabled
    assert parse_config(config, origin="chart").delivering() == ({"mine", "yours"} if enabled else set())


@pytest.mark.parametrize(
    "wrong", [{"enabled": "yes"}, {"wholeCards": "Both"}, {"userValues": "Ignore"}, {"policy": "x"}], ids=str
)
def test_wrong_values_are_refused(helm: Any, values_file: Callable[[Manifest], str], wrong: Manifest) -> None:
    result = helm.template("--values", values_file({"delivery": wrong}))
    assert result.returncode != 0
    assert "don't meet the specifications of the schema" in result.stderr


def test_a_cluster_without_such_policies_is_told_so(helm: Any) -> None:
    result = helm.run("template", "a", CHART, "--kube-version", "1.35.2")
    assert result.returncode != 0
    assert "needs MutatingAdmissionPolicies, which Kubernetes has from 1.36 on" in result.stderr
    result = helm.run("template", "a", CHART, "--kube-version", "1.35.2", "--set", "delivery.enabled=false")
    assert result.returncode == 0, result.stderr
