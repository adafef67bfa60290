"""Elastic gangs of a fake apiserver's StatefulSet: what the sizing does, tick by tick."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from alnair.api.config import Elastic as Settings
from alnair.control.elastic.elastic import Elastic, called
from alnair.control.elastic.sizing import Sizing
from alnair.ledger import places
from alnair.scheduling import search
from harness.builders import node, pod
from unit.control.world import NAMESPACE, PODS, World, record_writes

if TYPE_CHECKING:
    from alnair.control.elastic.members import Sized
    from alnair.control.gangs import Gang

N1 = node("n1").with_cards(4)
TRAINER = pod("t").by("alnair").asking(cpu="100m", gpu=1)
SCALE = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/s/scale"
SERVED = [
    {"name": "statefulsets", "kind": "StatefulSet"},
    {"name": "statefulsets/scale", "kind": "Scale"},
]


class Sizer:
    """The sizing of the world's leader, looking when the test says so; the StatefulSet is `replicas` and `pods`."""

    def __init__(self, world: World, **settings: float) -> None:
        leader = world.leader
        self._world = world
        self._elastic = Elastic(
            leader.ledger.client,
            state=leader.state,
            ledger=leader.ledger,
            roster=leader.roster,
            loop=leader.loop,
            profiles=leader.profiles,
            reports=leader.reports,
            clock=leader.clock,
            settings=Settings.model_validate(settings),
            metrics=leader.metrics,
        )

    def look(self) -> None:
        self._elastic.look()

    async def looks(self, times: int = 1) -> None:
        for _ in range(times):
            self.look()
            await self._world.settled()


def scaled_to(world: World, replicas: int) -> None:
    world.server.put(SCALE, {"spec": {"replicas": replicas}})


def replicas(world: World) -> int:
    return int(world.server.objects[SCALE]["spec"]["replicas"])


def known(world: World) -> Sizing:
    sizing = world.leader.gang().sizing
    assert sizing is not None
    return sizing


async def started(world: World, *which: str, replicas: int, **settings: float) -> Sizer:
    world.server.put("/apis/apps/v1", {"resources": SERVED})
    scaled_to(world, replicas)
    world.pods(*which, like=TRAINER)
    await world.start()
    sizer = Sizer(world, **settings)
    await world.settled()
    return sizer


async def test_a_member_that_waits_for_its_turn_is_not_sent_home() -> None:
    async with World(nodes=[N1]) as world:
        world.becomes_elastic(least=1, most=3)
        sizer = await started(world, "a", "b", "c", replicas=3)
        await sizer.looks(3)
        world.deletes("c")
        await world.passes(40)
        world.leader.gang().retry_after = world.clock.now() + 5
        world.pod("c2", like=TRAINER)
        await world.settled()
        await sizer.looks(3)
        assert (replicas(world), world.leader.record().size) == (3, 3)


async def test_a_gang_that_starts_anew_with_more_was_not_set_by_a_hand() -> None:
    async with World(nodes=[N1]) as world:
        world.becomes_elastic(least=1, most=3, onMemberFailure="RestartGang")
        world.pods("x", "y", like=TRAINER, group="")
        sizer = await started(world, "a", "b", replicas=2)
        await sizer.looks(3)
        assert world.leader.record().size == 2
        world.deletes("x", "y")
        world.pods("a2", "b2", like=TRAINER)
        world.ends("a", phase="Failed")
        await world.settled()
        world.clock.pass_(11)
        await world.until(lambda: set(world.where()) == {"a", "a2", "b2"})
        await world.settled()
        await sizer.looks(4)
        assert known(world).by_hand is None
        assert replicas(world) == 3


async def test_who_joins_a_gang_that_is_short_brings_no_places_that_nobody_comes_to() -> None:
    async with World(nodes=[N1], min_member=2) as world:
        world.becomes_elastic(least=2, most=4)
        world.pods("x", "y", like=TRAINER, group="")
        world.vanish_while_bound("b")
        await started(world, "a", "b", replicas=2)
        world.deletes("x", "y")
        await world.settled()
        world.pod("b2", like=TRAINER)
        await world.settled()
        assert set(world.where()) == {"a", "b2"}
        record = world.leader.record()
        assert (record.size, len(record.places)) == (2, 0)


