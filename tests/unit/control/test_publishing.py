"""A NodeResourceTopology for each node with cards of which nobody else publishes one; theirs are never touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from alnair.api import names
from alnair.api.topology import is_ours
from alnair.control import publishing
from alnair.sandbox import fleet
from harness.builders import node
from unit.builders import as_node
from unit.control.world import Leader, World

TOPOLOGIES = f"/apis/{names.API_NRT}/{names.PLURAL_NRT}"
PATH = f"{TOPOLOGIES}/n1"
GPU_NODE = node("n1").with_cards(2)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "GATHER_SECONDS", 0.002)
    monkeypatch.setattr(publishing, "FIRST_RETRY", 0.001)
    monkeypatch.setattr(publishing, "LONGEST_RETRY", 0.01)


@asynccontextmanager
async def publishing_world(*nodes: Any) -> AsyncIterator[World]:
    async with World(nodes=nodes) as world:
        await world.start()
        async with published_by(world.leader):
            yield world


@asynccontextmanager
async def published_by(leader: Leader) -> AsyncIterator[None]:
    task = asyncio.create_task(leader.publisher.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def there(world: World, path: str = PATH) -> dict[str, Any] | None:
    return world.server.objects.get(path)


def cards(manifest: dict[str, Any] | None) -> int:
    return sum(zone["type"] == "GPU" for zone in (manifest or {"zones": []})["zones"])


def writes(world: World) -> list[str]:
    return [
        f"{call.method} {call.path.rsplit('/', 1)[1]}"
        for call in world.server.calls
        if names.PLURAL_NRT in call.path and call.method != "GET"
    ]


async def test_a_node_with_cards_gets_one_and_one_without_none() -> None:
    async with publishing_world(GPU_NODE, node("plain")) as world:
        await world.until(lambda: there(world))
        assert cards(there(world)) == 2
        await asyncio.sleep(0.05)
        assert writes(world) == ["POST noderesourcetopologies"], "one write, and none at rest"


async def test_it_is_never_read_as_a_source() -> None:
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        await asyncio.sleep(0.02)
        state = world.leader.state
        assert state.topologies == {}
        assert state.inventories["n1"].source == "annotations"
        world.node(node("n1"))  # the annotations go: nothing must remember the cards
        await world.until(lambda: there(world) is None)
        assert state.inventories["n1"].cards == ()


async def test_it_follows_the_cards() -> None:
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        world.node(node("n1").with_cards(3))
        await world.until(lambda: cards(there(world)) == 3)


async def test_it_goes_with_the_node() -> None:
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        world.server.remove("/api/v1/nodes/n1")
        await world.until(lambda: there(world) is None)


async def test_an_edited_one_is_put_right_and_a_deleted_one_made_again() -> None:
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        right = there(world)
        assert right is not None
        world.server.put(PATH, {**right, "zones": right["zones"][:1]})
        await world.until(lambda: cards(there(world)) == 2)
        world.server.remove(PATH)
        await world.until(lambda: cards(there(world)) == 2)


async def test_an_edit_that_overtakes_the_answer_to_our_own_write_is_put_right_too() -> None:
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        right = there(world)
        assert right is not None
        await asyncio.sleep(0.02)
        answer = world.server.holds_back("PUT n1")
        world.node(node("n1").with_cards(3))
        await world.until(lambda: cards(there(world)) == 3)
        world.server.put(PATH, {**right, "zones": right["zones"][:1]})
        await asyncio.sleep(0.02)
        answer.set()
        await world.until(lambda: cards(there(world)) == 3)


def reading(used: int, free: int) -> Any:
    """Node n1, of whose card only the profiler's readings tell the size."""
    told = f"{{'mem_used': '{used}GB', 'mem_free': '{free}GB'}}"
    return node("n1").annotated({names.PHYSICAL_GPU_UUIDS: "GPU-1", f"{names.PREFIX}gpu-0": told})


async def test_a_size_that_moves_with_the_load_is_not_written_again_and_again() -> None:
    async with publishing_world(reading(5, 7)) as world:
        await world.until(lambda: there(world))
        for used, free in ((5, 6), (5, 7), (6, 6), (6, 5), (0, 12)):
            world.node(reading(used, free))
            await asyncio.sleep(0.02)
        assert writes(world) == ["POST noderesourcetopologies", "PUT n1"], "the smallest that was read, once"
        world.node(reading(0, 24))
        await world.until(lambda: len(writes(world)) == 3)


async def test_a_model_that_no_json_can_say_stops_nobody_elses() -> None:
    static = r"{'model': '\ud800', 'mem_size': '24GiB'}"
    async with publishing_world(GPU_NODE, node("n2").with_cards(2)) as world:
        await world.until(lambda: there(world))
        world.node(GPU_NODE.annotated({names.GPU_STATIC: static}))
        await asyncio.sleep(0.02)
        world.node(node("n2").with_cards(3))
        await world.until(lambda: cards(there(world, f"{TOPOLOGIES}/n2")) == 3)


