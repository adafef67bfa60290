"""Rules about other pods: affinity, anti-affinity, topology spread."""

from __future__ import annotations

from conformance.drawing.dice import Dice
from conformance.drawing.placement import REQUIRED
from conformance.drawing.words import (
    HOSTNAME,
    NAMESPACE_LABELS,
    NAMESPACES,
    POD_LABELS,
    TOPOLOGY_KEYS,
    Manifest,
)
from conformance.drawing.world import World

SELECTABLE = ("app", "tier")
"""Labels that selectors name; `rev` is left to matchLabelKeys, for the apiserver wants a key in one place only."""


def pod_labels(dice: Dice) -> dict[str, str]:
    return {key: dice.pick(values) for key, values in POD_LABELS.items() if dice.chance(0.75)}


def affinity(world: World, pod: Manifest) -> None:
    dice = world.dice
    terms = [_term(dice) for _ in range(dice.weighted(((1, 0.8), (2, 0.2))))]
    _affinity_of(pod)["podAffinity"] = {REQUIRED: terms}
    _have_keys(dice, pod, terms)


def first_of_its_kind(world: World, pod: Manifest) -> None:
    """Affinity to itself: nobody else has the label, or only somebody in another namespace."""
    dice = world.dice
    own = f"solo-{dice.number(1, 3)}"
    pod["metadata"].setdefault("labels", {})["app"] = own
    term: Manifest = {
        "topologyKey": dice.pick(TOPOLOGY_KEYS),
        "labelSelector": {"matchLabels": {"app": own}},
    }
    if dice.chance(0.15):
        term["namespaces"] = [dice.pick(NAMESPACES)]
    terms = [term]
    if dice.chance(0.25):
        terms.append({**term, "topologyKey": dice.pick(TOPOLOGY_KEYS)})
    _affinity_of(pod)["podAffinity"] = {REQUIRED: terms}


def anti_affinity(dice: Dice, pod: Manifest, *, narrow: bool = False) -> None:
    """`narrow`: an existing pod's, which would otherwise keep everybody out of everywhere."""
    terms = [_term(dice, narrow=narrow) for _ in range(dice.weighted(((1, 0.8), (2, 0.2))))]
    _affinity_of(pod)["podAntiAffinity"] = {REQUIRED: terms}
    _have_keys(dice, pod, terms)


def _have_keys(dice: Dice, pod: Manifest, terms: list[Manifest]) -> None:
    """A pod that compares by the value of a label of its own mostly has that label."""
    if any("matchLabelKeys" in term or "mismatchLabelKeys" in term for term in terms) and dice.chance(0.9):
        pod["metadata"].setdefault("labels", {}).setdefault("rev", dice.pick(POD_LABELS["rev"]))


def preferred(dice: Dice, pod: Manifest) -> None:
    """Wishes, which no filter may take for rules."""
    wish = {"weight": dice.number(1, 100), "podAffinityTerm": _term(dice)}
    kind = dice.pick(("podAffinity", "podAntiAffinity"))
    part = _affinity_of(pod).setdefault(kind, {})
    part["preferredDuringSchedulingIgnoredDuringExecution"] = [wish]


def _affinity_of(pod: Manifest) -> Manifest:
    found: Manifest = pod["spec"].setdefault("affinity", {})
    return found


def _term(dice: Dice, *, narrow: bool = False) -> Manifest:
    key = HOSTNAME if narrow and dice.chance(0.5) else dice.pick(TOPOLOGY_KEYS)
    term: Manifest = {"topologyKey": key}
    chosen = selector(dice, narrow=narrow)
    if chosen is not None:
        term["labelSelector"] = chosen
        if dice.chance(0.22):
            term["matchLabelKeys"] = ["rev"]
        elif dice.chance(0.28):
            term["mismatchLabelKeys"] = ["rev"]
    if dice.chance(0.25):
        term["namespaces"] = dice.some(NAMESPACES, 1, 2)
    if dice.chance(0.3):
        term["namespaceSelector"] = _namespace_selector(dice, existing=narrow)
    return term


def selector(dice: Dice, *, narrow: bool = False) -> Manifest | None:
    ways = [("label", 0.55), ("both", 0.15), ("in", 0.15), ("not in", 0.06), ("exists", 0.03)]
    if not narrow:
        ways += [("does not exist", 0.03), ("everything", 0.02), ("nothing", 0.02)]
    key = dice.pick(SELECTABLE)
    values = POD_LABELS[key]
    match dice.weighted(ways):
        case "label":
            return {"matchLabels": {key: dice.pick(values)}}
        case "both":
            return {"matchLabels": {each: dice.pick(POD_LABELS[each]) for each in SELECTABLE}}
        case "in":
            return _expressions(key, "In", dice.some(values, 1, 2))
        case "not in":
            return _expressions(key, "NotIn", dice.some(values, 1, 2))
        case "exists":
            return _expressions(key, "Exists")
        case "does not exist":
            return _expressions(key, "DoesNotExist")
        case "everything":
            return {}
    return None


def _expressions(key: str, operator: str, values: list[str] | None = None) -> Manifest:
    line: Manifest = {"key": key, "operator": operator}
    return {"matchExpressions": [{**line, "values": values} if values else line]}


def _namespace_selector(dice: Dice, *, existing: bool) -> Manifest:
    """Without NotIn in a judged pod's own terms: there kube-scheduler 1.36.3 takes it for every namespace.

    It compares with no labels at all, because `mergeAffinityTermNamespacesIfNotEmpty` in its plugin interpodaffinity
    changes a copy of the term. That is no rule of the API, so it is nothing to agree with.
    """
    if dice.chance(0.25):
        return {}  # every namespace
    key = dice.pick(tuple(NAMESPACE_LABELS))
    value = dice.pick(NAMESPACE_LABELS[key])
    if dice.chance(0.3):
        return _expressions(key, dice.pick(("NotIn", "In")) if existing else "In", [value])
    return {"matchLabels": {key: value}}
