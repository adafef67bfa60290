"""Rules of third parties in the running loop: they have a say around every placement, and nothing that they do wrong
keeps a gang from being placed."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from alnair.api.config import parse_config
from alnair.control import hooks
from alnair.control.overtime import Overtime, overtime
from alnair.control.profiles import OFF_DUTY_SECONDS
from alnair.ledger import ledger
from alnair.ledger.records import BOUND
from alnair.scheduling.guard import Guarded
from alnair.scheduling.plugins.interface import Placement, Veto, Waiting
from alnair.scheduling.plugins.potential import Potential
from alnair.scheduling.profile import Profile, build_all
from alnair.scheduling.registry import OURS, POINTS, Offer, Registry
from harness.builders import node, pod
from unit.builders import PROFILES
from unit.control.world import World

SHARER = pod("sharer").by("alnair").asking(cpu="100m").slice(memory_gib=12)
SMALL = pod("small").by("alnair").asking(cpu="100m").slice(memory_gib=1)
TWO_NODES = (node("n1").with_cards(1), node("n2").with_cards(1))


def profiles(rule: type[Any], field: str) -> Mapping[str, Profile]:
    """The profile `alnair` with one rule of somebody else's."""
    serves = [point for point, method in POINTS.items() if hasattr(rule, method)]
    offers = {
        point: {**OURS.offers[point], **({rule.name: Offer(rule, "acme-rules")} if point in serves else {})}
        for point in POINTS
    }
    given = {"scorers": "[BinPack]", "picker": "best-fit"} | dict([field.split(": ", 1)])
    body = ", ".join(f"{key}: {value}" for key, value in given.items())
    config = parse_config(f"profiles: [{{schedulerName: alnair, {body}}}]", origin="f")
    return build_all(config, Registry(offers), limit=partial(overtime, 0.05))


def failures(world: World, rule: str, point: str) -> float:
    registry = world.leader.metrics.registry
    return registry.get_sample_value("alnair_rule_failures_total", {"rule": rule, "point": point}) or 0.0


def told(world: World, reason: str) -> list[str]:
    return [
        each["note"]
        for path, each in world.server.objects.items()
        if "/events/" in path and each["reason"] == reason
    ]


# -- while planning ------------------------------------------------------------------------------------------------


class Moody:
    """Prefers the last node, and raises while it is in a bad mood."""

    name = "acme.com/Moody"
    mood = "good"
    asked = 0

    def score(self, pod: Any, draft: Any) -> Any:
        Moody.asked += 1
        if Moody.mood == "endless":
            while True:
                pass
        if Moody.mood == "bad":
            raise RuntimeError("not today")
        return np.array([name == "n2" for name in draft.names], dtype=np.float64)


@pytest.fixture(autouse=True)
def _good_mood() -> None:
    Moody.mood, Moody.asked = "good", 0


async def test_a_rule_that_raises_is_off_duty_for_a_while_and_the_fallback_places_meanwhile() -> None:
    async with World(nodes=TWO_NODES, profiles=profiles(Moody, "scorers: [acme.com/Moody]")) as world:
        await world.start()
        Moody.mood = "bad"
        world.pods("a", "b", like=SMALL, group="")
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}
        assert failures(world, Moody.name, "score") == Moody.asked == 1
        (note,) = told(world, "RuleFailed")
        assert "rule acme.com/Moody of package acme-rules failed to score: RuntimeError: not today" in note
        Moody.mood = "good"
        world.pod("c", like=SMALL, group="")
        await world.settled()
        assert world.where()["c"] == "n1", "it is off duty still"
        await world.passes(OFF_DUTY_SECONDS + 1)
        world.pod("d", like=SMALL, group="")
        await world.settled()
        assert world.where()["d"] == "n2"


async def test_a_rule_that_fails_again_stays_away_twice_as_long() -> None:
    async with World(nodes=TWO_NODES, profiles=profiles(Moody, "scorers: [acme.com/Moody]")) as world:
        await world.start()
        Moody.mood = "bad"
        for number, asked in enumerate((1, 2, 2, 3)):
            world.pod(f"p{number}", like=SMALL, group="")
            await world.settled()
            assert (world.where()[f"p{number}"], Moody.asked) == ("n1", asked)
            await world.passes(OFF_DUTY_SECONDS + 1)


