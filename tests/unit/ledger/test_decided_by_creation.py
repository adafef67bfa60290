"""A gang that holds only numbers of cards is decided by the creation of its record: the plan stands in it, and its
status is written when it is settled. Whoever comes after reads the one or the other."""

from __future__ import annotations

import asyncio
import time
from copy import deepcopy

import orjson
import pytest

from alnair.api import names
from alnair.ledger import records, recovery, writer
from alnair.ledger.records import BOUND, COMMITTED, Member, Owner, Record, decided
from alnair.state.holding import ContainerShare, Holding
from harness.builders import node, pod
from unit.control.world import NAMESPACE, RECORDS, World, record_name, record_writes

ALL_OF_IT = pod("").by("alnair").asking(gpu=8)
TRAINER = pod("").by("alnair").asking(gpu=2)
PLUGIN = node("n1").with_cards(8).owned_by("device-plugin")
CREATE = f"POST {NAMESPACE}/{names.PLURAL_ALLOCATION}"
RECORD = f"{RECORDS}/{record_name()}"
STATUS = f"PUT {record_name()}/status"
BINDS = {"POST a/binding", "POST b/binding"}


def counted_world(*, min_member: int = 2) -> World:
    return World(min_member=min_member, nodes=(PLUGIN,))


def left_a_plan(world: World, *members: str, epoch: int = 5, node_name: str = "n1") -> None:
    """The record that an earlier leader created, and no more."""
    owner = Owner(names.KIND_PODGROUP, NAMESPACE, "g", "uid-of-g")
    record = Record(owner, "alnair", len(members), epoch, phase=COMMITTED)
    for name in members:
        holding = Holding(node_name, (ContainerShare("main", counted=2),))
        record.members[f"uid-{name}"] = Member(f"uid-{name}", name, holding)
    world.server.put(record.path, record.manifest(plan=record.plan()))


async def test_one_write_then_the_binds_then_the_status() -> None:
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        await world.start()
        await world.settled()
        writes = [
            each for each in world.written() if "podgroups" not in each and not each.startswith("PATCH")
        ]
        assert writes[0] == CREATE
        assert set(writes[1:3]) == BINDS
        assert writes[3:] == [STATUS]
        assert (world.said()["phase"], world.said()["gpus"]) == (BOUND, 4)
        assert [each["gpuCounts"] for each in world.said()["pods"]] == [{"main": 2}, {"main": 2}]


async def test_a_gang_with_slices_is_not_decided_by_creation() -> None:
    async with World(min_member=2, nodes=(node("n1").with_cards(1),)) as world:
        world.pods("a", "b", like=pod("").by("alnair").slice(memory_gib=1))
        await world.start()
        await world.settled()
        assert [each for each in world.written() if record_name() in each or each == CREATE][:2] == [
            CREATE,
            STATUS,
        ]
        assert world.written().index(STATUS) < world.written().index("POST a/binding")


async def test_a_plan_too_long_for_an_annotation_is_committed_by_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "LONGEST_PLAN", 100)
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        await world.start()
        await world.settled()
        assert world.written().index(STATUS) < min(map(world.written().index, BINDS))


async def test_a_successor_carries_a_plan_out_to_the_same_targets() -> None:
    async with World(
        min_member=2, nodes=(PLUGIN, node("n2").with_cards(8).owned_by("device-plugin"))
    ) as world:
        world.pods("a", "b", like=TRAINER)
        left_a_plan(world, "a", "b", node_name="n2")
        leader = await world.start()
        await world.settled()
        assert world.where() == {"a": "n2", "b": "n2"}
        assert (world.said()["phase"], world.said()["epoch"]) == (BOUND, leader.ledger.epoch)


async def test_the_places_of_a_plan_are_taken_before_anything_else_is_planned() -> None:
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        left_a_plan(world, "a", "b")
        world.pod("greedy", group="", like=pod("").by("alnair").asking(gpu=5))
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}


