"""Slices are given back when their pods are gone, and never earlier."""

from __future__ import annotations

import pytest

from alnair.api import names
from harness.api import Api, at
from harness.builders import deployment, group, job, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import bound_now, event_about, record_of_group, record_of_pod, slices_by_card

pytestmark = pytest.mark.shares_operator


async def test_the_record_goes_with_its_last_pod_and_the_card_is_free_again(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    await api.create(group("first", min_member=2).manifest(), namespace=namespace)
    member = pod("m").in_group("first").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(2), namespace=namespace)
    record = await record_of_group(api, namespace, "first", phase="Bound")

    await api.delete(at("pods", namespace, "m-0"))
    await api.until(
        at("gpuallocations", namespace, record["metadata"]["name"]), lambda it: it["status"]["scheduled"] == 1
    )
    await api.delete(at("pods", namespace, "m-1"))
    await api.until_gone(at("gpuallocations", namespace, record["metadata"]["name"]))

    both = pod("both").asking(gpu=2).by(operator.scheduler).selecting(fleet.selector)
    await api.create(both.manifest(), namespace=namespace)
    await record_of_pod(api, namespace, "both", phase="Bound")


async def test_a_terminating_pod_still_holds_its_slice(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = pod("x").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.named("leaving").held_by("example.com/hold").manifest(), namespace=namespace)
    record = await record_of_pod(api, namespace, "leaving", phase="Bound")
    await api.delete(at("pods", namespace, "leaving"))
    await api.until(at("pods", namespace, "leaving"), lambda it: it["metadata"].get("deletionTimestamp"))

    await api.create(asking.named("next").manifest(), namespace=namespace)
    await event_about(api, namespace, "next", "FailedScheduling")
    assert [each["metadata"]["name"] for each in await bound_now(api, namespace)] == ["leaving"]
    assert await api.find(at("gpuallocations", namespace, record["metadata"]["name"]))

    await api.patch(at("pods", namespace, "leaving"), {"metadata": {"finalizers": None}})
    await record_of_pod(api, namespace, "next", phase="Bound")


async def test_a_finished_job_gives_its_cards_back_while_its_pods_are_still_listed(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    await api.create(group("short", min_member=2).manifest(), namespace=namespace)
    member = pod("s").in_group("short").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    # kwok completes the pods of a Job as soon as they run
    await api.create(job("short", member, count=2).manifest(), namespace=namespace)
    await api.until_all(
        at("pods", namespace), lambda pods: [p["status"]["phase"] for p in pods] == ["Succeeded"] * 2
    )
    await api.until_all(at("gpuallocations", namespace), lambda records: not records)
    await api.until(at("podgroups", namespace, "short"), lambda it: it["status"]["phase"] == "Finished")


async def test_a_group_made_again_under_its_name_gets_a_record_of_its_own(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    member = pod("m").in_group("again").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(group("again", min_member=1).manifest(), namespace=namespace)
    await api.create(member.named("old").manifest(), namespace=namespace)
    old = await record_of_group(api, namespace, "again", phase="Bound")
    await api.delete(at("podgroups", namespace, "again"))
    await api.create(group("again", min_member=1).manifest(), namespace=namespace)
    await api.create(member.named("new").manifest(), namespace=namespace)
    new = await record_of_group(api, namespace, "again", phase="Bound")

    assert new["metadata"]["name"] != old["metadata"]["name"]
    assert [each["name"] for each in new["status"]["pods"]] == ["new"]
    kept = await api.get(at("gpuallocations", namespace, old["metadata"]["name"]))
    assert [each["name"] for each in kept["status"]["pods"]] == ["old"]


async def test_a_pod_recreated_under_its_name_is_another_pod(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    asking = pod("same").slice(memory_gib=20).by(operator.scheduler).selecting(fleet.selector)
    first = await api.create(asking.manifest(), namespace=namespace)
    await record_of_pod(api, namespace, "same", phase="Bound")
    await api.delete(at("pods", namespace, "same"))
    await api.until_gone(at("pods", namespace, "same"))
    second = await api.create(asking.manifest(), namespace=namespace)
    record = await record_of_pod(api, namespace, "same", phase="Bound")
    assert [each["uid"] for each in record["status"]["pods"]] == [second["metadata"]["uid"]]
    gone = names.record_name("same", first["metadata"]["uid"])
    await api.until_gone(at("gpuallocations", namespace, gone))


async def test_a_gang_whose_member_is_deleted_in_the_middle_ends_whole(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    """Whether it goes before the commit, between commit and bind or after it: its replacement joins."""
    await fleet.add(node("gpu").with_cards(4))
    await api.create(group("torn", min_member=4).giving_up_after(5).manifest(), namespace=namespace)
    member = pod("t").in_group("torn").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create(deployment("torn", member, replicas=4).manifest(), namespace=namespace)
    pods = await api.until_all(at("pods", namespace), lambda pods: len(pods) == 4)
    lost = pods[0]["metadata"]
    await api.delete(at("pods", namespace, lost["name"]), grace=0)

    await api.until_all(
        at("pods", namespace),
        lambda pods: (
            len(pods) == 4
            and lost["uid"] not in {p["metadata"]["uid"] for p in pods}
            and all(p["spec"].get("nodeName") for p in pods)
        ),
        timeout=60,
    )
    owner = await api.get(at("podgroups", namespace, "torn"))
    record = await api.until(
        at("gpuallocations", namespace, names.record_name("torn", owner["metadata"]["uid"])),
        lambda it: it["status"]["phase"] == "Bound" and it["status"]["scheduled"] == 4,
        timeout=60,
    )
    assert set(slices_by_card([record]).values()) == {24576}
