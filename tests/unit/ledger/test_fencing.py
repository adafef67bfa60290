"""Two who think that they lead: whatever the one that does not lead any more does, the other's word stands.

The ex-leader was paused: it believes in its lease, nobody told it otherwise, and it goes on where it was.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest

from alnair.api import names
from alnair.ledger import recovery
from alnair.ledger.lease import LeadershipLost
from alnair.ledger.records import BOUND, COMMITTED
from harness.builders import PodBuilder, node, pod
from unit.control.world import LEASE, PODS, RECORDS, Leader, World, record_name

RECORD = f"{RECORDS}/{record_name()}"
STAMP = f"PATCH {record_name()}/status"
COMMIT = f"PUT {record_name()}/status"


async def two_leaders(world: World, *which: str, min_member: int = 1) -> tuple[Leader, Leader]:
    """A settled gang, a leader that was paused, and its successor."""
    world.pods(*which, on="n1")
    world.wrote(BOUND, *which, min_member=min_member, complete=True)
    before = await world.start()
    await world.settled()
    before.deaf = True
    after = await world.start()
    await world.settled()
    return before, after


async def test_the_successors_stamp_is_not_taken_for_an_edit() -> None:
    async with World() as world:
        before, after = await two_leaders(world, "a", "b")
        before.hears_again()
        await world.settled()
        assert before.gave_up
        assert world.said()["epoch"] == after.ledger.epoch


async def test_an_ex_leader_does_not_write_over_what_its_successor_committed() -> None:
    async with World() as world:
        before, _ = await two_leaders(world, "a")
        world.pod("b")
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        before.hears_again()
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        assert world.where() == {"a": "n1", "b": "n1"}
        assert before.gave_up


@pytest.mark.parametrize(
    "hears_all", [False, True], ids=["the deletion alone", "the stamp and the commit first"]
)
async def test_an_ex_leader_does_not_delete_a_record_that_its_successor_has(hears_all: bool) -> None:
    """All pods that it knows of are gone; its successor has bound another one."""
    async with World() as world:
        before, after = await two_leaders(world, "a")
        world.pod("b")
        await world.settled()
        after.deaf = True
        world.deletes("a")
        if hears_all:
            before.hears_again()
        else:
            before.ledger.sightings.pod_deleted("uid-a")
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        assert before.gave_up


async def test_an_ex_leader_does_not_take_its_successors_new_record_for_a_forgery() -> None:
    async with World() as world:
        before = await world.start()
        before.deaf = True
        await world.start()
        world.pod("a")
        await world.settled()
        before.hears_again()
        await world.settled()
        assert world.listed() == {record_name(): ["a"]}
        assert before.gave_up


async def test_an_ex_leader_does_not_write_a_record_anew_that_its_successor_deleted() -> None:
    async with World() as world:
        before, _ = await two_leaders(world, "a")
        world.deletes("a")
        await world.settled()
        assert world.listed() == {}
        removed = [event for event in before._unheard if event[1] == RECORD]
        before._unheard = removed
        before.hears_again()
        await world.settled()
        assert world.listed() == {}
        assert before.gave_up


async def test_an_ex_leader_commits_nothing() -> None:
    async with World() as world:
        before = await world.start()
        await world.settled()
        after = await world.start()
        after.deaf = True
        world.pod("a")
        await world.settled()
        assert world.where() == {}
        assert before.gave_up


async def test_an_ex_leader_adds_nobody_to_a_record() -> None:
    async with World() as world:
        before, after = await two_leaders(world, "a")
        before._unheard.clear()
        before.deaf, after.deaf = False, True
        world.pod("b")
        await world.settled()
        assert world.listed() == {record_name(): ["a"]}
        assert world.where() == {"a": "n1"}
        assert before.gave_up


async def test_a_leader_paused_between_creation_and_commit_commits_nothing() -> None:
    async with World() as world:
        world.pod("a")
        commit = world.server.delays(COMMIT)
        before = await world.start()
        await world.until(lambda: COMMIT in world.written())
        before.deaf = True
        after = await world.start()
        await world.settled_but(before)
        commit.set()
        await world.settled()
        assert before.gave_up
        assert world.where() == {"a": "n1"}
        assert world.said()["epoch"] == after.ledger.epoch


async def grows(world: World, delayed: str) -> tuple[Leader, asyncio.Event, Leader]:
    """A leader that was paused while it was about to add a pod to a settled record, what it waits for, and its
    successor, which has taken over and written no more than it must."""
    world.pod("a", on="n1")
    world.wrote(BOUND, "a", min_member=1, complete=True)
    before = await world.start()
    await world.settled()
    written = len(world.written())
    write = world.server.delays(delayed)
    world.pod("b")
    await world.until(lambda: delayed in world.written()[written:])
    before.deaf = True
    world.lease_expires()
    after = await world.process()
    await after.take_over()
    return before, write, after


async def test_what_an_ex_leader_adds_late_to_a_record_that_it_had_opened_is_refused() -> None:
    async with World() as world:
        before, commit, after = await grows(world, COMMIT)
        assert (world.said()["phase"], world.said()["epoch"]) == (COMMITTED, after.ledger.epoch)
        commit.set()
        await world.until(lambda: before.gave_up)
        assert world.listed() == {record_name(): ["a"]}


async def test_an_ex_leader_whose_opening_lands_late_looks_at_the_lease_and_adds_nothing() -> None:
    async with World() as world:
        before, opening, after = await grows(world, STAMP)
        assert world.said()["phase"] == BOUND, "it was not stamped"
        opening.set()
        await world.until(lambda: before.gave_up)
        assert (world.listed(), world.said()["phase"]) == ({record_name(): ["a"]}, COMMITTED)
        await after.look_around()
        await after.carry_on()
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b"]}
        assert (world.said()["phase"], world.said()["epoch"]) == (BOUND, after.ledger.epoch)


async def test_a_leader_paused_before_it_carries_on_carries_on_nothing() -> None:
    async with World() as world:
        world.pod("a")
        world.wrote(COMMITTED, "a", min_member=1)
        before = await world.process()
        await before.take_over()
        await before.look_around()
        before.deaf = True
        await world.start()
        await world.settled()
        version = world.server.objects[RECORD]["metadata"]["resourceVersion"]
        with pytest.raises(LeadershipLost):
            await before.carry_on()
        assert world.server.objects[RECORD]["metadata"]["resourceVersion"] == version


# -- epochs ------------------------------------------------------------------------------------------------------


async def paused_before_its_stamp(world: World) -> tuple[asyncio.Task[None], asyncio.Event]:
    """A process that takes over a record of epoch 41 and whose stamp is under way until the event is set."""
    world.pod("a", on="n1")
    world.wrote(COMMITTED, "a", min_member=1, complete=True, epoch=41)
    process = await world.process()
    stamp = world.server.delays(STAMP)
    paused = asyncio.create_task(process.take_over())
    await world.until(lambda: STAMP in world.written())
    return paused, stamp


async def test_two_leaders_never_write_under_one_epoch() -> None:
    """The first counts from the records, and the second from the Lease, in which the first has written how far it
    came. The first is paused before its stamp, and goes on after the second's."""
    async with World() as world:
        paused, stamp = await paused_before_its_stamp(world)
        after = await world.start()
        world.pod("b")
        await world.settled()
        stamp.set()
        with pytest.raises(LeadershipLost):
            await paused
        await world.settled()
        assert world.said()["epoch"] == after.ledger.epoch == 43
        assert world.listed() == {record_name(): ["a", "b"]}