async def test_a_stamp_says_what_the_plan_said() -> None:
    """From then on the status counts: it must not say Committed and name nobody."""
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        left_a_plan(world, "a", "b")
        leader = await world.process()
        await leader.take_over()
        assert [each["name"] for each in world.said()["pods"]] == ["a", "b"]
        await leader.dies()
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}


async def test_a_leader_that_lost_the_lease_while_it_created_binds_nobody() -> None:
    """The creation lands after the successor has listed the records and given the place away."""
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        creation = world.server.delays(CREATE)
        before = await world.start()
        await world.until(lambda: CREATE in world.written())
        before.deaf = True
        world.deletes("a", "b")
        world.pods("c", group="", like=ALL_OF_IT)
        after = await world.start()
        await world.settled_but(before)
        assert world.where() == {"c": "n1"}
        creation.set()
        await world.settled()
        assert before.gave_up
        assert not any("binding" in each and "c/" not in each for each in world.written())
        assert RECORD not in world.server.objects, "removed by the successor"
        assert not after.gave_up


@pytest.mark.parametrize("bound", [False, True], ids=["nobody was bound by it", "one was bound by it"])
async def test_a_plan_of_a_leader_before_the_last(bound: bool) -> None:
    """Its successor knew nothing of it, or died before it had stamped it: only a bound member tells."""
    async with counted_world() as world:
        world.server.put(f"{RECORDS}/other", _stamped(6))
        left_a_plan(world, "a", "b", epoch=5)
        world.pod(
            "a", on="n1" if bound else "", like=TRAINER, annotations={names.NODE: "n1"} if bound else {}
        )
        world.pod("b", like=TRAINER.selecting({"no": "where"}))
        await world.start()
        await world.settled()
        assert world.where() == ({"a": "n1", "b": "n1"} if bound else {})


async def test_a_plan_that_came_late_is_not_taken_over_by_a_leader_that_dies_early() -> None:
    """The place was given to c. Whoever takes over removes the plan before it could pass for a decision."""
    async with counted_world() as world:
        world.server.put(f"{RECORDS}/other", _stamped(6))
        left_a_plan(world, "a", "b", epoch=5)
        world.pods("a", "b", like=TRAINER)
        world.pod("c", on="n1", group="", like=ALL_OF_IT, annotations={names.NODE: "n1"})
        third = await world.process()
        await third.take_over()
        await third.dies()
        await world.start()
        await world.settled()
        assert world.where() == {"c": "n1"}


def late_plan_for_cards_of_another(world: World) -> None:
    """For a and b, where c has all cards by now."""
    world.server.put(f"{RECORDS}/other", _stamped(6))
    left_a_plan(world, "a", "b", epoch=5)
    world.pods("a", "b", like=TRAINER)
    world.pod("c", group="", like=ALL_OF_IT, on="n1")


@pytest.mark.parametrize("status", [403, 422, 500])
async def test_a_plan_that_came_late_and_whose_pods_nobody_may_change_is_dropped_after_a_while(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cards may be somebody else's by now: the pods are planned anew, by what is free."""
    monkeypatch.setattr(recovery, "LANDING_SECONDS", 0.2)
    async with counted_world() as world:
        late_plan_for_cards_of_another(world)
        with world.server.refusing(lambda call: call.name == "PATCH a/status", status) as refused:
            leader = await world.start()
            await world.settled()
        assert refused
        assert not leader.gave_up
        assert world.where() == {"c": "n1"}


async def test_an_apiserver_that_is_away_for_long_carries_no_late_plan_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "LANDING_SECONDS", 0.1)
    async with counted_world() as world:
        late_plan_for_cards_of_another(world)
        with world.server.refusing(lambda call: call.name == "PATCH a/status", 503) as unanswered:
            leading = asyncio.create_task(world.start())
            await world.until(lambda: len(unanswered) > 3)
            assert not leading.done(), "nobody is planned before it is known"
        await leading
        await world.settled()
        assert world.where() == {"c": "n1"}


