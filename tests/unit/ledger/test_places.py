"""Places for members to come: held like slices, committed before anybody relies on them, never lost nor leaked."""

from __future__ import annotations

import pytest

from alnair.api import names
from alnair.api.allocation import GROWTH, REPLACEMENT
from alnair.control.asking import sample
from alnair.ledger import places as ledgered
from alnair.ledger.errors import CommitRefused, RecordMoved
from alnair.ledger.records import BOUND, COMMITTED, Owner, Place, Record, parse
from alnair.scheduling import search
from alnair.state.holding import Holding
from harness.builders import node, pod
from unit.builders import advertising
from unit.control.world import GROUPS, RECORDS, World, record_name, record_writes

N1 = node("n1").with_cards(3)
TRAINER = pod("t").by("alnair").asking(cpu="100m", gpu=1)


async def running(world: World, *which: str) -> Record:
    """A gang with a card for each, placed by its leader."""
    world.pods(*which, like=TRAINER)
    await world.start()
    await world.settled()
    assert set(world.where()) == set(which)
    return world.leader.record()


def free(world: World) -> Holding:
    """A whole card that nobody has."""
    leader = world.leader
    gang = leader.gang()
    with leader.state.draft() as draft:
        asked = leader.loop.asker.searched_more(gang, sample(gang), 1)
        verdict = search.place(asked, leader.profiles["alnair"], draft)
    assert isinstance(verdict, search.Plan)
    return verdict.placements[0][1]


def reserve(world: World, record: Record, holding: Holding) -> list[Place]:
    leader = world.leader
    until = leader.clock.stamp(after=60)
    return ledgered.reserve(
        leader.ledger, record, [holding], pod=sample(leader.gang()), reason=GROWTH, until=until
    )


async def test_a_place_is_taken_at_once_and_stands_in_the_record_when_the_size_is_written() -> None:
    async with World(nodes=[N1]) as world:
        record = await running(world, "a")
        holding = free(world)
        places = reserve(world, record, holding)
        assert places[0].key in world.leader.state.holdings
        await ledgered.write_size(world.leader.ledger, record, 2, places)
        status = world.server.objects[f"{RECORDS}/{record_name()}"]["status"]
        assert (status["size"], [each["reason"] for each in status["reserved"]]) == (2, [GROWTH])
        assert status["gpus"] == 2, "what is kept is held"
        there = parse(world.server.objects[f"{RECORDS}/{record_name()}"]).places
        assert [place.holding for place in there.values()] == [holding]


async def test_no_other_write_tells_of_a_place_before_the_size_is_written() -> None:
    """Such a write would not have looked at the lease, and if the size is refused the place would stay there."""
    async with World(nodes=[N1]) as world:
        record = await running(world, "a")
        ledger = world.leader.ledger
        places = reserve(world, record, free(world))
        async with ledger.writing(record):
            await ledger.writer.write(record)
        assert "reserved" not in world.said()
        assert world.said()["gpus"] == 1
        await ledgered.write_size(ledger, record, 2, places)
        assert len(world.said()["reserved"]) == 1


async def test_nobody_else_gets_a_kept_card_and_the_member_to_come_does() -> None:
    async with World(nodes=[N1]) as world:
        record = await running(world, "a")
        holding = free(world)
        await ledgered.write_size(world.leader.ledger, record, 2, reserve(world, record, holding))
        world.pod("one", like=TRAINER, group="")
        world.pod("two", like=TRAINER, group="")
        await world.settled()
        assert len(world.where()) == 2, "three cards, one of them kept"
        world.pod("b", like=TRAINER)
        await world.settled()
        assert "b" in world.where()
        assert world.leader.state.holdings["uid-b"] == holding
        assert not record.places
        status = world.server.objects[f"{RECORDS}/{record_name()}"]["status"]
        assert "reserved" not in status


async def test_a_place_outlives_its_leader() -> None:
    async with World(nodes=[N1]) as world:
        record = await running(world, "a")
        await ledgered.write_size(world.leader.ledger, record, 2, reserve(world, record, free(world)))
        await world.restart()
        await world.settled()
        taken_over = world.leader.record()
        assert taken_over.size == 2
        assert [place.key in world.leader.state.holdings for place in taken_over.places.values()] == [True]
        world.pods("one", "two", like=TRAINER, group="")
        await world.settled()
        assert len(world.where()) == 2