async def test_a_leader_that_was_stamped_over_before_the_successors_commit_stamps_nothing() -> None:
    async with World() as world:
        paused, stamp = await paused_before_its_stamp(world)
        world.lease_expires()
        after = await world.process()
        await after.take_over()
        version = world.server.objects[RECORD]["metadata"]["resourceVersion"]
        stamp.set()
        with pytest.raises(LeadershipLost):
            await paused
        assert world.server.objects[RECORD]["metadata"]["resourceVersion"] == version


async def test_epochs_grow_even_when_the_lease_was_deleted_and_counts_from_one_again() -> None:
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(BOUND, "a", min_member=1, complete=True)
        first = await world.start()
        await world.settled()
        await first.dies()
        world.server.remove(LEASE)
        second = await world.start()
        await world.settled()
        assert world.said()["epoch"] == second.ledger.epoch == second.lease.term > first.ledger.epoch


async def test_a_deleted_lease_is_a_lost_lease() -> None:
    async with World() as world:
        before = await world.start()
        world.server.remove(LEASE)
        world.pod("a")
        await world.settled()
        assert before.gave_up
        assert world.where() == {}


# -- Bindings ----------------------------------------------------------------------------------------------------


async def test_a_binding_of_an_ex_leader_is_refused_once_its_successor_has_planned_the_pod_anew() -> None:
    """The old Binding names the version of its plan, and is stuck on its way; the pod goes elsewhere meanwhile."""
    async with World() as world:
        world.pod("a")
        binding = world.server.delays("POST a/binding")
        before = await world.start()
        await world.until(lambda: "POST a/binding" in world.written())
        before.deaf = True
        world.lease_expires()
        after = await world.process()
        world.server.refuses("POST a/binding", 403, "Forbidden", times=5)  # so that it is planned anew
        await after.lead()
        await world.settled_but(before)
        assert world.listed() == {}, "given up, and the pod was changed first"
        binding.set()
        await world.settled()
        assert world.where() == {}
        assert before.gave_up


