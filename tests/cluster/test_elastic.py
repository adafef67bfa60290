"""Elastic gangs: the number of members is the operator's, within bounds, and every step goes through the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.api import names
from alnair.sandbox.access import Access
from harness.api import Api, Object, at
from harness.builders import Built, PodBuilder, deployment, group, job, node, pod, statefulset
from harness.fixtures import Fleet, make_namespace
from harness.operator import Operator
from harness.watching import bound_now, bound_pods, event_about

QUICK = {
    "stabilizationSeconds": 4,
    "growAfterSeconds": 1,
    "handSeconds": 6,
    "placeSeconds": 6,
    "changesPerMinute": 1000,
}


# An operator that does not wait long before it changes its mind.
pytestmark = [pytest.mark.elastic(**QUICK), pytest.mark.shares_operator]


def elastic_group(name: str, *, least: int, most: int, kind: str = "StatefulSet", **more: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    manifest = group(name, min_member=least).manifest()
    manifest["spec"] = {"elastic": {"min": least, "max": most, "targetRef": target}, **more}
    return manifest


def member(name: str, operator: Operator, fleet: Fleet) -> PodBuilder:
    return pod(name).in_group(name).asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)


async def make(api: Api, namespace: str, built: Built, manifest: Object) -> None:
    await api.create(manifest, namespace=namespace)
    await api.create(built.manifest(), namespace=namespace)


async def an_elastic_gang(
    api: Api,
    namespace: str,
    operator: Operator,
    fleet: Fleet,
    *,
    least: int,
    most: int,
    replicas: int = 2,
    name: str = "train",
    kind: str = "StatefulSet",
) -> None:
    """The group, and its target with so many pods of a whole card each."""
    build = statefulset if kind == "StatefulSet" else deployment
    target = build(name, member(name, operator, fleet), replicas=replicas)
    await make(api, namespace, target, elastic_group(name, least=least, most=most, kind=kind))


def has(name: str, size: int) -> Any:
    """As many members as that are bound, and the status says so."""

    def told(it: Object) -> bool:
        elastic = it.get("status", {}).get("elastic", {})
        return bool((elastic.get("size"), elastic.get("wants"), elastic.get("reserved")) == (size, size, 0))

    return told


async def until_size(api: Api, namespace: str, name: str, size: int) -> Object:
    return await api.until(
        at("podgroups", namespace, name), has(name, size), what=f"{name} with {size} members", timeout=60
    )


async def replicas(api: Api, namespace: str, name: str, plural: str = "statefulsets") -> int:
    scale = await api.get(at(plural, namespace, name, "scale"))
    return int(scale["spec"].get("replicas", 0))


async def scale_by_hand(
    api: Api, namespace: str, name: str, number: int, plural: str = "statefulsets"
) -> None:
    await api.patch(at(plural, namespace, name, "scale"), {"spec": {"replicas": number}})


async def test_a_gang_starts_with_what_is_free_and_grows_when_a_neighbour_ends(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(5))
    neighbour = pod("neighbour").asking(gpu=2).by(operator.scheduler).selecting(fleet.selector)
    await api.create(neighbour.manifest(), namespace=namespace)
    await bound_pods(api, namespace, 1)
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=5)
    told = await until_size(api, namespace, "train", 3)
    assert told["status"]["elastic"]["reason"] in ("NoRoom", "Growing")
    told = await api.until(
        at("podgroups", namespace, "train"), lambda it: it["status"]["elastic"]["reason"] == "NoRoom"
    )
    assert "no place" in told["status"]["elastic"]["message"]
    assert await replicas(api, namespace, "train") == 3

    await api.delete(at("pods", namespace, "neighbour"))
    told = await until_size(api, namespace, "train", 5)
    told = await api.until(
        at("podgroups", namespace, "train"), lambda it: it["status"]["elastic"]["reason"] == "AtMax"
    )
    assert (told["status"]["elastic"]["min"], told["status"]["elastic"]["max"]) == (2, 5)


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
async def test_a_gang_gives_members_back_for_one_that_waits_and_not_more_than_that_takes(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, kind: str
) -> None:
    await fleet.add(node("gpu").with_cards(5))
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=5, kind=kind)
    await until_size(api, namespace, "train", 5)
    await api.create(group("rigid", min_member=2).manifest(), namespace=namespace)
    await api.create_all(member("rigid", operator, fleet).copies(2), namespace=namespace)
    await until_size(api, namespace, "train", 3)
    await bound_pods(api, namespace, 5)
    assert (await event_about(api, namespace, "train", "Shrunk"))["note"].startswith("5 to 3 members")
    if kind == "StatefulSet":
        left = {each["metadata"]["name"] for each in await bound_now(api, namespace)}
        assert left == {"train-0", "train-1", "train-2", "rigid-0", "rigid-1"}, "the highest ordinals leave"


async def test_a_gang_that_starts_with_more_pods_than_fit_gives_the_others_up(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(3))
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=5, replicas=5)
    await until_size(api, namespace, "train", 3)
    await api.until(at("statefulsets", namespace, "train"), lambda it: it["spec"]["replicas"] == 3)
    await api.until_all(at("pods", namespace), lambda pods: len(pods) == 3)


async def test_a_number_set_by_hand_is_respected_within_the_bounds_and_for_a_while(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(5))
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=5)
    await until_size(api, namespace, "train", 5)
    await scale_by_hand(api, namespace, "train", 3)
    told = await until_size(api, namespace, "train", 3)
    assert told["status"]["elastic"]["byHand"] == 3
    assert told["status"]["elastic"]["reason"] == "ByHand"
    told = await until_size(api, namespace, "train", 5)
    assert "byHand" not in told["status"]["elastic"]


@pytest.mark.parametrize(("asked", "given"), [(9, 5), (1, 2)])
async def test_a_number_beyond_the_bounds_is_set_right_and_told(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, asked: int, given: int
) -> None:
    await fleet.add(node("gpu").with_cards(8))
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=5, replicas=3)
    await until_size(api, namespace, "train", 5)
    await scale_by_hand(api, namespace, "train", asked)
    said = await event_about(api, namespace, "train", "OutOfBounds")
    assert f"set to {given}" in said["note"]
    await until_size(api, namespace, "train", given)
    assert len(await bound_now(api, namespace)) <= 5


async def test_places_are_in_the_record_before_the_replicas_are_raised(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    """Judged by the order of etcd's revisions: whenever replicas are n, the record held places or members for n."""
    await fleet.add(node("gpu").with_cards(2))
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=6)
    await until_size(api, namespace, "train", 2)
    begun = await api.get(at("gpuallocations", namespace))
    await fleet.add(node("more").with_cards(4))
    await until_size(api, namespace, "train", 6)
    changes: list[tuple[int, str, int]] = []
    for plural in ("gpuallocations", "statefulsets"):
        for it in await api.changes(at(plural, namespace), since=begun["metadata"]["resourceVersion"]):
            version = int(it["metadata"]["resourceVersion"])
            if plural == "statefulsets":
                changes.append((version, plural, it["spec"]["replicas"]))
            else:
                held = len(it["status"].get("pods", [])) + len(it["status"].get("reserved", []))
                changes.append((version, plural, held))
    held = 2
    raised = 0
    for _, plural, number in sorted(changes):
        if plural == "gpuallocations":
            held = number
        else:
            assert number <= held
            raised += number > 2
    assert raised, "the replicas were raised at all"


