"""One scenario: a whole small cluster and the pods that are judged on it.

Manifests are as the apiserver would show them: `status` and `metadata.deletionTimestamp` are there where the stage
has to bring the object into that state after creating it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.drawing import nodes, pods, storage
from conformance.drawing.dice import Dice
from conformance.drawing.words import NAMESPACE_LABELS, NAMESPACES, Manifest
from conformance.drawing.world import World


@dataclass
class Scenario:
    name: str
    namespaces: dict[str, dict[str, str]]
    nodes: list[Manifest]
    objects: list[Manifest] = field(default_factory=list)
    existing: list[Manifest] = field(default_factory=list)
    nominated: list[Manifest] = field(default_factory=list)
    judged: list[Manifest] = field(default_factory=list)


def draw(seed: int, number: int) -> Scenario:
    """The same for the same two numbers, always."""
    dice = Dice(f"{seed}/{number}")
    world = World(dice, prefix=f"s{number}")
    namespaces = {
        name: {key: dice.pick(values) for key, values in NAMESPACE_LABELS.items() if dice.chance(0.8)}
        for name in NAMESPACES
    }
    nodes.draw_nodes(world)
    storage.draw_storage(world)
    pods.draw_existing(world)
    pods.draw_nominated(world)
    judged = pods.draw_judged(world, dice.number(18, 24))
    return Scenario(
        name=world.prefix,
        namespaces=namespaces,
        nodes=[place.manifest for place in world.places],
        objects=world.objects,
        existing=world.existing,
        nominated=world.nominated,
        judged=judged,
    )