# -- others ------------------------------------------------------------------------------------------------------


async def test_where_somebody_publishes_nothing_is_written() -> None:
    async with World(nodes=[GPU_NODE]) as world:
        world.server.put(PATH, fleet.topology("n1", [fleet.A10]))
        await world.start()
        async with published_by(world.leader):
            await asyncio.sleep(0.05)
        assert writes(world) == []
        assert world.leader.state.inventories["n1"].source == "NodeResourceTopology"


@pytest.mark.parametrize("readable", [True, False])
async def test_whoever_replaces_our_zones_has_the_object_from_then_on(readable: bool) -> None:
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        ours = there(world)
        assert ours is not None
        theirs = fleet.topology("n1", [fleet.A10])["zones"] if readable else [{"name": 7}]
        standing = world.server.put(PATH, {**ours, "zones": theirs})
        source = "NodeResourceTopology" if readable else "annotations"
        await asyncio.sleep(0.05)
        await world.until(lambda: world.leader.state.inventories["n1"].source == source)
        world.node(node("n1").with_cards(3))
        await asyncio.sleep(0.05)
        manifest = there(world)
        assert manifest is not None
        assert manifest == standing, "nobody has written into it"


async def test_once_the_other_publisher_is_gone_ours_comes_back() -> None:
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        ours = there(world)
        assert ours is not None
        world.server.put(PATH, {**ours, "zones": fleet.topology("n1", [fleet.A10])["zones"]})
        await asyncio.sleep(0.02)
        world.server.remove(PATH)
        await world.until(lambda: cards(there(world)) == 2)


async def test_one_that_came_first_unseen_is_theirs() -> None:
    """The creation meets an object whose event is still under way."""
    async with World(nodes=[GPU_NODE]) as world:
        await world.start()
        leader = world.leader
        leader.deaf = True
        world.server.put(PATH, fleet.topology("n1", [fleet.A10]))
        async with published_by(leader):
            await world.until(lambda: writes(world))
            await asyncio.sleep(0.05)
            assert writes(world) == ["POST noderesourcetopologies"]
            leader.hears_again()
            await asyncio.sleep(0.05)
        manifest = there(world)
        assert manifest is not None
        assert not is_ours(manifest)
        assert writes(world) == ["POST noderesourcetopologies"]


async def test_a_take_over_that_was_not_seen_is_not_overwritten() -> None:
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        await asyncio.sleep(0.02)
        ours, leader = there(world), world.leader
        assert ours is not None
        theirs = fleet.topology("n1", [fleet.A10])["zones"]
        leader.deaf = True
        world.server.put(PATH, {**ours, "zones": theirs})
        leader.state.put_node(as_node(node("n1").with_cards(3).manifest()))
        await world.until(lambda: "PUT n1" in writes(world))
        await asyncio.sleep(0.02)
        manifest = there(world)
        assert manifest is not None
        assert manifest["zones"] == theirs


# -- restarts and failures ---------------------------------------------------------------------------------------


async def test_after_a_restart_what_is_right_is_not_written_again_and_what_is_left_over_goes() -> None:
    async with publishing_world(GPU_NODE, node("n2").with_cards(1)) as world:
        await world.until(lambda: there(world) and there(world, f"{TOPOLOGIES}/n2"))
        await world.leader.dies()
        world.server.remove("/api/v1/nodes/n2")
        before = len(writes(world))
        await world.restart()
        async with published_by(world.leader):
            await world.until(lambda: there(world, f"{TOPOLOGIES}/n2") is None)
        assert writes(world)[before:] == ["DELETE n2"]
        assert cards(there(world)) == 2


async def test_a_creation_that_fails_is_tried_again() -> None:
    async with World(nodes=[GPU_NODE]) as world:
        world.server.refuses("POST noderesourcetopologies", 403, "Forbidden")
        world.server.loses_the_answer_of("POST noderesourcetopologies")
        await world.start()
        async with published_by(world.leader):
            await world.until(lambda: there(world))
            await asyncio.sleep(0.05)
        assert cards(there(world)) == 2


async def test_an_edit_that_comes_again_and_again_is_answered_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "FIRST_RETRY", 600.0)
    monkeypatch.setattr(publishing, "LONGEST_RETRY", 600.0)
    async with publishing_world(GPU_NODE) as world:
        await world.until(lambda: there(world))
        right = there(world)
        assert right is not None
        await asyncio.sleep(0.02)  # its own event has come
        world.server.put(PATH, {**right, "zones": right["zones"][:1]})
        await world.until(lambda: cards(there(world)) == 2)
        await asyncio.sleep(0.02)
        world.server.put(PATH, {**right, "zones": right["zones"][:1]})
        await asyncio.sleep(0.05)
        assert cards(there(world)) == 1, "the second time it waits"
        world.node(node("n1").with_cards(3))
        await world.until(lambda: cards(there(world)) == 3)