async def test_a_rule_that_never_comes_back_is_ended() -> None:
    async with World(nodes=TWO_NODES, profiles=profiles(Moody, "scorers: [acme.com/Moody]")) as world:
        await world.start()
        Moody.mood = "endless"
        world.pod("a", like=SHARER, group="")
        await world.settled()
        assert world.where() == {"a": "n1"}
        (note,) = told(world, "RuleFailed")
        assert "Overtime" in note


def test_time_that_is_not_used_up_ends_nothing_later() -> None:
    with overtime(0.01):
        pass
    with pytest.raises(Overtime):
        spin(0.01)


def test_code_that_goes_on_after_any_exception_is_ended_all_the_same() -> None:
    def stubborn() -> None:
        while True:
            with suppress(Exception):
                spin_without_end()

    with pytest.raises(Overtime), overtime(0.01):
        stubborn()


def spin_without_end() -> None:
    while True:
        pass


def spin(seconds: float) -> None:
    with overtime(seconds):
        while True:
            pass


async def test_a_gang_that_waits_for_room_is_woken_although_a_filter_is_broken() -> None:
    class Grudge:
        name = "acme.com/Grudge"
        scope = None
        broken = False

        def passes(self, pod: Any, draft: Any) -> Any:
            if Grudge.broken:
                raise RuntimeError("no")
            return np.ones(len(draft.names), dtype=np.bool_)

    full = node("n1").holding(cpu="100m")
    built = profiles(Grudge, "filters: {enable: [acme.com/Grudge]}")
    async with World(nodes=[full], profiles=built) as world:
        world.pods("a", "b", group="")
        await world.start()
        await world.settled()
        assert len(world.where()) == 1
        Grudge.broken = True
        world.deletes(*world.where())
        await world.settled()
        assert len(world.where()) == 1


class Pupil:
    """Learns from arrivals, or fails to."""

    name = "acme.com/Pupil"
    told = 0

    def arrived(self, pod: Any) -> bool:
        Pupil.told += 1
        raise RuntimeError("too much")

    def score(self, pod: Any, draft: Any) -> Any:
        return np.zeros(len(draft.names))


async def test_a_rule_that_fails_to_learn_is_not_told_of_ten_thousand_pods_more() -> None:
    Pupil.told = 0
    built = profiles(Pupil, "scorers: [acme.com/Pupil, Potential]")
    async with World(nodes=TWO_NODES, profiles=built) as world:
        world.pods("a", "b", "c", like=SMALL, group="")
        await world.start()
        await world.settled()
        assert len(world.where()) == 3
        assert Pupil.told == failures(world, Pupil.name, "arrived") == 1
        post = world.leader.profiles._posts["alnair"]
        (learner,) = (rule for rule in post.profile.learners if isinstance(rule, Potential))
        assert sum(count for _, count in learner._mix.habits().kinds) == 3, "ours learns on"
        assert post.profile is not built["alnair"], "and what was remembered of it is forgotten"


class Choosy:
    """A filter that lets nobody through, or fails."""

    name = "acme.com/Choosy"
    broken = False

    def passes(self, pod: Any, draft: Any) -> Any:
        if Choosy.broken:
            raise RuntimeError("no")
        return np.zeros(len(draft.names), dtype=np.bool_)


async def test_who_was_refused_is_tried_again_when_the_fallback_stands_in() -> None:
    Choosy.broken = False
    async with World(profiles=profiles(Choosy, "filters: {enable: [acme.com/Choosy]}")) as world:
        world.pod("a", group="")
        await world.start()
        await world.settled()
        assert world.where() == {}
        Choosy.broken = True
        world.pod("b", group="")
        await world.until(lambda: set(world.where()) == {"a", "b"})


async def test_who_was_refused_by_the_fallback_is_tried_again_when_the_profile_is_back() -> None:
    strict = build_all(
        parse_config(
            "profiles: [{schedulerName: s, scorers: [BinPack], picker: best-fit,"
            " filters: {enable: [{name: NodeLabel, options: {present: [pool]}}]}}]",
            origin="f",
        )
    )["s"]
    (mine,) = profiles(Moody, "scorers: [acme.com/Moody]").values()
    async with World(profiles={"alnair": replace(mine, fallback=strict)}) as world:
        await world.start()
        Moody.mood = "bad"
        world.pod("a", group="")
        await world.settled()
        assert world.where() == {}
        Moody.mood = "good"
        await world.passes(OFF_DUTY_SECONDS + 1)
        assert world.where() == {"a": "n1"}


