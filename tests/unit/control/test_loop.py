"""The loop: who is planned when, what counts as whole, no room given twice, and nobody spins."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from alnair.api import names
from alnair.control import loop
from alnair.ledger.records import BOUND, COMMITTED, ROLLING_BACK
from alnair.state import wire
from alnair.state.holding import ContainerShare, Holding
from harness.builders import node, pod
from unit.apiserver import Call
from unit.builders import advertising, decoded
from unit.control.world import PODS, WORKER, Leader, World, record_name

TWO_PODS = node("n1").holding(cpu="200m")
SHARER = pod("sharer").by("alnair").asking(cpu="100m").slice(memory_gib=12)


def bindings(call: Call) -> bool:
    return call.path.endswith("/binding")


# -- who is planned ----------------------------------------------------------------------------------------------


async def test_a_gang_waits_until_enough_of_its_members_exist() -> None:
    async with World(min_member=3) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        assert world.leader.gang().refusal == "waiting for members: 2 of at least 3 pods exist"
        world.pod("c")
        await world.settled()
        assert set(world.where()) == {"a", "b", "c"}


async def test_a_gang_that_does_not_fit_takes_nothing_from_one_that_does() -> None:
    async with World(min_member=3, nodes=[TWO_PODS]) as world:
        world.pods("a", "b", "c")
        world.group("h", min_member=2, uid="uid-of-h")
        world.pods("x", "y", group="h")
        await world.start()
        await world.settled()
        assert set(world.where()) == {"x", "y"}
        assert world.leader.gang().refusal_reason == "Unschedulable"


async def test_the_more_important_gang_goes_first() -> None:
    async with World(nodes=[node("n1").holding(cpu="100m")]) as world:
        world.pod("humble", group="")
        world.pod("mighty", group="", like=WORKER.with_(lambda it: it["spec"].update(priority=10)))
        await world.start()
        await world.settled()
        assert world.where() == {"mighty": "n1"}


async def test_a_gang_that_cannot_be_planned_stops_nobody() -> None:
    async with World() as world:
        world.pod("broken", like=WORKER.asking(cpu="a lot"))
        world.pod("well", group="")
        await world.start()
        await world.settled()
        assert world.where() == {"well": "n1"}
        assert world.leader.gang().refusal_reason == "Invalid"


async def test_a_gang_whose_record_is_being_written_is_planned_when_it_is_free() -> None:
    async with World() as world:
        world.pods("a", "b", on="n1")
        world.wrote(BOUND, "a", "b", min_member=1, complete=True)
        await world.start()
        await world.settled()
        write = world.server.delays(f"PUT {record_name()}/status")
        world.deletes("a")
        await world.until(world.leader.record().lock.locked)
        world.pod("c")
        await world.until(lambda: "uid-c" in world.leader.state.pods)
        assert "c" not in world.where()
        write.set()
        await world.settled()
        assert world.where() == {"b": "n1", "c": "n1"}


async def test_gangs_that_are_stuck_at_the_apiserver_do_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "IN_FLIGHT", 4)
    monkeypatch.setattr(loop, "SLOT_SECONDS", 0.02)
    async with World() as world:
        stuck = [world.server.delays(f"POST stuck-{index}/binding") for index in range(6)]
        world.pods(*(f"stuck-{index}" for index in range(6)), group="")
        await world.start()
        await world.until(lambda: len(world.written()) >= 4)
        world.pod("well", group="")
        await world.until(lambda: "well" in world.where())
        for each in stuck:
            each.set()
        await world.settled()
        assert len(world.where()) == 7


async def test_a_gangs_next_plan_has_a_slot_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "IN_FLIGHT", 1)
    monkeypatch.setattr(loop, "SLOT_SECONDS", 0.1)
    async with World() as world:
        world.pod("a")
        await world.start()
        await world.until(world.where)
        monkeypatch.setattr(loop, "SLOT_SECONDS", 60.0)
        stuck = world.server.delays("POST b/binding")
        world.pod("b")
        await world.until(lambda: "POST b/binding" in world.written())
        world.pod("later", group="")
        await asyncio.sleep(0.15)  # the first plan's slot would have ended by now
        assert "later" not in world.where()
        stuck.set()
        await world.until(lambda: len(world.where()) == 3)


@pytest.mark.parametrize("group", ["g", ""])
@pytest.mark.parametrize("late", [False, True])
async def test_a_pod_that_somebody_else_binds_is_taken_for_what_it_is(group: str, late: bool) -> None:
    """Whether its event comes before the apiserver's answer to our own Binding or after."""
    async with World(nodes=[node("n1"), node("n2").cordoned()]) as world:
        leader = await world.start()

        def faster() -> None:
            leader.deaf = late
            world.pod("a", group=group, on="n2")

        world.server.first("POST a/binding", faster)
        world.pod("a", group=group)
        await world.until(lambda: "GET pods/a" in world.server.names())
        await world.settled()
        leader.hears_again()
        await world.settled()
        there = leader.state.pods["uid-a"]
        assert (there.node, there.terminating) == ("n2", False)


