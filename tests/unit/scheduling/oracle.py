"""A second opinion: every rule once more, naively, on manifests, and all placements of a small gang tried one by one.

Written from Kubernetes' documentation and kube-scheduler's sources, and for cards from docs and design. It shares no
code with the scheduler: dictionaries in, answers out. A pod is a manifest; it stands on a node if somebody says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

Manifest = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MOST_SHARERS = 16
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Piece:
    """A part of a card that a container holds. `stage`: Init, Sidecar, or nothing for an ordinary container."""

    card: str
    memory: int
    compute: int
    whole: bool
    container: str = "main"
    stage: str = ""


@dataclass(frozen=True)
class Load:
    """The most that one pod takes of one card at any time."""

    memory: int = 0
    compute: int = 0
    sharers: int = 0
    whole: bool = False
    clash: bool = False  # a whole card, and another container of the pod on it at the same time


@dataclass(frozen=True)
class Standing:
    """A pod, where it stands, and what it holds there; pieces None: what its manifest says it was given."""

    pod: Manifest
    node: str
    pieces: tuple[Piece, ...] | None = None

    @property
    def held(self) -> tuple[Piece, ...]:
        if self.pieces is not None:
            return self.pieces
        text = self.pod["metadata"].get("annotations", {}).get("ai.centaurus.io/gpu-slices", "[]")
        return tuple(
            Piece(
                one["gpu"],
                one["memoryMiB"],
                one["computePercent"],
                one.get("whole", False),
                container["name"],
                container.get("stage", ""),
            )
            for container in json.loads(text)
            for one in container["slices"]
        )


def loads(pieces: Sequence[Piece]) -> dict[str, Load]:
    """Card -> the most of it over the pod's life, lived through: pieces in the order in which containers start."""
    most: dict[str, Load] = {}
    for running in _lives(pieces):
        for card in {piece.card for piece in running}:
            on_it = [piece for piece in running if piece.card == card]
            before, whole = most.get(card, Load()), any(piece.whole for piece in on_it)
            most[card] = Load(
                max(before.memory, sum(piece.memory for piece in on_it)),
                max(before.compute, sum(piece.compute for piece in on_it)),
                max(before.sharers, len(on_it)),
                before.whole or whole,
                before.clash or (whole and len(on_it) > 1),
            )
    return most


def _lives(parts: Sequence[Any]) -> list[list[Any]]:
    """Which of these run together, at every step of the pod's life."""
    steps = []
    for position, part in enumerate(parts):
        if part.stage == "Init":
            before = [each for each in parts[:position] if each.stage == "Sidecar"]
            own = [each for each in parts if each.stage == "Init" and each.container == part.container]
            steps.append(before + own)
    steps.append([part for part in parts if part.stage != "Init"])
    return steps


@dataclass(frozen=True)
class Card:
    id: str
    model: str
    memory: int
    place: str  # NODE/INDEX


@dataclass
class World:
    nodes: dict[str, Manifest]
    topologies: dict[str, Manifest]
    unready: set[str]
    running: list[Standing]
    _cards: dict[str, list[Card]] = field(default_factory=dict)

    def labels(self, node: str) -> dict[str, str]:
        found: dict[str, str] = self.nodes[node]["metadata"]["labels"]
        return found

    def cards(self, node: str) -> list[Card]:
        if node not in self._cards:
            self._cards[node] = _cards_of(self.nodes[node], self.topologies.get(node))
        return self._cards[node]

    def owned(self, node: str) -> bool:
        owner = self.labels(node).get("ai.centaurus.io/gpu-owner")
        return owner == "alnair" if owner else not self.advertised(node)

    def advertised(self, node: str) -> int:
        return int(self.nodes[node]["status"]["allocatable"].get("nvidia.com/gpu", 0))


