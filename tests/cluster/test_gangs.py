"""Gangs on the real control plane: whole or not at all, recorded, explained."""

from __future__ import annotations

import json

import pytest

from alnair.api import names
from alnair.sandbox.access import Access
from harness.api import Api, at
from harness.builders import deployment, group, node, nodes, pod
from harness.fixtures import Fleet, make_namespace
from harness.operator import Operator
from harness.watching import (
    bound_now,
    bound_pods,
    condition,
    event_about,
    record_of_group,
    record_of_pod,
    refused,
    slices_by_card,
)


@pytest.mark.shares_operator
async def test_a_gang_of_slices_is_bound_whole_and_recorded(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2, memory_mib=40960))
    await api.create(group("team", min_member=4).manifest(), namespace=namespace)
    worker = (
        pod("worker").in_group("team").slice(memory_gib=16).by(operator.scheduler).selecting(fleet.selector)
    )
    await api.create_all(worker.copies(4), namespace=namespace)

    bound = await bound_pods(api, namespace, 4)
    record = await record_of_group(api, namespace, "team", phase="Bound")

    assert record["status"]["scheduled"] == 4
    assert {each["uid"] for each in record["status"]["pods"]} == {each["metadata"]["uid"] for each in bound}
    assert sorted(slices_by_card([record]).values()) == [32768, 32768]
    shown = await api.until(
        at("podgroups", namespace, "team"),
        lambda it: it.get("status", {}).get("phase") in ("Scheduled", "Running"),
    )
    assert condition(shown, "Scheduled")["status"] == "True"
    await event_about(api, namespace, "team", "Scheduled")
    await event_about(api, namespace, "worker-0", "Scheduled")


@pytest.mark.shares_operator
async def test_what_the_binding_wrote_on_a_pod_is_what_the_record_says(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = pod("one").slice(memory_gib=6, compute=30).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)

    record = await record_of_pod(api, namespace, "one", phase="Bound")
    annotations = (await api.get(at("pods", namespace, "one")))["metadata"]["annotations"]

    (recorded,) = record["status"]["pods"]
    assert annotations[names.NODE] == recorded["node"] == fleet.name("gpu")
    assert json.loads(annotations[names.GPU_SLICES]) == recorded["containers"]
    (piece,) = recorded["containers"][0]["slices"]
    assert annotations[names.GPU_ID] == piece["gpu"]
    assert (piece["memoryMiB"], piece["computePercent"]) == (6144, 30)


@pytest.mark.shares_operator
async def test_slices_of_4_and_6_gib_share_a_card_and_a_third_does_not_fit_beside_them(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1, memory_mib=12288))
    asking = pod("x").by(operator.release.cost_saving).selecting(fleet.selector)
    for name, size in (("four", 4), ("six", 6)):
        await api.create(asking.named(name).slice(memory_gib=size).manifest(), namespace=namespace)
    await bound_pods(api, namespace, 2)

    await api.create(asking.named("three").slice(memory_gib=3).manifest(), namespace=namespace)

    told = await event_about(api, namespace, "three", "FailedScheduling")
    assert "no card with 3 GiB free, the largest free slice is 2 GiB on node" in told["note"]
    waiting = await api.until(
        at("pods", namespace, "three"), lambda it: condition(it, "PodScheduled").get("status") == "False"
    )
    assert condition(waiting, "PodScheduled")["reason"] == "Unschedulable"