# -- who wakes ---------------------------------------------------------------------------------------------------


async def test_capacity_that_is_given_back_wakes_who_waits_for_it() -> None:
    async with World(min_member=2, nodes=[node("n1").with_cards(1)]) as world:
        world.pods("a", "b", like=SHARER)
        await world.start()
        await world.settled()
        world.pod("w", like=SHARER, group="")
        await world.settled()
        assert "w" not in world.where()
        world.ends("a")
        await world.settled()
        assert world.where()["w"] == "n1"


async def test_a_node_that_comes_wakes_who_waits_for_it() -> None:
    async with World(min_member=3, nodes=[TWO_PODS]) as world:
        world.pods("a", "b", "c")
        await world.start()
        await world.settled()
        assert world.where() == {}
        world.node(TWO_PODS.named("n2"))
        await world.settled()
        assert len(world.where()) == 3


async def test_a_refused_gang_is_not_planned_again_until_something_changes() -> None:
    async with World(min_member=3, nodes=[TWO_PODS]) as world:
        world.pods("a", "b", "c")
        await world.start()
        await world.settled()
        changed = world.leader.gang().refused_at
        world.leader.loop.wake()
        await world.settled()
        assert world.leader.gang().refused_at == changed
        assert world.written() == []


@pytest.mark.parametrize("group", ["g", ""])
async def test_a_pod_that_is_gone_and_still_in_the_books_makes_nobody_spin(group: str) -> None:
    async with World() as world:
        leader = await world.start()
        world.pod("a", group=group)

        def vanishes() -> None:
            leader.deaf = True  # the stream lags
            world.deletes("a")

        world.server.first("POST a/binding", vanishes)
        await world.settled()
        leader.loop.wake()
        await world.settled()
        assert "uid-a" in leader.state.pods
        assert Counter(world.server.names())["POST a/binding"] == 1
        assert leader.state.holdings == {}


async def test_an_event_from_before_the_bind_that_comes_late_unbinds_nobody() -> None:
    async with World() as world:
        world.pod("a")
        earlier = decoded(world.server.objects[f"{PODS}/a"], wire.Pod)
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
        world.leader.is_told_again(earlier)
        await world.settled()
        assert Counter(world.server.names())["POST a/binding"] == 1
        assert world.leader.state.pods["uid-a"].node == "n1"
        assert world.listed() == {record_name(): ["a"]}


# -- no room twice -----------------------------------------------------------------------------------------------


async def test_kept_places_and_the_search_never_give_the_same_cpu_twice() -> None:
    """400m: b runs with 100m, the places of c and d are kept without cpu; 100m + 100m + 200m come."""
    async with World(min_member=3, nodes=[node("n1").holding(cpu="400m")]) as world:
        world.pod("b", on="n1")
        world.wrote(COMMITTED, "b", "c", "d", min_member=3)
        await world.start()
        await world.settled()
        world.pods("c2", "d2")
        world.pod("e2", like=WORKER.asking(cpu="200m"))
        await world.settled()
        asked = {"b": 100, "c2": 100, "d2": 100, "e2": 200}
        assert sum(asked[name] for name in world.where()) <= 400
        assert len(world.where()) == 3