class Sorts:
    name = "acme.com/Sorts"

    def rank(self, gang: Waiting) -> float:
        return -float(gang.name.removeprefix("p"))


async def test_a_sorter_says_who_goes_first_among_equals() -> None:
    async with World(
        nodes=[node("n1").holding(cpu="100m")], profiles=profiles(Sorts, "sort: acme.com/Sorts")
    ) as world:
        world.pods("p1", "p2", "p3", group="")
        await world.start()
        await world.settled()
        assert world.where() == {"p3": "n1"}


async def test_a_sorter_that_fails_leaves_the_oldest_first() -> None:
    async with World(
        nodes=[node("n1").holding(cpu="100m")], profiles=profiles(Sorts, "sort: acme.com/Sorts")
    ) as world:
        world.pods("a", "b", group="")
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert failures(world, Sorts.name, "rank") >= 1


# -- around a placement --------------------------------------------------------------------------------------------


class Budget:
    """So many pods and no more."""

    name = "acme.com/Budget"
    left = 0
    reserved: set[str]

    def __init__(self) -> None:
        Budget.reserved = set()

    def reserve(self, placements: Sequence[Placement]) -> None:
        if len(placements) > Budget.left:
            raise Veto(f"{len(placements)} pods are over budget, {Budget.left} are left")
        Budget.left -= len(placements)
        Budget.reserved |= {each.pod for each in placements}

    def unreserve(self, placements: Sequence[Placement]) -> None:
        known = Budget.reserved & {each.pod for each in placements}
        Budget.left += len(known)
        Budget.reserved -= known


async def test_a_plan_that_is_over_budget_is_refused_in_its_own_words_and_nothing_is_written() -> None:
    Budget.left = 1
    async with World(min_member=2, profiles=profiles(Budget, "reserve: [acme.com/Budget]")) as world:
        world.pods("a", "b")
        await world.start()
        await world.settled()
        gang = world.leader.gang()
        assert gang.refusal_reason == "ReserveRefused"
        assert gang.refusal == "acme.com/Budget: 2 pods are over budget, 1 are left"
        assert world.where() == world.listed() == {}
        Budget.left = 2
        await world.passes(11)
        assert set(world.where()) == Budget.reserved == {"a", "b"}


async def test_what_was_reserved_is_given_back_for_a_pod_that_was_not_bound_after_all() -> None:
    Budget.left = 3
    async with World(min_member=2, profiles=profiles(Budget, "reserve: [acme.com/Budget]")) as world:
        world.pods("a", "b", "c", like=SMALL.in_group("g"))
        binding = world.server.delays("POST c/binding")
        world.node(TWO_NODES[0])
        await world.start()
        await world.until(lambda: "POST c/binding" in world.written())
        world.deletes("c")
        binding.set()
        await world.settled()
        assert set(world.where()) == Budget.reserved == {"a", "b"}
        assert Budget.left == 1


class Licence:
    """Has to be fetched before a pod is bound, and is told afterwards."""

    name = "acme.com/Licence"
    refuses: set[str]
    breaks = False
    hangs = False
    before: list[Placement]
    after: list[Placement]

    def __init__(self) -> None:
        Licence.before, Licence.after, Licence.refuses = [], [], set()
        Licence.breaks = Licence.hangs = False

    async def pre_bind(self, placement: Placement) -> None:
        Licence.before.append(placement)
        if Licence.breaks:
            raise OSError("licence server is down")
        if Licence.hangs:
            await asyncio.Event().wait()
        if placement.pod in Licence.refuses:
            raise Veto(f"no licence for {placement.pod}")

    async def post_bind(self, placement: Placement) -> None:
        Licence.after.append(placement)
        if Licence.breaks:
            raise OSError("licence server is down")


HOOKED = "preBind: [acme.com/Licence], postBind: [acme.com/Licence]"


async def test_a_rule_is_asked_before_each_binding_after_the_commit_and_told_after_it() -> None:
    async with World(min_member=2, nodes=TWO_NODES, profiles=profiles(Licence, HOOKED)) as world:
        world.pods("a", "b", like=SHARER.in_group("g"))
        await world.start()
        await world.settled()
        assert set(world.where()) == {"a", "b"}
        for heard in (Licence.before, Licence.after):
            assert sorted(each.pod for each in heard) == ["a", "b"]
            assert all(len(each.cards) == 1 and each.node == world.where()[each.pod] for each in heard)


