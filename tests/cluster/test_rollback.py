"""A gang that cannot be completed does not stay half: its place is kept for a while, then it is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from harness.api import Api, Refused, at
from harness.builders import group, node, pod, statefulset
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import bound_pods, condition, event_about, record_of_group

pytestmark = pytest.mark.shares_operator


@pytest.fixture
async def one_pod_refused(api: Api, namespace: str) -> AsyncIterator[str]:
    """An admission policy of the cluster that refuses the Binding of pod `w-3`; its path."""
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    name = f"refuse-{namespace}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/binding"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": f"request.namespace != '{namespace}' || request.name != 'w-3'",
                    "message": "w-3 must not be bound",
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    await api.call("POST", policies, policy)
    await api.call("POST", bindings, binding)
    await _in_force(api, namespace)
    yield f"{bindings}/{name}"
    await api.delete(f"{bindings}/{name}")
    await api.delete(f"{policies}/{name}")


async def _in_force(api: Api, namespace: str) -> None:
    """Admission policies take a moment to be seen by the apiserver: ask it, without binding anything."""
    trial = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "w-3"},
        "target": {"kind": "Node", "name": "nowhere"},
    }
    for _ in range(100):
        try:
            await api.call("POST", at("pods", namespace, "w-3", "binding"), trial)
        except Refused as refused:
            if "must not be bound" in str(refused):
                return
        await asyncio.sleep(0.1)  # there is nothing to watch: the policy's effect has no object
    raise AssertionError("the admission policy never came into force")


async def test_a_half_bound_gang_is_rolled_back_after_its_timeout_and_bound_whole_once_it_can_be(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, one_pod_refused: str
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    await api.create(group("torn", min_member=4).giving_up_after(6).manifest(), namespace=namespace)
    member = pod("w").in_group("torn").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(statefulset("w", member, replicas=4).manifest(), namespace=namespace)

    first = {p["metadata"]["uid"] for p in await bound_pods(api, namespace, 3)}
    await api.until(
        at("podgroups", namespace, "torn"),
        lambda it: condition(it, "Scheduled").get("reason") in ("WaitingForReplacements", "Scheduling"),
    )
    told = await event_about(api, namespace, "torn", "RolledBack", timeout=60)
    assert "not replaced within 6 s" in told["note"]
    await api.until_all(
        at("pods", namespace), lambda pods: not first & {p["metadata"]["uid"] for p in pods}, timeout=60
    )

    await api.delete(one_pod_refused)
    bound = await bound_pods(api, namespace, 4, timeout=90)
    record = await record_of_group(api, namespace, "torn", phase="Bound", timeout=60)
    assert {each["uid"] for each in record["status"]["pods"]} == {p["metadata"]["uid"] for p in bound}


async def test_pods_that_nothing_would_recreate_are_never_evicted(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, one_pod_refused: str
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    await api.create(group("lone", min_member=4).giving_up_after(5).manifest(), namespace=namespace)
    member = pod("w").in_group("lone").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(4), namespace=namespace)

    record = await record_of_group(api, namespace, "lone", phase="RollingBack", timeout=60)
    said = condition(record, "RolledBack")
    assert (said["status"], said["reason"]) == ("False", "PodsWithoutController")
    assert "w-0, w-1, w-2" in said["message"]
    assert len(await bound_pods(api, namespace, 3)) == 3