def _cards_of(node: Manifest, topology: Manifest | None) -> list[Card]:
    name = node["metadata"]["name"]
    if topology is not None:
        found = []
        for zone in topology["zones"]:
            if zone["type"] == "GPU":
                said = {each["name"]: each["value"] for each in zone["attributes"]}
                size = amount(zone["resources"][0]["capacity"]) >> 20
                found.append(Card(said["uuid"], said["model"], size, f"{name}/{len(found)}"))
        return found
    notes, labels = node["metadata"].get("annotations", {}), node["metadata"]["labels"]
    if "ai.centaurus.io/physical-gpu-uuids" in notes:
        static = json.loads(notes["ai.centaurus.io/gpu-static"])
        size = int(static["mem_size"].removesuffix("MiB"))
        return [
            Card(uuid, static["model"], size, f"{name}/{index}")
            for index, uuid in enumerate(notes["ai.centaurus.io/physical-gpu-uuids"].split(","))
        ]
    if "nvidia.com/gpu.count" in labels:
        return [
            Card(
                f"{name}/{index}",
                labels["nvidia.com/gpu.product"],
                int(labels["nvidia.com/gpu.memory"]),
                f"{name}/{index}",
            )
            for index in range(int(labels["nvidia.com/gpu.count"]))
        ]
    return []


