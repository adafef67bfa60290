"""A node as it should be told of, by whichever source of those that Alnair reads, and the manifests that follow.

They carry the witness's own list of the node's cards in the same write. A fault is another Station of the same name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final

from alnair.api import names
from alnair.sandbox import fleet
from alnair.sandbox.fleet import CardKind
from witness import truth
from witness.truth import Card
from witness.words import CARDS, Object

RACK: Final = "topology.witness.test/rack"

EQUAL: Final = ("profiler", "labels", "device-plugin", "topology-over-labels")
"""Sources that know one model and one size for all cards of a node; `topology-over-labels` falls back to such."""
TOLD_BY_TOPOLOGY: Final = ("topology", "topology-over-labels")


@dataclass(frozen=True, slots=True)
class Station:
    name: str
    source: str
    cards: tuple[Card, ...]
    rack: str
    style: int
    """Which spelling its source uses, where there are several."""
    silent: bool = False
    """Its topology is not there."""
    cordoned: bool = False
    ready: bool = True
    absent: bool = False

    @property
    def counted(self) -> bool:
        return self.source == "device-plugin"


def node_manifest(station: Station) -> Object:
    labels = {RACK: station.rack}
    extended = {names.NVIDIA_GPU: str(len(station.cards))} if station.counted else {}
    if station.source not in ("device-plugin", "none"):
        labels[names.GPU_OWNER] = names.OWNED_BY_ALNAIR
    if station.source in ("labels", "device-plugin", "topology-over-labels") and station.cards:
        labels |= {
            names.GFD_PRODUCT: station.cards[0].model,
            names.GFD_MEMORY: str(min(card.memory_mib for card in station.cards)),
            names.GFD_COUNT: str(len(station.cards)),
        }
    return fleet.plain_node(
        station.name,
        cpu="64",
        memory="512Gi",
        extended=extended,
        labels=labels,
        annotations={**_annotations(station), CARDS: truth.told(_told_by_node(station))},
        unschedulable=station.cordoned,
    )


def _told_by_node(station: Station) -> tuple[Card, ...]:
    """The cards that may be given by name if no topology tells of any."""
    if station.counted or station.source == "topology":
        return ()
    if station.source == "topology-over-labels":
        size = min((card.memory_mib for card in station.cards), default=0)
        return tuple(
            replace(card, id=f"{station.name}/{place}", memory_mib=size, healthy=True)
            for place, card in enumerate(station.cards)
        )
    return station.cards


def _annotations(station: Station) -> dict[str, str]:
    if station.source == "hami":
        return {
            names.HAMI_REGISTER: json.dumps(
                [_registered(place, card) for place, card in enumerate(station.cards)]
            )
        }
    if station.source not in ("profiler", "profiler-list") or not station.cards:
        return {}
    static = {"count": str(len(station.cards)), "model": station.cards[0].model}
    told = {
        names.PHYSICAL_GPU_COUNT: str(len(station.cards)),
        names.PHYSICAL_GPU_UUIDS: ",".join(card.id for card in station.cards),
    }
    if station.source == "profiler":
        static["mem_size"] = f"{station.cards[0].memory_mib}MiB"
    else:
        key = names.VIRTUAL_GPU_COUNT_MISSPELT if station.style == 2 else names.VIRTUAL_GPU_COUNT
        told[key] = ",".join(str(card.memory_mib // 1024) for card in station.cards)
    told[names.GPU_STATIC] = repr(static) if station.style == 1 else json.dumps(static)
    return told


def _registered(place: int, card: Card) -> Object:
    return {
        "id": card.id,
        "index": place,
        "count": card.slots,
        "devmem": card.memory_mib,
        "devcore": 100,
        "type": card.model,
        "numa": place % 2,
        "mode": "hami-core",
        "health": card.healthy,
    }


def topology_manifest(station: Station) -> Object | None:
    """The node's NodeResourceTopology, where that is what tells of its cards."""
    if station.source not in TOLD_BY_TOPOLOGY or station.silent or not station.cards:
        return None
    made = fleet.topology(station.name, [CardKind(card.model, card.memory_mib) for card in station.cards])
    made["metadata"]["annotations"] = {CARDS: truth.told(station.cards)}
    zones = [zone for zone in made["zones"] if zone["type"] == "GPU"]
    for zone, card in zip(zones, station.cards, strict=True):
        told = {"uuid": card.id, "health": "Healthy" if card.healthy else "Unhealthy"}
        kept = [each for each in zone["attributes"] if each["name"] not in told]
        zone["attributes"] = kept + [{"name": name, "value": value} for name, value in told.items()]
    return made