async def test_kept_places_and_the_search_never_count_the_same_whole_cards_twice() -> None:
    """Four cards of a device plugin: b has two, two are kept for c; c2 and another pod ask for two each."""
    four = node("n1").with_cards(4).owned_by("device-plugin")
    two_cards = Holding("n1", (ContainerShare("main", (), 2),))
    like = WORKER.asking(gpu=2)
    async with World(min_member=2, nodes=[four]) as world:
        world.pod("b", on="n1", like=like)
        world.wrote(COMMITTED, "b", "c", min_member=2, holding=two_cards)
        await world.start()
        await world.settled()
        world.pod("c2", like=like)
        world.pod("x2", like=like.asking(cpu="200m"))
        await world.settled()
        assert world.where() == {"b": "n1", "c2": "n1"}


# -- whole, and how many are missing -----------------------------------------------------------------------------


async def test_members_that_succeeded_before_the_record_went_count_for_planning_and_for_settling() -> None:
    """Four of four are done and released; a fifth comes: it is bound, settled, and never rolled back."""
    async with World(min_member=4) as world:
        world.pods(*"abcd", on="n1", phase="Succeeded")
        world.pod("x")
        await world.start()
        await world.settled()
        await world.passes(100)
        assert world.where()["x"] == "n1"
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)
        assert world.evicted() == []


async def test_members_in_the_record_of_an_earlier_group_of_that_name_count_too() -> None:
    """The group was deleted and made again over its running pods; one is replaced."""
    async with World(min_member=4) as world:
        world.pods(*"abcd", on="n1")
        world.wrote(BOUND, *"abcd", min_member=4, complete=True)
        await world.start()
        await world.settled()
        world.group(min_member=4, uid="uid-of-g-again")
        world.deletes("d")
        await world.settled()
        world.pod("d2")
        await world.settled()
        await world.passes(100)
        assert world.listed() == {
            record_name(): ["a", "b", "c"],
            record_name("uid-of-g-again"): ["d2"],
        }
        assert world.said("uid-of-g-again")["complete"]
        assert world.evicted() == []


LEAVING = {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}


async def test_members_of_an_earlier_group_that_are_on_their_way_out_count_no_more() -> None:
    """Group and pods were deleted and made again under their names: three of four would start beside the old four, and
    be left alone when those are gone."""
    async with World(min_member=4) as world:
        world.pods(*"abcd", on="n1", **LEAVING)
        world.wrote(BOUND, *"abcd", min_member=4, complete=True, group_uid="uid-of-an-earlier-g")
        world.pods("e", "f", "g")
        await world.start()
        await world.settled()
        assert world.where().keys() == set("abcd")
        world.pod("h")
        await world.settled()
        assert world.where().keys() == set("abcdefgh")
        assert (world.said()["minMember"], world.said()["complete"]) == (4, True)


async def test_members_of_an_earlier_group_that_is_being_rolled_back_count_no_more() -> None:
    """A budget holds their eviction up: they are not told to go yet, and will be."""
    async with World(min_member=4) as world:
        world.pods(*"abc", on="n1")
        world.wrote(ROLLING_BACK, *"abc", min_member=4, group_uid="uid-of-an-earlier-g")
        with world.server.refusing(lambda call: call.path.endswith("/eviction"), 429):
            world.pod("e")
            await world.start()
            await world.until(lambda: world.leader.gang().refusal_reason == "WaitingForMembers")
            assert world.where().keys() == set("abc")
            world.pods("f", "g", "h")
            await world.until(lambda: world.where().keys() == set("abcefgh"))
            assert world.said()["minMember"] == 4


async def test_members_of_an_earlier_group_count_as_soon_as_all_of_its_record_is_bound() -> None:
    """Before that it may still be rolled back, and who came to them would be left alone."""
    async with World(min_member=4) as world:
        world.pods(*"abcd")
        world.wrote(COMMITTED, "a", "b", min_member=2, group_uid="uid-of-an-earlier-g")
        stuck = world.server.delays("POST b/binding")
        await world.start()
        await world.until(lambda: world.where().keys() == {"a"})
        await world.until(lambda: world.leader.gang().refusal_reason == "WaitingForMembers")
        assert world.where().keys() == {"a"}
        stuck.set()
        await world.until(lambda: world.where().keys() == set("abcd"))
        await world.settled()
        assert (world.said()["minMember"], world.said()["complete"]) == (2, True)