async def test_what_the_pods_are_no_replicas_of_is_not_scaled(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    """Whoever may write PodGroups must not thereby scale somebody's database."""
    await fleet.add(node("gpu").with_cards(4))
    others = pod("db").by("nobody").asking(cpu="1m")
    await api.create(statefulset("db", others, replicas=3).manifest(), namespace=namespace)
    manifest = elastic_group("train", least=1, most=1)
    manifest["spec"]["elastic"]["targetRef"]["name"] = "db"
    await api.create(manifest, namespace=namespace)
    await api.create(member("train", operator, fleet).manifest(), namespace=namespace)
    told = await api.until(
        at("podgroups", namespace, "train"),
        lambda it: it.get("status", {}).get("elastic", {}).get("reason") == "TargetRefused",
    )
    assert "pod train is no replica of StatefulSet db" in told["status"]["elastic"]["message"]
    assert await replicas(api, namespace, "db") == 3


async def test_who_is_no_scale_target_is_told_and_takes_nothing(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    manifest = elastic_group("train", least=2, most=4)
    manifest["spec"]["elastic"]["targetRef"] = {"apiVersion": "batch/v1", "kind": "Job", "name": "train"}
    await api.create(manifest, namespace=namespace)
    await api.create_all(member("train", operator, fleet).copies(2), namespace=namespace)
    told = await api.until(
        at("podgroups", namespace, "train"),
        lambda it: it.get("status", {}).get("elastic", {}).get("reason") == "TargetRefused",
    )
    assert "Job has no scale subresource" in told["status"]["elastic"]["message"]
    await bound_pods(api, namespace, 2)


# -- the old allocator's faults, each by its name -------------------------------------------------------------------


async def test_old_fault_one_namespace_was_counted_against_the_whole_cluster(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, cluster: Access
) -> None:
    """It took the cards of other namespaces' pods for free."""
    await fleet.add(node("gpu").with_cards(5))
    elsewhere = make_namespace(cluster)
    neighbour = pod("neighbour").asking(gpu=2).by(operator.scheduler).selecting(fleet.selector)
    await api.create(neighbour.manifest(), namespace=elsewhere)
    await bound_pods(api, elsewhere, 1)
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=5)
    await until_size(api, namespace, "train", 3)
    more = at("statefulsets", namespace, "train")
    await api.never(more, lambda it: it["spec"]["replicas"] > 3, during=5)
    await api.delete(at("pods", elsewhere, "neighbour"))
    await until_size(api, namespace, "train", 5)
    await api.delete(f"/api/v1/namespaces/{elsewhere}")


async def test_old_fault_a_job_could_exceed_its_max(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(8))
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=5, replicas=8)
    await until_size(api, namespace, "train", 5)
    await api.until(at("statefulsets", namespace, "train"), lambda it: it["spec"]["replicas"] == 5)
    begun = await api.get(at("pods", namespace))
    await bound_pods(api, namespace, 5)
    await scale_by_hand(api, namespace, "train", 7)
    await event_about(api, namespace, "train", "OutOfBounds")
    await api.until(at("statefulsets", namespace, "train"), lambda it: it["spec"]["replicas"] == 5)
    told = await api.told(at("pods", namespace), since=begun["metadata"]["resourceVersion"])
    bound: set[str] = set()
    for what, it in [*(("ADDED", it) for it in begun["items"]), *told]:
        stays = what != "DELETED" and it["spec"].get("nodeName") and "deletionTimestamp" not in it["metadata"]
        (bound.add if stays else bound.discard)(it["metadata"]["uid"])
        assert len(bound) <= 5, "nobody is bound beyond the most"
    assert len(bound) == 5