async def test_bindings_under_way_do_not_land_once_their_plan_was_taken_back() -> None:
    """The first leader is paused with its Bindings on the way; the second dies before it has listed anything."""
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        under_way = [world.server.delays(f"POST {name}/binding") for name in ("a", "b")]
        first = await world.start()
        await world.until(lambda: set(world.written()) >= BINDS)
        first.deaf = True
        second = await world.process()
        world.lease_expires()
        await second.lease.acquire()
        await second.dies()
        world.pod("c", group="", like=ALL_OF_IT.with_(lambda it: it["spec"].update(priority=1000)))
        await world.start()
        await world.settled_but(first)
        assert world.where() == {"c": "n1"}
        for each in under_way:
            each.set()
        await world.settled()
        assert world.where() == {"c": "n1"}


def _stamped(epoch: int) -> dict[str, object]:
    """A record of another gang, which the leader after that one had stamped."""
    record = Record(Owner("Pod", NAMESPACE, "x", "uid-x"), "alnair", 1, epoch, phase=BOUND)
    return {**record.manifest(), "status": record.status()}


async def test_a_creation_whose_answer_is_lost_is_decided_by_the_status() -> None:
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        world.server.loses_the_answer_of(CREATE)
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}
        assert world.written().index(STATUS) < min(map(world.written().index, BINDS))
        assert world.written().count(CREATE) == 2


@pytest.mark.parametrize(
    "may_land", [True, False], ids=["while the first may land", "when it cannot any more"]
)
async def test_a_refusal_after_a_lost_request_counts_only_when_that_cannot_land(
    may_land: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LANDING_SECONDS", 60.0 if may_land else 0.0)
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        world.server.refuses(CREATE, 503)
        world.server.refuses(CREATE, 403, "Forbidden", times=3)
        leader = await world.start()
        await world.settled()
        refused = [gang for gang in leader.roster.gangs.values() if gang.refusal_reason == "RecordRefused"]
        assert bool(refused) is not may_land
        assert world.where() == ({"a": "n1", "b": "n1"} if may_land else {})


async def test_a_second_creation_may_land_so_the_places_are_kept_until_it_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first got no answer and is still under way; the second was taken, and then nobody could be bound."""
    monkeypatch.setattr(writer, "LANDING_SECONDS", 0.3)
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        world.server.refuses(CREATE, 503)
        for name in ("a", "b"):
            world.server.refuses(f"POST {name}/binding", 403, "Forbidden", times=5)
        leader = await world.start()
        released, release = [], leader.state.release
        monkeypatch.setattr(
            leader.state, "release", lambda uid: (released.append(time.monotonic()), release(uid))
        )
        await world.until(lambda: leader.ledger.records)
        record = leader.record()
        await world.until(lambda: any(each.startswith("DELETE") for each in world.written()))
        await world.until(lambda: RECORD not in world.server.objects and not leader.state.holdings)
        assert min(released) >= record.landing > 0


async def test_a_commit_that_is_refused_keeps_its_places_until_the_object_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The creation's answer was lost, so the plan stands there: the object goes first, then the places."""
    monkeypatch.setattr(writer, "LANDING_SECONDS", 0.1)
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        world.server.loses_the_answer_of(CREATE)
        world.server.refuses(STATUS, 403, "Forbidden", times=6)
        deletion = world.server.delays(f"DELETE {names.PLURAL_ALLOCATION}/{record_name()}")
        leader = await world.start()
        await world.until(lambda: any(each.startswith("DELETE") for each in world.written()))
        assert leader.state.holdings.keys() == {"uid-a", "uid-b"}
        deletion.set()
        await world.until(lambda: RECORD not in world.server.objects and not leader.state.holdings)


async def test_a_record_that_was_written_anew_is_settled_too() -> None:
    async with counted_world(min_member=1) as world:
        world.pods("a", like=TRAINER)
        leader = await world.start()
        await world.settled()
        with world.server.refusing(lambda call: call.name == CREATE, 403) as refused:
            world.strays |= {"uid-a"}
            world.server.remove(RECORD)
            await world.until(lambda: refused)
            assert not leader.record().exists
        world.pods("b", like=TRAINER)
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}
        assert world.said()["phase"] == BOUND


