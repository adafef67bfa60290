"""Repair: what others do to records is put right, our own writes are not taken for others', and it comes to an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from alnair.api import names
from alnair.ledger.records import BOUND, COMMITTED, Owner, Record
from unit.control.world import NAMESPACE, RECORDS, World, record_name

RECORD = f"{RECORDS}/{record_name()}"


async def settled_gang(world: World) -> None:
    world.pods("a", "b", on="n1")
    world.wrote(BOUND, "a", "b", min_member=1, complete=True)
    await world.start()
    await world.settled()


def edited(world: World, **status: Any) -> None:
    there = world.server.objects[RECORD]
    world.server.put(RECORD, {**there, "status": {**there["status"], **status}})


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"pods": []}, id="pods taken out"),
        pytest.param({"phase": "Pending"}, id="another phase"),
        pytest.param({"epoch": 99}, id="a higher epoch"),
        pytest.param({"complete": False}, id="not complete"),
        pytest.param({"minMember": 7}, id="another minMember"),
    ],
)
async def test_an_edit_is_written_over(edit: dict[str, Any]) -> None:
    async with World() as world:
        await settled_gang(world)
        edited(world, **edit)
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        assert (world.said()["phase"], world.said()["complete"], world.said()["minMember"]) == (
            BOUND,
            True,
            1,
        )


async def test_an_epoch_raised_by_hand_stops_neither_releases_nor_new_members() -> None:
    async with World() as world:
        await settled_gang(world)
        edited(world, epoch=99)
        await world.settled()
        world.deletes("a")
        await world.settled()
        assert world.listed() == {record_name(): ["b"]}
        world.pod("c")
        await world.settled()
        assert world.listed() == {record_name(): ["b", "c"]}
        assert world.said()["epoch"] >= 99


async def test_a_restored_record_is_not_restored_again() -> None:
    async with World() as world:
        await settled_gang(world)
        edited(world, pods=[])
        await world.settled()
        written = world.written()
        await world.passes(100)
        assert world.written() == written


async def test_labels_and_finalizer_come_back() -> None:
    async with World() as world:
        await settled_gang(world)
        there = world.server.objects[RECORD]
        world.server.put(RECORD, {**there, "metadata": {"labels": {}, "finalizers": []}})
        await world.settled()
        meta = world.server.objects[RECORD]["metadata"]
        assert meta["finalizers"] == [names.FINALIZER]
        assert meta["labels"][names.OWNER_UID] == "uid-of-g"


def strip(world: World) -> None:
    there = world.server.objects[RECORD]
    world.server.put(RECORD, {**there, "metadata": {"labels": {}, "finalizers": []}})


def is_whole(world: World) -> bool:
    meta = world.server.objects[RECORD]["metadata"]
    return meta["finalizers"] == [names.FINALIZER] and meta["labels"].get(names.OWNER_UID) == "uid-of-g"


async def test_what_a_hand_took_away_a_moment_before_our_write_comes_back() -> None:
    async with World() as world:
        await settled_gang(world)
        world.server.first(f"PUT {record_name()}/status", lambda: strip(world))
        world.deletes("a")
        await world.settled()
        assert world.listed() == {record_name(): ["b"]}
        assert is_whole(world)


async def test_a_write_whose_answer_is_lost_is_no_edit(caplog: pytest.LogCaptureFixture) -> None:
    async with World(min_member=2) as world:
        leader = await world.start()
        leader.puts_errands_off()
        world.server.loses_the_answer_of(f"PUT {record_name()}/status")
        world.pods("a", "b")
        await world.until(lambda: len(world.where()) == 2)
        await world.until(lambda: leader.record().satisfied)
        await asyncio.sleep(0.02)  # whoever takes it for an edit has read it by then
        assert world.said()["phase"] == COMMITTED, "settling waits for a lull"
        assert "edited by hand" not in caplog.text
        leader.runs_errands()
        await world.settled()


async def test_what_was_taken_away_while_nobody_led_comes_back() -> None:
    async with World() as world:
        world.pods("a", on="n1")
        world.wrote(BOUND, "a", min_member=1, complete=True)
        strip(world)
        await world.start()
        await world.settled()
        assert is_whole(world)


async def test_what_could_not_be_restored_is_tried_again_with_the_next_list() -> None:
    async with World() as world:
        await settled_gang(world)
        world.server.refuses(f"PATCH gpuallocations/{record_name()}", 403, "Forbidden")
        strip(world)
        await world.settled()
        assert not is_whole(world)
        await world.leader.lists_again()
        await world.settled()
        assert is_whole(world)


async def test_what_a_hand_adds_is_looked_at_once() -> None:
    async with World() as world:
        await settled_gang(world)
        there = world.server.objects[RECORD]
        world.server.put(
            RECORD, {**there, "metadata": {**there["metadata"], "annotations": {"note": "mine"}}}
        )
        await world.settled()
        asked = len(world.server.calls)
        await world.leader.lists_again()
        await world.settled()
        assert f"GET gpuallocations/{record_name()}" not in world.server.names()[asked:]


async def test_a_record_deleted_by_hand_is_written_anew_while_its_pods_live() -> None:
    async with World() as world:
        await settled_gang(world)
        world.server.remove(RECORD)
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        assert world.said()["phase"] == BOUND


async def test_that_it_is_written_anew_is_tried_until_nobody_refuses_it() -> None:
    async with World() as world:
        await settled_gang(world)
        with world.server.refusing(
            lambda call: call.method == "POST" and call.path == RECORDS, 403
        ) as refused:
            world.server.remove(RECORD)
            await world.until(lambda: len(refused) > 2)
        await world.until(lambda: world.listed() == {record_name(): ["a", "b"]})


async def test_who_ends_while_its_record_may_not_be_written_anew_is_released() -> None:
    async with World() as world:
        await settled_gang(world)
        with world.server.refusing(lambda call: call.method == "POST" and call.path == RECORDS, 403):
            world.server.first(f"PUT {record_name()}/status", lambda: world.server.remove(RECORD))
            world.deletes("b")
            await world.until(lambda: "uid-b" not in world.leader.state.holdings)
        await world.until(lambda: world.listed() == {record_name(): ["a"]})


async def test_an_object_for_somebody_else_in_a_records_place_is_not_filled_and_ours_comes_back_after_it() -> (
    None
):
    async with World() as world:
        await settled_gang(world)
        ours = world.server.objects[RECORD]
        theirs = {"metadata": {"uid": "theirs"}, "spec": {**ours["spec"], "schedulerName": "theirs"}}
        world.server.remove(RECORD)
        world.server.put(RECORD, theirs)
        await world.settled()
        assert "status" not in world.server.objects[RECORD]
        world.server.remove(RECORD)
        await world.leader.lists_again()
        await world.settled()
        assert [each["name"] for each in world.said()["pods"]] == ["a", "b"]
        assert world.server.objects[RECORD]["spec"] == ours["spec"]


async def test_a_record_that_a_fresh_list_lacks_is_written_anew() -> None:
    async with World() as world:
        await settled_gang(world)
        world.leader.deaf = True
        world.server.remove(RECORD)
        await world.leader.lists_again()
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}


async def test_a_forged_record_is_removed_and_counts_nothing() -> None:
    async with World() as world:
        await settled_gang(world)
        forged = Record(Owner("PodGroup", NAMESPACE, "h", "uid-of-h"), "alnair", 1, 99, phase=BOUND)
        world.server.put(forged.path, {**forged.manifest(), "status": forged.status()})
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}


async def test_a_record_of_another_scheduler_is_left_alone() -> None:
    async with World() as world:
        await settled_gang(world)
        other = Record(Owner("PodGroup", NAMESPACE, "h", "uid-of-h"), "somebody-elses", 1, 1, phase=BOUND)
        world.server.put(other.path, {**other.manifest(), "status": other.status()})
        await world.settled()
        assert set(world.listed()) == {record_name(), other.key[1]}


async def test_events_of_our_own_writes_are_no_edits() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        assert "GET gpuallocations/" + record_name() not in world.server.names()
