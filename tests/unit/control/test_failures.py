"""When a member of a running gang fails: who counts as failed, how often a gang starts anew, and when it is over."""

from __future__ import annotations

from typing import Any

from alnair.control.failures import restarts_of
from alnair.ledger.records import ROLLING_BACK
from unit.control.world import GROUPS, World, record_name

GOING = "2026-01-01T00:00:00Z"


def asks_for(world: World, **fields: Any) -> None:
    """The group's author writes this into its spec."""
    manifest = world.server.objects[f"{GROUPS}/g"]
    world.server.put(f"{GROUPS}/g", {**manifest, "spec": {**manifest["spec"], **fields}})


async def running(world: World, *which: str, **fields: Any) -> None:
    asks_for(world, **fields)
    world.pods(*which, finalizers=["test/stays"])
    await world.start()
    await world.settled()
    assert set(world.where()) == set(which)


async def test_a_gang_that_starts_anew_counts_that_once_however_its_members_end() -> None:
    """Kubelets say Failed of a pod that was told to stop and did not end with 0."""
    async with World(min_member=3) as world:
        await running(world, "a", "b", "c", onMemberFailure="RestartGang")
        world.ends("a", phase="Failed")
        await world.settled()
        assert world.said()["phase"] == ROLLING_BACK
        assert set(world.evicted()) == {"b", "c"}
        world.ends("b", phase="Failed")
        await world.settled()
        world.ends("c", phase="Failed")
        await world.settled()
        assert world.leader.gang().restarts == 1
        assert not world.leader.gang().failed


async def test_a_pod_that_was_told_to_go_has_not_failed_whatever_its_kubelet_says() -> None:
    async with World(min_member=2) as world:
        await running(world, "a", "b", "c", onMemberFailure="Fail")
        world.pod("c", on="n1", deletionTimestamp=GOING)
        await world.settled()
        world.pod("c", on="n1", deletionTimestamp=GOING, phase="Failed")
        await world.settled()
        world.deletes("c")
        await world.settled()
        assert not world.leader.gang().failed
        assert world.evicted() == []


async def test_who_failed_first_and_is_deleted_then_has_failed() -> None:
    async with World(min_member=2) as world:
        await running(world, "a", "b", "c", onMemberFailure="Fail")
        world.ends("c", phase="Failed")
        world.pod("c", on="n1", deletionTimestamp=GOING, phase="Failed")
        await world.settled()
        assert world.leader.gang().failed


async def test_a_gang_that_starts_anew_waits_even_if_all_its_pods_were_gone_for_a_moment() -> None:
    async with World(min_member=2) as world:
        await running(world, "a", "b", onMemberFailure="RestartGang")
        world.ends("a", phase="Failed")
        await world.settled()
        world.deletes("a", "b")
        await world.settled()
        world.pods("a2", "b2")
        await world.settled()
        assert world.leader.gang().restarts == 1
        assert world.where() == {}
        world.clock.pass_(11)
        await world.until(lambda: set(world.where()) == {"a2", "b2"})


async def test_a_successor_evicts_the_members_of_a_group_that_has_failed() -> None:
    """Its predecessor said so in the group's status, and did not live to do it."""
    async with World(min_member=2) as world:
        await running(world, "a", "b", onMemberFailure="Fail")
        await world.leader.dies()
        failed = {
            "type": "Scheduled",
            "status": "False",
            "reason": "MemberFailed",
            "message": "member c failed; the group has failed",
            "observedGeneration": 1,
        }
        manifest = world.server.objects[f"{GROUPS}/g"]
        world.server.put(f"{GROUPS}/g", {**manifest, "status": {"conditions": [failed]}})
        await world.start()
        await world.until(lambda: set(world.evicted()) == {"a", "b"})
        await world.settled()
        assert world.said()["phase"] == ROLLING_BACK
        assert len(world.evicted()) == 2


async def test_a_group_that_has_failed_stays_so_even_if_all_its_pods_were_gone_for_a_moment() -> None:
    async with World(min_member=2) as world:
        await running(world, "a", "b", onMemberFailure="Fail")
        world.ends("a", phase="Failed")
        await world.settled()
        world.deletes("a", "b")
        await world.settled()
        world.pods("a2", "b2")
        await world.settled()
        assert world.leader.gang().failed
        assert world.where() == {}
        asks_for(world, minMember=1)
        manifest = world.server.objects[f"{GROUPS}/g"]
        manifest["metadata"]["generation"] += 1
        world.server.put(f"{GROUPS}/g", manifest)
        await world.settled()
        assert set(world.where()) == {"a2", "b2"}


async def test_how_often_a_gang_was_started_anew_is_written_before_it_is_stopped() -> None:
    """A leader that dies in between must not make its successor count anew."""
    async with World(min_member=2) as world:
        await running(world, "a", "b", onMemberFailure="RestartGang")
        group = world.server.objects[f"{GROUPS}/g"]
        writes = world.server.delays(f"PUT {record_name()}/status")
        world.ends("a", phase="Failed")
        await world.until(lambda: world.server.objects[f"{GROUPS}/g"].get("status", {}).get("restarts") == 1)
        assert world.said()["phase"] != ROLLING_BACK
        assert group["spec"]["onMemberFailure"] == "RestartGang"
        writes.set()
        await world.settled()
        assert world.said()["phase"] == ROLLING_BACK
        await world.restart()
        assert restarts_of(world.leader.gang()) == 1


async def test_a_group_that_was_made_anew_answers_for_nobody_of_the_one_before() -> None:
    """Its predecessor's members go one by one while its own are placed and joined: nothing of that is its loss."""
    async with World(min_member=2) as world:
        await running(world, "a", "b", onMemberFailure="Fail")
        world.group(min_member=2, uid="uid-of-g-again")
        asks_for(world, onMemberFailure="Fail")
        world.pods("a", "b", on="n1", deletionTimestamp=GOING)
        world.pods("c", "d")
        await world.settled()
        assert world.listed()[record_name("uid-of-g-again")] == ["c", "d"]
        world.deletes("a")
        await world.settled()
        world.pod("e")
        await world.settled()
        assert world.where().keys() == {"b", "c", "d", "e"}
        assert not world.leader.gang().failed
        assert world.evicted() == []


async def test_a_group_that_was_made_anew_begins_to_count_its_starts_anew() -> None:
    async with World(min_member=2) as world:
        await running(world, "a", "b", onMemberFailure="RestartGang", restartLimit=1)
        world.ends("a", phase="Failed")
        await world.settled()
        world.group(min_member=2, uid="uid-of-g-again")
        await world.settled()
        assert world.leader.gang().restarts == 0
