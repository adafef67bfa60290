"""Pods for whom no node would do are told when cards that they could use come free, and not before."""

from __future__ import annotations

import asyncio

import pytest

from alnair.api import names
from harness.builders import node
from unit.control.world import PODS, World
from unit.extender.kube_scheduler import SLICE, KubeScheduler, gpu_node, start

LARGE = SLICE.slice(memory_gib=6)


def told(world: World, name: str) -> bool:
    """Whether a condition on the pod says that cards came free."""
    conditions = world.server.objects[f"{PODS}/{name}"]["status"].get("conditions", [])
    return any(each["type"] == names.CARDS_FREED for each in conditions)


async def full(world: World) -> KubeScheduler:
    """n1 is full, and `b` was refused."""
    kube = await start(world)
    world.pods("a", "b", group="", like=LARGE)
    await world.settled()
    assert await kube.bind("a", "n1") == ""
    await world.settled()
    assert await kube.passing("b") == []
    return kube


async def test_who_was_refused_is_told_when_the_record_has_let_the_cards_go() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await full(world)
        telling = asyncio.create_task(kube.verbs.run())
        await asyncio.sleep(0.02)
        assert not told(world, "b")
        world.deletes("a")
        await world.until(lambda: told(world, "b"))
        assert await kube.passing("b") == ["n1"], "it is not told before there is room"
        telling.cancel()


async def test_news_that_are_no_room_are_no_reason() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await full(world)
        world.node(node("n2"))
        world.node(gpu_node("n3", gib=2))
        await world.settled()
        assert kube.verbs._waiting.hopeful(most=8) == []
        world.node(gpu_node("n4"))
        await world.settled()
        assert [pod.name for pod in kube.verbs._waiting.hopeful(most=8)] == ["b"]
        assert kube.verbs._waiting.hopeful(most=8) == [], "once is enough"


async def test_the_most_important_come_first_and_a_few_at_a_time() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await full(world)
        for name, priority in (("low", 1), ("high", 9), ("middle", 5)):
            asking = LARGE.with_(lambda it, priority=priority: it["spec"].update(priority=priority))
            world.pod(name, group="", like=asking)
        await world.settled()
        for name in ("low", "high", "middle"):
            assert await kube.passing(name) == []
        world.deletes("a")
        await world.settled()
        assert [pod.name for pod in kube.verbs._waiting.hopeful(most=2)] == ["high", "middle"]
        assert [pod.name for pod in kube.verbs._waiting.hopeful(most=2)] == ["low", "b"]


async def test_who_is_gone_or_bound_is_forgotten() -> None:
    async with World(nodes=(gpu_node("n1"), gpu_node("n2", gib=4))) as world:
        kube = await full(world)
        world.deletes("b")
        world.deletes("a")
        await world.settled()
        assert kube.verbs._waiting.hopeful(most=8) == []
        assert not kube.verbs._waiting._refused


async def test_a_round_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await full(world)
        rounds = 0
        tell = kube.verbs._waiting.tell

        async def fails_at_first() -> None:
            nonlocal rounds
            rounds += 1
            if rounds < 3:
                raise ZeroDivisionError
            await tell()

        monkeypatch.setattr(kube.verbs._waiting, "tell", fails_at_first)
        telling = asyncio.create_task(kube.verbs.run())
        world.deletes("a")
        await world.until(lambda: told(world, "b"))
        telling.cancel()