@pytest.mark.parametrize(
    ("own", "earlier", "succeeded", "waiting", "planned", "least"),
    [
        pytest.param(0, 0, 0, 4, True, 4, id="a new gang needs all of its own"),
        pytest.param(0, 0, 0, 3, False, 0, id="a new gang is not planned in part"),
        pytest.param(0, 0, 1, 3, True, 3, id="one is done"),
        pytest.param(0, 0, 1, 2, False, 0, id="one is done, one is missing"),
        pytest.param(0, 3, 0, 1, True, 1, id="three run in an earlier record"),
        pytest.param(0, 2, 0, 1, False, 0, id="two run in an earlier record, one is missing"),
        pytest.param(0, 2, 1, 1, True, 1, id="two run in an earlier record, one is done"),
        pytest.param(0, 4, 4, 1, True, 1, id="more than enough elsewhere: still one is one"),
        pytest.param(1, 0, 0, 1, True, 4, id="its own record was whole: each may join"),
    ],
)
async def test_how_many_are_missing_and_how_many_the_record_must_bind(
    own: int, earlier: int, succeeded: int, waiting: int, planned: bool, least: int
) -> None:
    """Of four. `least` is what the record of this plan has to reach by itself."""
    async with World(min_member=4) as world:
        ours, theirs = [f"own-{n}" for n in range(own)], [f"earlier-{n}" for n in range(earlier)]
        world.pods(*ours, *theirs, on="n1")
        if ours:
            world.wrote(BOUND, *ours, min_member=4, complete=True)
        if theirs:
            world.wrote(BOUND, *theirs, min_member=4, complete=True, group_uid="uid-of-an-earlier-g")
        world.pods(*(f"done-{n}" for n in range(succeeded)), on="n1", phase="Succeeded")
        world.pods(*(f"new-{n}" for n in range(waiting)))
        await world.start()
        await world.settled()
        assert sum(name.startswith("new") for name in world.where()) == (waiting if planned else 0)
        if planned:
            assert (world.said()["minMember"], world.said()["complete"]) == (least, True)


async def test_a_gang_that_needs_more_than_before_keeps_running() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        world.group(min_member=5)
        await world.passes(100)
        assert world.where() == {"a": "n1", "b": "n1"}
        assert (world.said()["phase"], world.evicted()) == (BOUND, [])


# -- an apiserver that says no -----------------------------------------------------------------------------------


async def test_a_lone_pod_whose_binding_is_refused_is_changed_so_that_no_earlier_try_lands() -> None:
    async with World() as world:
        world.pod("a", group="")
        lands = world.server.cuts_off("POST a/binding")
        with world.server.refusing(bindings, 403):
            await world.start()
            await world.settled()
        assert "PATCH a/status" in world.written()
        assert lands() == 409
        assert world.where() == {}


