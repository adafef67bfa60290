"""Who is tried next, and who is left in peace because nothing that it lacks has come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from alnair.api.config import DEFAULT, parse_config
from alnair.api.topology import NodeResourceTopology
from alnair.control import loop as control_loop
from alnair.control.queue import UNDECIDED_SECONDS
from alnair.scheduling import exact, search
from alnair.scheduling.plugins.interface import Filter, Scope
from alnair.scheduling.profile import Profile, build_all
from alnair.scheduling.registry import OURS, Offer, Registry
from alnair.state import wire
from alnair.state.draft import Bools, Draft
from alnair.state.selectors import PodSet, Requirement, Selector
from alnair.state.shapes import PodClass
from harness.builders import node, pod
from harness.numa import published, zone
from unit.builders import decoded
from unit.control.world import NAMESPACE, WORKER, World

PLACE = search.place
FULL = node("n1").holding(cpu="100m")
SMALL = pod("small").by("alnair").asking(cpu="100m")
BIG = pod("big").by("alnair").asking(cpu="4")


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each pod was searched a place for; the search itself is the real one."""
    counted: Counter[str] = Counter()

    def noting(gang: search.Gang, *args: object, **kwargs: object) -> object:
        counted.update(member.name for member in gang.members)
        return PLACE(gang, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(control_loop.search, "place", noting)
    return counted


async def test_room_that_is_too_small_wakes_nobody_who_is_large(planned: Counter[str]) -> None:
    async with World(nodes=[FULL]) as world:
        world.pod("tenant", group="", like=SMALL)
        await world.start()
        await world.settled()
        world.pod("large", group="", like=BIG)
        world.pod("fitting", group="", like=SMALL)
        await world.settled()
        before = Counter(planned)
        world.deletes("tenant")
        await world.settled()
        assert world.where() == {"fitting": "n1"}
        assert planned["large"] == before["large"], "100m are no hope for who needs 4"
        assert planned["fitting"] == before["fitting"] + 1


async def test_a_node_that_would_do_wakes_who_waits_for_it(planned: Counter[str]) -> None:
    async with World(nodes=[FULL]) as world:
        world.pod("large", group="", like=BIG)
        await world.start()
        await world.settled()
        world.node(node("n2").holding(cpu="1"))
        await world.settled()
        tried = planned["large"]
        assert world.where() == {}
        world.node(node("n3").holding(cpu="8"))
        await world.settled()
        assert world.where() == {"large": "n3"}
        assert (tried, planned["large"]) == (1, 2)


async def test_who_minds_other_pods_is_woken_by_any_room() -> None:
    """Its rule may change its mind about a node that nothing happened to."""
    shy = (
        pod("shy").by("alnair").asking(cpu="100m").labelled(app="shy").apart_from({"app": "loud"}, key="zone")
    )
    async with World(nodes=[node("n1").labelled(zone="z"), node("n2").labelled(zone="z")]) as world:
        world.pod("loud", group="", like=pod("loud").labelled(app="loud"), on="n1")
        world.pod("shy", group="", like=shy)
        await world.start()
        await world.settled()
        assert "shy" not in world.where()
        world.deletes("loud")
        await world.settled()
        assert "shy" in world.where()


async def test_whom_others_kept_away_is_woken_when_they_leave_a_node_of_no_use() -> None:
    """The waiting pod has no rule of its own, and the node that was freed is cordoned."""
    shy = pod("shy").labelled(app="shy").apart_from({"app": "x"}, key="zone")
    async with World(
        nodes=[node("n1").labelled(zone="z").cordoned(), node("n2").labelled(zone="z")]
    ) as world:
        world.pod("shy", group="", like=shy, on="n1")
        world.pod("x", group="", like=SMALL.labelled(app="x"))
        await world.start()
        await world.settled()
        assert "x" not in world.where()
        world.deletes("shy")
        await world.settled()
        assert world.where() == {"x": "n2"}


async def test_members_of_one_shape_with_other_labels_are_all_remembered() -> None:
    shy = pod("shy").labelled(app="shy").apart_from({"app": "x"}, key="zone")
    async with World(
        min_member=2, nodes=[node("n1").labelled(zone="z").cordoned(), node("n2").labelled(zone="z")]
    ) as world:
        world.pod("shy", group="", like=shy, on="n1")
        world.pod("a", like=WORKER.labelled(app="x"))
        world.pod("b", like=WORKER.labelled(app="y"))
        await world.start()
        await world.settled()
        assert set(world.where()) == {"shy"}
        world.deletes("shy")
        await world.settled()
        assert set(world.where()) == {"a", "b"}


@pytest.mark.parametrize("by", ["alnair", "somebody-else"])
async def test_who_must_be_near_is_woken_by_whom_it_waits_for(by: str) -> None:
    near = SMALL.near_to({"app": "db"}, key="zone")
    async with World(nodes=[node("n1").labelled(zone="z")]) as world:
        world.pod("client", group="", like=near)
        await world.start()
        await world.settled()
        assert world.where() == {}
        db = pod("db").labelled(app="db")
        world.pod("db", group="", like=db.by(by), on="n1" if by != "alnair" else "")
        await world.settled()
        assert set(world.where()) == {"client", "db"}


async def test_who_is_spread_is_woken_by_one_more_in_the_emptiest_domain() -> None:
    spread = SMALL.labelled(app="x").spread_over("zone", {"app": "x"})
    nodes = [node("n1").labelled(zone="a"), node("n2").labelled(zone="b").cordoned()]
    async with World(nodes=nodes) as world:
        world.pod("first", group="", like=pod("first").labelled(app="x"), on="n1")
        world.pod("second", group="", like=spread)
        await world.start()
        await world.settled()
        assert "second" not in world.where()
        world.pod("other", group="", like=pod("other").labelled(app="x"), on="n2")
        await world.settled()
        assert world.where()["second"] == "n1"


class BesideAFriend:
    """A third party's filter: only where a pod with the label friend=yes is."""

    name = "acme.com/BesideAFriend"
    scope = Scope.DOMAIN
    friends = PodSet((NAMESPACE,), Selector((Requirement("friend", "In", ("yes",)),)))

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return draft.count(self.friends) > 0


class FriendOfNobody(BesideAFriend):
    """It says itself that no pod can be what it waits for."""

    name = "acme.com/FriendOfNobody"

    def awaits(self, pod: PodClass, draft: Draft) -> bool:
        return False


def enabled(rule: str, options: str = "{}", *others: type[BesideAFriend]) -> dict[str, Profile]:
    """The profile `alnair` with one more filter."""
    theirs = {other.name: Offer(other, "acme-rules") for other in others}
    registry = Registry({**OURS.offers, "filters": {**OURS.offers["filters"], **theirs}})
    filters = f"{{enable: [{{name: {rule}, options: {options}}}]}}"
    text = f"profiles: [{{schedulerName: alnair, scorers: [BinPack], picker: best-fit, filters: {filters}}}]"
    return build_all(parse_config(text, origin="f"), registry)


FRIEND = pod("friend").labelled(friend="yes")


async def test_whom_a_third_partys_filter_keeps_waiting_is_woken_by_whoever_comes() -> None:
    profiles = enabled(BesideAFriend.name, "{}", BesideAFriend)
    async with World(nodes=[node("n1"), node("n2")], profiles=profiles) as world:
        world.pod("shy", group="", like=SMALL)
        await world.start()
        await world.settled()
        assert world.where() == {}
        world.pod("friend", group="", like=FRIEND, on="n2")
        await world.settled()
        assert world.where()["shy"] == "n2"


async def test_a_filter_that_waits_for_nobody_is_left_in_peace(planned: Counter[str]) -> None:
    profiles = enabled(FriendOfNobody.name, "{}", FriendOfNobody)
    async with World(nodes=[node("n1"), node("n2")], profiles=profiles) as world:
        world.pod("shy", group="", like=SMALL)
        await world.start()
        await world.settled()
        world.pod("friend", group="", like=FRIEND, on="n2")
        await world.settled()
        assert ("shy" in world.where(), planned["shy"]) == (False, 1)


async def test_who_must_be_where_its_service_is_is_woken_when_that_opens_another_group() -> None:
    nodes = [node("n1").labelled(zone="a").cordoned(), node("n2").labelled(zone="b")]
    profiles = enabled("ServiceAffinity", "{labels: [zone]}")
    service = {"metadata": {"name": "s", "namespace": NAMESPACE}, "spec": {"selector": {"app": "x"}}}
    async with World(nodes=nodes, profiles=profiles) as world:
        world.pod("first", group="", like=pod("first").labelled(app="x"), on="n1")
        leader = await world.process()
        leader.state.services.put(decoded(service, wire.Service))
        await leader.lead()
        world.pod("next", group="", like=SMALL.labelled(app="x"))
        await world.settled()
        assert "next" not in world.where()
        world.pod("other", group="", like=pod("other").labelled(app="x"), on="n2")
        await world.settled()
        assert world.where()["next"] == "n2"


async def test_a_gang_made_anew_under_the_same_name_is_tried() -> None:
    async with World() as world:
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        queue = leader.loop._queue
        world.pod("a")
        await world.until(lambda: "uid-a" in leader.state.pods)
        first = leader.gang()
        queue.touch(first)
        queue._rank_touched()  # it stands in the line
        world.deletes("a")
        await world.until(lambda: "uid-a" not in leader.state.pods)
        world.pod("b")
        await world.until(lambda: "uid-b" in leader.state.pods)
        assert leader.gang() is not first
        await leader.carry_on()
        await world.settled()
        assert set(world.where()) == {"b"}


async def test_a_solver_that_fails_is_not_asked_again_at_once(
    pondered: list[exact.Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(problem: exact.Problem, seconds: float) -> exact.Solution:
        raise RuntimeError("no licence")

    monkeypatch.setattr(exact.Problem, "solve", fails)
    async with World() as world:
        world.pod("a")
        await world.start()
        await world.settled()
        assert world.leader.gang().refusal == "The exact search failed; the log says why."
        assert len(pondered) == 1
        assert not world.leader.gang().pondering


async def test_a_pod_that_only_got_a_new_version_is_not_planned_again(planned: Counter[str]) -> None:
    async with World(nodes=[FULL]) as world:
        world.pod("large", group="", like=BIG)
        await world.start()
        await world.settled()
        world.pod("large", group="", like=BIG, annotations={"seen": "yes"})
        await world.settled()
        assert planned["large"] == 1


async def test_the_older_of_two_equals_goes_first() -> None:
    async with World(nodes=[FULL]) as world:
        world.pod("a-late", group="", like=SMALL, creationTimestamp="2026-01-02T00:00:00Z")
        world.pod("z-early", group="", like=SMALL, creationTimestamp="2026-01-01T00:00:00Z")
        await world.start()
        await world.settled()
        assert world.where() == {"z-early": "n1"}


# -- when greedy placement is not sure ---------------------------------------------------------------------------

# Greedy placement puts the one that fits both nodes onto the roomy one, and the other finds no place.
TWO_NODES = [node("roomy").holding(cpu="8", memory="4Gi"), node("tight").holding(cpu="2", memory="8Gi")]


def a_puzzle(world: World) -> None:
    """Four pods of two kinds that fit in exactly one way, which best-fit does not find."""
    world.group("g", min_member=4)
    one = WORKER.asking(cpu="2", memory="1Gi")
    two = WORKER.asking(cpu="1", memory="3Gi")
    world.pods("a", "b", "c", like=one)
    world.pods("d", like=two)


@pytest.fixture
def pondered(monkeypatch: pytest.MonkeyPatch) -> list[exact.Problem]:
    """The problems that the exact search was asked; greedy placement is made to be unsure of everything."""
    asked: list[exact.Problem] = []
    formulate = exact.formulate

    def noting(*args: object, **kwargs: object) -> exact.Problem:
        problem = formulate(*args, **kwargs)  # type: ignore[arg-type]
        asked.append(problem)
        return problem

    monkeypatch.setattr(control_loop.exact, "formulate", noting)
    monkeypatch.setattr(control_loop.search, "place", lambda *_, **__: search.Unsure("not sure"))
    return asked


async def test_what_greedy_placement_cannot_decide_the_exact_search_does(
    pondered: list[exact.Problem],
) -> None:
    async with World(min_member=4, nodes=TWO_NODES) as world:
        a_puzzle(world)
        await world.start()
        await world.until(lambda: len(world.where()) == 4)
        await world.settled()
        assert len(pondered) == 1


async def test_an_exact_no_is_a_refusal_that_waits_for_room(pondered: list[exact.Problem]) -> None:
    async with World(min_member=2, nodes=[FULL]) as world:
        world.pods("a", "b")
        await world.start()
        await world.until(lambda: bool(world.leader.gang().refusal))
        assert world.leader.gang().refusal.startswith("1 of 2 members fit.")
        world.node(node("n2"))
        await world.until(lambda: len(world.where()) == 2)


async def test_an_answer_to_another_question_is_not_used(pondered: list[exact.Problem]) -> None:
    """A member comes while the solver is at work: the plan it returns lacks that one."""
    async with World(min_member=2) as world:
        world.pods("a", "b")
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        solve = leader.loop._solver.solve

        async def late(problem: exact.Problem) -> exact.Solution:
            solution = await solve(problem)
            if len(pondered) == 1:
                world.pod("c")
                await world.until(lambda: len(leader.gang().pods) == 3)
            return solution

        leader.loop._solver.solve = late  # type: ignore[method-assign]
        await leader.carry_on()
        await world.until(lambda: len(world.where()) == 3)
        assert [len(problem.gang.members) for problem in pondered] == [2, 3]


async def test_an_answer_by_rules_that_are_no_longer_asked_is_not_used(pondered: list[exact.Problem]) -> None:
    """The config changes while the solver is at work: its no is that of the old filters."""
    strict, lenient = (
        build_all(
            parse_config(
                f"profiles: [{{schedulerName: alnair, scorers: [BinPack], picker: best-fit, {filters}}}]",
                origin="f",
            )
        )
        for filters in ("filters: {enable: [{name: NodeLabel, options: {present: [pool]}}]}", "filters: {}")
    )
    async with World(profiles=strict) as world:
        world.pod("a")
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        solve = leader.loop._solver.solve

        async def late(problem: exact.Problem) -> exact.Solution:
            solution = await solve(problem)
            if len(pondered) == 1:
                leader.profiles.replace(lenient)
                leader.loop.adopt(DEFAULT.topology.levels)
                await world.until(lambda: not leader.loop._queue._touched)  # the queue has passed it over
            return solution

        leader.loop._solver.solve = late  # type: ignore[method-assign]
        await leader.carry_on()
        await world.until(lambda: world.where() == {"a": "n1"})


async def test_room_wakes_who_was_undecided_before_its_long_sleep_is_over() -> None:
    """3+3 may come first and leave no NUMA node with 5, which the solver does not know: it is never decided."""
    async with World(min_member=4, nodes=[node("n1").holding(cpu="16", memory="64Gi")]) as world:
        world.group("g", min_member=4)
        world.pods("a", "b", like=WORKER.asking(cpu="5", memory="1Gi"))
        world.pods("c", "d", like=WORKER.asking(cpu="3", memory="1Gi"))
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        halves = published("n1", zone(cpu=(8, 8)), zone(cpu=(8, 8)))
        leader.state.put_topology("n1", NodeResourceTopology.model_validate(halves))
        await leader.carry_on()
        gang = leader.gang()
        for _ in range(6):
            await world.until(lambda: gang.retry_after > world.clock.now())
            assert gang.refusal_reason == "Undecided"
            await world.passes(gang.retry_after - world.clock.now())
        await world.until(lambda: gang.retry_after > world.clock.now() + 200)
        await world.passes(20)
        assert gang.retry_after > world.clock.now() + 200, "nothing came"
        world.node(node("n2").holding(cpu="16", memory="64Gi"))
        await world.until(lambda: gang.retry_after <= world.clock.now() + UNDECIDED_SECONDS)
        assert not world.where(), "not at once: a search is dear"
        await world.passes(UNDECIDED_SECONDS)
        await world.until(lambda: len(world.where()) == 4)


async def test_nobody_waits_for_who_ponders(
    pondered: list[exact.Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsure_of_groups(gang: search.Gang, *args: object, **kwargs: object) -> object:
        return search.Unsure("not sure") if len(gang.members) > 1 else PLACE(gang, *args, **kwargs)  # type: ignore[arg-type]

    async with World(min_member=2) as world:
        world.pods("a", "b")
        leader = await world.process()
        await leader.take_over()
        await leader.look_around()
        never: asyncio.Future[exact.Solution] = asyncio.get_running_loop().create_future()
        leader.loop._solver.solve = lambda problem: never  # type: ignore[method-assign, assignment]
        monkeypatch.setattr(control_loop.search, "place", unsure_of_groups)
        await leader.carry_on()
        world.pod("alone", group="")
        await world.until(lambda: "alone" in world.where())
        assert leader.gang().pondering
        assert set(world.where()) == {"alone"}


# -- many who wait -----------------------------------------------------------------------------------------------


async def test_who_differs_only_in_how_much_it_asks_for_is_asked_about_together(
    planned: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    passes = Profile.pass_all

    def counting(filters: Iterable[Filter], waiting: PodClass, draft: Draft) -> Bools:
        nonlocal asked
        asked += 1
        return passes(filters, waiting, draft)

    async with World(nodes=[FULL]) as world:
        world.pod("tenant", group="", like=SMALL)
        await world.start()
        await world.settled()
        for cpu in range(4, 54):
            world.pod(f"large-{cpu}", group="", like=BIG.asking(cpu=str(cpu)))
        await world.until(lambda: len(planned) == 51)
        await world.settled()
        before = Counter(planned)
        with monkeypatch.context() as patch:
            patch.setattr(Profile, "pass_all", staticmethod(counting))
            world.deletes("tenant")
            await world.settled()
        assert planned == before, "100m are no hope for anybody"
        assert asked < 10, "and that is found by asking about the least of them"


async def test_the_one_that_fits_is_found_among_many_that_ask_for_more(planned: Counter[str]) -> None:
    """The least of all that is asked for, cpu of one and memory of another, is asked for by nobody."""
    async with World(nodes=[node("n1").holding(cpu="100m", memory="1Gi")]) as world:
        world.pod("tenant", group="", like=SMALL.asking(cpu="100m", memory="1Gi"))
        await world.start()
        await world.settled()
        world.pod("much-memory", group="", like=SMALL.asking(cpu="50m", memory="2Gi"))
        world.pod("much-cpu", group="", like=SMALL.asking(cpu="200m", memory="512Mi"))
        world.pod("fitting", group="", like=SMALL.asking(cpu="100m", memory="1Gi"))
        await world.settled()
        before = Counter(planned)
        world.deletes("tenant")
        await world.settled()
        assert world.where() == {"fitting": "n1"}
        assert {name for name in planned if planned[name] != before[name]} == {"fitting"}


async def test_a_kubelets_refusal_of_the_smallest_closes_the_node_to_no_other() -> None:
    async with World(nodes=[node("n1").holding(cpu="1")]) as world:
        world.pod("tenant", group="", like=SMALL.asking(cpu="1"))
        await world.start()
        await world.settled()
        small, larger = SMALL.asking(cpu="200m"), SMALL.asking(cpu="800m")
        world.pod("small", group="", like=small)
        world.pod("larger", group="", like=larger)
        await world.settled()
        state = world.leader.state
        refused = replace(state.pods["uid-small"], node="n1", phase="Failed", reason="OutOfcpu")
        state.refusals.note(refused, world.clock.now())
        world.deletes("tenant")
        await world.settled()
        assert world.where() == {"larger": "n1"}
