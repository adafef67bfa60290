"""What cannot be read is said aloud, names the field and the value, and stops nobody else."""

from __future__ import annotations

import pytest

from alnair.api import names
from harness.api import Api, Refused, at
from harness.builders import group, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import event_about, record_of_pod, refused

pytestmark = pytest.mark.shares_operator

BAD_ANNOTATIONS = {
    "NaN": {names.GPU_MEMORY: "NaN"},
    "underscores": {names.GPU_MEMORY: "1_000Mi"},
    "Arabic digits": {names.GPU_MEMORY: "٦Gi"},
    "negative": {names.GPU_MEMORY: "-6Gi"},
    "overflow": {names.GPU_MEMORY: "1e999999999999"},
    "no unit": {names.GPU_MEMORY: "6000"},
    "compute over a card": {names.GPU_MEMORY: "6Gi", names.GPU_COMPUTE: "101"},
    "compute alone": {names.GPU_COMPUTE: "50"},
}


@pytest.mark.parametrize("kind", BAD_ANNOTATIONS)
async def test_a_malformed_request_is_explained_and_others_go_on(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, kind: str
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = pod("x").by(operator.scheduler).selecting(fleet.selector)
    await api.create(group("bad", min_member=1).manifest(), namespace=namespace)
    annotations = BAD_ANNOTATIONS[kind]
    bad = asking.named("bad").in_group("bad").annotated(annotations)
    await api.create(bad.manifest(), namespace=namespace)
    await api.create(asking.named("good").slice(memory_gib=1).manifest(), namespace=namespace)

    await record_of_pod(api, namespace, "good", phase="Bound")
    field, value = list(annotations.items())[-1]
    shown = value if value.isascii() else ""
    message = await refused(api, namespace, "bad", "Pod bad: ", field, shown)
    told = await event_about(api, namespace, "bad", "Unschedulable")
    assert told["note"] == message


async def test_rules_that_this_version_does_not_honour_are_refused_not_ignored(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    manifest = pod("picky").slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector).manifest()
    manifest["spec"]["resourceClaims"] = [{"name": "card", "resourceClaimName": "card"}]
    await api.create(manifest, namespace=namespace)
    told = await event_about(api, namespace, "picky", "FailedScheduling")
    assert "spec.resourceClaims" in told["note"]
    assert "cannot honour" in told["note"]


async def test_a_pod_whose_group_does_not_exist_says_so_and_starts_when_it_does(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    member = (
        pod("early").in_group("later").slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector)
    )
    await api.create(member.manifest(), namespace=namespace)
    told = await event_about(api, namespace, "early", "FailedScheduling")
    assert f"PodGroup {namespace}/later does not exist" in told["note"]
    await api.create(group("later", min_member=1).manifest(), namespace=namespace)
    await api.until(at("pods", namespace, "early"), lambda it: it["spec"].get("nodeName"))


async def test_a_malformed_node_annotation_is_an_event_on_the_node_and_its_cards_are_not_used(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(
        node("broken").with_cards(1).annotated({names.GPU_STATIC: "{'mem_size': 'NaN'}"}),
        node("whole").with_cards(1),
    )
    asking = pod("x").slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    record = await record_of_pod(api, namespace, "x", phase="Bound")
    assert record["status"]["nodes"] == fleet.name("whole")
    told = await event_about(api, "default", fleet.name("broken"), "InvalidTopology")
    assert "mem_size" in told["note"]
    assert "NaN" in told["note"]


async def test_a_malformed_topology_object_is_an_event_on_the_node(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    (name,) = await fleet.add(
        node("mixed").with_cards(1, model="T4", memory_mib=16384).with_cards(1, model="A10", memory_mib=24576)
    )
    path = at("noderesourcetopologies", None, name)
    zones = (await api.get(path))["zones"]
    gpu = next(zone for zone in zones if zone["type"] == "GPU")
    gpu["resources"] = [{"name": "memory", "capacity": "-1Gi", "allocatable": "1Gi", "available": "1Gi"}]
    await api.patch(path, {"zones": zones})
    told = await event_about(api, "default", name, "InvalidTopology")
    assert "-1Gi" in told["note"]
    asking = pod("x").slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    await event_about(api, namespace, "x", "FailedScheduling")


@pytest.mark.parametrize(
    "spec", [{"minMember": -1}, {"minMember": "four"}, {"minMember": 1, "minResources": {"cpu": "NaN"}}]
)
async def test_a_malformed_group_is_refused_by_the_apiserver_itself(
    api: Api, namespace: str, spec: dict[str, object]
) -> None:
    manifest = group("bad", min_member=1).manifest()
    manifest["spec"] = spec
    with pytest.raises(Refused, match=r"minMember|minResources"):
        await api.create(manifest, namespace=namespace)
