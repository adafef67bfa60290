"""Release: a slice comes free when its pod is gone for certain, soon after, and in the record before the books."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.ledger.records import BOUND, COMMITTED, Record
from harness.builders import node, pod
from unit.apiserver import Call
from unit.control.world import RECORDS, World, record_name, record_writes

N1 = node("n1")
RECORD = f"{RECORDS}/{record_name()}"


async def running(world: World, *which: str, min_member: int = 1) -> None:
    """A gang that was settled long ago."""
    world.pods(*which, on="n1")
    world.wrote(BOUND, *which, min_member=min_member, complete=True)
    await world.start()
    await world.settled()


async def test_a_record_goes_with_its_last_pod() -> None:
    async with World() as world:
        await running(world, "a", "b")
        world.deletes("a", "b")
        await world.settled()
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


async def test_pods_that_end_together_are_released_in_one_write() -> None:
    async with World() as world:
        await running(world, "a", "b", "c")
        before = len(world.written())
        world.ends("a", "b")
        await world.settled()
        assert world.listed() == {record_name(): ["c"]}
        assert len(world.written()) == before + 1


async def test_a_slice_is_out_of_the_record_before_it_is_free_in_the_books() -> None:
    async with World() as world:
        await running(world, "a", "b")
        write = world.server.delays(f"PUT {record_name()}/status")
        world.ends("a")
        await world.until(lambda: f"PUT {record_name()}/status" in world.written()[1:])
        assert "uid-a" in world.leader.state.holdings
        write.set()
        await world.settled()
        assert set(world.leader.state.holdings) == {"uid-b"}


@pytest.mark.parametrize("status", [403, 410, 422])
async def test_a_release_that_is_refused_is_insisted_on_and_nothing_is_free_before(status: int) -> None:
    async with World() as world:
        await running(world, "a", "b")
        with world.server.refusing(record_writes, status) as refused:
            world.ends("a")
            await world.until(lambda: len(refused) > 1)
            assert "uid-a" in world.leader.state.holdings
        await world.settled()
        assert world.listed() == {record_name(): ["b"]}
        assert set(world.leader.state.holdings) == {"uid-b"}


@pytest.mark.parametrize("status", [403, 422])
@pytest.mark.parametrize("together", [True, False])
async def test_a_record_that_nobody_may_write_goes_when_its_last_pod_has_ended(
    status: int, together: bool
) -> None:
    async with World() as world:
        await running(world, "a", "b")
        with world.server.refusing(record_writes, status) as refused:
            world.ends("a")
            await world.until(lambda: together or len(refused) > 1)
            world.ends("b")
            await world.until(lambda: world.leader.state.holdings == {} and world.listed() == {})


@pytest.mark.parametrize("status", [403, 422])
async def test_a_gang_that_nobody_may_settle_goes_when_its_pods_have_gone(status: int) -> None:
    def settles(call: Call) -> bool:
        return record_writes(call) and call.body["status"]["phase"] == BOUND

    async with World(min_member=2, nodes=(node("n1").with_cards(1),)) as world:
        world.pods("a", "b", like=pod("").by("alnair").slice(memory_gib=1))
        with world.server.refusing(settles, status) as refused:
            await world.start()
            await world.until(lambda: len(refused) > 1)
            world.deletes("a", "b")
            await world.until(lambda: world.leader.state.holdings == {} and world.listed() == {})


async def test_a_record_that_a_refused_release_made_anew_is_written_when_it_is_allowed() -> None:
    """A hand deletes it meanwhile: the write finds nothing, creates it, and is refused again. A pod that was deleted by
    force out of its kubelet's reach stands nowhere else."""
    async with World() as world:
        await running(world, "a", "b", "p")
        world.strays |= {"uid-a", "uid-b"}
        world.node(node("n1"), ready=False)
        world.deletes("p")
        await world.settled()
        books = world.leader.state.holdings
        with world.server.refusing(
            lambda call: record_writes(call) and RECORD in world.server.objects, 403
        ) as refused:
            world.ends("b")
            await world.until(lambda: len(refused) > 1)
            world.server.remove(RECORD)
            await world.until(lambda: RECORD in world.server.objects and "uid-b" not in books)
        await world.until(lambda: world.listed() == {record_name(): ["a", "p"]})
        await world.restart()
        await world.settled()
        assert "uid-p" in world.leader.state.holdings


@pytest.mark.parametrize("status", [410, 422])
async def test_a_record_whose_deletion_is_refused_goes_all_the_same(status: int) -> None:
    async with World() as world:
        await running(world, "a")
        world.server.refuses(f"DELETE gpuallocations/{record_name()}", status)
        world.deletes("a")
        await world.settled()
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


async def test_a_terminating_pod_keeps_its_slice() -> None:
    async with World() as world:
        await running(world, "a")
        world.pod("a", on="n1", deletionTimestamp="2026-01-01T00:00:00Z")
        await world.settled()
        assert world.listed() == {record_name(): ["a"]}


async def test_losing_members_of_a_gang_that_was_whole_is_no_reason_to_roll_back() -> None:
    async with World(min_member=3) as world:
        await running(world, "a", "b", "c", min_member=3)
        world.deletes("a", "b")
        await world.settled()
        await world.passes(1000)
        assert world.listed() == {record_name(): ["c"]}
        assert (world.said()["phase"], world.evicted()) == (BOUND, [])


async def test_a_replacement_joins_a_gang_that_was_whole() -> None:
    async with World(min_member=3) as world:
        await running(world, "a", "b", "c", min_member=3)
        world.deletes("a")
        world.pod("a2")
        await world.settled()
        assert world.listed() == {record_name(): ["a2", "b", "c"]}
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)


