"""kill -9 at any moment: the gang ends whole, the record right, no pod bound twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from alnair.sandbox.access import Access
from harness.api import Api, Object, at
from harness.audit import bindings, own_writes
from harness.builders import group, node, nodes, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import (
    bound_now,
    bound_pods,
    event_about,
    record_of_group,
    record_of_pod,
    slices_by_card,
)

MOMENTS = {
    "before the record exists": lambda records, bound: True,
    "when the record is created": lambda records, bound: bool(records),
    "when the gang is committed": lambda records, bound: any(
        r.get("status", {}).get("pods") for r in records
    ),
    "when the first pod is bound": lambda records, bound: bound >= 1,
    "when half of the gang is bound": lambda records, bound: bound >= 8,
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_gang_of_16_killed_in_the_middle_ends_whole(
    cluster: Access, api: Api, namespace: str, fleet: Fleet, operator: Operator, moment: str
) -> None:
    await fleet.add(*nodes("gpu", 4, node("gpu").with_cards(4, memory_mib=16384)))
    await api.create(group("crash", min_member=16).manifest(), namespace=namespace)
    member = pod("c").in_group("crash").slice(memory_gib=16).by(operator.scheduler).selecting(fleet.selector)
    seen = asyncio.create_task(reached(api, namespace, moment))
    await api.create_all(member.copies(16), namespace=namespace)
    await seen
    operator.kill()
    before = {p["metadata"]["uid"]: p["spec"]["nodeName"] for p in await bound_now(api, namespace)}

    await operator.start()
    bound = await bound_pods(api, namespace, 16)
    record = await record_of_group(api, namespace, "crash", phase="Bound")

    recorded = {each["uid"]: each["node"] for each in record["status"]["pods"]}
    assert recorded == {p["metadata"]["uid"]: p["spec"]["nodeName"] for p in bound}
    assert before.items() <= recorded.items(), "a pod that was bound before the crash is where it was"
    assert set(slices_by_card([record]).values()) == {16384}
    assert set(Counter(bindings(cluster, namespace)).values()) == {1}, "no pod is bound twice"


async def reached(api: Api, namespace: str, moment: str) -> None:
    records: list[Object] = []
    bound = 0
    changed = asyncio.Event()

    async def follow_records() -> None:
        nonlocal records
        async for listed in api.follow(at("gpuallocations", namespace)):
            records = listed
            changed.set()

    async def follow_pods() -> None:
        nonlocal bound
        async for pods in api.follow(at("pods", namespace)):
            bound = sum(bool(each["spec"].get("nodeName")) for each in pods)
            changed.set()

    tasks = [asyncio.create_task(follow_records()), asyncio.create_task(follow_pods())]
    try:
        async with asyncio.timeout(30):
            while not MOMENTS[moment](records, bound):
                await changed.wait()
                changed.clear()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_after_a_restart_what_is_held_stays_held_and_is_released_later(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1, memory_mib=16384))
    asking = pod("x").slice(memory_gib=10).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.named("holder").manifest(), namespace=namespace)
    await record_of_pod(api, namespace, "holder", phase="Bound")
    await operator.restart()

    await api.create(asking.named("waiter").manifest(), namespace=namespace)
    await event_about(api, namespace, "waiter", "FailedScheduling")
    await api.delete(at("pods", namespace, "holder"))
    await record_of_pod(api, namespace, "waiter", phase="Bound")


async def test_pods_that_vanish_while_nobody_leads_are_released_at_the_start(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = pod("x").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.named("gone").manifest(), namespace=namespace)
    record = await record_of_pod(api, namespace, "gone", phase="Bound")
    operator.kill()
    await api.delete(at("pods", namespace, "gone"))
    await api.until_gone(at("pods", namespace, "gone"))
    await api.create(asking.named("next").manifest(), namespace=namespace)

    await operator.start()
    await record_of_pod(api, namespace, "next", phase="Bound")
    await api.until_gone(at("gpuallocations", namespace, record["metadata"]["name"]))


async def test_a_record_lost_while_nobody_leads_is_written_anew_from_the_pods(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    await api.create(group("lost", min_member=2).manifest(), namespace=namespace)
    member = pod("m").in_group("lost").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(2), namespace=namespace)
    before = await record_of_group(api, namespace, "lost", phase="Bound")
    operator.kill()
    path = at("gpuallocations", namespace, before["metadata"]["name"])
    await api.patch(path, {"metadata": {"finalizers": None}})
    await api.delete(path)
    await api.until_gone(path)

    await operator.start()
    after = await record_of_group(api, namespace, "lost", phase="Bound")
    assert after["status"]["pods"] == before["status"]["pods"]


async def test_each_leader_has_a_higher_epoch_and_writes_nothing_once_all_is_quiet(
    cluster: Access, api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = pod("one").slice(memory_gib=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.manifest(), namespace=namespace)
    first = await record_of_pod(api, namespace, "one", phase="Bound")
    await operator.restart()
    path = at("gpuallocations", namespace, first["metadata"]["name"])
    second = await api.until(path, lambda it: it["status"]["epoch"] > first["status"]["epoch"])
    assert second["status"]["pods"] == first["status"]["pods"]

    # Reports of the take-over, and the audit log itself, may be a moment behind the record.
    await api.never(path, lambda it: it["status"]["epoch"] != second["status"]["epoch"], during=3)

    settled = len(own_writes(cluster, namespace))
    await api.never(
        path, lambda it: it["metadata"]["resourceVersion"] != second["metadata"]["resourceVersion"], during=5
    )
    late = own_writes(cluster, namespace)[settled:]
    assert [f"{each['verb']} {each['requestURI']}" for each in late] == []


async def test_sigterm_releases_the_lease_and_ends_well(api: Api, namespace: str, operator: Operator) -> None:
    assert await operator.stop() == 0
    lease = await api.get(at("leases", namespace, "alnair"))
    assert lease["spec"]["holderIdentity"] == ""
