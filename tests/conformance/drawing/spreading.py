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
    constraint: Manifest = {
        "topologyKey": dice.pick(SPREAD_KEYS),
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": pod["metadata"]["labels"]["app"]}},
    }
    pod["spec"]["topologySpreadConstraints"] = [constraint]
    match dice.weighted(EDGES):
        case "maxSkew":
            skews = list(_skews(world, pod, constraint["topologyKey"], world.places).values())
            constraint["maxSkew"] = max(dice.pick(skews or [1]) - dice.number(0, 1), 1)
        case "minDomains":
            _with_too_few_domains(world, pod, constraint)
        case "nodeAffinityPolicy":
            choices = [(label, value) for label, values in NODE_LABELS.items() for value in values]
            for label, value in dice.some(choices, len(choices), len(choices)):
                counting = [each for each in world.places if each.labels.get(label) == value]
                if _between(world, pod, constraint, counting):
                    break
            pod["spec"].setdefault("nodeSelector", {})[label] = value
            if dice.chance(0.75):
                constraint["nodeAffinityPolicy"] = "Ignore"
        case "nodeTaintsPolicy":
            pod["spec"]["tolerations"] = []
            if dice.chance(0.3):
                placement.tolerations(world, pod)
            _between(world, pod, constraint, [each for each in world.places if not _kept_away(each)])
            if dice.chance(0.75):
                constraint["nodeTaintsPolicy"] = "Honor"


def _with_too_few_domains(world: World, pod: Manifest, constraint: Manifest) -> None:
    """Where no domain is empty, but counts as empty because there are too few of them."""
    dice = world.dice
    for key in dice.some(SPREAD_KEYS, len(SPREAD_KEYS), len(SPREAD_KEYS)):
        counts = _counts(world, pod, key, world.places)
        if counts and (least := min(counts.values())) > 0:
            break
    else:
        return
    constraint["topologyKey"] = key
    constraint["minDomains"] = len(counts) + dice.weighted(((0, 0.2), (1, 0.8)))
    constraint["maxSkew"] = dice.pick(list(counts.values())) + 1 - least


def _between(world: World, pod: Manifest, constraint: Manifest, counting: list[Place]) -> bool:
    """A skew that is allowed if only these nodes count and not if all do, or the other way round; if there is one."""
    for key in world.dice.some(SPREAD_KEYS, len(SPREAD_KEYS), len(SPREAD_KEYS)):
        every = _skews(world, pod, key, world.places)
        some = _skews(world, pod, key, counting)
        edges = [min(skew, every[domain]) for domain, skew in some.items() if skew != every[domain]]
        if edges := [edge for edge in edges if edge > 0]:
            constraint["topologyKey"], constraint["maxSkew"] = key, world.dice.pick(edges)
            return True
    return False


def _kept_away(place: Place) -> bool:
    return any(taint["effect"] in KEEPING_AWAY for taint in place.taints)


def _skews(world: World, pod: Manifest, key: str, places: Iterable[Place]) -> dict[str, int]:
    """By domain: how many more than in the emptiest there would be with the pod."""
    counts = _counts(world, pod, key, places)
    least = min(counts.values(), default=0)
    return {domain: count + 1 - least for domain, count in counts.items()}


def _counts(world: World, pod: Manifest, key: str, places: Iterable[Place]) -> dict[str, int]:
    """By domain: how many pods of the same app there are."""
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
    return dict(counts)
