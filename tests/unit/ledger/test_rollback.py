"""Roll-back: a gang that cannot become whole gives everything back, and nothing that would not come back is evicted."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from alnair.ledger import ledger
from alnair.ledger.records import BOUND, COMMITTED, ROLLING_BACK
from unit.apiserver import Call, Fault, refusal
from unit.control.world import RECORDS, World, record_name

KEPT = 61  # seconds: longer than places are kept where the group names no timeout


def evictions(call: Call) -> bool:
    return call.path.endswith("/eviction")


async def short(
    world: World, *bound: str, lost: tuple[str, ...], min_member: int = 4, **fields: bool
) -> None:
    """A gang that was bound in part; the rest vanished while it was bound."""
    world.pods(*bound, on="n1", **fields)
    world.wrote(COMMITTED, *bound, *lost, min_member=min_member)
    await world.start()
    await world.settled()
    assert world.leader.record().short_since is not None


async def test_places_of_lost_members_are_kept_for_replacements() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", "b", lost=("c", "d"))
        assert world.listed() == {record_name(): ["a", "b", "c", "d"]}
        world.pods("c2", "d2")
        await world.settled()
        assert world.listed() == {record_name(): ["a", "b", "c2", "d2"]}
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)


async def test_a_gang_whose_replacements_do_not_come_is_evicted_and_its_record_goes() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", "b", lost=("c", "d"))
        await world.passes(KEPT)
        assert sorted(world.evicted()) == ["a", "b"]
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


async def test_a_roll_back_that_is_refused_is_insisted_on() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", "b", lost=("c", "d"))
        world.server.refuses(f"PUT {record_name()}/status", 422, times=2)
        await world.passes(KEPT)
        await world.settled()
        assert sorted(world.evicted()) == ["a", "b"]
        assert world.listed() == {}
        assert world.leader.state.holdings == {}


async def test_the_groups_own_timeout_goes_before_ours() -> None:
    async with World(min_member=4) as world:
        world.group(min_member=4, timeout=600)
        await short(world, "a", lost=("b",))
        await world.passes(KEPT)
        assert world.evicted() == []
        await world.passes(600)
        assert world.evicted() == ["a"]


@pytest.mark.parametrize("status", [403, 422])
async def test_a_member_that_may_be_neither_bound_nor_changed_holds_up_nobody_for_ever(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's policy says no to both: its gang is short of it, and taken back when nobody comes in its stead."""
    monkeypatch.setattr(ledger, "LANDING_SECONDS", 0.1)
    async with World(min_member=2) as world:
        world.pods("a", "b")

        def about_b(call: Call) -> bool:
            return call.path.endswith(("/pods/b/binding", "/pods/b/status"))

        with world.server.refusing(about_b, status):
            await world.start()
            await world.until(lambda: world.where().keys() == {"a"})
            await world.until(lambda: world.leader.record().short_since is not None)
            await world.passes(KEPT)
            await world.until(lambda: world.evicted() == ["a"])
            await world.until(lambda: world.leader.state.holdings == {})
        await world.until(lambda: world.listed() == {})


async def test_an_eviction_that_meets_a_conflict_is_tried_again() -> None:
    """It may be about the budget's version, or the pod's, and not about its UID."""
    async with World(min_member=4) as world:
        await short(world, "a", lost=("b",))
        world.server.refuses("POST a/eviction", 409, "Conflict", times=2)
        await world.passes(KEPT)
        await world.until(lambda: world.listed() == {})
        assert world.evicted() == ["a", "a", "a"]
        assert world.where() == {}


async def test_a_pod_that_nothing_would_make_anew_is_not_evicted_and_the_record_says_so() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", lost=("b",), controlled=False)
        await world.passes(KEPT)
        assert world.evicted() == []
        assert world.listed() == {record_name(): ["a"]}
        assert world.said()["phase"] == ROLLING_BACK
        assert world.said()["conditions"][0]["reason"] == "PodsWithoutController"


async def test_a_record_of_a_group_that_was_deleted_while_short_is_rolled_back() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", lost=("b",))
        world.server.remove("/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/podgroups/g")
        await world.passes(KEPT)
        assert world.evicted() == ["a"]
        assert world.listed() == {}


async def test_a_group_that_needs_fewer_members_than_before_is_whole_as_it_is() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", "b", lost=("c", "d"))
        world.group(min_member=2)
        await world.passes(KEPT)
        assert world.evicted() == []
        assert world.listed() == {record_name(): ["a", "b"]}
        assert (world.said()["phase"], world.said()["complete"]) == (BOUND, True)
        assert set(world.leader.state.holdings) == {"uid-a", "uid-b"}


async def test_that_a_group_needs_fewer_members_now_is_said_again_when_it_is_refused() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", "b", lost=("c", "d"))
        world.server.refuses(f"PUT {record_name()}/status", 422, times=2)
        world.group(min_member=2)
        await world.until(lambda: world.said()["complete"] is True)
        await world.passes(KEPT)
        assert world.evicted() == []
        assert world.listed() == {record_name(): ["a", "b"]}
        assert set(world.leader.state.holdings) == {"uid-a", "uid-b"}


async def test_a_group_that_needs_fewer_members_but_more_than_it_has_is_still_short() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", "b", lost=("c", "d"))
        world.group(min_member=3)
        await world.passes(1)
        assert world.said()["phase"] == COMMITTED
        await world.passes(KEPT)
        assert sorted(world.evicted()) == ["a", "b"]