async def test_an_ex_leader_binds_nobody_again_before_it_has_looked_at_the_lease() -> None:
    async with World() as world:
        world.pod("a")
        world.server.first("POST a/binding", world.lease_expires)
        world.server.first(COMMIT, lambda: world.pod("a", note="changed"))
        before = await world.start()
        await world.settled()
        assert before.gave_up
        assert world.where() == {}


async def test_a_record_of_another_uid_is_taken_over_only_after_a_look_at_the_lease() -> None:
    """Our object was deleted and another of that name made, under no newer epoch: it may be a successor's."""
    async with World() as world:
        world.pod("a", on="n1")
        world.wrote(BOUND, "a", min_member=1, complete=True)
        before = await world.start()
        await world.settled()

        def replaced() -> None:
            before.deaf = True
            there = world.server.objects[RECORD]
            world.server.remove(RECORD)
            world.server.put(RECORD, {**there, "metadata": {**there["metadata"], "uid": "another"}})
            world.lease_expires()

        world.server.first(COMMIT, replaced)
        world.pod("b")
        await world.settled()
        assert before.gave_up
        assert world.where() == {"a": "n1"}
        assert world.listed() == {record_name(): ["a"]}


# -- one after the other -----------------------------------------------------------------------------------------


async def test_a_successor_finishes_what_an_ex_leader_committed_and_both_may_bind() -> None:
    async with World(min_member=3) as world:
        world.pods("a", "b", "c")
        stuck = [world.server.delays(f"POST {name}/binding") for name in "bc"]
        before = await world.start()
        await world.until(lambda: world.where() == {"a": "n1"})
        before.deaf = True
        await world.start()
        await world.settled_but(before)
        assert world.where() == {"a": "n1", "b": "n1", "c": "n1"}
        for each in stuck:
            each.set()
        await world.settled()
        assert world.said()["phase"] == BOUND
        assert world.listed() == {record_name(): ["a", "b", "c"]}


async def test_an_ex_leader_that_rolls_back_evicts_nobody() -> None:
    async with World(min_member=4) as world:
        world.pod("a", on="n1")
        world.wrote(COMMITTED, "a", "b", min_member=4)
        before = await world.start()
        await world.settled()
        before.deaf = True
        world.lease_expires()
        after = await world.process()
        await after.take_over()
        with pytest.raises(LeadershipLost):
            await before.ledger.roll_back(before.record(), "of the test")
        await world.settled()
        assert world.evicted() == []
        assert world.said()["phase"] == COMMITTED


async def test_a_roll_back_of_a_settled_gang_that_lands_late_is_refused_and_evicts_nobody() -> None:
    async with World() as world:
        world.pod("a", on="n1", controlled=True)
        world.wrote(BOUND, "a", min_member=1, complete=True)
        before = await world.start()
        await world.settled()
        written = len(world.written())
        write = world.server.delays(COMMIT)
        rolling = asyncio.create_task(before.ledger.roll_back(before.record(), "of the test", whole=True))
        await world.until(lambda: COMMIT in world.written()[written:])
        before.deaf = True
        world.lease_expires()
        after = await world.process()
        await after.take_over()
        write.set()
        with pytest.raises(LeadershipLost):
            await rolling
        await world.settled()
        assert world.evicted() == []
        assert world.said()["phase"] == COMMITTED