async def test_old_fault_victims_shrank_though_it_did_not_suffice(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(5))
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=5)
    await until_size(api, namespace, "train", 5)
    await api.create(group("large", min_member=4).manifest(), namespace=namespace)
    await api.create_all(member("large", operator, fleet).copies(4), namespace=namespace)
    await event_about(api, namespace, "large", "Unschedulable")
    fewer = at("podgroups", namespace, "train")
    await api.never(fewer, lambda it: it["status"]["elastic"]["wants"] != 5, during=8)


async def test_old_fault_a_job_that_shrank_never_grew_again(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(4))
    await an_elastic_gang(api, namespace, operator, fleet, least=2, most=4)
    await until_size(api, namespace, "train", 4)
    guest = pod("guest").asking(gpu=2).by(operator.scheduler).selecting(fleet.selector)
    await api.create(guest.manifest(), namespace=namespace)
    await until_size(api, namespace, "train", 2)
    await api.until(at("pods", namespace, "guest"), lambda it: it["spec"].get("nodeName"), timeout=60)
    await api.delete(at("pods", namespace, "guest"))
    await until_size(api, namespace, "train", 4)


async def test_old_fault_the_first_job_took_all_there_was(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    """It was greedy: whoever came first kept what it could get, whatever it was worth to others."""
    await fleet.add(node("gpu").with_cards(8))
    neighbour = pod("neighbour").asking(gpu=4).by(operator.scheduler).selecting(fleet.selector)
    await api.create(neighbour.manifest(), namespace=namespace)
    await bound_pods(api, namespace, 1)
    for name, first in (("first", 4), ("second", 2)):
        await an_elastic_gang(api, namespace, operator, fleet, least=2, most=6, name=name)
        await until_size(api, namespace, name, first)
    # Both may grow: the one that shrank has kept still for its time.
    for name in ("first", "second"):
        await api.until(
            at("podgroups", namespace, name),
            lambda it: has("", 2)(it) and it["status"]["elastic"]["reason"] == "NoRoom",
            what=f"{name} with 2 members, and nothing but room to wait for",
            timeout=60,
        )
    await api.delete(at("pods", namespace, "neighbour"))
    for name in ("first", "second"):
        await until_size(api, namespace, name, 4)


# -- a member fails ------------------------------------------------------------------------------------------------


async def test_the_place_of_a_failed_member_is_kept_for_its_replacement(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    manifest = group("pair", min_member=2).manifest()
    manifest["spec"]["keepPlaceSeconds"] = 20
    await make(api, namespace, deployment("pair", member("pair", operator, fleet), replicas=2), manifest)
    first, _ = await bound_pods(api, namespace, 2)
    await api.create(
        pod("thief").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector).manifest(),
        namespace=namespace,
    )
    name = first["metadata"]["name"]
    await api.delete(at("pods", namespace, name), grace=0)
    await api.until_gone(at("pods", namespace, name))
    bound = await bound_pods(api, namespace, 2)
    assert "thief" not in {each["metadata"]["name"] for each in bound}
    assert first["metadata"]["annotations"][names.GPU_ID] in {
        each["metadata"]["annotations"][names.GPU_ID] for each in bound
    }


async def test_a_gang_that_is_to_start_anew_does_so_when_a_member_fails(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(3))
    manifest = group("trio", min_member=3).manifest()
    manifest["spec"] |= {"onMemberFailure": "RestartGang", "restartLimit": 1}
    await make(api, namespace, deployment("trio", member("trio", operator, fleet), replicas=3), manifest)
    before = {each["metadata"]["uid"] for each in await bound_pods(api, namespace, 3)}
    victim = (await bound_now(api, namespace))[0]["metadata"]["name"]
    await api.delete(at("pods", namespace, victim))
    told = await api.until(
        at("podgroups", namespace, "trio"), lambda it: it["status"].get("restarts") == 1, timeout=60
    )
    assert told["status"]["restartedAt"]

    def anew(pods: list[Object]) -> bool:
        placed = [each for each in pods if each["spec"].get("nodeName")]
        return len(placed) == 3 and not before & {each["metadata"]["uid"] for each in placed}

    await api.until_all(at("pods", namespace), anew, what="three other pods", timeout=60)

    victim = (await bound_now(api, namespace))[0]["metadata"]["name"]
    await api.delete(at("pods", namespace, victim))
    told = await api.until(
        at("podgroups", namespace, "trio"), lambda it: it["status"]["phase"] == "Failed", timeout=60
    )
    assert "started anew 1 times already" in told["status"]["conditions"][0]["message"]
    await api.until_all(at("gpuallocations", namespace), lambda records: not records, timeout=60)


async def test_a_group_that_is_to_fail_does_and_gives_its_cards_back(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    manifest = group("pair", min_member=2).manifest()
    manifest["spec"]["onMemberFailure"] = "Fail"
    await make(api, namespace, deployment("pair", member("pair", operator, fleet), replicas=2), manifest)
    victim = (await bound_pods(api, namespace, 2))[0]["metadata"]["name"]
    await api.delete(at("pods", namespace, victim))
    await api.until(
        at("podgroups", namespace, "pair"), lambda it: it["status"]["phase"] == "Failed", timeout=60
    )
    await api.until_all(at("gpuallocations", namespace), lambda records: not records, timeout=60)
    await api.create(
        pod("next").asking(gpu=2).by(operator.scheduler).selecting(fleet.selector).manifest(),
        namespace=namespace,
    )
    await api.until(at("pods", namespace, "next"), lambda it: it["spec"].get("nodeName"))


async def test_members_that_succeed_are_not_replaced(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    await make(
        api,
        namespace,
        job("short", member("short", operator, fleet), count=2),
        group("short", min_member=2).manifest(),
    )
    await api.until_all(at("gpuallocations", namespace), lambda records: not records, timeout=60)
    await api.until(at("podgroups", namespace, "short"), lambda it: it["status"]["phase"] == "Finished")