async def test_min_member_counts_where_it_is_more_than_the_elastic_minimum() -> None:
    async with World(nodes=[N1]) as world:
        world.becomes_elastic(least=1, most=4, minMember=3)
        sizer = await started(world, "a", "b", replicas=2)
        await sizer.looks(3)
        assert replicas(world) == 3, "with 2 it would wait forever"


async def test_one_search_answers_for_all_gangs_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(nodes=[N1]) as world:
        world.group("h", min_member=1, uid="uid-of-h")
        for name in ("g", "h"):
            world.becomes_elastic(name, least=1, most=3)
        world.pods("x", "y", like=TRAINER, group="h")
        sizer = await started(world, "a", "b", replicas=2)
        await sizer.looks(2)
        searched = count_searches(monkeypatch)
        await sizer.looks()
        assert len(searched) == 1
        assert known(world).reason == "NoRoom"


async def test_members_that_come_after_the_start_are_not_placed_beyond_what_was_decided_on() -> None:
    """A controller makes its pods one by one. Who would be taken back at once is not placed first."""
    async with World(nodes=[N1]) as world:
        world.becomes_elastic(least=1, most=4)
        await started(world, "a", replicas=3)
        record = world.leader.record()
        await places.write_size(world.leader.ledger, record, 2)
        world.pods("b", "c", like=TRAINER)
        await world.settled()
        assert set(world.where()) == {"a", "b"}
        await places.write_size(world.leader.ledger, record, 3)
        await world.settled()
        assert set(world.where()) == {"a", "b", "c"}


async def test_the_time_in_which_a_change_is_not_undone_counts_from_when_the_target_says_so() -> None:
    async with World(nodes=[N1]) as world:
        world.becomes_elastic(least=1, most=3)
        sizer = await started(world, "a", replicas=1)
        slow = world.server.delays("PATCH s/scale")
        await sizer.looks()  # it starts with what is free
        sizer.look()
        await world.until(lambda: known(world).changing)
        decided = world.clock.now()
        world.clock.pass_(5)
        slow.set()
        await world.settled()
        assert replicas(world) == 3
        assert known(world).grown_at == decided + 5


async def making_room(world: World) -> tuple[Sizer, Gang]:
    """Of four members two are to leave for a pod that needs two cards; who waits for that."""
    world.becomes_elastic(least=1, most=4)
    sizer = await started(world, "a", "b", "c", "d", replicas=4, stabilizationSeconds=1)
    await sizer.looks(3)
    world.pod("w", like=pod("w").by("alnair").asking(gpu=2), group="")
    await world.settled()
    world.clock.pass_(2)
    await sizer.looks(2)
    assert replicas(world) == 2
    (waiting,) = [each for each in world.leader.roster.gangs.values() if each.key[2] == "uid-w"]
    assert world.leader.loop.promises.made_to(waiting)
    return sizer, waiting


async def test_where_others_leave_than_were_to_the_room_is_not_kept_and_more_are_asked_to() -> None:
    """Who leaves is the controller's choice. Nobody comes to what was promised then, and others have use for it."""
    async with World(nodes=[node("n1").with_cards(2), node("n2").with_cards(2)]) as world:
        sizer, waiting = await making_room(world)
        promises = world.leader.loop.promises
        one_of_each_node = {world.where()[name]: name for name in "abcd"}
        world.deletes(*one_of_each_node.values())
        await world.settled()
        assert "w" not in world.where()
        assert promises.made_to(waiting)
        world.clock.pass_(4)
        assert not promises.made_to(waiting)
        await sizer.looks(2)
        assert replicas(world) == 1, "and not 4 again: it still waits"


async def test_whom_a_promise_turned_away_is_placed_when_it_is_over() -> None:
    """Nothing in the books changes then: each node has one free card before and after it."""
    async with World(nodes=[node("n1").with_cards(2), node("n2").with_cards(2)]) as world:
        _, waiting = await making_room(world)
        one_of_each_node = {world.where()[name]: name for name in "abcd"}
        world.deletes(*one_of_each_node.values())
        await world.settled()
        world.pods("x1", "x2", like=pod("x").by("alnair").asking(gpu=1), group="")
        await world.settled()
        (placed,) = world.where().keys() & {"x1", "x2"}
        assert world.leader.loop.promises.made_to(waiting)
        await world.passes(4)
        assert {"x1", "x2"} <= world.where().keys(), f"only {placed} was placed"