# -- a lone pod that is bound without a commit -----------------------------------------------------------------------

ONE_CARD = node("n1").with_cards(1).owned_by("device-plugin")
COUNTED = pod("counted").by("alnair").asking(cpu="100m", gpu=1)
FIRST = COUNTED.with_(lambda it: it["spec"].update(priority=1000))


async def stopped_before_its_binding(world: World, *, like: PodBuilder = COUNTED) -> asyncio.Event:
    """A leader that is stopped with the Binding of `a` on its way; set the event, and that arrives."""
    world.pod("a", group="", like=like)
    arrives = world.server.delays("POST a/binding")
    before = await world.start()
    await world.until(lambda: any("a/binding" in call for call in world.written()))
    before.deaf = True
    return arrives


async def late(world: World, arrives: asyncio.Event) -> None:
    """It arrives, and is refused: whoever sent it looks what became of the pod."""

    def looks() -> int:
        return sum(call.name == "GET pods/a" for call in world.server.calls)

    before = looks()
    arrives.set()
    await world.until(lambda: looks() > before)


async def test_a_card_that_an_ex_leaders_late_binding_wants_is_given_to_one_pod_only() -> None:
    async with World(nodes=[ONE_CARD]) as world:
        arrives = await stopped_before_its_binding(world)
        world.pod("b", group="", like=FIRST)
        await world.start()
        await world.until(lambda: world.where() == {"b": "n1"})
        await late(world, arrives)
        await world.settled_but(world.leaders[0])
        assert world.where() == {"b": "n1"}
        assert list(world.listed().values()) == [["b"]]


async def test_a_late_binding_that_lands_during_the_take_over_is_known_before_anybody_is_planned() -> None:
    async with World(nodes=[ONE_CARD]) as world:
        arrives = await stopped_before_its_binding(world)
        world.pod("b", group="", like=FIRST)
        world.server.first("PATCH a/status", lambda: world.pod("a", group="", like=COUNTED, on="n1"))
        await world.start()
        await world.settled_but(world.leaders[0])
        assert world.where() == {"a": "n1"}
        arrives.set()
        await world.settled()


@pytest.mark.parametrize("status", [422, 403, 500])
async def test_a_lone_pod_that_nobody_may_change_stops_no_take_over(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "LANDING_SECONDS", 0.2)
    async with World(nodes=[ONE_CARD]) as world:
        world.pod("a", group="", like=COUNTED)
        with world.server.refusing(lambda call: call.name == "PATCH a/status", status) as refused:
            leader = await world.start()
            await world.settled()
        assert refused
        assert not leader.gave_up
        assert world.where() == {"a": "n1"}


async def test_only_pods_that_are_bound_without_a_commit_are_changed_by_a_take_over() -> None:
    """Gangs, slices and bound pods have records, and pods of others are theirs."""
    async with World(nodes=[ONE_CARD.with_cards(4), node("n2").with_cards(2)]) as world:
        world.pod("gang", like=COUNTED)
        world.pod("slice", group="", like=pod("w").by("alnair").asking(cpu="1").slice(memory_gib=4))
        world.pod("cardless", group="")
        world.pod("there", group="", like=COUNTED, on="n1")
        world.pod("others", group="", like=COUNTED.by("somebody-else"))
        world.pod("lone", group="", like=COUNTED)
        await world.start()
        await world.settled()
        changed = [call for call in world.written() if call.endswith("/status") and "PATCH" in call]
        assert changed[0] == "PATCH lone/status"
        assert not {
            f"PATCH {name}/status" for name in ("gang", "slice", "cardless", "there", "others")
        } & set(changed)


async def test_pods_of_a_profile_that_the_successor_does_not_have_are_fenced_too() -> None:
    """Its config is another: an upgrade that has not come to both replicas."""
    async with World(nodes=[ONE_CARD]) as world:
        arrives = await stopped_before_its_binding(world, like=COUNTED.by("alnair-cost-saving"))
        world.profiles = {"alnair": world.profiles["alnair"]}
        world.pod("b", group="", like=FIRST)
        await world.start()
        await world.until(lambda: world.where() == {"b": "n1"})
        await late(world, arrives)
        assert world.where() == {"b": "n1"}