def amount(text: str | int) -> int:
    """A quantity in thousandths where it says so, else in whole units."""
    text = str(text)
    for suffix, factor in (("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40)):
        if text.endswith(suffix):
            return int(text[:-2]) * factor
    return int(text)


def thousandths(text: str | int) -> int:
    text = str(text)
    return int(text[:-1]) if text.endswith("m") else amount(text) * 1000


# -- selectors ---------------------------------------------------------------------------------------------------


def expression_holds(expression: Manifest, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt":
            return key in labels and labels[key].isdigit() and int(labels[key]) > int(values[0])
        case "Lt":
            return key in labels and labels[key].isdigit() and int(labels[key]) < int(values[0])
    raise AssertionError(expression)


def selects(selector: Manifest | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        expression_holds(each, labels) for each in selector.get("matchExpressions", [])
    )


def labels_of(pod: Manifest) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("labels", {})
    return found


def term_means(term: Manifest, of: Manifest, pod: Manifest) -> bool:
    """Whether an affinity term that stands in the pod `of` means the other one."""
    namespaces = term.get("namespaces") or [of["metadata"]["namespace"]]
    return pod["metadata"]["namespace"] in namespaces and selects(term.get("labelSelector"), labels_of(pod))


def terms(pod: Manifest, kind: str) -> list[Manifest]:
    found: list[Manifest] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return found


def tolerates(pod: Manifest, taint: Manifest) -> bool:
    for each in pod["spec"].get("tolerations", []):
        if each.get("effect") and each["effect"] != taint["effect"]:
            continue
        if each.get("key") and each["key"] != taint["key"]:
            continue
        if each.get("operator", "Equal") == "Exists" or each.get("value", "") == taint.get("value", ""):
            return True
    return False


# -- rules: does this pod fail on this node, beside these others? ------------------------------------------------

Others = Sequence[Standing]


def node_selector_fails(pod: Manifest, node: str, others: Others, world: World) -> bool:
    wanted = pod["spec"].get("nodeSelector", {})
    return any(world.labels(node).get(key) != value for key, value in wanted.items())


def node_affinity_fails(pod: Manifest, node: str, others: Others, world: World) -> bool:
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    if required is None:
        return False
    for term in required["nodeSelectorTerms"]:
        lines, fields = term.get("matchExpressions", []), term.get("matchFields", [])
        if (
            (lines or fields)
            and all(expression_holds(each, world.labels(node)) for each in lines)
            and all(expression_holds(each, {"metadata.name": node}) for each in fields)
        ):
            return False
    return True


def cordoned(pod: Manifest, node: str, others: Others, world: World) -> bool:
    return bool(world.nodes[node]["spec"].get("unschedulable")) and not tolerates(pod, CORDON)


def tainted(pod: Manifest, node: str, others: Others, world: World) -> bool:
    return any(
        taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(pod, taint)
        for taint in world.nodes[node]["spec"].get("taints", [])
    )


def unready(pod: Manifest, node: str, others: Others, world: World) -> bool:
    return node in world.unready and not (tolerates(pod, NOT_READY) and tolerates(pod, UNREACHABLE))


def ports(pod: Manifest) -> Iterator[tuple[str, str, int]]:
    for container in pod["spec"]["containers"]:
        for each in container.get("ports", []):
            if each.get("hostPort"):
                yield each.get("hostIP", "0.0.0.0"), each.get("protocol", "TCP"), each["hostPort"]


def ports_taken(pod: Manifest, node: str, others: Others, world: World) -> bool:
    theirs = [port for other in others if other.node == node for port in ports(other.pod)]
    return any(
        (one[1:] == two[1:]) and (one[0] == two[0] or "0.0.0.0" in (one[0], two[0]))
        for one in ports(pod)
        for two in theirs
    )


def together(key: str, one: str, other: str, world: World) -> bool:
    """Both nodes are in one domain."""
    return key in world.labels(one) and world.labels(one)[key] == world.labels(other).get(key)


def kept_apart(pod: Manifest, node: str, others: Others, world: World) -> bool:
    for other in others:
        for term in terms(pod, "podAntiAffinity"):
            if together(term["topologyKey"], node, other.node, world) and term_means(term, pod, other.pod):
                return True
        for term in terms(other.pod, "podAntiAffinity"):
            if together(term["topologyKey"], node, other.node, world) and term_means(term, other.pod, pod):
                return True
    return False


def not_near(pod: Manifest, node: str, others: Others, world: World) -> bool:
    wanted = terms(pod, "podAffinity")
    if not wanted:
        return False
    if any(term["topologyKey"] not in world.labels(node) for term in wanted):
        return True
    company = [other for other in others if all(term_means(term, pod, other.pod) for term in wanted)]
    if all(any(together(term["topologyKey"], node, each.node, world) for each in company) for term in wanted):
        return False
    first = not any(term["topologyKey"] in world.labels(each.node) for each in company for term in wanted)
    return not (first and all(term_means(term, pod, pod) for term in wanted))


def affinity_fails(pod: Manifest, node: str, others: Others, world: World) -> bool:
    return kept_apart(pod, node, others, world) or not_near(pod, node, others, world)


def spread_fails(pod: Manifest, node: str, others: Others, world: World) -> bool:
    hard = [
        each
        for each in pod["spec"].get("topologySpreadConstraints", [])
        if each["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    return any(_too_many(each, hard, pod, node, others, world) for each in hard)


def _too_many(
    rule: Manifest, rules: Sequence[Manifest], pod: Manifest, node: str, others: Others, world: World
) -> bool:
    key, selector = rule["topologyKey"], rule.get("labelSelector")
    if key not in world.labels(node):
        return True
    counts: dict[str, int] = {}
    counting = set()
    for name in world.nodes:
        if any(each["topologyKey"] not in world.labels(name) for each in rules):
            continue
        if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and (
            node_selector_fails(pod, name, (), world) or node_affinity_fails(pod, name, (), world)
        ):
            continue
        if rule.get("nodeTaintsPolicy", "Ignore") == "Honor" and tainted(pod, name, (), world):
            continue
        counting.add(name)
        counts.setdefault(world.labels(name)[key], 0)
    if selector != {}:
        for other in others:
            if (
                other.node in counting
                and other.pod["metadata"]["namespace"] == pod["metadata"]["namespace"]
                and "deletionTimestamp" not in other.pod["metadata"]
                and selects(selector, labels_of(other.pod))
            ):
                counts[world.labels(other.node)[key]] += 1
    least = min(counts.values(), default=0) if len(counts) >= rule.get("minDomains", 1) else 0
    own = selects(selector, labels_of(pod))
    return counts.get(world.labels(node)[key], 0) + own - least > rule["maxSkew"]


def requests(pod: Manifest) -> dict[str, int]:
    """Of all ordinary containers and sidecars, or of one init container and the sidecars before it, if that is more."""
    total = {"pods": 1}
    for container in pod["spec"]["containers"]:
        _add(total, container)
    sidecars: dict[str, int] = {}
    peaks: list[dict[str, int]] = []
    for container in pod["spec"].get("initContainers", []):
        if container.get("restartPolicy") == "Always":
            _add(total, container)
            _add(sidecars, container)
        else:
            peaks.append(dict(sidecars))
            _add(peaks[-1], container)
    for peak in peaks:
        for name, needed in peak.items():
            total[name] = max(total.get(name, 0), needed)
    return total


def _add(total: dict[str, int], container: Manifest) -> None:
    for name, text in container.get("resources", {}).get("requests", {}).items():
        total[name] = total.get(name, 0) + (thousandths(text) if name == "cpu" else amount(text))


def resources_lack(pod: Manifest, node: str, others: Others, world: World) -> bool:
    there = world.nodes[node]["status"]["allocatable"]
    for name, needed in requests(pod).items():
        if name.startswith(("nvidia.com/", "alnair/")):
            continue  # cards' business
        has = thousandths(there.get(name, 0)) if name == "cpu" else amount(there.get(name, 0))
        taken = sum(requests(other.pod).get(name, 0) for other in others if other.node == node)
        if needed > has - taken:
            return True
    return False


# -- cards -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Demand:
    """`memory` of a whole card is the least that it must have."""

    cards: int
    memory: int
    compute: int
    whole: bool
    percent: int = 0
    container: str = "main"
    stage: str = ""
    from_plugin: bool = False

    def takes(self, card: Card) -> tuple[int, int]:
        if self.whole:
            return card.memory, 100
        exact = card.memory * self.percent / 100
        return (math.ceil(exact) if self.percent else self.memory), self.compute


def demands(pod: Manifest) -> list[Demand]:
    notes = pod["metadata"].get("annotations", {})
    found = []
    for container in pod["spec"].get("initContainers", []):
        stage = "Sidecar" if container.get("restartPolicy") == "Always" else "Init"
        found += [replace(each, stage=stage) for each in _demands_of(container)]
    for container in pod["spec"]["containers"]:
        found += _demands_of(container)
    count = notes.get("ai.centaurus.io/gpu-count")
    first = pod["spec"]["containers"][0]["name"]
    if "ai.centaurus.io/gpu-memory" in notes:
        size = amount(notes["ai.centaurus.io/gpu-memory"]) >> 20
        share = int(notes.get("ai.centaurus.io/gpu-compute", 0))
        found.append(Demand(int(count or 1), size, share, whole=False, container=first))
    elif count is not None:
        found.append(Demand(int(count), 0, 0, whole=True, container=first))
    if notes.get("ai.centaurus.io/gpu-sharing") == "exclusive":
        found = [each if each.whole else replace(each, whole=True, compute=0, percent=0) for each in found]
    return found


def _demands_of(container: Manifest) -> list[Demand]:
    asked, name = container.get("resources", {}).get("limits", {}), container["name"]
    count = int(asked.get("nvidia.com/gpu", 0))
    if "alnair/vgpu-memory" in asked:
        size, share = int(asked["alnair/vgpu-memory"]) * 1024, int(asked.get("alnair/vgpu-compute", 0))
        return [Demand(1, size, share, whole=False, container=name)]
    share = int(asked.get("nvidia.com/gpucores", 0))
    if "nvidia.com/gpumem" in asked or "nvidia.com/gpumem-percentage" in asked or share:
        size, percent = int(asked.get("nvidia.com/gpumem", 0)), 0
        if not size:
            percent = int(asked.get("nvidia.com/gpumem-percentage", 100))
        return [Demand(count or 1, size, share, False, percent, name, from_plugin=bool(count))]
    return [Demand(count, 0, 0, whole=True, container=name, from_plugin=True)] if count else []


def listed(pod: Manifest, key: str) -> list[str]:
    text = pod["metadata"].get("annotations", {}).get(key, "")
    return text.split(",") if text else []


def names_cards(pod: Manifest) -> bool:
    return bool(listed(pod, "ai.centaurus.io/gpu-uuid") or listed(pod, "ai.centaurus.io/gpu-uuid-not"))


def picky(pod: Manifest) -> bool:
    keys = ("ai.centaurus.io/gpu-model", "ai.centaurus.io/gpu-model-not")
    return any(listed(pod, key) for key in (*keys, "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"))


def right_model(model: str, pod: Manifest) -> bool:
    only, like = listed(pod, "ai.centaurus.io/gpu-model"), listed(pod, "nvidia.com/use-gputype")
    if only and model not in only:
        return False
    if like and not any(part.lower() in model.lower() for part in like):
        return False
    unlike = listed(pod, "nvidia.com/nouse-gputype")
    return model not in listed(pod, "ai.centaurus.io/gpu-model-not") and not any(
        part.lower() in model.lower() for part in unlike
    )


def right_card(card: Card, pod: Manifest) -> bool:
    called = {card.id, card.place}
    only = listed(pod, "ai.centaurus.io/gpu-uuid")
    if only and called.isdisjoint(only):
        return False
    return right_model(card.model, pod) and called.isdisjoint(listed(pod, "ai.centaurus.io/gpu-uuid-not"))


def serves(card: Card, demand: Demand, pod: Manifest, held: Sequence[Load]) -> bool:
    """Whether the card has room for it beside what others hold of it."""
    memory, compute = demand.takes(card)
    own = Load(memory, compute, 1, demand.whole)
    return right_card(card, pod) and card.memory >= demand.memory and fits(card, (*held, own))


def fits(card: Card, held: Sequence[Load]) -> bool:
    """Whether the card has all this, each the most of one pod."""
    return (
        not any(load.clash for load in held)
        and (len(held) == 1 or not any(load.whole for load in held))
        and card.memory >= sum(load.memory for load in held)
        and sum(load.compute for load in held) <= 100
        and sum(load.sharers for load in held) <= MOST_SHARERS
    )


Held = dict[str, tuple[Load, ...]]


def held_on(node: str, others: Others, world: World) -> Held:
    held: Held = {card.id: () for card in world.cards(node)}
    for other in others:
        if other.node == node:
            for card, load in loads(other.held).items():
                if card in held:
                    held[card] += (load,)
    return held


def counted(pod: Manifest, node: str, others: Others, world: World) -> bool:
    """Whether the kubelet has so many whole cards left by number."""
    taken = sum(requests(other.pod).get("nvidia.com/gpu", 0) for other in others if other.node == node)
    return world.advertised(node) - taken >= requests(pod).get("nvidia.com/gpu", 0)


def plugin_serves(pod: Manifest, node: str, others: Others, world: World) -> bool:
    """A device plugin gives whole cards that it is asked for, any of them."""
    asked = demands(pod)
    least = max(demand.memory for demand in asked)
    right = not (picky(pod) or least) or (
        bool(world.cards(node))
        and all(right_model(card.model, pod) and card.memory >= least for card in world.cards(node))
    )
    return (
        all(demand.whole and demand.from_plugin for demand in asked)
        and not names_cards(pod)
        and right
        and counted(pod, node, others, world)
    )


def cards_lack(pod: Manifest, node: str, others: Others, world: World) -> bool:
    """One demand after the other, each as if it were the only one, but whole cards of one moment all together."""
    if not demands(pod):
        return False
    if not world.owned(node):
        return not plugin_serves(pod, node, others, world)
    if (
        requests(pod).get("nvidia.com/gpu")
        and world.advertised(node)
        and not counted(pod, node, others, world)
    ):
        return True
    held = held_on(node, others, world)
    for running in _lives(demands(pod)):
        for demand in running:
            needed = demand.cards
            if demand.whole:
                needed = sum(each.cards for each in running if each.whole and each.memory >= demand.memory)
            if sum(serves(card, demand, pod, held[card.id]) for card in world.cards(node)) < needed:
                return True
    return False


def deal(pods: Sequence[Manifest], node: str, held: Held, world: World) -> bool:
    """Whether there are cards for all demands of all these pods at once."""
    if not pods:
        return True
    for pieces in _dealt(pods[0], demands(pods[0]), (), node, held, world):
        more = dict(held)
        for card, load in loads(pieces).items():
            more[card] += (load,)
        if deal(pods[1:], node, more, world):
            return True
    return False


def _dealt(
    pod: Manifest, left: Sequence[Demand], given: tuple[Piece, ...], node: str, held: Held, world: World
) -> Iterator[tuple[Piece, ...]]:
    """Every way to give one pod its cards."""
    if not left:
        yield given
        return
    demand, by_id = left[0], {card.id: card for card in world.cards(node)}
    good = [card for card in by_id.values() if serves(card, demand, pod, held[card.id])]
    for chosen in combinations(good, demand.cards):
        pieces = given + tuple(
            Piece(card.id, *demand.takes(card), demand.whole, demand.container, demand.stage)
            for card in chosen
        )
        if all(fits(by_id[card], (*held[card], load)) for card, load in loads(pieces).items()):
            yield from _dealt(pod, left[1:], pieces, node, held, world)


# -- all rules ---------------------------------------------------------------------------------------------------

Rule = Callable[[Manifest, str, Others, World], bool]
FIXED: dict[str, Rule] = {
    "NodeSelector": node_selector_fails,
    "NodeAffinity": node_affinity_fails,
    "NodeUnschedulable": cordoned,
    "TaintToleration": tainted,
    "NodeReady": unready,
}
RULES: dict[str, Rule] = {
    **FIXED,
    "NodePorts": ports_taken,
    "InterPodAffinity": affinity_fails,
    "PodTopologySpread": spread_fails,
    "NodeResourcesFit": resources_lack,
    "GPUCards": cards_lack,
}
# Once broken, more members make it no better.
LASTING: dict[str, Rule] = {
    "ports": ports_taken,
    "apart": kept_apart,
    "resources": resources_lack,
    "cards": cards_lack,
}
# These may be broken by one member and mended by the next.
PASSING: dict[str, Rule] = {"near": not_near, "spread": spread_fails}


def first_failure(pod: Manifest, node: str, standing: Others, world: World) -> str:
    """The first rule that keeps one more such pod from the node, in the order in which people are told."""
    others = [*world.running, *standing]
    for name, fails in RULES.items():
        if fails(pod, node, others, world):
            return name
    if world.owned(node) and not deal([pod], node, held_on(node, others, world), world):
        return "CardsTogether"
    return "OtherMembers"


def rules_broken(placed: Sequence[Standing], world: World) -> bool:
    """Some member breaks a rule that is not about room or cards."""
    names = [name for name in RULES if name not in ("NodeResourcesFit", "GPUCards")]
    for position, one in enumerate(placed):
        others = [*world.running, *placed[:position], *placed[position + 1 :]]
        if any(RULES[name](one.pod, one.node, others, world) for name in names):
            return True
    return False


def objection(placed: Sequence[Standing], world: World) -> str:
    """What is wrong with a whole plan, given with its cards; empty if it is good."""
    for position, one in enumerate(placed):
        others = [*world.running, *placed[:position], *placed[position + 1 :]]
        for name, fails in RULES.items():
            if fails(one.pod, one.node, others, world):
                return f"{one.pod['metadata']['name']} on {one.node} fails {name}"
        if world.owned(one.node) and (wrong := _wrong_cards(one, others, world)):
            return f"{one.pod['metadata']['name']} on {one.node}: {wrong}"
    return ""


def _wrong_cards(one: Standing, others: Others, world: World) -> str:
    held = held_on(one.node, others, world)
    by_id = {card.id: card for card in world.cards(one.node)}
    left = list(one.held)
    for demand in demands(one.pod):
        given, left = left[: demand.cards], left[demand.cards :]
        if len({piece.card for piece in given}) != demand.cards:
            return f"{given} are not {demand.cards} different cards"
        for piece in given:
            if piece.card not in by_id or not serves(by_id[piece.card], demand, one.pod, held[piece.card]):
                return f"{piece} does not serve {demand} beside {held.get(piece.card)}"
            if (piece.memory, piece.compute) != demand.takes(by_id[piece.card]):
                return f"{piece} is not {demand}"
            if (piece.whole, piece.container, piece.stage) != (demand.whole, demand.container, demand.stage):
                return f"{piece} is not {demand}"
    for card, load in loads(one.held).items():
        if not fits(by_id[card], (*held[card], load)):
            return f"{load} does not fit on {card} beside {held[card]}"
    return f"{left} was not asked for" if left else ""


# -- every placement ---------------------------------------------------------------------------------------------


def most_that_fit(gang: Sequence[Manifest], world: World, among: Collection[str] | None = None) -> int:
    """The largest number of members that any good plan places (on these nodes). Equal pods stand in order: names do
    not matter."""
    kinds: list[tuple[Manifest, int]] = []
    for pod in gang:
        bare = {key: value for key, value in pod["metadata"].items() if key != "name"}
        for position, (other, count) in enumerate(kinds):
            known = {key: value for key, value in other["metadata"].items() if key != "name"}
            if (bare, pod["spec"]) == (known, other["spec"]):
                kinds[position] = (other, count + 1)
                break
        else:
            kinds.append((pod, 1))
    return _Trial([pod for pod, count in kinds for _ in range(count)], world, among).most()


class _Trial:
    def __init__(self, gang: Sequence[Manifest], world: World, among: Collection[str] | None) -> None:
        self.gang, self.world = gang, world
        self.best = 0
        self.open: dict[int, list[str]] = {
            id(pod): [
                name
                for name in world.nodes
                if (among is None or name in among)
                and not any(fails(pod, name, (), world) for fails in FIXED.values())
            ]
            for pod in gang
        }
        self.dealt: dict[tuple[str, tuple[int, ...]], bool] = {}

    def most(self) -> int:
        self._from(0, [], 0)
        return self.best

    def _from(self, position: int, placed: list[Standing], first: int) -> None:
        """`first`: where equal pods that come later begin, so that no placement is tried twice."""
        if len(placed) + len(self.gang) - position <= self.best or self.best == len(self.gang):
            return
        if position == len(self.gang):
            if self._good(placed):
                self.best = len(placed)
            return
        pod = self.gang[position]
        equal = position + 1 < len(self.gang) and self.gang[position + 1] is pod
        others = [*self.world.running, *placed]
        for number, name in enumerate(self.open[id(pod)]):
            if number >= first and self._room(pod, name, others, placed):
                placed.append(Standing(pod, name, ()))
                self._from(position + 1, placed, number if equal else 0)
                placed.pop()
        after = position + 1  # without this one, and so without its equals that come later
        while after < len(self.gang) and self.gang[after] is pod:
            after += 1
        self._from(after, placed, 0)

    def _room(self, pod: Manifest, node: str, others: list[Standing], placed: Iterable[Standing]) -> bool:
        if any(fails(pod, node, others, self.world) for fails in LASTING.values()):
            return False
        if not self.world.owned(node):
            return True
        here = [*(each.pod for each in placed if each.node == node), pod]
        key = (node, tuple(sorted(id(each) for each in here)))
        if key not in self.dealt:
            held = held_on(node, self.world.running, self.world)
            self.dealt[key] = deal(here, node, held, self.world)
        return self.dealt[key]

    def _good(self, placed: Sequence[Standing]) -> bool:
        for position, one in enumerate(placed):
            others = [*self.world.running, *placed[:position], *placed[position + 1 :]]
            if any(fails(one.pod, one.node, others, self.world) for fails in PASSING.values()):
                return False
        return True
