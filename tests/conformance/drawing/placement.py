"""Rules about nodes alone: nodeSelector, node affinity, tolerations."""

from __future__ import annotations

from conformance.drawing.dice import Dice
from conformance.drawing.nodes import TAINT_KEYS
from conformance.drawing.words import HOSTNAME, NODE_LABELS, RACK, ZONE, Manifest
from conformance.drawing.world import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CORDON = "node.kubernetes.io/unschedulable"


def node_selector(world: World, pod: Manifest) -> None:
    labels = world.dice.pick(world.places).labels
    keys = [key for key in labels if key != HOSTNAME] or list(labels)
    chosen = {key: labels[key] for key in world.dice.some(keys, 1, 2)}
    pod["spec"].setdefault("nodeSelector", {}).update(chosen)


def node_affinity(world: World, pod: Manifest) -> None:
    dice = world.dice
    terms = [_term(world) for _ in range(dice.weighted(((1, 0.6), (2, 0.3), (3, 0.1))))]
    if dice.chance(0.04):
        terms.append({})  # matches no node
    affinity = pod["spec"].setdefault("affinity", {})
    affinity.setdefault("nodeAffinity", {})[REQUIRED] = {"nodeSelectorTerms": terms}


def preferred(dice: Dice, pod: Manifest) -> None:
    """A wish, which no filter may take for a rule."""
    wish = {"weight": dice.number(1, 100), "preference": {"matchExpressions": [_expression(dice)]}}
    nodes = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [wish]


def _term(world: World) -> Manifest:
    dice = world.dice
    term: Manifest = {}
    if dice.chance(0.8):
        term["matchExpressions"] = [_expression(dice) for _ in range(dice.weighted(((1, 0.65), (2, 0.35))))]
    if not term or dice.chance(0.15):
        operator = dice.pick(("In", "NotIn"))
        term["matchFields"] = [
            {"key": "metadata.name", "operator": operator, "values": [dice.pick(world.places).name]}
        ]
    return term


def _expression(dice: Dice) -> Manifest:
    vocabulary = {**NODE_LABELS, ZONE: ("z1", "z2", "z3"), RACK: ("r1", "r2", "r3", "r4")}
    operator = dice.pick(("In", "In", "NotIn", "NotIn", "Exists", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "gen", "operator": operator, "values": [dice.pick(("2", "3", "5", "7", "11", "12"))]}
    key = dice.pick(tuple(vocabulary))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": dice.some(vocabulary[key], 1, 2)}


def tolerate_everything(pod: Manifest) -> None:
    pod["spec"].setdefault("tolerations", []).append({"operator": "Exists"})


def tolerate_taints_only(world: World, pod: Manifest) -> None:
    """Every taint there is, but not the cordon."""
    keys = dict.fromkeys(taint["key"] for place in world.places for taint in place.taints)
    pod["spec"].setdefault("tolerations", []).extend({"key": key, "operator": "Exists"} for key in keys)


def tolerations(world: World, pod: Manifest) -> None:
    """Near misses: made for taints that are there, with a word changed now and then."""
    dice = world.dice
    there = [taint for place in world.places for taint in place.taints]
    numbered = [taint for taint in there if taint["key"] == "speed"]
    found = [
        _toleration(dice, dice.pick(numbered if numbered and dice.chance(0.6) else there))
        for _ in range(dice.number(1, 2))
        if there
    ]
    if dice.chance(0.65):
        # The other taints are no matter.
        subjects = {each.get("key") for each in found}
        found += [{"key": key, "operator": "Exists"} for key in TAINT_KEYS if key not in subjects]
    if dice.chance(0.5):
        effect = dice.pick(({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}))
        found.append({"key": CORDON, "operator": "Exists", **effect})
    pod["spec"].setdefault("tolerations", []).extend(found)


def numeric_tolerations(world: World, pod: Manifest) -> None:
    """Of all taints but those with a number, and of a number just above or below."""
    dice = world.dice
    numbers = [taint["value"] for place in world.places for taint in place.taints if taint["key"] == "speed"]
    others = [{"key": key, "operator": "Exists"} for key in (*TAINT_KEYS, CORDON) if key != "speed"]
    if numbers:
        others.append(_numeric(dice, dice.pick(numbers)))
    pod["spec"].setdefault("tolerations", []).extend(others)


def _numeric(dice: Dice, value: str) -> Manifest:
    operator = dice.pick(("Gt", "Lt"))
    just = -1 if operator == "Gt" else 1
    step = dice.pick((just, just, 0, -just))
    return {
        "key": "speed",
        "operator": operator,
        "value": str(int(value) + step) if value in ("5", "10", "100") else "50",
    }


def _toleration(dice: Dice, taint: dict[str, str]) -> Manifest:
    value = taint.get("value", "")
    toleration: Manifest
    if dice.chance(0.08):
        toleration = {"operator": "Exists"}  # an empty key is every key
    elif taint["key"] == "speed" and dice.chance(0.75):
        toleration = _numeric(dice, value)
    elif dice.chance(0.4):
        toleration = {"key": dice.pick((taint["key"], *TAINT_KEYS)), "operator": "Exists"}
    else:
        wrong = dice.chance(0.3)
        toleration = {
            "key": taint["key"],
            "operator": "Equal",
            "value": dice.pick(("x", "y", "")) if wrong else value,
        }
        if dice.chance(0.3):
            del toleration["operator"]  # which means Equal
    if dice.chance(0.45):
        toleration["effect"] = dice.pick((taint["effect"], "NoSchedule", "NoExecute", "PreferNoSchedule"))
    return toleration
