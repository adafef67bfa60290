"""Gangs on the real control plane: whole or not at all, recorded, explained."""

from __future__ import annotations

import pytest

from harness.api import Api, at
from harness.builders import group, job, node, nodes, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import bound_pods, condition, record_of_group, record_of_pod, slices_by_card


async def test_a_gang_of_slices_is_bound_whole_and_recorded(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2, model="A100", memory_mib=40960))
    await api.create(group("team", min_member=4).manifest(), namespace=namespace)
    worker = pod("worker").in_group("team").slice(memory_gib=16).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(worker.copies(4), namespace=namespace)

    bound = await bound_pods(api, namespace, 4)
    record = await record_of_group(api, namespace, "team", phase="Bound")

    assert record["status"]["scheduled"] == 4
    assert {each["uid"] for each in record["status"]["pods"]} == {each["metadata"]["uid"] for each in bound}
    assert sorted(slices_by_card([record]).values()) == [32768, 32768]
    shown = await api.until(
        at("podgroups", namespace, "team"), lambda it: it.get("status", {}).get("phase") in ("Scheduled", "Running")
    )
    assert condition(shown, "Scheduled")["status"] == "True"
