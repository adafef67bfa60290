"""A new leader: what was committed is carried to its end, what is gone is released, what was whole stays whole."""

from __future__ import annotations

import asyncio
from copy import deepcopy

import pytest

from alnair.api import names
from alnair.api.allocation import LAST_EPOCH
from alnair.ledger import recovery
from alnair.ledger.records import BOUND, COMMITTED, PENDING, ROLLING_BACK
from alnair.state.holding import Holding
from harness.builders import node
from unit.control.world import LEASE, NAMESPACE, PODS, RECORDS, World, record_name, record_writes

KEPT = 61


async def test_what_was_committed_is_bound_to_the_same_targets() -> None:
    async with World(min_member=2, nodes=[node("n1"), node("n2")]) as world:
        world.pods("a", "b")
        world.wrote(COMMITTED, "a", "b", min_member=2, holdings={"b": Holding("n2")})
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n2"}
        assert world.said()["phase"] == BOUND


async def test_a_record_that_was_never_committed_goes() -> None:
    async with World() as world:
        world.wrote(PENDING, min_member=1)
        await world.start()
        await world.settled()
        assert world.listed() == {}


async def test_a_leader_killed_between_commit_and_binds_is_finished_by_the_next() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        stuck = world.server.delays("POST b/binding")
        await world.start()
        await world.until(lambda: world.where() == {"a": "n1"})
        await world.restart()
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)
        stuck.set()


async def test_the_places_of_a_committed_gang_are_taken_before_anything_else_is_planned() -> None:
    async with World(min_member=1, nodes=[node("n1").holding(cpu="200m")]) as world:
        world.pods("a", "b", group="")
        world.pods("x", "y")
        world.wrote(COMMITTED, "x", "y", min_member=2)
        await world.start()
        await world.settled()
        assert world.where() == {"x": "n1", "y": "n1"}


async def test_a_gang_deleted_while_nobody_led_is_released_and_the_next_one_gets_a_record_of_its_own() -> (
    None
):
    async with World(min_member=2) as world:
        world.wrote(COMMITTED, "a", "b", min_member=2)
        world.pods("c", "d")
        await world.start()
        await world.settled()
        assert world.where() == {"c": "n1", "d": "n1"}
        assert world.listed() == {record_name(): ["c", "d"]}
        assert set(world.leader.state.holdings) == {"uid-c", "uid-d"}


@pytest.mark.parametrize("phase", [BOUND, ROLLING_BACK])
async def test_a_record_whose_pods_vanished_while_nobody_led_goes(phase: str) -> None:
    async with World(min_member=2) as world:
        world.wrote(phase, "a", "b", min_member=2, complete=phase == BOUND)
        await world.start()
        await world.settled()
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


async def test_a_roll_back_is_carried_on() -> None:
    async with World(min_member=4) as world:
        world.pods("a", "b", on="n1")
        world.wrote(ROLLING_BACK, "a", "b", min_member=4)
        await world.start()
        await world.settled()
        assert sorted(world.evicted()) == ["a", "b"]
        assert world.listed() == {}


# -- whole once --------------------------------------------------------------------------------------------------


async def test_a_gang_that_was_whole_stays_so_when_its_leader_dies_while_a_replacement_joins() -> None:
    """Four were needed and two are left: no reason to evict them, before a crash or after it."""
    async with World(min_member=4) as world:
        world.pods("a", "b", on="n1")
        world.pod("c")
        world.wrote(COMMITTED, "a", "b", "c", min_member=4, complete=True)
        await world.start()
        await world.settled()
        await world.passes(KEPT)
        assert world.evicted() == []
        assert world.where() == {"a": "n1", "b": "n1", "c": "n1"}
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)