async def test_whom_a_promise_turned_away_is_placed_when_its_gang_has_left() -> None:
    async with World(nodes=[N1]) as world:
        await making_room(world)
        world.deletes("d")
        await world.settled()
        world.pod("x", like=pod("x").by("alnair").asking(gpu=1), group="")
        await world.settled()
        assert "x" not in world.where()
        world.deletes("w")
        await world.passes(2)
        assert "x" in world.where()


async def test_whom_a_promise_turned_away_is_looked_at_again_when_another_takes_its_place() -> None:
    async with World(nodes=[N1]) as world:
        _, waiting = await making_room(world)
        freed = world.leader.state.freed
        world.leader.loop.promises.make(waiting, [], lambda: True)
        assert world.leader.state.freed > freed


async def test_who_fits_without_anybodys_leaving_is_tried_and_promised_nothing() -> None:
    async with World(nodes=[N1]) as world:
        sizer, waiting = await making_room(world)
        waiting.retry_after = world.clock.now() + 600  # so that nobody tries it when the two have left
        world.deletes("c", "d")
        await world.passes(4)
        waiting.retry_after = 0.0
        await world.settled()
        assert "w" not in world.where()
        sizer.look()
        assert not world.leader.loop.promises.made_to(waiting)
        await world.settled()
        assert "w" in world.where()


async def test_room_is_kept_until_the_records_of_those_who_left_have_dropped_them() -> None:
    async with World(nodes=[N1]) as world:
        _, waiting = await making_room(world)
        record = world.leader.record()
        with world.server.refusing(record_writes, 500, "InternalError"):
            world.deletes("c", "d")
            await world.until(lambda: record.live() == 2)
            world.clock.pass_(4)
            assert world.leader.loop.promises.made_to(waiting)
            world.clock.pass_(4)
            assert world.leader.loop.promises.made_to(waiting)
        await world.until(lambda: "w" in world.where())


