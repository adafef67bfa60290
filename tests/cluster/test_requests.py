"""What a pod may ask of cards, on the real control plane: the record and the annotation say what each container has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alnair.api import names
from alnair.sandbox.fleet import card_uuid
from harness.api import Api, at
from harness.builders import node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import event_about, record_of_pod

pytestmark = pytest.mark.shares_operator

CARD_MIB = 24576


def slices(containers: list[dict[str, Any]]) -> list[tuple[str, str | None, list[tuple[str, int]]]]:
    """(container, what it is, its cards and MiB), in order."""
    return [
        (each["name"], each.get("stage"), [(piece["gpu"], piece["memoryMiB"]) for piece in each["slices"]])
        for each in containers
    ]


async def test_containers_that_take_turns_share_a_card_and_the_rest_is_for_others(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    (there,) = await fleet.add(node("gpu").with_cards(1, memory_mib=CARD_MIB))
    asking = (
        pod("train")
        .with_init("download", {names.VGPU_MEMORY: "16"})
        .with_init("proxy", {names.VGPU_MEMORY: "2"}, sidecar=True)
        .with_init("warm-up", {names.VGPU_MEMORY: "12"})
        .slice(memory_gib=6)
        .with_container("second")
        .slice(memory_gib=4)
        .by(operator.scheduler)
        .selecting(fleet.selector)
    )
    await api.create(asking.manifest(), namespace=namespace)

    record = await record_of_pod(api, namespace, "train", phase="Bound")
    (recorded,) = record["status"]["pods"]
    card = card_uuid(there, 0)
    assert slices(recorded["containers"]) == [
        ("download", "Init", [(card, 16384)]),
        ("proxy", "Sidecar", [(card, 2048)]),
        ("warm-up", "Init", [(card, 12288)]),
        ("main", None, [(card, 6144)]),
        ("second", None, [(card, 4096)]),
    ]
    assert (record["status"]["gpus"], record["status"]["memoryMiB"]) == (1, 16384), "not the sum of all"
    annotations = (await api.get(at("pods", namespace, "train")))["metadata"]["annotations"]
    assert slices(json.loads(annotations[names.GPU_SLICES])) == slices(recorded["containers"])
    assert annotations[names.GPU_ID] == card
    told = await event_about(api, namespace, "train", "Scheduled")
    assert f"16 GiB of {card}" in told["note"]

    beside = pod("beside").slice(memory_gib=8).by(operator.scheduler).selecting(fleet.selector)
    await api.create(beside.manifest(), namespace=namespace)
    await record_of_pod(api, namespace, "beside", phase="Bound")
    late = pod("late").slice(memory_gib=16).by(operator.scheduler).selecting(fleet.selector)
    await api.create(late.manifest(), namespace=namespace)
    refusal = await event_about(api, namespace, "late", "FailedScheduling")
    assert "16 GiB" in refusal["note"]

    await api.delete(at("pods", namespace, "train"))
    await api.until_gone(at("gpuallocations", namespace, record["metadata"]["name"]))
    await record_of_pod(api, namespace, "late", phase="Bound")


async def test_a_pod_gets_the_card_that_it_names_and_is_told_why_not(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    (there,) = await fleet.add(node("gpu").with_cards(2, memory_mib=CARD_MIB))
    asking = pod("x").by(operator.scheduler).selecting(fleet.selector)
    half = {names.NVIDIA_GPUMEM_PERCENTAGE: "50", names.NVIDIA_GPUCORES: "30"}
    named = asking.named("named").asking(resources=half).on_cards(f"{there}/1")
    await api.create(named.manifest(), namespace=namespace)
    (recorded,) = (await record_of_pod(api, namespace, "named", phase="Bound"))["status"]["pods"]
    assert slices(recorded["containers"]) == [("main", None, [(card_uuid(there, 1), CARD_MIB // 2)])]

    large = asking.named("large").slice(memory_gib=60_000)  # other tests have nodes, too
    await api.create(large.manifest(), namespace=namespace)
    refusal = await event_about(api, namespace, "large", "FailedScheduling")
    assert "larger than any card" in refusal["note"]

    both = asking.named("both").slice(memory_gib=1).asking(gpu=1)
    await api.create(both.manifest(), namespace=namespace)
    refusal = await event_about(api, namespace, "both", "FailedScheduling")
    assert "cannot stand beside alnair/*" in refusal["note"]