async def test_what_the_lease_tells_of_predecessors_is_forgotten_once_they_are_fenced() -> None:
    async with World(nodes=[ONE_CARD]) as world:
        await world.start()
        world.profiles = {"alnair": world.profiles["alnair"]}
        after = await world.start()
        assert world.server.objects[LEASE]["metadata"]["annotations"][names.SERVES].count(",") > 0
        await after.lease.count_from(7)
        assert world.server.objects[LEASE]["metadata"]["annotations"][names.SERVES] == "alnair"


async def test_a_profile_that_the_lease_does_not_tell_of_has_its_pods_recorded_first() -> None:
    """It came with another config, while we led."""
    async with World(nodes=[ONE_CARD]) as world:
        leader = await world.start()
        leader.lease.serving = frozenset({"another"})
        world.pod("a", group="", like=COUNTED)
        await world.settled()
        writes = [call for call in world.written() if "binding" in call or "gpuallocations" in call]
        assert writes[:2] == ["POST team/gpuallocations", "POST a/binding"]


async def test_a_leader_whose_lease_was_deleted_by_a_hand_binds_no_lone_pod() -> None:
    async with World(nodes=[ONE_CARD]) as world:
        before = await world.start()
        world.server.remove(LEASE)
        after = await world.process()
        await after.lead()
        after.deaf = True
        world.pod("a", group="", like=COUNTED)
        await world.until(lambda: before.gave_up)
        assert not [call for call in world.written() if "binding" in call]


async def test_a_lone_pod_that_is_changed_before_its_binding_is_planned_anew() -> None:
    """It joins a group of two, and must not be bound without the other."""
    async with World(nodes=[ONE_CARD], min_member=2) as world:
        world.server.first("POST a/binding", lambda: world.pod("a", group="g", like=COUNTED))
        world.pod("a", group="", like=COUNTED)
        await world.start()
        await world.settled()
        assert [call for call in world.written() if "binding" in call] == ["POST a/binding"]
        assert world.where() == {}


async def test_an_apiserver_that_is_away_for_long_leaves_no_lone_pod_unfenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "LANDING_SECONDS", 0.1)
    async with World(nodes=[ONE_CARD]) as world:
        arrives = await stopped_before_its_binding(world)
        world.pod("b", group="", like=FIRST)
        with world.server.refusing(lambda call: call.name == "PATCH a/status", 503) as unanswered:
            leading = asyncio.create_task(world.start())
            await world.until(lambda: len(unanswered) > 3)
            assert not leading.done(), "nobody is planned before it is known"
        await leading
        await world.until(lambda: world.where() == {"b": "n1"})
        await late(world, arrives)
        assert world.where() == {"b": "n1"}


async def test_a_lone_pod_that_we_told_something_meanwhile_is_bound_at_once() -> None:
    async with World(nodes=[ONE_CARD]) as world:
        world.pod("a", group="", like=COUNTED)
        arrives = world.server.delays("POST a/binding")
        leader = await world.start()
        await world.until(lambda: "POST a/binding" in world.written())
        (gang,) = leader.roster.gangs.values()
        gang.refusal, gang.refusal_reason = "no room", "Unschedulable"
        await leader.reports._tell_pod(gang, gang.first())  # it was on its way when the plan was made
        arrives.set()
        await world.until(lambda: world.where() == {"a": "n1"})


async def test_a_lone_pod_that_is_changed_again_and_again_gets_a_record_first() -> None:
    """By a rule of somebody's that writes to it before each Binding."""
    async with World(nodes=[ONE_CARD]) as world:
        world.pod("a", group="", like=COUNTED)
        leader = await world.process()
        tries = itertools.count()

        async def writes(*_: object) -> dict[str, str]:
            stamp = {"metadata": {"annotations": {"example.com/at": str(next(tries))}}}
            await leader.ledger.client.patch(f"{PODS}/a", stamp)
            return {}

        leader.loop._hooks.before_bind = writes  # type: ignore[method-assign]
        await leader.lead()
        await world.until(lambda: world.where() == {"a": "n1"})
        assert next(tries) <= 5
        await world.settled()
        assert list(world.listed().values()) == [["a"]]
