"""NodeResourceTopologies come through two channels, told apart by our label; whoever changes the label moves an object
from one to the other, and it must be neither lost nor kept twice, whichever channel speaks first."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.api import names
from alnair.handlers.topology import LabelledFeed, Topologies
from alnair.sandbox import fleet
from harness.builders import node
from unit.control.world import World

OURS = {names.MANAGED_BY: names.ALNAIR}


def theirs(cards: int = 1, *, labels: dict[str, str] | None = None) -> dict[str, Any]:
    made = fleet.topology("n1", [fleet.A10] * cards)
    made["metadata"] |= {"uid": "u", "resourceVersion": "7", "labels": labels or {}}
    return made


async def topologies(world: World) -> Topologies:
    await world.start()
    return world.leader._zones


def cards(there: Topologies) -> int:
    return len(there.state.inventories["n1"].cards)


@pytest.mark.parametrize("deletion_first", [True, False])
@pytest.mark.parametrize("label_on", [True, False])
async def test_an_object_whose_label_changes_lives_on_in_the_other_channel(
    deletion_first: bool, label_on: bool
) -> None:
    async with World(nodes=[node("n1")]) as world:
        there = await topologies(world)
        there.apply("ADDED", theirs(1, labels={} if label_on else OURS), labelled=not label_on)
        assert cards(there) == 1
        deleted = ("DELETED", theirs(1), not label_on)
        added = ("ADDED", theirs(2, labels=OURS if label_on else {}), label_on)
        for kind, manifest, labelled in (deleted, added) if deletion_first else (added, deleted):
            there.apply(kind, manifest, labelled=labelled)
        assert cards(there) == 2
        there.apply("DELETED", theirs(2), labelled=label_on)
        assert cards(there) == 0


async def test_a_fresh_list_of_one_channel_says_nothing_about_the_other() -> None:
    async with World(nodes=[node("n1")]) as world:
        there = await topologies(world)
        feed = LabelledFeed(there)
        feed.replace([theirs(2, labels=OURS)])
        assert feed.synced.is_set()
        there.keep(set(), there.known())
        assert cards(there) == 2, "Kopf's list lacks it, and must"
        feed.replace([])
        assert cards(there) == 0
        there.apply("ADDED", theirs(1))
        feed.replace([])
        assert cards(there) == 1


async def test_an_object_that_somebody_took_over_with_our_label_on_it_is_a_source() -> None:
    async with World(nodes=[node("n1").with_cards(4)]) as world:
        there = await topologies(world)
        feed = LabelledFeed(there)
        feed.put(theirs(2, labels=OURS))
        assert there.state.inventories["n1"].source == "NodeResourceTopology"
        feed.drop(theirs(2, labels=OURS))
        assert there.state.inventories["n1"].source == "annotations"
