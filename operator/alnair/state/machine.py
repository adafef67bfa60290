"""A node's NUMA nodes in numbers: how much of what each has, and how much is free.

A value: taking something gives another `Machine`. NUMA nodes are counted by their place in `ids`, and a set of them is
an integer with a bit for each (a mask). What the kubelet does with it is in scheduling/numa.
"""

from __future__ import annotations

from dataclasses import dataclass

from alnair.api.quantity import BILLION, BadQuantity, integer, nano, shown
from alnair.api.topology import NodeResourceTopology, Zone
from alnair.state.inventory import numa_number

ZONE_NUMA = "Node"
MOST_ZONES = 64  # the kubelet keeps them in so many bits
DEFAULT_MOST_ZONES = 8  # of the kubelet, where nobody tells another number

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
CONTAINER, POD = "container", "pod"

POLICY_ATTRIBUTE = "topologyManagerPolicy"
SCOPE_ATTRIBUTE = "topologyManagerScope"
MOST_ZONES_ATTRIBUTE = "topologyManagerMaxNUMANodes"

# The deprecated list says policy and scope in one word.
_OLD_WORDS = {
    "None": (NONE, CONTAINER),
    "BestEffort": (BEST_EFFORT, CONTAINER),
    "BestEffortContainerLevel": (BEST_EFFORT, CONTAINER),
    "BestEffortPodLevel": (BEST_EFFORT, POD),
    "Restricted": (RESTRICTED, CONTAINER),
    "RestrictedContainerLevel": (RESTRICTED, CONTAINER),
    "RestrictedPodLevel": (RESTRICTED, POD),
    "SingleNUMANodeContainerLevel": (SINGLE, CONTAINER),
    "SingleNUMANodePodLevel": (SINGLE, POD),
}


class Unclear(ValueError):
    """A topology that is there but says something that no kubelet can mean. The message names field and value."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the node's topology manager decides."""

    policy: str = NONE
    scope: str = CONTAINER


@dataclass(frozen=True, slots=True)
class Stock:
    """One resource over the NUMA nodes. `there`: what a request is compared with to find how few NUMA nodes could
    hold it if nothing were taken: all CPUs, all devices, allocatable memory."""

    there: tuple[int, ...]
    free: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """`cpus` None, no `memory`: no manager hands them out by NUMA node. Of `devices` only those that zones tell of.

    `groups`: by NUMA node, the mask over which memory is pinned there; 0 = none is. The memory manager never lets a
    NUMA node serve two different groups.
    """

    ids: tuple[int, ...]
    cpus: Stock | None = None
    memory: tuple[tuple[str, Stock], ...] = ()
    devices: tuple[tuple[str, Stock], ...] = ()
    groups: tuple[int, ...] = ()

    @property
    def every(self) -> int:
        return (1 << len(self.ids)) - 1

    def numbers(self, mask: int) -> tuple[int, ...]:
        """The NUMA nodes of a mask as the kernel numbers them."""
        return tuple(number for place, number in enumerate(self.ids) if mask >> place & 1)


def rules_of(topology: NodeResourceTopology) -> Rules:
    """The attributes go before the deprecated list. Raises Unclear."""
    told = {each.name: each.value for each in reversed(topology.attributes or ())}
    policy, scope = NONE, CONTAINER
    for word in topology.topology_policies or ():
        if word in _OLD_WORDS:
            policy, scope = _OLD_WORDS[word]
            break
    policy = told.get(POLICY_ATTRIBUTE, policy)
    scope = told.get(SCOPE_ATTRIBUTE, scope)
    if policy not in (NONE, BEST_EFFORT, RESTRICTED, SINGLE):
        raise Unclear(f"attribute {POLICY_ATTRIBUTE}: {shown(policy)} is no policy of the topology manager")
    if scope not in (CONTAINER, POD):
        raise Unclear(f"attribute {SCOPE_ATTRIBUTE}: {shown(scope)} is neither 'container' nor 'pod'")
    return Rules(policy, scope)


def machine_of(topology: NodeResourceTopology) -> Machine | None:
    """None: no zone is a NUMA node. Raises Unclear, BadQuantity."""
    zones = [zone for zone in topology.zones if zone.type == ZONE_NUMA]
    if not zones:
        return None
    numbered = {numa_number(zone.name): zone for zone in zones}
    if -1 in numbered or len(numbered) != len(zones):
        raise Unclear(
            "the names of the zones of type Node do not end in different numbers, like node-0, node-1"
        )
    most = _most_zones(topology)
    if len(zones) > min(most, MOST_ZONES):
        raise Unclear(f"{len(zones)} zones of type Node; {min(most, MOST_ZONES)} are the most")
    ids = tuple(sorted(numbered))
    ordered = [numbered[number] for number in ids]
    names = sorted({resource.name for zone in zones for resource in zone.resources or ()})
    memory = tuple(
        (name, _stock(ordered, name)) for name in names if name == "memory" or name.startswith("hugepages-")
    )
    return Machine(
        ids=ids,
        cpus=_stock(ordered, "cpu") if "cpu" in names else None,
        memory=memory,
        devices=tuple((name, _stock(ordered, name)) for name in names if "/" in name),
        groups=tuple(
            1 << place if any(stock.free[place] < stock.there[place] for _, stock in memory) else 0
            for place in range(len(ids))
        ),
    )


def costs_of(topology: NodeResourceTopology, ids: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """How far each NUMA node is from each; empty where it is not told in full."""
    rows = []
    zones = {numa_number(zone.name): zone for zone in topology.zones if zone.type == ZONE_NUMA}
    for number in ids:
        told = {numa_number(cost.name): cost.value for cost in zones[number].costs or ()}
        if any(other not in told for other in ids):
            return ()
        rows.append(tuple(told[other] for other in ids))
    return tuple(rows)


def _most_zones(topology: NodeResourceTopology) -> int:
    for each in topology.attributes or ():
        if each.name == MOST_ZONES_ATTRIBUTE:
            return integer(each.value, field=f"attribute {MOST_ZONES_ATTRIBUTE}", low=1, high=1024)
    return DEFAULT_MOST_ZONES


def _stock(zones: list[Zone], name: str) -> Stock:
    there, free = [], []
    for zone in zones:
        resource = next((each for each in zone.resources or () if each.name == name), None)
        if resource is None:
            there.append(0)
            free.append(0)
            continue
        where = f"zones[{zone.name}].resources[{name}]"
        most = (
            resource.allocatable if name == "memory" or name.startswith("hugepages-") else resource.capacity
        )
        # Whole ones only: half a CPU cannot be given to anybody alone.
        there.append(nano(most, field=f"{where}.capacity") // BILLION)
        free.append(nano(resource.available, field=f"{where}.available") // BILLION)
    return Stock(tuple(there), tuple(free))


__all__ = ["BadQuantity", "Machine", "Rules", "Stock", "Unclear", "costs_of", "machine_of", "rules_of"]