@pytest.mark.parametrize("grouped", [True, False], ids=["a gang", "a lone pod"])
async def test_a_pod_that_must_not_be_bound_is_not_and_its_gang_says_why(grouped: bool) -> None:
    async with World(profiles=profiles(Licence, HOOKED)) as world:
        await world.start()
        Licence.refuses = {"a"}
        world.pod("a", group="g" if grouped else "")
        await world.settled()
        (gang,) = world.leader.roster.gangs.values()
        assert (world.where(), gang.refusal_reason) == ({}, "PreBindRefused")
        assert "acme.com/Licence: no licence for a" in gang.refusal
        assert world.listed() == {}, "its place is free again"
        Licence.refuses = set()
        await world.passes(11)
        assert world.where() == {"a": "n1"}


@pytest.mark.parametrize("fault", ["breaks", "hangs"])
async def test_a_rule_that_fails_around_a_binding_does_not_keep_the_pod_from_being_bound(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "WAIT_SECONDS", 0.05)
    async with World(min_member=2, nodes=TWO_NODES, profiles=profiles(Licence, HOOKED)) as world:
        await world.start()
        setattr(Licence, fault, True)
        world.pods("a", "b", like=SHARER.in_group("g"))
        await world.settled()
        assert set(world.where()) == {"a", "b"}
        assert world.leader.record().phase == BOUND
        assert failures(world, Licence.name, "pre_bind") >= 1


@pytest.mark.parametrize("refused", ["a", "b"])
async def test_no_member_is_bound_when_too_few_of_the_gang_may_be(refused: str) -> None:
    async with World(min_member=2, nodes=TWO_NODES, profiles=profiles(Licence, HOOKED)) as world:
        await world.start()
        Licence.refuses = {refused}
        world.pods("a", "b", like=SHARER.in_group("g"))
        await world.settled()
        assert not [each for each in world.written() if each.endswith("/binding")]
        assert world.where() == world.listed() == {}
        assert world.leader.gang().refusal == f"pod {refused}: acme.com/Licence: no licence for {refused}"
        Licence.refuses = set()
        await world.passes(11)
        assert set(world.where()) == {"a", "b"}


async def test_those_who_may_be_are_bound_when_they_are_enough() -> None:
    async with World(min_member=1, nodes=TWO_NODES, profiles=profiles(Licence, HOOKED)) as world:
        await world.start()
        Licence.refuses = {"b"}
        world.pods("a", "b", like=SHARER.in_group("g"))
        await world.settled()
        assert set(world.where()) == {"a"}
        assert world.leader.record().phase == BOUND
        Licence.refuses = set()
        await world.passes(11)
        assert set(world.where()) == {"a", "b"}


class Careless(Licence):
    """Written by somebody who has not thought of the loop that it runs in."""

    name = "acme.com/Careless"
    how = ""

    async def pre_bind(self, placement: Placement) -> None:
        match Careless.how:
            case "blocks":
                await asyncio.sleep(0)
                time.sleep(3)  # noqa: ASYNC251 - that is the point
            case "cancelled":
                work = asyncio.create_task(asyncio.sleep(3600))
                work.cancel()
                await work
            case "exits":
                sys.exit(1)


@pytest.mark.parametrize("grouped", [True, False], ids=["a gang", "a lone pod"])
@pytest.mark.parametrize("how", ["blocks", "cancelled", "exits"])
async def test_a_rule_that_does_not_belong_in_a_loop_neither_stops_it_nor_strands_the_gang(
    how: str, grouped: bool
) -> None:
    async with World(profiles=profiles(Careless, "preBind: [acme.com/Careless]")) as world:
        await world.start()
        Careless.how = how
        before = time.monotonic()
        world.pod("a", group="g" if grouped else "")
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert failures(world, Careless.name, "pre_bind") == 1
        assert time.monotonic() - before < 2.9, "it was not waited for"