async def test_a_member_that_succeeded_while_the_gang_was_short_counts_once() -> None:
    """a is done, b runs, c and d were lost; of their replacements one vanishes too: three of four."""
    async with World(min_member=4) as world:
        await short(world, "a", "b", lost=("c", "d"))
        world.ends("a")
        await world.settled()
        world.vanish_while_bound("d2")
        world.pods("c2", "d2")
        await world.settled()
        assert not world.said()["complete"]
        assert world.leader.record().short_since is not None


async def test_a_gang_that_becomes_whole_with_a_succeeded_member_is_settled() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", "b", lost=("c", "d"))
        world.ends("a")
        await world.settled()
        world.pods("c2", "d2")
        await world.settled()
        assert world.said()["complete"]
        assert world.listed() == {record_name(): ["b", "c2", "d2"]}
        await world.passes(KEPT)
        assert world.evicted() == []


@pytest.mark.parametrize("status", [401, 403, 429, 500])
async def test_an_eviction_that_is_refused_for_a_while_is_tried_until_it_is_not(status: int) -> None:
    async with World(min_member=4) as world:
        await short(world, "a", lost=("b",))
        with world.server.refusing(evictions, status) as refused:
            world.clock.pass_(KEPT)
            await world.until(lambda: len(refused) > 3)
            assert world.said()["phase"] == ROLLING_BACK
        await world.settled()
        assert world.where() == {}
        assert world.listed() == {}


async def test_no_namesake_is_evicted() -> None:
    async with World(min_member=4) as world:
        await short(world, "a", lost=("b",))
        world.leader.deaf = True
        world.deletes("a")
        world.pod("a", on="n1", uid="uid-of-another")
        await world.passes(KEPT)
        assert world.where() == {"a": "n1"}


async def test_a_gang_that_is_rolled_back_is_tried_again_when_its_old_pods_are_gone() -> None:
    async with World(min_member=2) as world:
        await short(world, "a", lost=("b",), min_member=2)
        await world.passes(KEPT)
        world.pods("a2", "b2")
        await world.settled()
        assert world.where() == {"a2": "n1", "b2": "n1"}
        assert world.said()["phase"] == BOUND


async def test_replacements_that_come_during_the_roll_back_wait_for_its_end() -> None:
    async with World(min_member=2) as world:
        await short(world, "a", lost=("b",), min_member=2)
        with world.server.refusing(evictions, 429) as refused:
            world.clock.pass_(KEPT)
            await world.until(lambda: len(refused) > 1)
            world.pods("a2", "b2")
            await world.until(lambda: len(refused) > 4)
            assert world.where() == {"a": "n1"}
        await world.settled()
        assert world.where() == {"a2": "n1", "b2": "n1"}


async def test_a_roll_back_that_may_not_be_written_for_a_while_evicts_nobody_before_it_is() -> None:
    def writes(call: Call) -> bool:
        return call.name == f"PUT {record_name()}/status"

    async with World(min_member=4) as world:
        await short(world, "a", lost=("b",))
        with world.server.refusing(writes, 403) as refused:
            world.clock.pass_(KEPT)
            await world.until(lambda: len(refused) > 20)
            assert world.evicted() == []
        await world.settled()
        assert world.evicted() == ["a"]


async def test_a_member_whose_binding_lost_its_answer_and_that_may_not_be_read_keeps_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "LANDING_SECONDS", 0.02)
    async with World(min_member=2) as world:
        world.pods("a", "b")
        world.server.loses_the_answer_of("POST b/binding")
        with world.server.refusing(lambda call: call.name == "GET pods/b", 403) as refused:
            await world.start()
            await world.until(lambda: world.where().keys() == {"a", "b"})
            await world.until(lambda: len(refused) > 20)
            assert world.listed() == {record_name(): ["a", "b"]}
            assert set(world.leader.state.holdings) == {"uid-a", "uid-b"}
        await world.settled()
        assert world.said()["complete"] is True
        assert world.evicted() == []


async def test_members_that_may_not_be_changed_are_waited_for_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after another each would cost the others another call, of which any may take a webhook's time."""
    monkeypatch.setattr(ledger, "LANDING_SECONDS", 0.1)
    members = "abcdefgh"
    async with World(min_member=len(members)) as world:
        world.pods(*members)
        at_once, most = set[str](), 0

        async def slow(call: Call) -> web.StreamResponse:
            nonlocal most
            at_once.add(call.path)
            most = max(most, len(at_once))
            await asyncio.sleep(0.05)
            at_once.discard(call.path)
            return refusal(500, "InternalError")

        def changes_a_pod(call: Call) -> bool:
            return call.method == "PATCH" and "/pods/" in call.path

        world.server.faults.append(Fault(changes_a_pod, before=slow, stays=True))
        with world.server.refusing(lambda call: call.path.endswith("/binding"), 422):
            await world.start()
            await world.until(lambda: most == len(members))
        world.server.faults.clear()
        await world.settled()


async def test_a_gang_whose_record_a_hand_deleted_and_a_quota_refuses_is_taken_back_all_the_same() -> None:
    async with World(min_member=2) as world:
        await short(world, "a", lost=("b",), min_member=2)
        with world.server.refusing(
            lambda call: call.method == "POST" and call.path == RECORDS, 403
        ) as refused:
            world.strays.add("uid-a")
            world.server.remove(f"{RECORDS}/{record_name()}")
            await world.until(lambda: len(refused) > 2)
            world.clock.pass_(KEPT)
            await world.until(lambda: world.evicted() == ["a"])
            await world.until(lambda: world.leader.state.holdings == {})
