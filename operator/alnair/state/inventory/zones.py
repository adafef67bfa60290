"""Cards as zones of type GPU in a NodeResourceTopology that somebody else publishes.

What must never happen: that an object which Alnair itself published is read here; see `api.topology.is_ours`.
"""

from __future__ import annotations

from alnair.api.quantity import shown, whole
from alnair.api.topology import ZONE_GPU, NodeResourceTopology, Zone
from alnair.state.inventory.cards import Card, Unreadable, made_up_name


def read(node: str, topology: NodeResourceTopology) -> list[Card]:
    zones = [zone for zone in topology.zones if zone.type == ZONE_GPU]
    indexes = [_index(zone, position) for position, zone in enumerate(zones)]
    ids = {
        zone.name: made_up_name(node, index) if (uuid := zone.attribute("uuid")) is None else uuid
        for zone, index in zip(zones, indexes, strict=True)
    }
    cards = []
    for zone, index in zip(zones, indexes, strict=True):
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
                index=index,
                numa=numa_number(zone.parent or ""),
                links=tuple(
                    (ids[cost.name], cost.value)
                    for cost in zone.costs or ()
                    if cost.name in ids and cost.name != zone.name
                ),
                made_up=zone.attribute("uuid") is None,
            )
        )
    return cards


def _index(zone: Zone, position: int) -> int:
    """As the driver counts it. A card without a UUID is shown to its container by this number, so it must be told, in
    the zone's name if nowhere else: a position may be another one tomorrow."""
    told = zone.attribute("index")
    if told is not None and told.isascii() and told.isdigit() and len(told) < 4:
        return int(told)
    if zone.attribute("uuid") is not None:
        return position
    if (number := numa_number(zone.name)) < 0:
        raise Unreadable(f"zone {shown(zone.name)} of type GPU tells neither uuid nor index")
    return number


def numa_number(zone: str) -> int:
    """The number of the NUMA node that a zone `node-3` is; -1 where the name tells none."""
    number = zone.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 4 else -1
