"""Cards as zones of type GPU in a NodeResourceTopology that somebody else publishes.

What must never happen: that an object which Alnair itself published is read here; see `api.topology.is_ours`.
"""

from __future__ import annotations

from alnair.api.quantity import shown, whole
from alnair.api.topology import ZONE_GPU, NodeResourceTopology
from alnair.state.inventory.cards import Card, Unreadable


def read(topology: NodeResourceTopology) -> list[Card]:
    zones = [zone for zone in topology.zones if zone.type == ZONE_GPU]
    ids = {zone.name: zone.name if (uuid := zone.attribute("uuid")) is None else uuid for zone in zones}
    cards = []
    for position, zone in enumerate(zones):
        memory = next(
            (resource.capacity for resource in zone.resources or () if resource.name == "memory"), None
        )
        if memory is None:
            raise Unreadable(f"zone {shown(zone.name)} of type GPU has no resource 'memory'")
        health = (zone.attribute("health") or "healthy").lower()
        cards.append(
            Card(
                ids[zone.name],
                zone.attribute("model") or "",
                whole(memory, field=f"zones[{zone.name}].resources[memory].capacity") >> 20,
                healthy=health in ("healthy", "true"),
                index=_index(zone.attribute("index"), otherwise=position),
                numa=numa_number(zone.parent or ""),
                links=tuple(
                    (ids[cost.name], cost.value)
                    for cost in zone.costs or ()
                    if cost.name in ids and cost.name != zone.name
                ),
            )
        )
    return cards


def _index(text: str | None, *, otherwise: int) -> int:
    return (
        int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 4 else otherwise
    )


def numa_number(zone: str) -> int:
    """The number of the NUMA node that a zone `node-3` is; -1 where the name tells none."""
    number = zone.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 4 else -1