@pytest.mark.parametrize("status", [403, 422])
async def test_a_lone_pod_that_nobody_may_bind_or_change_is_told_so(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LANDING_SECONDS", 0.05)
    async with World() as world:
        world.pod("a", group="")
        of_pods = world.server.refusing(lambda call: call.path.endswith(("/binding", "/a/status")), status)
        with of_pods:
            await world.start()
            await world.settled()
            (gang,) = world.leader.roster.gangs.values()
            assert gang.refusal_reason == "BindingRefused"


async def test_a_leader_that_was_stopped_for_long_binds_no_lone_pod_before_it_has_asked() -> None:
    async with World() as world:
        before = await world.start()
        before.clock.pass_(60)
        world.lease_expires()
        world.pod("a", group="")
        await world.until(lambda: before.gave_up)
        await before.dies()
        assert world.where() == {}


async def test_a_gang_whose_bindings_are_refused_is_tried_again_after_a_while_and_not_before() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        with world.server.refusing(bindings, 403) as refused:
            await world.start()
            await world.settled()
            first = len(refused)
            assert world.leader.gang().refusal_reason == "BindingRefused"
            await world.passes(loop.RETRY_SECONDS - 1)
            assert len(refused) == first
            await world.passes(2)
            assert len(refused) == 2 * first
            await world.passes(2 * loop.RETRY_SECONDS - 1)
            assert len(refused) == 2 * first, "the pause has grown"
        assert world.where() == {}
        await world.passes(2)
        assert world.where() == {"a": "n1", "b": "n1"}
        assert world.leader.gang().refusals == 0


async def test_a_gang_of_many_refused_bindings_is_refused_once_a_plan() -> None:
    async with World(min_member=8) as world:
        world.pods(*"abcdefgh")
        with world.server.refusing(bindings, 403):
            await world.start()
            await world.settled()
        assert world.leader.gang().refusals == 1
        assert world.leader.state.holdings == {}


async def test_no_number_of_refusals_is_too_large() -> None:
    async with World() as world:
        world.pod("a", like=WORKER.gated())
        leader = await world.start()
        await world.settled()
        for _ in range(1100):
            leader.loop.retry_later(leader.gang(), "no", reason="BindingRefused")
        assert leader.gang().retry_after == world.clock.now() + loop.LONGEST_RETRY_SECONDS


async def test_a_refused_record_is_tried_again_after_a_while() -> None:
    async with World() as world:
        world.pod("a")
        creation = "POST team/gpuallocations"
        world.server.refuses(creation, 403, "Forbidden")
        await world.start()
        await world.settled()
        assert Counter(world.written())[creation] == 1
        assert world.leader.gang().refusal_reason == "RecordRefused"
        await world.passes(loop.RETRY_SECONDS + 1)
        assert world.where() == {"a": "n1"}


async def test_a_lone_pod_whose_binding_is_refused_backs_off_too() -> None:
    async with World() as world:
        world.pod("a", group="")
        with world.server.refusing(bindings, 403) as refused:
            await world.start()
            await world.settled()
            tries = len(refused)
            world.leader.loop.wake()
            await world.settled()
            assert len(refused) == tries
        assert world.leader.state.holdings == {}
        await world.passes(loop.RETRY_SECONDS + 1)
        assert world.where() == {"a": "n1"}


# -- what people hear --------------------------------------------------------------------------------------------


async def test_a_gang_is_said_to_be_scheduled_once() -> None:
    async with World(min_member=2) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        assert world.news() == ["Scheduled"]


async def test_a_gang_that_shrinks_while_it_is_rolled_back_is_not_said_to_be_scheduled() -> None:
    async with World(min_member=3) as world:
        world.pods("a", "b", on="n1", controlled=False)
        world.wrote(ROLLING_BACK, "a", "b", min_member=3)
        await world.start()
        await world.settled()
        world.pod("c")
        await world.settled()
        world.deletes("a")
        await world.settled()
        assert world.listed() == {record_name(): ["b"]}
        assert "Scheduled" not in world.news()


async def test_a_pod_that_is_bound_is_said_to_be_there() -> None:
    async with World() as world:
        world.pod("a")
        await world.start()
        await world.settled()
        assert world.news("a") == ["Scheduled"]
        assert names.NODE in world.server.objects[f"{PODS}/a"]["metadata"]["annotations"]


# -- a lone pod whose cards the device plugin picks --------------------------------------------------------------

COUNTED = pod("counted").by("alnair").asking(cpu="100m", gpu=1)
PLUGIN = node("n1").with_cards(2).owned_by("device-plugin")


async def test_a_lone_pod_of_counted_cards_is_bound_first_and_recorded_after() -> None:
    async with World(nodes=[PLUGIN]) as world:
        world.pod("a", group="", like=COUNTED)
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert list(world.listed().values()) == [["a"]]
        writes = [call for call in world.written() if "binding" in call or "gpuallocations" in call]
        assert "binding" in writes[0]
        record = next(iter(world.leader.ledger.records.values()))
        assert (record.phase, record.satisfied) == (BOUND, True)
        world.deletes("a")
        await world.settled()
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


async def test_a_lone_pod_of_counted_cards_that_nobody_recorded_is_adopted() -> None:
    """The process ended between the Binding and the record."""
    async with World(nodes=[PLUGIN]) as world:
        world.pod("a", group="", like=COUNTED)
        leader = await world.start()
        leader.puts_errands_off()
        await world.until(lambda: world.where() == {"a": "n1"})
        assert world.listed() == {}
        await world.restart()
        await world.settled()
        assert list(world.listed().values()) == [["a"]]


async def test_counted_cards_are_not_given_twice_while_their_record_is_due() -> None:
    async with World(nodes=[PLUGIN]) as world:
        leader = await world.start()
        leader.puts_errands_off()
        world.pods("a", "b", "c", group="", like=COUNTED)
        await world.until(lambda: len(world.where()) == 2)
        waiting = ({"a", "b", "c"} - set(world.where())).pop()
        await world.until(lambda: any(gang.refusal for gang in leader.roster.gangs.values()))
        assert waiting not in world.where()
        leader.runs_errands()
        await world.settled()
        assert len(world.listed()) == 2


async def test_a_node_that_becomes_a_device_plugins_gives_no_card_twice_and_says_why() -> None:
    own = node("n1").with_cards(2)
    async with World(nodes=[own]) as world:
        world.pod("a", like=WORKER.slice(memory_gib=4))
        leader = await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
        theirs = own.labelled({names.GPU_OWNER: names.OWNED_BY_DEVICE_PLUGIN})
        world.node(advertising(theirs, names.NVIDIA_GPU, 2))
        world.pod("b", group="", like=COUNTED)
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert "which may give some that pods have from Alnair" in next(
            gang.refusal for gang in leader.roster.gangs.values() if not gang.is_group
        )
        await world.until(lambda: world.news("n1"))
        assert world.news("n1") == ["InvalidTopology"]
        world.deletes("a")
        await world.settled()
        assert world.where() == {"b": "n1"}


# -- settling ----------------------------------------------------------------------------------------------------


async def bound_but_not_settled(world: World) -> Leader:
    """A leader whose gang of a and b is whole, and whose errands wait."""
    leader = await world.start()
    leader.puts_errands_off()
    world.pods("a", "b")
    await world.until(lambda: len(world.where()) == 2)
    await world.until(lambda: leader.record().satisfied)
    return leader


async def test_a_record_is_settled_when_there_is_a_lull() -> None:
    async with World(min_member=2) as world:
        leader = await bound_but_not_settled(world)
        assert world.said()["phase"] == COMMITTED
        leader.runs_errands()
        await world.settled()
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)


