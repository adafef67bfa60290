"""NodeResourceTopology as NFD and the resource-topology-exporter publish it, and as Alnair does where nobody else does.

Cluster-scoped, named as its node, without spec or status: the zones lie at the top. NUMA nodes are zones of
type `Node`, cards are zones of type `GPU`. What a publisher may send must be accepted, so bounds are wide and
quantities stay text until api.quantity judges them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from alnair.api.meta import Model, ObjectMeta, Quantity

ZONE_GPU: Final = "GPU"
ZONE_NODE: Final = "Node"

# An object is Alnair's own as long as a zone says so. It stands in the zones and nowhere else because their list is
# atomic: whoever publishes into an object of ours replaces it, and with it our word; labels would stay.
PUBLISHER: Final = "publisher"
ALNAIR: Final = "alnair"

# What people read of a node's cards at a glance, as attributes of the object; `kubectl get` prints them.
CARDS: Final = "cards"
MEMORY: Final = "memory"
NUMA: Final = "numa"
LINKS: Final = "links"
UNHEALTHY: Final = "unhealthy"
SOURCE: Final = "source"

Word = Annotated[str, Field(max_length=256)]


class Attribute(Model):
    """A named value of a node or a zone."""

    name: Word
    """What the value is called."""
    value: Annotated[str, Field(max_length=4096)]
    """The value."""


class Cost(Model):
    """How far another zone is."""

    name: Word
    """The other zone."""
    value: Annotated[int, Field(ge=-(2**63), le=2**63 - 1, json_schema_extra={"format": "int64"})]
    """The distance; smaller is nearer."""


class ZoneResource(Model):
    """One resource of a zone."""

    name: Annotated[str, Field(max_length=317)]
    """The resource's name."""
    capacity: Quantity
    """What the zone has."""
    allocatable: Quantity
    """What pods may use of it."""
    available: Quantity
    """What running pods have left of it when the object was published."""


class Zone(Model):
    """A part of the node: a NUMA node, a card, a socket."""

    name: Word
    """The zone's name, unique in the object."""
    type: Word
    """What the zone is: Node for a NUMA node, GPU for a card."""
    parent: Word | None = None
    """The zone that this one lies in."""
    costs: Annotated[list[Cost], Field(max_length=1024)] | None = None
    """How far the other zones are."""
    attributes: Annotated[list[Attribute], Field(max_length=256)] | None = None
    """Named values; a card has uuid, model and index."""
    resources: Annotated[list[ZoneResource], Field(max_length=256)] | None = None
    """What the zone holds."""

    def attribute(self, name: str) -> str | None:
        """The value of that attribute (the first, should a publisher repeat it)."""
        return next((each.value for each in self.attributes or () if each.name == name), None)


class NodeResourceTopology(Model):
    """The parts of a node, what each holds, and how far they are from one another."""

    metadata: ObjectMeta
    topology_policies: Annotated[list[Word], Field(max_length=64)] | None = None
    """Deprecated by its authors; the attributes topologyManagerPolicy and topologyManagerScope go first."""
    zones: Annotated[list[Zone], Field(max_length=1024)]
    """The parts of the node."""
    attributes: Annotated[list[Attribute], Field(max_length=256)] | None = None
    """Named values of the node as a whole."""


def is_ours(manifest: dict[str, Any]) -> bool:
    """Whether Alnair published it, and nobody since. For an object that anybody may have written."""
    zones = manifest.get("zones")
    return isinstance(zones, list) and any(_says_ours(zone) for zone in zones)


def _says_ours(zone: object) -> bool:
    attributes = zone.get("attributes") if isinstance(zone, dict) else None
    return isinstance(attributes, list) and {"name": PUBLISHER, "value": ALNAIR} in attributes