async def test_a_refused_write_leaves_no_place_behind() -> None:
    async with World(nodes=[N1]) as world:
        record = await running(world, "a")
        places = reserve(world, record, free(world))
        with world.server.refusing(record_writes, 422), pytest.raises(CommitRefused):
            await ledgered.write_size(world.leader.ledger, record, 2, places)
        assert not record.places
        assert set(world.leader.state.holdings) == {"uid-a"}
        assert record.size is None


async def test_a_gang_that_ended_meanwhile_takes_its_places_along() -> None:
    async with World(nodes=[N1]) as world:
        record = await running(world, "a")
        places = reserve(world, record, free(world))
        world.deletes("a")
        await world.settled()
        with pytest.raises(RecordMoved):
            await ledgered.write_size(world.leader.ledger, record, 2, places)
        assert world.leader.state.holdings == {}
        assert world.listed() == {}


async def test_a_pod_whose_record_is_refused_gives_its_place_back() -> None:
    async with World(nodes=[N1]) as world:
        record = await running(world, "a")
        holding = free(world)
        places = reserve(world, record, holding)
        await ledgered.write_size(world.leader.ledger, record, 2, places)
        with world.server.refusing(record_writes, 422) as refused:
            world.pod("b", like=TRAINER)
            await world.until(lambda: len(refused) > 1)
            assert "b" not in world.where()
            assert set(world.leader.state.holdings) == {"uid-a", places[0].key}
            assert world.said()["phase"] == COMMITTED, "it was opened for more"
        await world.until(lambda: world.said()["phase"] == BOUND)


async def test_a_place_is_released_in_the_record_before_it_is_free() -> None:
    async with World(nodes=[N1]) as world:
        record = await running(world, "a")
        places = reserve(world, record, free(world))
        await ledgered.write_size(world.leader.ledger, record, 2, places)
        write = world.server.delays(f"PUT {record_name()}/status")
        before = len(world.written())
        releasing = world.leader.ledger.spawn(
            ledgered.release(world.leader.ledger, record, [places[0].key]), "release"
        )
        await world.until(lambda: len(world.written()) > before)
        assert places[0].key in world.leader.state.holdings
        write.set()
        await releasing
        assert set(world.leader.state.holdings) == {"uid-a"}


# -- replacements ---------------------------------------------------------------------------------------------------


async def test_a_lost_members_place_waits_for_its_replacement_and_then_for_nobody() -> None:
    async with World(nodes=[N1]) as world:
        record = await running(world, "a", "b")
        held = world.leader.state.holdings["uid-b"]
        world.deletes("b")
        await world.settled()
        assert [(place.reason, place.holding) for place in record.places.values()] == [(REPLACEMENT, held)]
        world.clock.pass_(31)
        await world.until(lambda: not record.places)
        await world.settled()
        assert set(world.leader.state.holdings) == {"uid-a"}


async def test_a_replacement_takes_the_very_cards() -> None:
    async with World(nodes=[N1]) as world:
        await running(world, "a", "b")
        held = world.leader.state.holdings["uid-b"]
        world.deletes("b")
        await world.settled()
        world.pods("one", "two", like=TRAINER, group="")
        await world.settled()
        world.pod("c", like=TRAINER)
        await world.settled()
        assert world.leader.state.holdings["uid-c"] == held


@pytest.mark.parametrize("how", ["succeeded", "without a controller", "keepPlaceSeconds is 0", "group gone"])
async def test_no_place_is_kept_for_whom_nobody_replaces(how: str) -> None:
    async with World(nodes=[N1]) as world:
        world.pods("a", "b", like=TRAINER, controlled=how != "without a controller")
        if how == "keepPlaceSeconds is 0":
            manifest = world.server.objects[f"{GROUPS}/g"]
            manifest["spec"]["keepPlaceSeconds"] = 0
            world.server.put(f"{GROUPS}/g", manifest)
        await world.start()
        await world.settled()
        if how == "group gone":
            world.server.remove(f"{GROUPS}/g")
            await world.settled()
        if how == "succeeded":
            world.ends("b")
        else:
            world.deletes("b")
        await world.settled()
        assert set(world.leader.state.holdings) == {"uid-a"}
        assert not world.leader.record().places


