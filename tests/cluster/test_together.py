"""Links and racks on the real control plane: pairs stay whole, and a gang lands in the one rack that holds it."""

from __future__ import annotations

import pytest

from alnair.api import names
from alnair.sandbox.fleet import card_uuid
from harness.api import Api, Refused, at
from harness.builders import GroupBuilder, group, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import bound_now, bound_pods, record_of_pod, refused

pytestmark = pytest.mark.shares_operator

RACK = "topology.kubernetes.io/rack"
RACKS, NODES_A_RACK, CARDS = 5, 4, 8


def asking(name: str, min_member: int, **topology: str) -> GroupBuilder:
    return group(name, min_member=min_member).with_(lambda it: it["spec"].update(topology=topology))


async def test_a_two_gpu_pod_gets_a_linked_pair_while_one_is_whole(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    (there,) = await fleet.add(node("dgx").with_cards(8).linked())
    cards = {card_uuid(there, index): index for index in range(8)}
    like = pod("x").by(operator.scheduler).selecting(fleet.selector)

    async def given(name: str, gpus: int) -> list[int]:
        await api.create(like.named(name).asking(gpu=gpus).manifest(), namespace=namespace)
        record = await record_of_pod(api, namespace, name, phase="Bound")
        (container,) = record["status"]["pods"][0]["containers"]
        return sorted(cards[piece["gpu"]] for piece in container["slices"])

    (first,) = await given("single-1", 1)
    (second,) = await given("single-2", 1)
    assert first // 2 == second // 2, "the second takes what the first has broken already"
    pairs = [await given(f"pair-{number}", 2) for number in (1, 2)]
    (third,) = await given("single-3", 1)
    (fourth,) = await given("single-4", 1)
    assert third // 2 == fourth // 2
    await api.delete(at("pods", namespace, "pair-1"))
    pairs.append(await given("pair-3", 2))
    for one, other in pairs:
        assert (one // 2, one + 1) == (other // 2, other)


async def test_a_rack_required_gang_of_32_lands_in_the_one_rack_that_fits(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    """Each rack has 32 cards, and each node but those of one rack a tenant: 160 cards, 143 of them idle at first."""
    await fleet.add(
        *(
            node(f"r{rack}-{number}").with_cards(CARDS).labelled({RACK: f"{namespace}-r{rack}"})
            for rack in range(RACKS)
            for number in range(NODES_A_RACK)
        ),
        timeout=120,
    )
    like = pod("x").by(operator.scheduler).selecting(fleet.selector).asking(gpu=1)
    tenants = [
        like.named(f"tenant-{rack}-{number}").selecting(
            {"kubernetes.io/hostname": fleet.name(f"r{rack}-{number}")}
        )
        for rack in range(RACKS)
        for number in range(NODES_A_RACK)
        if rack != 3 or number == 0
    ]
    await api.create_all([each.manifest() for each in tenants], namespace=namespace)
    await bound_pods(api, namespace, len(tenants), timeout=60)

    await api.create(asking("team", 32, required="rack").manifest(), namespace=namespace)
    await api.create_all(like.named("worker").in_group("team").copies(32), namespace=namespace)
    told = await refused(api, namespace, "team", "No rack holds the whole gang", "31 of 32 members fit")
    assert f"the best is {namespace}-r3" in told
    assert len(await bound_now(api, namespace)) == len(tenants)

    await api.delete(at("pods", namespace, "tenant-3-0"))
    bound = await bound_pods(api, namespace, len(tenants) - 1 + 32, timeout=60)
    there = {each["spec"]["nodeName"] for each in bound if each["metadata"]["name"].startswith("worker")}
    assert there == {fleet.name(f"r3-{number}") for number in range(NODES_A_RACK)}


async def test_a_level_that_does_not_exist_is_told_and_an_annotation_mends_it(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("a").with_cards(1).labelled({RACK: f"{namespace}-a"}))
    wrong = group("team", min_member=1).annotated({names.TOPOLOGY_REQUIRED: "shelf"})
    await api.create(wrong.manifest(), namespace=namespace)
    worker = pod("w").in_group("team").by(operator.scheduler).selecting(fleet.selector).asking(gpu=1)
    await api.create(worker.manifest(), namespace=namespace)
    await refused(api, namespace, "team", "'shelf' is no level of topology.levels")
    await api.patch(
        at("podgroups", namespace, "team"), {"metadata": {"annotations": {names.TOPOLOGY_REQUIRED: "rack"}}}
    )
    await bound_pods(api, namespace, 1)


async def test_the_apiserver_refuses_both_required_and_preferred(api: Api, namespace: str) -> None:
    for topology in ({}, {"required": "rack", "preferred": "zone"}, {"required": ""}):
        with pytest.raises(Refused):
            await api.create(asking("team", 1, **topology).manifest(), namespace=namespace)
    await api.create(asking("team", 1, preferred="rack").manifest(), namespace=namespace)
