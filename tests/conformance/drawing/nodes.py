"""Nodes: small enough that resources decide, labelled unevenly, some tainted, some cordoned."""

from __future__ import annotations

from collections import Counter

from conformance.drawing.dice import Dice
from conformance.drawing.quantities import written
from conformance.drawing.words import (
    FPGA,
    GPU,
    HOSTNAME,
    NODE_LABELS,
    PAGE,
    PAGES,
    RACK,
    REGION,
    ZONE,
    Manifest,
)
from conformance.drawing.world import Place, World

TAINT_KEYS = ("dedicated", "speed", "example.com/gpu")


def draw_nodes(world: World) -> None:
    for number in range(world.dice.number(7, 12)):
        world.places.append(_node(world.dice, f"{world.prefix}-n{number}"))


def _node(dice: Dice, name: str) -> Place:
    holds = _holds(dice)
    spec: Manifest = {}
    if dice.chance(0.38):
        spec["taints"] = _taints(dice)
    if dice.chance(0.12):
        spec["unschedulable"] = True
    status = {resource: written(resource, amount, dice) for resource, amount in holds.items()}
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(dice, name)},
        "spec": spec,
        "status": {
            "capacity": status,
            "allocatable": status,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    return Place(manifest, left=Counter(holds))


def _labels(dice: Dice, name: str) -> dict[str, str]:
    labels = {}
    if dice.chance(0.93):
        labels[HOSTNAME] = name
    if dice.chance(0.85):
        labels[ZONE] = dice.pick(("z1", "z2", "z3"))
        if dice.chance(0.7):
            labels[REGION] = "east" if labels[ZONE] != "z3" else "west"
    if dice.chance(0.75):
        labels[RACK] = dice.pick(("r1", "r2", "r3", "r4"))
    if dice.chance(0.1):
        labels["failure-domain.beta.kubernetes.io/zone"] = labels.get(ZONE, "z1")
    if dice.chance(0.2):
        labels["topology.gke.io/zone"] = labels.get(ZONE, "z1")
    for key, values in NODE_LABELS.items():
        if dice.chance(0.8):
            labels[key] = dice.pick(values)
    return labels


def _holds(dice: Dice) -> dict[str, int]:
    holds = {
        "cpu": dice.pick((1000, 2000, 4000, 3500)),
        "memory": dice.pick((1 << 30, 2 << 30, 4_000_000_000, (1 << 30) + 7)),
        "pods": dice.weighted(((110, 0.9), (4, 0.04), (6, 0.06))),
    }
    if dice.chance(0.85):
        holds["ephemeral-storage"] = dice.pick((10 << 30, 5_000_000_000))
    if dice.chance(0.5):
        holds[FPGA] = dice.number(1, 4)
    if dice.chance(0.5):
        holds[GPU] = dice.pick((1, 2, 4, 8))
    if dice.chance(0.35):
        holds[PAGES] = PAGE * dice.pick((4, 16))
    return holds


def _taints(dice: Dice) -> list[dict[str, str]]:
    taints = []
    keys = dict.fromkeys(
        dice.weighted((("speed", 0.45), ("dedicated", 0.3), ("example.com/gpu", 0.25)))
        for _ in range(dice.weighted(((1, 0.7), (2, 0.3))))
    )
    for key in keys:
        value = (
            dice.pick(("", "x", "y"))
            if key != "speed"
            else dice.pick(("5", "10", "100", "5", "10", "100", "007", "fast"))
        )
        taint = {
            "key": key,
            "effect": dice.weighted((("NoSchedule", 0.55), ("NoExecute", 0.2), ("PreferNoSchedule", 0.25))),
        }
        taints.append({**taint, "value": value} if value else taint)
    return taints