async def test_a_gang_made_anew_while_nobody_led_has_to_become_whole_by_itself() -> None:
    async with World(min_member=4) as world:
        world.wrote(BOUND, *"abcd", min_member=4, complete=True)
        world.pods(*"wxyz")
        world.vanish_while_bound(*"xyz")
        await world.start()
        await world.settled()
        assert world.where() == {"w": "n1"}
        assert not world.said()["complete"]
        assert world.leader.record().short_since is not None


async def test_members_that_may_be_gone_are_asked_for_before_their_gang_is_planned() -> None:
    async with World(min_member=2) as world:
        world.wrote(BOUND, "a", "b", min_member=2, complete=True)
        world.pod("w")
        answer = world.server.delays("GET pods/a")
        await world.start()
        await world.until(lambda: "GET pods/a" in world.server.names())
        assert world.where() == {}
        answer.set()
        await world.settled()
        assert world.where() == {}, "one of a new gang of two is not enough"
        assert world.listed() == {}


# -- before recovery ---------------------------------------------------------------------------------------------


async def test_nothing_is_released_before_all_pods_are_known() -> None:
    """A member that succeeded is seen first: it counts for the gang, and is released after the roll-forward."""
    async with World(min_member=4) as world:
        world.pod("a", on="n1", phase="Succeeded")
        world.pods("b", "c", "d")
        world.wrote(COMMITTED, *"abcd", min_member=4)
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b", "c", "d"]}
        await leader.carry_on()
        await world.settled()
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)
        assert world.listed() == {record_name(): ["b", "c", "d"]}


async def test_a_bound_record_may_shrink_only_after_recovery() -> None:
    async with World() as world:
        world.pods("a", "b", on="n1")
        world.wrote(BOUND, "a", "b", min_member=1, complete=True)
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        world.deletes("a")
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        await leader.carry_on()
        await world.settled()
        assert world.listed() == {record_name(): ["b"]}


# -- stamps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [PENDING, COMMITTED, ROLLING_BACK])
async def test_a_record_that_is_not_settled_carries_the_new_epoch_before_anything_is_planned(
    phase: str,
) -> None:
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(phase, "a", min_member=1, complete=True, epoch=7)
        leader = await world.process()
        await leader.take_over()
        assert world.said()["epoch"] == leader.ledger.epoch == 8, "the lease is young, the records remember"


async def test_a_settled_record_is_taken_over_as_it_is_and_stamped_when_there_is_time() -> None:
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(BOUND, "a", min_member=1, complete=True, epoch=7)
        leader = await world.process()
        await leader.take_over()
        assert "uid-a" in leader.state.holdings
        assert (world.said()["epoch"], leader.ledger.epoch) == (7, 8)
        await leader.look_around()
        await leader.carry_on()
        await world.settled()
        assert (world.said()["epoch"], world.said()["phase"]) == (8, BOUND)


async def test_a_stamp_whose_answer_got_lost_is_our_own() -> None:
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(COMMITTED, "a", min_member=1, complete=True)
        world.server.loses_the_answer_of(f"PATCH {record_name()}/status")
        leader = await world.start()
        await world.settled()
        assert world.said()["epoch"] == leader.record().epoch >= 6
        world.deletes("a")
        await world.settled()
        assert world.listed() == {}


async def test_stamps_that_are_forbidden_for_a_while_are_made_when_they_are_allowed() -> None:
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(BOUND, "a", min_member=1, complete=True)
        world.server.refuses(f"PATCH {record_name()}/status", 403, times=5)
        leader = await world.start()
        await world.settled()
        assert world.said()["epoch"] == leader.ledger.epoch


async def test_a_settled_record_that_cannot_be_stamped_holds_up_no_other() -> None:
    async with World() as world:
        world.pods("a", "b", on="n1")
        world.wrote(BOUND, "a", min_member=1, complete=True)
        world.wrote(BOUND, "b", min_member=1, complete=True, group_uid="uid-of-another")
        with world.server.refusing(lambda call: call.name == f"PATCH {record_name()}/status", 403) as refused:
            leader = await world.start()
            await world.until(lambda: world.said("uid-of-another")["epoch"] == leader.ledger.epoch)
            await world.settled()
            assert len(refused) == recovery.REFUSALS, "and is given up"