async def test_room_is_kept_while_members_leave_though_still_more_are_to_leave() -> None:
    async with World(nodes=[N1]) as world:
        sizer, waiting = await making_room(world)
        for name in "cd":
            there = world.server.objects[f"{PODS}/{name}"]
            meta = {**there["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            world.server.put(f"{PODS}/{name}", {**there, "metadata": meta})
        world.becomes_elastic(least=1, most=1)
        await world.settled()
        for _ in range(4):
            world.clock.pass_(2)
            await sizer.looks(1)
        assert replicas(world) == 1
        assert world.leader.loop.promises.made_to(waiting)


def test_a_gang_of_another_namespace_is_not_named() -> None:
    waits = cast("Gang", SimpleNamespace(key=("theirs", "PodGroup", "secret")))
    ours, theirs = (
        cast("Sized", SimpleNamespace(gang=SimpleNamespace(key=(namespace, "PodGroup", "g"))))
        for namespace in ("ours", "theirs")
    )
    assert called(waits, ours) == "a gang of another namespace"
    assert called(waits, theirs) == str(waits)


ONE_CARD = pod("x").by("alnair").asking(gpu=1)


async def all_cards_taken(world: World, *, least: int = 1) -> Sizer:
    """By an elastic gang that has run for longer than it must not be changed."""
    world.becomes_elastic(least=least, most=4)
    sizer = await started(world, "a", "b", "c", "d", replicas=4, stabilizationSeconds=1)
    await sizer.looks(3)
    world.clock.pass_(2)
    return sizer


async def nothing_helps(world: World, number: int, *, alike: bool = False) -> None:
    """So many pods, older than others, that need more cards than a node has; no two are alike unless said so."""
    for each in range(number):
        cards = 100 if alike else 100 + each
        world.pod(f"no{each}", like=pod("no").by("alnair").asking(gpu=cards), group="")
    await all_refused(world)


async def all_refused(world: World) -> None:
    """Until the loop has found out of everybody who waits that it does not fit."""
    gangs, loop = world.leader.roster.gangs, world.leader.loop
    there = sum(path.startswith(PODS) for path in world.server.objects)
    await world.until(lambda: sum(len(each.pods) for each in gangs.values()) == there)
    await world.until(
        lambda: {each for each in gangs.values() if each.waiting()} == {*loop.waiting_for_room()}
    )
    await world.settled()


def count_searches(monkeypatch: pytest.MonkeyPatch) -> list[search.Gang]:
    searched: list[search.Gang] = []
    place = search.place

    def counted(asked: search.Gang, *rest: Any) -> object:
        searched.append(asked)
        return place(asked, *rest)

    monkeypatch.setattr(search, "place", counted)
    return searched


def waiting(world: World, name: str) -> Gang:
    (found,) = [each for each in world.leader.roster.gangs.values() if each.key[2] == f"uid-{name}"]
    return found


YOUNGER = "2026-01-02T00:00:00Z"


@pytest.mark.parametrize("alike", [True, False])
async def test_however_many_wait_that_nothing_helps_who_waits_behind_them_is_helped(alike: bool) -> None:
    async with World(nodes=[N1]) as world:
        sizer = await all_cards_taken(world)
        await nothing_helps(world, 50, alike=alike)
        world.pod("w", like=ONE_CARD, group="", creationTimestamp=YOUNGER)
        await all_refused(world)
        await sizer.looks(4)
        assert replicas(world) == 3
        world.deletes("d")
        await world.settled()
        assert "w" in world.where()


async def test_who_is_behind_many_that_nothing_helps_is_helped_though_the_books_change_all_the_time() -> None:
    async with World(nodes=[N1]) as world:
        sizer = await all_cards_taken(world)
        await nothing_helps(world, 50)
        world.pod("w", like=ONE_CARD, group="", creationTimestamp=YOUNGER)
        await all_refused(world)
        loop = world.leader.loop
        for _ in range(4):
            before = {gang: gang.wanted for gang in loop.waiting_for_room()}
            world.leader.state.free_everywhere()
            for gang in before:
                loop.touch(gang)
            await world.until(lambda: all(gang.wanted is not before[gang] for gang in before))  # noqa: B023
            await sizer.looks()
        assert replicas(world) == 3


async def test_one_look_makes_a_bounded_number_of_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(nodes=[N1]) as world:
        sizer = await all_cards_taken(world)
        await nothing_helps(world, 60)
        searched = count_searches(monkeypatch)
        made = []
        for _ in range(6):
            searched.clear()
            sizer.look()
            made.append(len(searched))
        assert made == [16, 16, 16, 12, 0, 0]


async def test_once_nothing_changes_nobody_is_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(nodes=[N1]) as world:
        sizer = await all_cards_taken(world)
        await nothing_helps(world, 40)
        await sizer.looks(6)
        searched, written = count_searches(monkeypatch), world.written()
        await sizer.looks(5)
        assert not searched
        assert world.written() == written
        world.pod("w", like=ONE_CARD, group="", creationTimestamp=YOUNGER)
        await all_refused(world)
        await sizer.looks()
        assert replicas(world) == 3, "and who comes then is asked about at once"


async def test_a_gang_that_needs_less_now_is_asked_about_again_though_the_books_are_the_same() -> None:
    async with World(nodes=[N1]) as world:
        sizer = await all_cards_taken(world)
        world.group("h", min_member=5, uid="uid-of-h")
        world.pods("v", "w", "x", "y", "z", like=ONE_CARD, group="h")
        await world.settled()
        await sizer.looks(3)
        assert replicas(world) == 4
        version = world.leader.state.version
        world.group("h", min_member=1, uid="uid-of-h")
        await world.settled()
        assert world.leader.state.version == version
        await sizer.looks(2)
        assert replicas(world) < 4


async def test_who_was_found_to_be_helped_is_helped_first_though_others_are_asked_about_meanwhile() -> None:
    async with World(nodes=[N1]) as world:
        world.becomes_elastic(least=1, most=4)
        sizer = await started(world, "a", "b", "c", "d", replicas=4)
        await sizer.looks(3)
        known(world).grown_at = world.clock.now()  # it must not shrink yet
        await nothing_helps(world, 20)
        world.pod("first", like=pod("w").by("alnair").asking(gpu=2), group="", creationTimestamp=YOUNGER)
        await all_refused(world)
        await sizer.looks(3)
        assert replicas(world) == 4
        await nothing_helps(world, 60)
        world.pod("second", like=ONE_CARD, group="", creationTimestamp=YOUNGER)
        await all_refused(world)
        known(world).grown_at -= 61
        await sizer.looks()
        assert world.leader.loop.promises.made_to(waiting(world, "first"))
        assert not world.leader.loop.promises.made_to(waiting(world, "second"))
        assert replicas(world) == 2