@pytest.mark.shares_operator
async def test_a_gang_that_does_not_fit_binds_nobody_says_why_and_starts_when_a_node_comes(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("small").with_cards(2, memory_mib=16384))
    await api.create(group("big", min_member=3).manifest(), namespace=namespace)
    member = pod("m").in_group("big").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(3), namespace=namespace)

    message = await refused(api, namespace, "big", "2 of 3 members fit", "1 more needs 1 whole GPU")
    assert message.endswith(".")
    assert await bound_now(api, namespace) == []
    told = await event_about(api, namespace, "big", "Unschedulable")
    # How many nodes there are changes while other tests run; the rest is the same sentence.
    assert told["note"].startswith("2 of 3 members fit. 1 more needs 1 whole GPU, but of ")

    await fleet.add(node("second").with_cards(1))
    await bound_pods(api, namespace, 3)
    record = await record_of_group(api, namespace, "big", phase="Bound")
    assert record["status"]["gpus"] == 3


@pytest.mark.shares_operator
async def test_nothing_is_bound_until_all_members_exist(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    await api.create(group("slow", min_member=3).manifest(), namespace=namespace)
    member = pod("m").in_group("slow").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    first, second, third = member.copies(3)
    await api.create_all([first, second], namespace=namespace)
    await refused(api, namespace, "slow", "2 of at least 3 pods exist")
    assert await bound_now(api, namespace) == []

    await api.create(third, namespace=namespace)
    await bound_pods(api, namespace, 3)


@pytest.mark.shares_operator
async def test_members_that_come_later_join_a_running_gang(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    await api.create(group("grows", min_member=2).manifest(), namespace=namespace)
    member = pod("m").in_group("grows").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    manifests = member.copies(4)
    await api.create_all(manifests[:2], namespace=namespace)
    await record_of_group(api, namespace, "grows", phase="Bound")

    await api.create_all(manifests[2:], namespace=namespace)
    await bound_pods(api, namespace, 4)
    owner = await api.get(at("podgroups", namespace, "grows"))
    record = await api.until(
        at("gpuallocations", namespace, names.record_name("grows", owner["metadata"]["uid"])),
        lambda it: it["status"]["phase"] == "Bound" and it["status"]["scheduled"] == 4,
    )
    assert len(slices_by_card([record])) == 4


@pytest.mark.delivery(wholeCards="DevicePlugin")
async def test_a_gang_on_a_device_plugins_node_is_counted_not_sliced(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("plugin").with_cards(4).owned_by("device-plugin"))
    await api.create(group("train", min_member=2).manifest(), namespace=namespace)
    trainer = pod("t").in_group("train").asking(gpu=2).by(operator.scheduler).selecting(fleet.selector)
    await api.create(deployment("train", trainer, replicas=2).manifest(), namespace=namespace)

    record = await record_of_group(api, namespace, "train", phase="Bound")
    assert record["status"]["gpus"] == 4
    assert [each["gpuCounts"] for each in record["status"]["pods"]] == [{"main": 2}, {"main": 2}]

    slicer = pod("slicer").slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(slicer.manifest(), namespace=namespace)
    told = await event_about(api, namespace, "slicer", "FailedScheduling")
    assert "device plugin" in told["note"]


@pytest.mark.shares_operator
async def test_cost_saving_packs_and_high_performance_spreads(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(*nodes("gpu", 2, node("gpu").with_cards(2)))
    for profile, prefix in (
        (operator.release.cost_saving, "pack"),
        (operator.release.high_performance, "spread"),
    ):
        await api.create(group(prefix, min_member=4).manifest(), namespace=namespace)
        member = pod(prefix).in_group(prefix).slice(memory_gib=2).by(profile).selecting(fleet.selector)
        await api.create_all(member.copies(4), namespace=namespace)
    packed = await record_of_group(api, namespace, "pack", phase="Bound")
    spread = await record_of_group(api, namespace, "spread", phase="Bound")

    assert len(slices_by_card([packed])) == 1
    assert len(slices_by_card([spread])) >= 3


@pytest.mark.shares_operator
async def test_a_lone_pod_without_gpus_is_bound_and_needs_no_record(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("plain"))
    asking = pod("plain").asking(cpu="1").by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    await bound_pods(api, namespace, 1)
    assert await api.items(at("gpuallocations", namespace)) == []


@pytest.mark.shares_operator
async def test_a_gang_without_gpus_is_all_or_nothing_too(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("plain").holding(cpu="4"))
    await api.create(group("cpu", min_member=3).manifest(), namespace=namespace)
    member = pod("m").in_group("cpu").asking(cpu="2").by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(3), namespace=namespace)
    await refused(api, namespace, "cpu", "2 of 3 members fit", "too little cpu (2 needed, at most 0 free)")

    await fleet.add(node("more").holding(cpu="4"))
    record = await record_of_group(api, namespace, "cpu", phase="Bound")
    assert record["status"]["gpus"] == 0
    assert len(record["status"]["pods"]) == 3


@pytest.mark.shares_operator
async def test_a_mixed_node_gives_each_request_a_card_that_holds_it(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(
        node("mixed")
        .with_cards(1, model="T4", memory_mib=16384)
        .with_cards(1, model="A100", memory_mib=40960)
    )
    asking = pod("x").by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.named("large").slice(memory_gib=30).manifest(), namespace=namespace)
    await api.create(asking.named("t4").slice(memory_gib=1).of_model("T4").manifest(), namespace=namespace)
    large = await record_of_pod(api, namespace, "large", phase="Bound")
    small = await record_of_pod(api, namespace, "t4", phase="Bound")
    assert set(slices_by_card([large])).isdisjoint(slices_by_card([small]))

    await api.create(asking.named("larger").slice(memory_gib=30).manifest(), namespace=namespace)
    told = await event_about(api, namespace, "larger", "FailedScheduling")
    assert "the largest free slice is 15 GiB" in told["note"]


@pytest.mark.shares_operator
async def test_groups_of_one_name_in_two_namespaces_never_mix(
    api: Api, cluster: Access, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    other = make_namespace(cluster)
    await fleet.add(node("gpu").with_cards(4))
    member = pod("m").in_group("same").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    for where in (namespace, other):
        await api.create(group("same", min_member=2).manifest(), namespace=where)
        await api.create(member.named("only").manifest(), namespace=where)
    await refused(api, namespace, "same", "1 of at least 2 pods exist")
    await refused(api, other, "same", "1 of at least 2 pods exist")

    await api.create(member.named("second").manifest(), namespace=other)
    record = await record_of_group(api, other, "same", phase="Bound")
    assert {each["name"] for each in record["status"]["pods"]} == {"only", "second"}
    assert await bound_now(api, namespace) == []
    await api.delete(at("namespaces", None, other))


@pytest.mark.shares_operator
async def test_an_unscheduled_group_is_reported_when_its_timeout_is_over(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    await api.create(group("late", min_member=2).giving_up_after(1).manifest(), namespace=namespace)
    member = pod("m").in_group("late").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(2), namespace=namespace)
    told = await event_about(api, namespace, "late", "Timeout")
    assert "not scheduled within 1 s" in told["note"]
    shown = await api.until(
        at("podgroups", namespace, "late"), lambda it: condition(it, "Scheduled").get("reason") == "Timeout"
    )
    assert shown["status"]["phase"] == "Pending"


async def test_metrics_tell_of_gangs_cards_and_calls(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1, memory_mib=24576))
    asking = pod("one").slice(memory_gib=6).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    await record_of_pod(api, namespace, "one", phase="Bound")
    # The record is seen by us before the operator has its answer to that write.
    text = await operator.metrics_with("alnair_gang_bind_seconds_count 1.0")
    assert f'alnair_node_gpu_memory_allocated_mib{{node="{fleet.name("gpu")}"}} 6144.0' in text
    assert f'alnair_node_gpu_slices{{node="{fleet.name("gpu")}"}} 1.0' in text
    assert 'alnair_api_calls_total{code="201",resource="pods/binding",verb="POST"}' in text
    assert 'alnair_gangs{phase="Scheduled"} 1.0' in text
    assert "alnair_leader 1.0" in text
