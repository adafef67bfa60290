"""What Alnair publishes of a node's cards where nobody else does: a NodeResourceTopology, the reverse of `zones`.

What a source does not tell is left out, never invented: no parent where the NUMA node is unknown, no costs where the
links are, no uuid where the name is our own. What is free of a card is not said here: it moves with every pod, and the
GPUAllocations say it; `available` is what pods may use when nobody does.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson

from alnair.api import names, topology
from alnair.state.inventory.cards import Card, Inventory
from alnair.state.nodes import Node

LONGEST_VALUE = 1024
HEALTHY, UNHEALTHY = "healthy", "unhealthy"

Manifest = dict[str, Any]


def publication(node: Node, inventory: Inventory) -> Manifest:
    """The object for a node that has cards. The same cards always make the same object."""
    cards = inventory.cards
    zones = {name: f"gpu-{number}" for name, number in _numbers(cards).items()}
    return {
        "apiVersion": names.API_NRT,
        "kind": names.KIND_NRT,
        "metadata": {
            "name": node.name,
            "labels": {names.MANAGED_BY: names.ALNAIR},
            # So that it goes with its node even while no operator runs.
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}],
        },
        "attributes": _attributes(summary(cards) | {topology.SOURCE: inventory.source}),
        "zones": [
            *({"name": f"node-{number}", "type": topology.ZONE_NODE} for number in _numa_nodes(cards)),
            *(_zone(card, zones) for card in cards),
        ],
    }


def fingerprint(manifest: Manifest) -> bytes:
    """Equal for two objects that say the same, whatever the apiserver has added to one of them. Kept instead of the
    object: thousands of them are a lot to remember."""
    meta = manifest["metadata"]
    bones = (
        manifest.get("zones"),
        manifest.get("attributes"),
        manifest.get("topologyPolicies") or [],
        (meta.get("labels") or {}).get(names.MANAGED_BY),
        [(each.get("kind"), each.get("uid")) for each in meta.get("ownerReferences") or []],
    )
    return hashlib.blake2b(orjson.dumps(bones, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _numbers(cards: Sequence[Card]) -> dict[str, int]:
    """Card -> its index, or its position where one index is told twice."""
    indexes = {card.id: card.index for card in cards}
    if len(set(indexes.values())) == len(cards):
        return indexes
    return {card.id: position for position, card in enumerate(cards)}


def _zone(card: Card, zones: dict[str, str]) -> Manifest:
    size = mebibytes(card.memory_mib)
    usable = size if card.healthy else "0"
    return {
        "name": zones[card.id],
        "type": topology.ZONE_GPU,
        **({"parent": f"node-{card.numa}"} if card.numa >= 0 else {}),
        "attributes": _attributes(
            {
                topology.PUBLISHER: topology.ALNAIR,
                # What records and pods call the card; a UUID only where it is one.
                ("id" if card.made_up else "uuid"): card.id,
                **({"idIs": "made up: no source tells the UUID"} if card.made_up else {}),
                "model": card.model,
                "index": str(card.index),
                "health": HEALTHY if card.healthy else UNHEALTHY,
                **({"why": card.why} if card.why else {}),
                **({"slots": str(card.slots)} if card.slots else {}),
            }
        ),
        "resources": [{"name": "memory", "capacity": size, "allocatable": usable, "available": usable}],
        **_costs(card, zones),
    }


def _costs(card: Card, zones: dict[str, str]) -> Manifest:
    distance = dict(card.links)
    costs = [{"name": zone, "value": distance[other]} for other, zone in zones.items() if other in distance]
    return {"costs": costs} if costs else {}


def _attributes(values: dict[str, str]) -> list[Manifest]:
    return [{"name": name, "value": value[:LONGEST_VALUE]} for name, value in values.items() if value]


def mebibytes(size: int) -> str:
    return f"{size // 1024}Gi" if size % 1024 == 0 else f"{size}Mi"


# -- at a glance -------------------------------------------------------------------------------------------------


def summary(cards: Sequence[Card]) -> dict[str, str]:
    """The attributes that `kubectl get` prints."""
    models = Counter(card.model or "unknown" for card in cards)
    sizes = dict.fromkeys(mebibytes(card.memory_mib) for card in cards)
    number = _numbers(cards)
    sick = [number[card.id] for card in cards if not card.healthy]
    return {
        topology.CARDS: ", ".join(f"{count} x {model}" for model, count in models.items()),
        topology.MEMORY: ", ".join(sizes),
        topology.NUMA: ",".join(str(each) for each in _numa_nodes(cards)),
        topology.LINKS: _nearest(cards),
        topology.UNHEALTHY: ",".join(str(index) for index in sick),
    }


def _numa_nodes(cards: Sequence[Card]) -> list[int]:
    return sorted({card.numa for card in cards if card.numa >= 0})


def _nearest(cards: Sequence[Card]) -> str:
    """The sets of cards that are joined by links of the shortest distance there is: `0-1 2-3`."""
    told = [distance for card in cards for _, distance in card.links]
    if not told:
        return ""
    sets: dict[str, set[str]] = {card.id: {card.id} for card in cards}
    for card in cards:
        for other, distance in card.links:
            if distance == min(told) and other in sets and sets[other] is not sets[card.id]:
                joined = sets[card.id] | sets[other]
                for member in joined:
                    sets[member] = joined
    number = _numbers(cards)
    groups = {tuple(sorted(number[each] for each in joined)) for joined in sets.values() if len(joined) > 1}
    return " ".join("-".join(str(each) for each in group) for group in sorted(groups))
