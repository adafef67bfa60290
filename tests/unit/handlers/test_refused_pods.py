"""Whose refusals by a kubelet count: those of pods that Alnair bound. Anybody can have pods refused."""

from __future__ import annotations

import pytest

from alnair.api import names
from harness.builders import PodBuilder, node
from unit.control.world import WORKER, World, short_pauses

__all__ = ["short_pauses"]

CARDS = node("n1").with_cards(2).owned_by("device-plugin")


def left_alone(world: World, name: str) -> bool:
    """Whether pods like this one keep off n1."""
    state = world.leader.state
    return "n1" in state.refusals.of(state.pods[f"uid-{name}"].shape)


async def test_a_pod_that_came_with_its_node_closes_it_to_nobody() -> None:
    async with World() as world:
        await world.start()
        world.pod("intruder", group="", on="n1", phase="Pending")
        await world.settled()
        world.ends("intruder", phase="Failed", reason="OutOfcpu")
        world.pod("neighbour", group="")
        await world.settled()
        assert world.where()["neighbour"] == "n1"
        assert not any("KubeletRefused" in str(call.body) for call in world.server.calls)


async def test_a_pod_that_somebody_else_bound_closes_its_node_to_nobody() -> None:
    async with World() as world:
        await world.start()
        world.pod("bound-by-hand", group="", like=WORKER.gated("wait"))
        await world.settled()
        world.pod("bound-by-hand", group="", on="n1", phase="Pending")
        await world.settled()
        world.ends("bound-by-hand", phase="Failed", reason="OutOfcpu")
        await world.settled()
        assert not left_alone(world, "bound-by-hand")


async def test_a_pod_that_says_another_node_than_it_is_on_closes_neither() -> None:
    async with World() as world:
        await world.start()
        world.pod("p", group="", on="n1", phase="Pending", annotations={names.NODE: "n2"})
        await world.settled()
        world.ends("p", phase="Failed", reason="OutOfcpu")
        await world.settled()
        assert not left_alone(world, "p")


KINDS = [
    pytest.param(WORKER, "", id="a lone pod without cards, which has no record"),
    pytest.param(WORKER, "g", id="a gang's"),
    pytest.param(WORKER.asking(gpu=1), "", id="a lone pod with cards of a device plugin's choice"),
    pytest.param(WORKER.asking(gpu=1), "g", id="a gang's with cards"),
]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("like", "group"), KINDS)
async def test_every_pod_that_alnair_bound_closes_the_node_that_refused_it(
    like: PodBuilder, group: str, restarted: bool
) -> None:
    async with World(nodes=[CARDS]) as world:
        world.pod("p", group=group, like=like)
        await world.start()
        await world.settled()
        assert world.where() == {"p": "n1"}
        if restarted:
            await world.restart()
            await world.settled()
        world.ends("p", phase="Failed", reason="OutOfcpu")
        await world.until(lambda: left_alone(world, "p"))