async def test_a_settled_record_that_somebody_writes_holds_up_no_other() -> None:
    async with World() as world:
        world.pods("a", "b", on="n1")
        world.wrote(BOUND, "a", min_member=1, complete=True)
        world.wrote(BOUND, "b", min_member=1, complete=True, group_uid="uid-of-another")
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        async with leader.record().lock:
            await leader.carry_on()
            await world.until(lambda: world.said("uid-of-another")["epoch"] == leader.ledger.epoch)
            assert world.said()["epoch"] < leader.ledger.epoch
        await world.settled()
        assert world.said()["epoch"] == leader.ledger.epoch


async def test_a_record_whose_status_cannot_be_written_is_fenced_by_a_word_beside_it() -> None:
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(COMMITTED, "a", min_member=1, complete=True)
        path = f"{RECORDS}/{record_name()}"
        before = deepcopy(world.server.objects[path])
        with world.server.refusing(lambda call: call.name == f"PATCH {record_name()}/status", 422):
            leader = await world.process()
            await leader.take_over()
        there = world.server.objects[path]
        assert there["metadata"]["annotations"][names.FENCED].startswith(f"{leader.ledger.epoch}-")
        assert there["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
        assert leader.record().version == there["metadata"]["resourceVersion"]
        await leader.look_around()
        await leader.carry_on()
        await world.settled()
        assert world.said()["epoch"] == leader.ledger.epoch


async def test_a_record_that_nobody_can_write_is_taken_over_when_nothing_can_be_under_way_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "LANDING_SECONDS", 0.05)
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(COMMITTED, "a", min_member=1, complete=True)
        with world.server.refusing(lambda call: call.method == "PATCH" and RECORDS in call.path, 403) as no:
            leader = await world.process()
            await leader.take_over()
        assert len(no) > 2
        assert "uid-a" in leader.state.holdings


async def test_a_stamp_that_changes_nothing_is_no_fence() -> None:
    """Epochs have come to their end: the object is changed in another way."""
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(COMMITTED, "a", min_member=1, complete=True, epoch=LAST_EPOCH)
        versions = set()
        for _ in range(3):
            world.lease_expires()
            leader = await world.process()
            await leader.take_over()
            versions.add(world.server.objects[f"{RECORDS}/{record_name()}"]["metadata"]["resourceVersion"])
        assert len(versions) == 3


async def test_an_epoch_that_a_hand_wrote_as_high_as_it_goes_stops_nobody() -> None:
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(COMMITTED, "a", min_member=1, complete=True, epoch=LAST_EPOCH)
        leader = await world.start()
        world.pod("b")
        await world.settled()
        assert leader.ledger.epoch == LAST_EPOCH
        assert world.listed() == {record_name(): ["a", "b"]}
        assert world.server.objects[LEASE]["spec"]["leaseTransitions"] == 2**31 - 1


# -- lost records ------------------------------------------------------------------------------------------------


def bound_by_us(world: World, name: str) -> None:
    world.pod(name, on="n1")
    world.strays.add(f"uid-{name}")
    there = world.server.objects[f"{PODS}/{name}"]
    there["metadata"]["annotations"] = {names.NODE: "n1", names.GPU_SLICES: "[]"}


async def test_bound_pods_whose_record_was_lost_get_one_again() -> None:
    async with World(min_member=2) as world:
        bound_by_us(world, "a")
        bound_by_us(world, "b")
        await world.start()
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)
        assert world.said()["conditions"][0]["type"] == "Adopted"


async def test_a_stray_is_adopted_into_a_short_record_without_making_it_whole() -> None:
    async with World(min_member=4) as world:
        world.pods("a", "b", on="n1")
        world.wrote(COMMITTED, "a", "b", min_member=4)
        bound_by_us(world, "c")
        await world.start()
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b", "c"]}
        assert (world.said()["phase"], world.said()["complete"]) == (COMMITTED, False)


