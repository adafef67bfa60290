"""Commit, bind, settle: one decision at a time, and none into a record that goes away meanwhile."""

from __future__ import annotations

import asyncio
import time

import pytest

from alnair.api import names
from alnair.ledger import ledger, records
from alnair.ledger.errors import RecordMoved
from alnair.ledger.records import BOUND, COMMITTED, Owner, Record
from alnair.state.holding import Holding
from harness.builders import node, pod
from unit.apiserver import Call, Fault
from unit.control.world import NAMESPACE, PODS, RECORDS, World, record_name, record_writes


async def test_a_gang_is_committed_bound_and_settled() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)
        assert world.listed() == {record_name(): ["a", "b"]}


async def test_once_nothing_changes_nothing_is_written() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        written = world.written()
        world.leader.loop.wake()
        await world.passes(1000)
        assert world.written() == written


async def test_a_gang_that_is_not_complete_takes_nothing() -> None:
    async with World(min_member=3) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        assert world.written() == []
        assert world.leader.state.holdings == {}


# -- a plan that waits for its record ----------------------------------------------------------------------------


async def a_plan_that_waits(world: World) -> asyncio.Task[None]:
    """Pod c joins the record of a, which somebody is writing; the caller holds the record's lock."""
    leader = world.leader
    pod = leader.state.pods["uid-c"]
    leader.ledger.assume(
        Owner(names.KIND_PODGROUP, NAMESPACE, "g", "uid-of-g"),
        scheduler="alnair",
        min_member=1,
        placements=[(pod, Holding("n1"))],
    )
    waiting = asyncio.create_task(leader.ledger.carry_out(leader.record()))
    await asyncio.sleep(0)
    return waiting


async def test_a_plan_is_not_committed_into_a_record_that_was_discarded_before_its_turn() -> None:
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(BOUND, "a", min_member=1, complete=True)
        await world.start()
        await world.settled()
        record = world.leader.record()
        async with record.lock:
            world.pod("c")
            await world.until(lambda: "uid-c" in world.leader.state.pods)
            waiting = await a_plan_that_waits(world)
            await world.leader.ledger.discard(record)
        with pytest.raises(RecordMoved):
            await waiting
        await world.settled()
        assert world.where()["c"] == "n1"
        assert world.listed() == {record_name(): ["c"]}, "planned again, into a record of its own"


async def test_a_plan_is_not_committed_into_a_record_that_is_rolled_back_before_its_turn() -> None:
    async with World(min_member=4) as world:
        world.pod("a", on="n1", controlled=False)
        world.wrote(COMMITTED, "a", "b", min_member=4)
        leader = await world.start()
        await world.settled()
        record = leader.record()
        await record.lock.acquire()
        world.pod("c")
        await world.until(lambda: "uid-c" in leader.state.pods)
        rolling = asyncio.create_task(leader.ledger.roll_back(record, "of the test"))
        await asyncio.sleep(0)
        waiting = await a_plan_that_waits(world)
        record.lock.release()
        with pytest.raises(RecordMoved):
            await waiting
        await rolling
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert set(leader.state.holdings) == {"uid-a"}, "the plan left no trace"


@pytest.mark.parametrize("step", ["DELETE", "PATCH"], ids=["the deletion", "the finalizer"])
async def test_a_record_on_its_way_out_is_never_taken_over_by_the_next_gang_of_its_owner(step: str) -> None:
    async with World() as world:
        world.wrote("Pending", min_member=1)
        before = world.server.objects[f"{RECORDS}/{record_name()}"]["metadata"]["uid"]
        slow = world.server.delays(f"{step} gpuallocations/{record_name()}")
        await world.start()
        world.pod("a")
        await world.until(lambda: world.written().count("POST team/gpuallocations") > 3)
        assert world.where() == {}
        slow.set()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert world.listed() == {record_name(): ["a"]}
        assert world.server.objects[f"{RECORDS}/{record_name()}"]["metadata"]["uid"] != before


# -- an apiserver that says no -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
async def test_a_settle_that_is_forbidden_for_a_while_is_made_when_it_is_allowed(status: int) -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        binding = world.server.delays("POST b/binding")
        await world.start()
        await world.until(lambda: "POST b/binding" in world.written())
        with world.server.refusing(record_writes, status) as refused:
            binding.set()
            await world.until(lambda: len(refused) > 20)
            assert world.said()["phase"] == COMMITTED
        await world.settled()
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)


async def test_a_settle_of_which_somebody_makes_another_word_is_said_again_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "SETTLE_PAUSE", 0.1)
    async with World(min_member=2, nodes=(node("n1").with_cards(1),)) as world:
        world.pods("a", "b", like=pod("").by("alnair").slice(memory_gib=1))

        async def other_word(call: Call) -> None:
            call.body["status"]["phase"] = COMMITTED

        world.server.faults.append(Fault(record_writes, before=other_word, stays=True))
        await world.start()
        await world.until(lambda: world.where().keys() == {"a", "b"})
        before, began = len(world.written()), time.monotonic()
        await world.until(lambda: len(world.written()) > before + 5)
        assert time.monotonic() - began > 0.3


