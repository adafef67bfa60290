"""kube-scheduler's half of the conversation, in the words in which Go writes it.

async with World(nodes=(gpu_node("n1"),)) as world:
    asking = await start(world)
    world.pod("a", group="", like=SLICE)
    assert (await asking.filter("a"))["NodeNames"] == ["n1"]
    assert await asking.bind("a", "n1") == ""
"""

from __future__ import annotations

from typing import Any

import msgspec

from alnair.api import names
from alnair.api.config import DEFAULT as SHIPPED
from alnair.api.config import Config, Delivery
from alnair.api.extender import Extender
from alnair.extender.verbs import Verbs
from alnair.extender.wire import ExtenderArgs, ExtenderBindingArgs, ExtenderPreemptionArgs
from harness.builders import NodeBuilder, node, pod
from unit.control.world import NAMESPACE, PODS, Leader, World

DEFAULT = "default-scheduler"
SLICE = pod("slice").by(DEFAULT).slice(memory_gib=4)
GIB = 1024
PROFILE = names.PROFILE_COST_SAVING


def gpu_node(name: str, *, cards: int = 1, gib: int = 8) -> NodeBuilder:
    return node(name).with_cards(cards, memory_mib=gib * GIB)


class KubeScheduler:
    """It speaks of pods of the world by name; their UIDs are `uid-NAME`."""

    def __init__(self, world: World, leader: Leader) -> None:
        self.world = world
        # As `handlers.leader` wires them.
        self.verbs = Verbs(
            config_of(world),
            client=leader.ledger.client,
            state=leader.state,
            ledger=leader.ledger,
            roster=leader.roster,
            profiles=leader.profiles,
            clock=leader.clock,
        )

    def asks_by(self, profile: str) -> None:
        """The config changes while the leader runs."""
        self.verbs.adopt(config_of(self.world, profile))

    def manifest(self, name: str) -> dict[str, Any]:
        return self.world.server.objects[f"{PODS}/{name}"]

    def nodes(self) -> list[str]:
        return [path.rsplit("/", 1)[1] for path in self.world.server.objects if "/nodes/" in path]

    async def filter(self, name: str, *nodes: str) -> dict[str, Any]:
        body = {"Pod": self.manifest(name), "Nodes": None, "NodeNames": list(nodes) or self.nodes()}
        return said(await self.verbs.filter(heard(body, ExtenderArgs)))

    async def passing(self, name: str) -> list[str]:
        return list((await self.filter(name))["NodeNames"])

    async def scores(self, name: str, *nodes: str) -> dict[str, int]:
        body = {"Pod": self.manifest(name), "Nodes": None, "NodeNames": list(nodes) or self.nodes()}
        answer = said(await self.verbs.prioritize(heard(body, ExtenderArgs)))
        return {each["Host"]: each["Score"] for each in answer}

    async def preempt(self, name: str, victims: dict[str, list[str]]) -> dict[str, list[str]]:
        asked = {
            node: {"Pods": [{"UID": f"uid-{each}"} for each in pods], "NumPDBViolations": 1}
            for node, pods in victims.items()
        }
        body = {"Pod": self.manifest(name), "NodeNameToVictims": None, "NodeNameToMetaVictims": asked}
        answer = said(await self.verbs.preempt(heard(body, ExtenderPreemptionArgs)))
        return {
            node: [each["UID"].removeprefix("uid-") for each in there["Pods"]]
            for node, there in answer["NodeNameToMetaVictims"].items()
        }

    async def bind(self, name: str, node: str, *, uid: str = "", namespace: str = NAMESPACE) -> str:
        body = {"PodName": name, "PodNamespace": namespace, "PodUID": uid or f"uid-{name}", "Node": node}
        return str(said(await self.verbs.bind(heard(body, ExtenderBindingArgs)))["Error"])


def config_of(world: World, profile: str = PROFILE) -> Config:
    """Of the profiles only that one is spoken of, whichever others the world has."""
    delivery = Delivery(enabled=DEFAULT in world.delivering)
    return SHIPPED.model_copy(update={"extender": Extender(profile=profile), "delivery": delivery})


def heard(body: Any, kind: type[Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


def said(answer: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(answer))


async def start(world: World) -> KubeScheduler:
    """A leader, and kube-scheduler at its door."""
    return KubeScheduler(world, await world.start())