class Books:
    """What each of its objects was told."""

    name = "acme.com/Books"
    made: list[Books]
    vetoes = breaks = False

    def __init__(self) -> None:
        Books.made.append(self)
        self.reserved: list[str] = []

    def reserve(self, placements: Sequence[Placement]) -> None:
        if self.vetoes:
            raise Veto("full")
        self.reserved += [each.pod for each in placements]

    def unreserve(self, placements: Sequence[Placement]) -> None:
        for each in placements:
            self.reserved.remove(each.pod)

    def score(self, pod: Any, draft: Any) -> Any:
        if Books.breaks:
            raise RuntimeError("not today")
        return np.zeros(len(draft.names))


class SecondBooks(Books):
    name = "acme.com/SecondBooks"


@pytest.fixture
def books() -> list[Books]:
    Books.made, Books.breaks, SecondBooks.vetoes = [], False, False
    return Books.made


ASKED = "scorers: [acme.com/Books], reserve: [acme.com/Books]"


async def test_only_those_who_said_yes_are_told_when_another_one_refuses(books: list[Books]) -> None:
    first, second, third = (Guarded(each, package="acme-rules") for each in (Books(), SecondBooks(), Books()))
    SecondBooks.vetoes = True
    built = {"alnair": replace(PROFILES["alnair"], reserve=(first, second, third))}
    async with World(profiles=built) as world:
        world.pod("a")
        await world.start()
        await world.settled()
        assert world.leader.gang().refusal == "acme.com/SecondBooks: full"
        assert [each.reserved for each in books] == [[], [], []]
        assert not failures(world, Books.name, "unreserve"), "nobody gives back what it never had"


async def test_what_was_reserved_is_given_back_though_the_fallback_stands_in_by_then(
    books: list[Books],
) -> None:
    async with World(min_member=2, nodes=TWO_NODES, profiles=profiles(Books, ASKED)) as world:
        binding = world.server.delays("POST c/binding")
        world.pods("a", "b", "c", like=SMALL.in_group("g"))
        await world.start()
        await world.until(lambda: "POST c/binding" in world.written())
        assert sorted(books[0].reserved) == ["a", "b", "c"]
        Books.breaks = True
        world.pod("other", like=SMALL, group="")
        await world.until(lambda: failures(world, Books.name, "score"))
        world.deletes("c")
        binding.set()
        await world.settled()
        assert sorted(books[0].reserved) == ["a", "b"]


async def test_what_the_fallback_has_planned_is_not_given_back_to_a_rule_that_never_had_it(
    books: list[Books],
) -> None:
    async with World(min_member=2, nodes=TWO_NODES, profiles=profiles(Books, ASKED)) as world:
        await world.start()
        Books.breaks = True
        binding = world.server.delays("POST c/binding")
        world.pods("a", "b", "c", like=SMALL.in_group("g"))
        await world.until(lambda: "POST c/binding" in world.written())
        Books.breaks = False
        world.clock.pass_(OFF_DUTY_SECONDS + 1)
        world.deletes("c")
        binding.set()
        await world.settled()
        assert set(world.where()) == {"a", "b"}
        assert not failures(world, Books.name, "unreserve")


async def test_a_lone_pod_that_is_bound_keeps_its_reservation_though_an_event_came_meanwhile(
    books: list[Books],
) -> None:
    async with World(profiles=profiles(Books, ASKED)) as world:
        binding = world.server.delays("POST a/binding")
        world.pod("a", group="")
        await world.start()
        await world.until(lambda: "POST a/binding" in world.written())
        world.pod("a", group="", labels={"changed": "meanwhile"})
        await asyncio.sleep(0.01)
        binding.set()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert books[0].reserved == ["a"]


async def test_what_is_bound_at_the_second_try_was_not_given_back_after_the_first(
    books: list[Books], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "BINDING_PAUSE", 0.01)
    async with World(min_member=2, nodes=TWO_NODES, profiles=profiles(Books, ASKED)) as world:
        await world.start()
        prepare = world.leader.ledger.volumes.prepare

        async def fails_once(*_: Any, **__: Any) -> dict[str, str]:
            monkeypatch.setattr(world.leader.ledger.volumes, "prepare", prepare)
            raise RuntimeError("a mistake of ours")

        monkeypatch.setattr(world.leader.ledger.volumes, "prepare", fails_once)
        world.pods("a", "b", like=SMALL.in_group("g"))
        await world.settled()
        assert set(world.where()) == {"a", "b"}
        assert sorted(books[0].reserved) == ["a", "b"]