async def test_a_commit_that_is_forbidden_for_good_decides_nothing() -> None:
    async with World() as world:
        world.pod("a")
        with world.server.refusing(record_writes, 403, "Forbidden"):
            await world.start()
            await world.settled()
        assert world.where() == {}
        assert world.listed() == {}, "what was created for it is gone again"
        assert world.leader.state.holdings == {}
        assert world.leader.gang().refusal_reason == "RecordRefused"


async def test_a_gang_whose_records_name_somebody_took_is_told_so_and_placed_once_it_is_free() -> None:
    async with World() as world:
        world.pod("a")
        taken = Record(Owner(names.KIND_PODGROUP, NAMESPACE, "g", "uid-of-g"), "theirs", 1, 1)
        world.server.put(taken.path, taken.manifest())
        await world.start()
        await world.settled()
        assert world.where() == {}
        assert world.leader.state.holdings == {}
        gang = world.leader.gang()
        assert gang.refusal_reason == "RecordRefused"
        assert f"GPUAllocation {taken} is for somebody else: spec.schedulerName is 'theirs'" in gang.refusal
        world.server.remove(taken.path)
        await world.passes(61)
        assert world.where() == {"a": "n1"}


async def test_a_gang_that_no_object_holds_is_refused_with_a_reason_and_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "MOST_BYTES", 300)  # in earnest 1.4 MB, which some 6,200 pods fill
    async with World(min_member=6) as world:
        world.pods(*"abcdef")
        await world.start()
        await world.settled()
        assert world.where() == {}
        assert world.listed() == {}
        assert world.leader.state.holdings == {}
        assert "the gang of 6 pods needs a record of" in world.leader.gang().refusal
        assert "split it into smaller groups" in world.leader.gang().refusal


async def test_a_commit_whose_answer_got_lost_is_not_given_up_while_it_is_forbidden_to_look() -> None:
    async with World() as world:
        world.pod("a")
        world.server.loses_the_answer_of(f"PUT {record_name()}/status")
        world.server.refuses(f"PUT {record_name()}/status", 403, times=30)
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert world.said()["phase"] == BOUND


async def test_a_member_whose_binding_is_refused_is_changed_before_its_slice_is_given_away() -> None:
    async with World() as world:
        world.pods("a", "b")
        world.server.refuses("POST b/binding", 403, "Forbidden", times=5)
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert world.listed() == {record_name(): ["a"]}
        writes = world.written()
        last_binding = max(index for index, name in enumerate(writes) if name == "POST b/binding")
        assert "PATCH b/status" in writes[last_binding:], "fenced after the last try"
        assert set(world.leader.state.holdings) == {"uid-a"}


async def test_a_refused_binding_that_landed_after_all_keeps_its_slice() -> None:
    """A proxy says no, and the Binding is there nevertheless: the fence sees it."""
    async with World() as world:
        world.pod("a")
        world.server.refuses("POST a/binding", 403, "Forbidden", times=5)

        def lands() -> None:
            there = world.server.objects[f"{PODS}/a"]
            world.server.put(f"{PODS}/a", {**there, "spec": {**there["spec"], "nodeName": "n1"}})

        await world.process()
        world.server.first("PATCH a/status", lands)
        await world.leader.lead()
        await world.settled()
        assert world.listed() == {record_name(): ["a"]}
        assert world.said()["phase"] == BOUND


async def test_members_lost_while_they_are_bound_are_not_in_the_settled_record() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b", "c")
        world.vanish_while_bound("c")
        await world.start()
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        assert world.said()["phase"] == BOUND
        assert set(world.leader.state.holdings) == {"uid-a", "uid-b"}


async def test_a_gang_of_which_nobody_could_be_bound_leaves_no_record() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        world.vanish_while_bound("a", "b")
        await world.start()
        await world.settled()
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


async def test_a_gang_made_anew_has_to_become_whole_by_itself() -> None:
    """It was whole once; all of it was deleted and made again, and three of the four vanish while they are bound."""
    async with World(min_member=4) as world:
        world.pods(*"abcd", on="n1")
        world.wrote(BOUND, *"abcd", min_member=4, complete=True)
        await world.start()
        await world.settled()
        world.vanish_while_bound(*"xyz")
        world.deletes(*"abcd")
        world.pods(*"wxyz")
        await world.settled()
        assert world.said()["phase"] == COMMITTED
        assert not world.said()["complete"]
        assert world.leader.record().short_since is not None