async def test_a_plan_is_not_read_again_once_there_was_a_status() -> None:
    """The status was emptied while nobody led: what the gang was at first says nothing about it now."""
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        first = await world.start()
        await world.settled()
        world.pods("c", like=TRAINER)
        world.deletes("a")
        await world.settled()
        assert world.listed() == {record_name(): ["b", "c"]}
        await first.dies()
        there = deepcopy(world.server.objects[RECORD])
        del there["status"]
        there["metadata"]["managedFields"] = [{"manager": "a hand", "subresource": "status"}]
        world.strays |= {"uid-b", "uid-c"}
        world.server.put(RECORD, there)
        await world.start()
        await world.passes(100)
        assert world.evicted() == []
        assert world.listed() == {record_name(): ["b", "c"]}


def _plan(**fields: object) -> str:
    pod_ = {"name": "x", "uid": "uid-x", "node": "n1", "gpuCounts": {"main": 1}}
    status = {"phase": "Committed", "epoch": 3, "pods": [{**pod_, **fields}]}
    return orjson.dumps(status).decode()


SLICES = [{"name": "main", "slices": [{"gpu": "GPU-1", "memoryMiB": 1}]}]
UNREADABLE = {
    "no JSON": "{",
    "no object": "[]",
    "pods without names": '{"phase": "Committed", "pods": [{}]}',
    "too long": " " * (records.LONGEST_PLAN + 1),
    "a name that is a number": _plan(name=1),
    "a name that is a path": _plan(name="../x"),
    "a node that is a number": _plan(node=5),
    "no UID": _plan(uid=None),
    "an epoch beyond all numbers": '{"phase": "Committed", "epoch": 1e300, "pods": []}',
    "a phase that is no phase": '{"phase": {"x": 1}, "epoch": 3, "pods": []}',
    "cards, which a creation cannot decide": _plan(containers=SLICES),
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
async def test_a_plan_that_cannot_be_read_stops_nobody(text: str) -> None:
    async with counted_world(min_member=1) as world:
        stranger = Record(Owner("Pod", NAMESPACE, "x", "uid-x"), "alnair", 1, 3)
        world.server.put(stranger.path, stranger.manifest(plan=text))
        world.pod("x", group="", like=TRAINER.selecting({"no": "where"}))
        world.pods("a", like=TRAINER)
        leader = await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert leader.ledger.epoch < 10


async def test_a_gang_that_stays_short_shows_its_status() -> None:
    async with counted_world(min_member=2) as world:
        world.pods("a", "b", like=TRAINER)
        world.vanish_while_bound("b")
        await world.start()
        await world.settled()
        assert (world.said()["phase"], world.said()["complete"]) == (COMMITTED, False)


async def test_whom_the_plan_lists_is_not_free_before_a_status_that_does_not() -> None:
    async with counted_world() as world:
        world.pods("a", "b", like=TRAINER)
        with world.server.refusing(record_writes, 422) as refused:
            await world.start()
            await world.until(lambda: world.where().keys() == {"a", "b"} and refused)
            world.deletes("b")
            tries = len(refused)
            await world.until(lambda: len(refused) > tries + 5)
            assert [each["name"] for each in decided(world.server.objects[RECORD])["pods"]] == ["a", "b"]
            assert "uid-b" in world.leader.state.holdings
        await world.until(lambda: "uid-b" not in world.leader.state.holdings)
        assert world.listed() == {record_name(): ["a"]}
