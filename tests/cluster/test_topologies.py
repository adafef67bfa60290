"""NodeResourceTopologies on a real control plane: every card is shown, and what others publish is never touched."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from alnair.api import names
from alnair.api.topology import is_ours
from alnair.sandbox import fleet as fleets
from alnair.sandbox.access import Access
from harness.api import Api, Object, at
from harness.audit import writes
from harness.builders import node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import event_about, record_of_pod

TOPOLOGIES = "noderesourcetopologies"


def cards(topology: Object) -> list[Object]:
    return [zone for zone in topology["zones"] if zone["type"] == "GPU"]


def attributes(thing: Object) -> dict[str, str]:
    return {each["name"]: each["value"] for each in thing["attributes"]}


async def published(api: Api, name: str, count: int) -> Object:
    return await api.until(
        at(TOPOLOGIES, None, name),
        lambda it: is_ours(it) and len(cards(it)) == count,
        what=f"cards of {name}",
    )


# -- must show: every card of the demo's cluster -----------------------------------------------------------------


@pytest.fixture
async def mixed_fleet(api: Api, namespace: str) -> AsyncIterator[dict[str, str]]:
    """The demo's nodes under names of this test's own: name in the demo -> name here."""
    manifests = deepcopy(fleets.small_mixed_fleet())
    names_here = {}
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        manifest["metadata"]["name"] = names_here[name] = f"{name}.{namespace}"
    await api.create_all([each for each in manifests if each["kind"] == names.KIND_NRT])
    await api.create_all([each for each in manifests if each["kind"] == "Node"])
    yield names_here
    for name in names_here.values():
        await api.delete(at("nodes", None, name))
        await api.delete(at(TOPOLOGIES, None, name))


@pytest.mark.shares_operator
async def test_kubectl_shows_every_card_of_the_demos_cluster_with_model_memory_numa_node_and_links(
    cluster: Access, api: Api, mixed_fleet: dict[str, str], operator: Operator
) -> None:
    assert operator.running()
    expected = {
        "a100-1": [fleets.A100_40] * 8,
        "a10-1": [fleets.A10] * 4,
        "a10-2": [fleets.A10] * 4,
        "t4-1": [fleets.T4] * 2,
        "v100-1": [fleets.V100] * 4,
        "mixed-1": [fleets.A10, fleets.T4],
    }
    for short in expected:
        await api.until(at(TOPOLOGIES, None, mixed_fleet[short]), cards, what=f"a topology of {short}")
    listed = cluster.kubectl("get", TOPOLOGIES)
    for short, kinds in expected.items():
        name = mixed_fleet[short]
        (line,) = [line for line in listed.splitlines() if line.startswith(f"{name} ")]
        described = cluster.kubectl("describe", TOPOLOGIES, name)
        for kind in set(kinds):
            assert f"{kinds.count(kind)} x {kind.model}" in line
            assert f"{kind.memory_mib // 1024}Gi" in line
        assert re.search(r" 0,1 ", line), "the NUMA nodes"
        zones = described.split("Type:")  # a zone ends with its type, in the order of the alphabet
        for index, kind in enumerate(kinds):
            (zone,) = [zone for zone in zones if fleets.card_uuid(short, index) in zone]
            assert re.search(rf"Name: +model\n +Value: +{kind.model}\n", zone)
            assert re.search(rf"Capacity: +{kind.memory_mib // 1024}Gi\n", zone)
            assert re.search(r"Parent: +node-[01]\n", zone), "its NUMA node"
            linked = re.findall(r"Name: +(gpu-\d)\n +Value: +\d+\n", zone)
            assert linked == [f"gpu-{other}" for other in range(len(kinds)) if other != index]
    assert mixed_fleet["cpu-1"] not in listed


# -- ours and others' --------------------------------------------------------------------------------------------


@pytest.mark.shares_operator
async def test_it_is_published_for_every_source_and_never_read_back(
    api: Api, fleet: Fleet, operator: Operator
) -> None:
    assert operator.running()
    labelled, annotated = await fleet.add(
        node("labels").with_cards(2).owned_by("device-plugin"), node("uuids").with_cards(3)
    )
    by_index = await published(api, labelled, 2)
    assert attributes(by_index)["source"] == "labels"
    assert attributes(cards(by_index)[0])["id"] == f"{labelled}/0"
    assert by_index["metadata"]["labels"] == {names.MANAGED_BY: "alnair"}
    by_uuid = await published(api, annotated, 3)
    assert attributes(cards(by_uuid)[2])["uuid"] == fleets.card_uuid(annotated, 2)
    # Two cards less: if ours were a source, it would go before the annotations.
    fewer = fleets.gpu_node(annotated, model="NVIDIA-A10", cards=1, memory_mib=24576)
    await api.patch(
        at("nodes", None, annotated), {"metadata": {"annotations": fewer["metadata"]["annotations"]}}
    )
    await published(api, annotated, 1)


@pytest.mark.shares_operator
async def test_an_edit_is_undone_a_deletion_too_and_it_goes_with_the_node(
    api: Api, fleet: Fleet, operator: Operator
) -> None:
    assert operator.running()
    (name,) = await fleet.add(node("gpu").with_cards(2))
    path = at(TOPOLOGIES, None, name)
    there = await published(api, name, 2)
    await api.patch(path, {"zones": there["zones"][:1]})
    await published(api, name, 2)
    await api.patch(path, {"metadata": {"labels": {names.MANAGED_BY: None}}})
    await api.until(path, lambda it: names.MANAGED_BY in it["metadata"].get("labels", {}))
    await api.delete(path)
    again = await published(api, name, 2)
    assert again["metadata"]["uid"] != there["metadata"]["uid"]
    await api.delete(at("nodes", None, name))
    await api.until_gone(path)


@pytest.mark.shares_operator
async def test_it_goes_with_the_cards_though_the_node_stays(
    api: Api, fleet: Fleet, operator: Operator
) -> None:
    """Nobody else would delete it: the garbage collector does so for a node that is gone."""
    assert operator.running()
    (name,) = await fleet.add(node("gpu").with_cards(2))
    await published(api, name, 2)
    told = fleets.gpu_node(name, model="NVIDIA-A10", cards=2, memory_mib=24576)["metadata"]["annotations"]
    await api.patch(at("nodes", None, name), {"metadata": {"annotations": dict.fromkeys(told)}})
    await api.until_gone(at(TOPOLOGIES, None, name))


@pytest.mark.parametrize("how", ["update", "apply"])
async def test_whoever_publishes_into_ours_has_it_and_when_theirs_goes_ours_comes_back(
    cluster: Access, api: Api, namespace: str, fleet: Fleet, operator: Operator, how: str
) -> None:
    """NFD and the exporter read the object and update it; others apply. Labels of ours may stay in it."""
    (name,) = await fleet.add(node("gpu").with_cards(1))
    path = at(TOPOLOGIES, None, name)
    there = await published(api, name, 1)
    theirs = fleets.topology(name, [fleets.A100_80] * 2)
    if how == "update":
        await api.replace(path, {**there, "zones": theirs["zones"], "attributes": []})
    else:
        cluster.apply([theirs])
    # A slice that only a card of theirs can hold: it is they who are believed now.
    asking = pod("large").slice(memory_gib=79).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    await record_of_pod(api, namespace, "large", phase="Bound")
    await api.delete(at("pods", namespace, "large"))
    changed = fleets.gpu_node(name, model="NVIDIA-A10", cards=3, memory_mib=24576)
    await api.patch(
        at("nodes", None, name), {"metadata": {"annotations": changed["metadata"]["annotations"]}}
    )
    await api.never(path, lambda it: it["zones"] != theirs["zones"], during=4)
    user = f"system:serviceaccount:{namespace}:alnair"
    ours = [entry["verb"] for entry in writes(cluster, user, resource=TOPOLOGIES) if _about(entry, name)]
    # Other tests' operators know this node too, and one of them may have published first.
    assert ours in (["create"], [])
    await api.delete(path)
    await published(api, name, 3)


def _about(entry: dict[str, Any], name: str) -> bool:
    if entry["verb"] == "create":  # an audit entry of a creation has the name in the answer only, if at all
        return entry["objectRef"].get("name", name) == name
    return bool(entry["objectRef"]["name"] == name)


async def test_at_rest_nothing_is_written_and_a_restart_writes_nothing_again(
    api: Api, fleet: Fleet, operator: Operator
) -> None:
    (name,) = await fleet.add(node("gpu").with_cards(2))
    path = at(TOPOLOGIES, None, name)
    there = await published(api, name, 2)
    await operator.restart()
    await api.never(
        path,
        lambda it: it["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"],
        during=4,
        what="a write of what stands there already",
    )


@pytest.mark.shares_operator
async def test_a_node_that_hami_registers_is_used_as_it_says(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    name = fleet.name("hami")
    told = fleets.hami_node(name, fleets.A10, 2, slots=1)["metadata"]["annotations"]
    text = told[names.HAMI_REGISTER].replace('"health": true', '"health": false', 1)
    await fleet.add(node("hami").annotated({**told, names.HAMI_REGISTER: text}))
    small = pod("small").slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(small.manifest(), namespace=namespace)
    record = await record_of_pod(api, namespace, "small", phase="Bound")
    assert record["status"]["cards"] == fleets.card_uuid(name, 1), "card 0 is unhealthy"
    await api.create(small.named("second").manifest(), namespace=namespace)
    await event_about(api, namespace, "second", "FailedScheduling")
