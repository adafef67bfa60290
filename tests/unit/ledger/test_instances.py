"""Whose record it is, when scheduler names come and go and several operators serve one cluster."""

from __future__ import annotations

import pytest

from alnair.api import names
from alnair.ledger.records import BOUND
from unit.builders import PROFILES
from unit.control.world import RECORDS, World, record_name

OURS = "alnair.alnair"


async def test_records_say_whose_they_are() -> None:
    async with World() as world:
        world.pod("a")
        await world.start()
        await world.settled()
        labels = world.server.objects[f"{RECORDS}/{record_name()}"]["metadata"]["labels"]
        assert labels[names.INSTANCE] == OURS


@pytest.mark.parametrize(("instance", "released"), [(OURS, True), ("other.alnair", False), ("", False)])
async def test_a_record_of_a_profile_that_was_removed_is_released_by_who_wrote_it(
    instance: str, released: bool
) -> None:
    others = {name: profile for name, profile in PROFILES.items() if name != "alnair"}
    async with World(profiles=others) as world:
        world.pods("a", "b", on="n1")
        world.wrote(BOUND, "a", "b", min_member=1, complete=True)
        record = world.server.objects[f"{RECORDS}/{record_name()}"]
        if instance:
            record["metadata"]["labels"][names.INSTANCE] = instance
        world.server.put(f"{RECORDS}/{record_name()}", record)
        await world.start()
        await world.settled()
        world.deletes("a", "b")
        await world.settled()
        assert (world.listed() == {}) is released


async def test_another_operators_record_under_a_name_that_was_ours_is_left_alone() -> None:
    async with World() as world:
        await world.start()
        await world.settled()
        world.wrote(BOUND, "x", min_member=1, complete=True)
        record = world.server.objects[f"{RECORDS}/{record_name()}"]
        record["metadata"]["labels"][names.INSTANCE] = "other.alnair"
        world.server.remove(f"{RECORDS}/{record_name()}")
        await world.settled()
        world.server.put(f"{RECORDS}/{record_name()}", record)
        await world.settled()
        assert f"{RECORDS}/{record_name()}" in world.server.objects
