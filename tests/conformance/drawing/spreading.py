"""Topology spread constraints, with `maxSkew` at the edge: the drawer counts its own crowd for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from conformance.drawing import placement
from conformance.drawing.company import selector
from conformance.drawing.dice import Dice
from conformance.drawing.words import NODE_LABELS, POD_LABELS, SPREAD_KEYS, Manifest
from conformance.drawing.world import Place, World

EDGES = (("maxSkew", 0.15), ("minDomains", 0.2), ("nodeAffinityPolicy", 0.35), ("nodeTaintsPolicy", 0.3))
KEEPING_AWAY = ("NoSchedule", "NoExecute")


def spread(world: World, pod: Manifest) -> None:
    """Of the crowd, or of any pods; often with a rule about nodes beside it, so that it matters which nodes count."""
    dice = world.dice
    labels = pod["metadata"].setdefault("labels", {})
    labels["app"] = world.crowd[1] if dice.chance(0.85) else dice.pick(POD_LABELS["app"])
    if dice.chance(0.6):
        _at_the_edge(world, pod)
        return
    constraints: dict[tuple[str, str], Manifest] = {}
    for _ in range(dice.weighted(((1, 0.75), (2, 0.25)))):
        constraint = _constraint(dice, labels)
        if constraint.get("labelSelector") == {} and any(
            other["metadata"]["namespace"] == pod["metadata"]["namespace"] for other in world.nominated
        ):
            # kube-scheduler counts no pod for an empty selector, except nominated ones: nothing to agree with.
            constraint["labelSelector"] = {"matchLabels": {"app": labels["app"]}}
        constraints[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
        if "matchLabelKeys" in constraint and dice.chance(0.9):
            labels.setdefault("rev", dice.pick(POD_LABELS["rev"]))
    pod["spec"]["topologySpreadConstraints"] = list(constraints.values())


def _constraint(dice: Dice, labels: dict[str, str]) -> Manifest:
    constraint: Manifest = {
        "topologyKey": dice.pick(SPREAD_KEYS),
        "maxSkew": dice.weighted(((1, 0.5), (2, 0.3), (3, 0.2))),
        "whenUnsatisfiable": dice.weighted((("DoNotSchedule", 0.8), ("ScheduleAnyway", 0.2))),
    }
    way = dice.weighted((("own", 0.7), ("any", 0.22), ("everything", 0.05), ("nothing", 0.03)))
    if way == "own":
        constraint["labelSelector"] = {"matchLabels": {"app": labels["app"]}}
    elif way == "everything":
        constraint["labelSelector"] = {}
    elif way == "any" and (chosen := selector(dice)) is not None:
        constraint["labelSelector"] = chosen
    if "labelSelector" in constraint and dice.chance(0.4):
        constraint["matchLabelKeys"] = ["rev"]
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and dice.chance(0.3):
        constraint["minDomains"] = dice.number(1, 6)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.chance(0.3):
            constraint[field] = dice.pick(("Honor", "Ignore"))
    return constraint


def _at_the_edge(world: World, pod: Manifest) -> None:
    """One constraint on the crowd that some domain just meets or just misses, as the nodes are that count."""
    dice = world.dice
    key = dice.pick(SPREAD_KEYS)
    constraint: Manifest = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": pod["metadata"]["labels"]["app"]}},
    }
    pod["spec"]["topologySpreadConstraints"] = [constraint]
    everywhere = _skews(world, pod, key, world.places)
    if not everywhere:
        return
    match dice.weighted(EDGES):
        case "maxSkew":
            constraint["maxSkew"] = max(dice.pick(list(everywhere.values())) - dice.number(0, 1), 1)
        case "minDomains":
            # With too few domains the least of them counts as empty.
            constraint["minDomains"] = len(everywhere) + dice.number(0, 1)
            constraint["maxSkew"] = max(dice.pick(list(everywhere.values())), 1)
        case "nodeAffinityPolicy":
            label = dice.pick(tuple(NODE_LABELS))
            value = dice.pick(NODE_LABELS[label])
            pod["spec"].setdefault("nodeSelector", {})[label] = value
            _between(
                world, pod, constraint, [each for each in world.places if each.labels.get(label) == value]
            )
            if dice.chance(0.7):
                constraint["nodeAffinityPolicy"] = "Ignore"
        case "nodeTaintsPolicy":
            pod["spec"]["tolerations"] = []
            if dice.chance(0.3):
                placement.tolerations(world, pod)
            _between(world, pod, constraint, [each for each in world.places if not _kept_away(each)])
            if dice.chance(0.75):
                constraint["nodeTaintsPolicy"] = "Honor"


def _between(world: World, pod: Manifest, constraint: Manifest, counting: list[Place]) -> None:
    """A skew that is allowed if only these nodes count and not if all do, or the other way round."""
    every = _skews(world, pod, constraint["topologyKey"], world.places)
    some = _skews(world, pod, constraint["topologyKey"], counting)
    edges = [min(skew, every[domain]) for domain, skew in some.items() if skew != every[domain]]
    if edges := [edge for edge in edges if edge > 0]:
        constraint["maxSkew"] = world.dice.pick(edges)


def _kept_away(place: Place) -> bool:
    return any(taint["effect"] in KEEPING_AWAY for taint in place.taints)


def _skews(world: World, pod: Manifest, key: str, places: Iterable[Place]) -> dict[str, int]:
    """By domain: how many more than in the emptiest there would be with the pod."""
    domains = {place.name: place.labels[key] for place in places if key in place.labels}
    counts = Counter(dict.fromkeys(domains.values(), 0))
    for other in world.existing:
        metadata = other["metadata"]
        if (
            other["spec"]["nodeName"] in domains
            and metadata["namespace"] == pod["metadata"]["namespace"]
            and metadata.get("labels", {}).get("app") == pod["metadata"]["labels"]["app"]
            and "deletionTimestamp" not in metadata
            and "status" not in other
        ):
            counts[domains[other["spec"]["nodeName"]]] += 1
    least = min(counts.values(), default=0)
    return {domain: count + 1 - least for domain, count in counts.items()}