async def test_who_joins_before_the_record_is_settled_settles_it() -> None:
    async with World(min_member=2) as world:
        leader = await bound_but_not_settled(world)
        world.pod("c")
        await world.until(lambda: len(world.where()) == 3)
        await world.until(lambda: leader.record().phase == BOUND)
        assert world.said()["phase"] == COMMITTED
        assert world.said()["complete"], "a gang that is whole says so in its next write"
        leader.runs_errands()
        await world.settled()
        assert world.said()["phase"] == BOUND


async def test_a_gang_that_was_not_settled_is_whole_after_a_restart() -> None:
    async with World(min_member=2) as world:
        await bound_but_not_settled(world)
        await world.restart()
        await world.settled()
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)
        assert world.evicted() == []


async def test_a_refused_record_of_counted_cards_leaves_the_pod_running_and_its_cards_taken() -> None:
    async with World(nodes=[PLUGIN]) as world:
        world.server.refuses("POST team/gpuallocations", 403, "Forbidden")
        world.pod("a", group="", like=COUNTED)
        leader = await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert (world.listed(), leader.ledger.records) == ({}, {})
        world.pods("b", "c", group="", like=COUNTED)
        await world.settled()
        assert len(world.where()) == 2


async def test_labels_put_back_meanwhile_do_not_keep_a_record_from_being_settled() -> None:
    async with World(min_member=2) as world:
        leader = await bound_but_not_settled(world)
        there = world.server.objects[leader.record().path]
        world.server.put(leader.record().path, {**there, "metadata": {**there["metadata"], "labels": {}}})
        await world.until(lambda: world.server.objects[leader.record().path]["metadata"]["labels"])
        leader.runs_errands()
        await world.settled()
        assert world.said()["phase"] == BOUND