def test_a_place_that_nobody_wrote_is_no_place() -> None:
    record = Record(Owner(names.KIND_PODGROUP, "team", "g", "uid-of-g"), "alnair", 1, 3, phase=BOUND)
    manifest = {**record.manifest(), "status": record.status()}
    manifest["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    manifest["status"]["reserved"] = [{"id": "p1", "node": "n1", "reason": "Greed", "until": "2026"}]
    with pytest.raises(ValueError, match="no reason to keep a place"):
        parse(manifest)


async def test_nobody_slips_into_a_lost_members_room_before_its_place_is_kept() -> None:
    """A device plugin's cards are counted by pods that run: a failed one's would be free before the record says so."""
    counted = node("p1").with_cards(2).owned_by("device-plugin")
    async with World(nodes=[counted]) as world:
        record = await running(world, "a", "b")
        world.pod("c", group="", like=TRAINER)
        await world.settled()
        assert "c" not in world.where()
        world.ends("b", phase="Failed")
        await world.settled()
        assert [place.reason for place in record.places.values()] == [REPLACEMENT]
        assert "c" not in world.where()


async def test_a_lost_members_room_is_free_when_its_place_is_not_kept() -> None:
    counted = node("p1").with_cards(2).owned_by("device-plugin")
    async with World(nodes=[counted]) as world:
        record = await running(world, "a", "b")
        world.pod("c", group="", like=TRAINER)
        await world.settled()
        world.ends("b")
        await world.settled()
        assert not record.places
        assert world.where()["c"] == "p1"


async def test_a_gang_that_starts_anew_while_its_old_record_goes_keeps_its_new_places() -> None:
    """Both records have the same name, and each has a first place."""
    async with World(nodes=[node("n1").with_cards(4)]) as world:
        old = await running(world, "a")
        await ledgered.write_size(world.leader.ledger, old, 2, reserve(world, old, free(world)))
        going = world.server.delays(f"DELETE {names.PLURAL_ALLOCATION}/{record_name()}")
        world.deletes("a")
        await world.until(lambda: old.closing)
        leader = world.leader
        world.pod("b", like=TRAINER)
        await world.until(lambda: leader.ledger.record_of("uid-b") is not None)
        new = leader.record()
        assert new is not old
        places = reserve(world, new, free(world))
        going.set()
        await world.settled()
        assert set(leader.state.holdings) == {"uid-b", places[0].key}


async def test_places_of_a_group_that_was_made_anew_are_released_in_their_time() -> None:
    """Its pods are in the record of the old group, and the sizing looks at that of the new one."""
    async with World(nodes=[N1]) as world:
        world.becomes_elastic(least=1, most=3)
        old = await running(world, "a")
        assert len(old.places) == 2
        world.group(min_member=1, uid="uid-of-another")
        world.becomes_elastic(least=1, most=3)
        await world.settled()
        world.clock.pass_(61)
        await world.until(lambda: not old.places)


async def test_a_place_that_the_sizing_never_gives_up_is_given_up() -> None:
    """Its target cannot be read any more, for example."""
    async with World(nodes=[N1]) as world:
        world.becomes_elastic(least=1, most=3)
        record = await running(world, "a")
        await world.passes(300)
        assert len(record.places) == 2
        world.clock.pass_(400)
        await world.until(lambda: not record.places)


async def test_kept_numbers_of_cards_are_kept_after_a_take_over_too() -> None:
    """A device plugin picks the cards: all that the books know of them is what pods ask for."""
    async with World(nodes=[advertising(node("n1"), "nvidia.com/gpu", 3)]) as world:
        await running(world, "a", "b")
        world.deletes("b")
        await world.settled()
        assert len(world.leader.record().places) == 1
        await world.restart()
        await world.settled()
        assert len(world.leader.record().places) == 1
        world.pods("one", "two", like=TRAINER, group="")
        await world.settled()
        assert len(world.where()) == 2, "one of three cards is kept"