@pytest.mark.parametrize("done", [False, True], ids=["running", "done"])
async def test_a_gang_whose_last_members_go_while_a_replacement_is_planned_does_not_begin_anew_with_that_one(
    monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """Those that are done count for their gang, though no record lists them any more."""
    async with World(min_member=3) as world:
        await running(world, "a", "b", "c", min_member=3)
        if done:
            world.ends("a", "b", "c")
            await world.settled()
        ledger = world.leader.ledger
        assume = ledger.assume

        def assume_and_lose_the_others(*arguments: Any, **options: Any) -> Record:
            record = assume(*arguments, **options)
            world.deletes("a", "b", "c")
            return record

        monkeypatch.setattr(ledger, "assume", assume_and_lose_the_others)
        world.pod("d")
        await world.settled()
        assert world.where() == {}, "one of three is no gang"
        assert world.listed() == {}
        assert ledger.state.holdings == {}
        monkeypatch.setattr(ledger, "assume", assume)
        world.pods("e", "f")
        await world.settled()
        assert world.listed() == {record_name(): ["d", "e", "f"]}


# -- an apiserver that refuses everybody for a while -------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
async def test_a_release_that_is_forbidden_for_a_while_is_made_when_it_is_allowed(status: int) -> None:
    async with World() as world:
        await running(world, "a", "b")
        with world.server.refusing(record_writes, status) as refused:
            world.deletes("a")
            await world.until(lambda: len(refused) > 20)
            assert "uid-a" in world.leader.state.holdings, "the record still lists it"
        await world.settled()
        assert world.listed() == {record_name(): ["b"]}
        holdings = world.leader.state.holdings
        assert "uid-a" not in holdings, (
            "its place is kept for a replacement, and it is not the pod's any more"
        )
        assert len(holdings) == 2


async def test_a_pod_that_came_while_a_release_was_stuck_is_planned_when_it_is_through() -> None:
    async with World() as world:
        await running(world, "a", "b")
        with world.server.refusing(record_writes, 403) as refused:
            world.deletes("a")
            await world.until(lambda: len(refused) > 5)
            world.pod("c")
            await world.until(lambda: len(refused) > 10)
        await world.settled()
        assert world.where() == {"b": "n1", "c": "n1"}


@pytest.mark.parametrize("status", [401, 403])
async def test_a_deletion_that_is_forbidden_for_a_while_is_made_when_it_is_allowed(status: int) -> None:
    def deletions(call: Call) -> bool:
        return call.method == "DELETE"

    async with World() as world:
        await running(world, "a")
        with world.server.refusing(deletions, status) as refused:
            world.deletes("a")
            await world.until(lambda: len(refused) > 20)
        await world.settled()
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


async def test_a_finalizer_that_may_not_be_taken_away_for_a_while_is_taken_later() -> None:
    def finalizers(call: Call) -> bool:
        return call.name == f"PATCH gpuallocations/{record_name()}"

    async with World() as world:
        await running(world, "a")
        with world.server.refusing(finalizers, 403) as refused:
            world.deletes("a")
            await world.until(lambda: len(refused) > 20)
        await world.settled()
        assert world.listed() == {}


# -- deleted by force --------------------------------------------------------------------------------------------


async def test_a_pod_deleted_by_force_on_a_node_that_is_not_ready_keeps_its_slice_until_the_node_is_back() -> (
    None
):
    async with World() as world:
        await running(world, "a")
        world.node(N1, ready=False)
        world.deletes("a")
        await world.settled()
        assert world.listed() == {record_name(): ["a"]}
        world.node(N1)
        await world.settled()
        assert world.listed() == {}


async def test_a_pod_deleted_by_force_is_released_when_its_node_is_gone_for_good() -> None:
    async with World() as world:
        await running(world, "a")
        world.node(N1, ready=False)
        world.deletes("a")
        await world.settled()
        world.server.remove("/api/v1/nodes/n1")
        await world.settled()
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


@pytest.mark.parametrize("phase", [BOUND, COMMITTED])
async def test_a_pod_deleted_by_force_while_nobody_led_keeps_its_slice_too(phase: str) -> None:
    async with World(min_member=2, nodes=[]) as world:
        world.node(N1, ready=False)
        world.pod("b", on="n1")
        world.wrote(phase, "a", "b", min_member=2, complete=phase == BOUND)
        await world.start()
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        assert "uid-a" in world.leader.state.holdings
        world.node(N1)
        await world.settled()
        assert world.listed() == {record_name(): ["b"]}
        assert set(world.leader.state.holdings) == {"uid-b"}


async def test_a_pod_deleted_by_force_during_its_bind_is_not_given_away_by_a_roll_back() -> None:
    async with World(min_member=4, nodes=[]) as world:
        world.node(N1, ready=False)
        world.pod("b", on="n1")
        world.wrote(COMMITTED, "a", "b", min_member=4)
        leader = await world.start()
        await world.settled()
        await leader.ledger.roll_back(leader.record(), "of the test")
        await world.settled()
        assert "uid-a" in leader.state.holdings
        assert "a" in world.listed()[record_name()]


# -- a list that lacks a pod -------------------------------------------------------------------------------------


async def test_a_stale_list_that_lacks_a_pod_releases_nothing() -> None:
    async with World() as world:
        await running(world, "a")
        world.leader.lists_pods_without("a")
        await world.until(lambda: "GET pods/a" in world.server.names())
        world.pod("a", on="n1")
        await world.settled()
        assert world.listed() == {record_name(): ["a"]}


async def test_a_pod_that_a_list_lacks_and_the_apiserver_too_is_released() -> None:
    async with World() as world:
        await running(world, "a")
        world.leader.deaf = True
        world.deletes("a")
        world.leader.lists_pods_without("a")
        await world.settled()
        assert world.listed() == {}