@pytest.mark.parametrize("made_again", [False, True])
async def test_a_settle_that_comes_too_late_writes_nothing(made_again: bool) -> None:
    """All pods went, and the record with them, while the settle waited; a new gang may have its name by then."""
    async with World(min_member=2) as world:
        leader = await bound_but_not_settled(world)
        world.deletes("a", "b")
        await world.until(lambda: world.listed() == {})
        if made_again:
            world.pods("c", "d")
            await world.until(lambda: set(world.where()) == {"c", "d"})
        leader.runs_errands()
        await world.settled()
        assert list(world.listed().values()) == ([["c", "d"]] if made_again else [])


async def test_a_lone_pod_that_was_bound_behind_our_back_is_adopted_after_a_while() -> None:
    """A Binding of the predecessor's that landed after we had looked for strays."""
    async with World(nodes=[PLUGIN]) as world:
        leader = await world.start()
        marks = {names.NODE: "n1", names.GPU_SLICES: '[{"name": "main", "gpuCount": 1}]'}
        world.pod("a", group="", like=COUNTED, on="n1", annotations=marks)
        await world.settled()
        assert world.listed() == {}
        await world.passes(61)
        assert list(world.listed().values()) == [["a"]]
        assert leader.ledger.recording == set()


async def test_a_lone_pod_that_joins_a_group_while_it_is_bound_is_recorded_all_the_same() -> None:
    async with World(nodes=[PLUGIN]) as world:
        world.server.first("POST a/binding", lambda: world.pod("a", group="g", like=COUNTED))
        world.strays.add("uid-a")  # it was no member when it was bound
        world.pod("a", group="", like=COUNTED)
        await world.start()
        await world.settled()
        await world.passes(61)
        assert world.where() == {"a": "n1"}
        assert list(world.listed().values()) == [["a"]]


async def test_a_kept_place_that_opens_again_is_taken() -> None:
    two_cards = node("n1").with_cards(2)
    whole = WORKER.asking(gpu=1)
    async with World(min_member=2, nodes=[two_cards]) as world:
        world.pods("a", "b", like=whole)
        world.vanish_while_bound("b")
        await world.start()
        await world.settled()
        assert set(world.where()) == {"a"}
        world.node(two_cards.cordoned())
        world.pod("c", like=whole)
        await world.settled()
        assert set(world.where()) == {"a"}
        world.node(two_cards)
        await world.settled()
        assert set(world.where()) == {"a", "c"}
        assert world.evicted() == []


async def test_a_kept_place_is_left_to_whom_a_preemption_made_room_for_there() -> None:
    small = node("n1").holding(cpu="1")
    half = WORKER.asking(cpu="500m")
    async with World(min_member=2, nodes=[small]) as world:
        world.pods("a", "b", like=half)
        world.vanish_while_bound("b")
        await world.start()
        await world.settled()
        assert set(world.where()) == {"a"}
        vip = half.by("default-scheduler").nominated_to("n1").with_(lambda it: it["spec"].update(priority=9))
        world.pod("vip", group="", like=vip)
        world.pod("c", like=half)
        await world.settled()
        assert set(world.where()) == {"a"}
        world.deletes("vip")
        await world.settled()
        assert set(world.where()) == {"a", "c"}


async def test_an_equal_pod_is_not_sent_to_a_kubelet_that_has_just_refused_one() -> None:
    async with World(nodes=[node("n1")]) as world:
        world.pod("first", group="")
        await world.start()
        await world.settled()
        world.ends("first", phase="Failed", reason="OutOfcpu")
        world.pod("second", group="")
        await world.settled()
        assert "second" not in world.where()
        assert any("KubeletRefused" in str(call.body) for call in world.server.calls)
        await world.passes(61)
        assert world.where()["second"] == "n1"
