"""Rules of third parties have their say in the extender too, and one that breaks leaves the answer to the fallback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from alnair.extender.waiting import TOLD_AT_ONCE
from alnair.scheduling.plugins.interface import Placement, Veto
from unit.control.test_third_parties import failures, profiles
from unit.control.world import World
from unit.extender.kube_scheduler import SLICE, KubeScheduler, gpu_node, start

NODES = (gpu_node("n1"), gpu_node("n2"))


class OnlyTheLast:
    """A filter; raises while it is broken."""

    name = "acme.com/OnlyTheLast"
    broken = False

    def passes(self, pod: Any, draft: Any) -> Any:
        if self.broken:
            raise RuntimeError("not today")
        return np.array([name == "n2" for name in draft.names], dtype=np.bool_)

    def reasons(self, pod: Any, draft: Any, failed: Any) -> Any:
        return [("is not the last node", failed)]


class Clerk:
    """Around a placement: what it was told, and what it says no to."""

    name = "acme.com/Clerk"
    refuses = ""
    heard: list[str]

    def __init__(self) -> None:
        Clerk.heard = []

    def reserve(self, placements: Sequence[Placement]) -> None:
        Clerk.heard.append(f"reserve {placements[0].pod} on {placements[0].node}")
        if self.refuses == "reserve":
            raise Veto("no licence left")

    def unreserve(self, placements: Sequence[Placement]) -> None:
        Clerk.heard.append("unreserve")

    async def pre_bind(self, placement: Placement) -> None:
        Clerk.heard.append("pre_bind")
        if self.refuses == "pre_bind":
            raise Veto("the door is shut")

    async def post_bind(self, placement: Placement) -> None:
        Clerk.heard.append("post_bind")


async def by_alnair(world: World, *pods: str) -> KubeScheduler:
    kube = await start(world)
    kube.asks_by("alnair")
    world.pods(*pods, group="", like=SLICE)
    await world.settled()
    return kube


async def test_a_filter_of_theirs_is_asked_and_its_words_are_told() -> None:
    async with World(
        nodes=NODES, profiles=profiles(OnlyTheLast, "filters: {enable: [acme.com/OnlyTheLast]}")
    ) as world:
        kube = await by_alnair(world, "a")
        answer = await kube.filter("a")
        assert (answer["NodeNames"], answer["FailedNodes"]) == (["n2"], {"n1": "is not the last node"})
        assert await kube.bind("a", "n1") == "node n1 is not the last node"
        assert await kube.bind("a", "n2") == ""


async def test_one_that_breaks_is_stood_in_for(monkeypatch: Any) -> None:
    async with World(
        nodes=NODES, profiles=profiles(OnlyTheLast, "filters: {enable: [acme.com/OnlyTheLast]}")
    ) as world:
        kube = await by_alnair(world, "a")
        monkeypatch.setattr(OnlyTheLast, "broken", True)
        assert await kube.passing("a") == ["n1", "n2"]
        assert failures(world, OnlyTheLast.name, "passes") == 1
        assert await kube.bind("a", "n1") == ""


async def test_hooks_are_asked_around_a_binding_under_the_profiles_name() -> None:
    hooks = "reserve: [acme.com/Clerk], preBind: [acme.com/Clerk], postBind: [acme.com/Clerk]"
    async with World(nodes=NODES, profiles=profiles(Clerk, hooks)) as world:
        kube = await by_alnair(world, "a")
        assert await kube.bind("a", "n1") == ""
        await world.settled()
        assert Clerk.heard == ["reserve a on n1", "pre_bind", "post_bind"]


async def test_who_says_no_is_heard_and_nothing_is_taken(monkeypatch: Any) -> None:
    hooks = "reserve: [acme.com/Clerk], preBind: [acme.com/Clerk]"
    async with World(nodes=(gpu_node("n1", gib=4),), profiles=profiles(Clerk, hooks)) as world:
        kube = await by_alnair(world, "a", "b")
        monkeypatch.setattr(Clerk, "refuses", "reserve")
        assert await kube.bind("a", "n1") == "acme.com/Clerk: no licence left"
        monkeypatch.setattr(Clerk, "refuses", "pre_bind")
        assert "could not be bound to n1" in await kube.bind("a", "n1")
        assert Clerk.heard[-1] == "unreserve"
        await world.settled()
        assert world.where() == {}
        monkeypatch.setattr(Clerk, "refuses", "")
        assert await kube.bind("b", "n1") == ""


async def test_those_who_wait_are_looked_at_although_a_filter_is_broken(monkeypatch: Any) -> None:
    built = profiles(OnlyTheLast, "filters: {enable: [acme.com/OnlyTheLast]}")
    async with World(nodes=(gpu_node("n2", gib=4),), profiles=built) as world:
        kube = await by_alnair(world, "a", "b")
        assert await kube.bind("a", "n2") == ""
        assert await kube.passing("b") == []
        monkeypatch.setattr(OnlyTheLast, "broken", True)
        world.deletes("a")
        await world.settled()
        await kube.verbs._standing_in(kube.verbs._tell_who_waits)
        assert not kube.verbs._waiting._refused, f"one of at most {TOLD_AT_ONCE} was told"