async def test_an_adoption_that_is_forbidden_for_a_while_is_made_when_it_is_allowed() -> None:
    async with World() as world:
        bound_by_us(world, "a")
        with world.server.refusing(record_writes, 403) as refused:
            await world.start()
            await world.until(lambda: len(refused) > 10)
        await world.settled()
        assert world.listed() == {record_name(): ["a"]}


@pytest.mark.parametrize("left", [set("ab"), set("b"), set()])
async def test_an_adoption_that_a_quota_refuses_is_made_when_it_allows_it_for_whoever_is_left(
    left: set[str],
) -> None:
    async with World(min_member=2) as world:
        bound_by_us(world, "a")
        bound_by_us(world, "b")
        with world.server.refusing(
            lambda call: call.method == "POST" and call.path == RECORDS, 403
        ) as refused:
            await world.start()
            await world.until(lambda: len(refused) > 2)
            for name in sorted({"a", "b"} - left):
                world.deletes(name)
                await world.until(lambda: f"uid-{name}" not in world.leader.state.holdings)  # noqa: B023
        await world.until(lambda: world.listed() == ({record_name(): sorted(left)} if left else {}))


@pytest.mark.parametrize("status", [403, 422])
async def test_an_adoption_whose_status_is_refused_holds_up_nobodys_release(status: int) -> None:
    async with World(min_member=1) as world:
        bound_by_us(world, "a")
        bound_by_us(world, "b")
        with world.server.refusing(
            lambda call: call.method == "PUT" and call.path.startswith(RECORDS), status
        ) as refused:
            await world.start()
            await world.until(lambda: len(refused) > 2)
            world.deletes("b")
            await world.until(lambda: "uid-b" not in world.leader.state.holdings)
        await world.until(lambda: world.listed() == {record_name(): ["a"]})


async def test_an_adoption_whose_creation_got_no_answer_is_found_though_a_quota_is_used_up_by_it() -> None:
    async with World(min_member=1) as world:
        bound_by_us(world, "a")
        world.server.loses_the_answer_of(f"POST {NAMESPACE}/gpuallocations")
        with world.server.refusing(
            lambda call: (
                call.method == "POST"
                and call.path == RECORDS
                and f"{RECORDS}/{record_name()}" in world.server.objects
            ),
            403,
        ):
            await world.start()
            await world.until(lambda: world.listed() == {record_name(): ["a"]})


async def test_an_adoption_whose_creation_lands_late_is_found_though_a_quota_is_used_up_by_it() -> None:
    """The quota is charged first: the next try is refused while nothing stands there yet."""
    async with World(min_member=1) as world:
        bound_by_us(world, "a")
        lands = world.server.cuts_off(f"POST {NAMESPACE}/gpuallocations")
        with world.server.refusing(
            lambda call: call.method == "POST" and call.path == RECORDS, 403
        ) as refused:
            await world.start()
            await world.until(lambda: len(refused) > 1)
            assert lands() == 201
            await world.until(lambda: world.listed() == {record_name(): ["a"]})


async def test_a_record_that_is_refused_for_days_is_settled_by_one_task() -> None:
    async with World(min_member=1) as world:
        bound_by_us(world, "a")
        with world.server.refusing(
            lambda call: call.method == "POST" and call.path == RECORDS, 403
        ) as refused:
            await world.start()
            await world.until(lambda: len(refused) > 2)
            world.pod("b")
            gang = world.leader.gang
            for tries in range(1, 5):
                await world.until(lambda: gang().refusals == tries)  # noqa: B023
                world.clock.pass_(400)
            tasks = [task.get_name() for task in asyncio.all_tasks()]
            assert len([name for name in tasks if name.startswith("settle ")]) == 1
        await world.until(lambda: world.listed() == {record_name(): ["a", "b"]})
