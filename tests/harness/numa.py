"""NodeResourceTopologies as NFD and the resource-topology-exporter publish them, with NUMA nodes in them.

published("a", zone(cpu=(8, 6), memory=("32Gi", "32Gi")), zone(cpu=(8, 8)), policy="single-numa-node")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from alnair.api import names
from alnair.sandbox.fleet import card_uuid
from alnair.state.fingerprint import ATTRIBUTE, fingerprint, pod_hash

Manifest = dict[str, Any]
Amount = int | str


@dataclass(frozen=True)
class Zone:
    """One NUMA node: resource -> (what it has, what is available)."""

    holds: dict[str, tuple[Amount, Amount]] = field(default_factory=dict)


def zone(
    *,
    cpu: tuple[Amount, Amount] | None = None,
    memory: tuple[Amount, Amount] | None = None,
    gpu: tuple[Amount, Amount] | None = None,
    **more: tuple[Amount, Amount],
) -> Zone:
    told = {"cpu": cpu, "memory": memory, names.NVIDIA_GPU: gpu, **more}
    return Zone({name: amounts for name, amounts in told.items() if amounts is not None})


def published(
    node: str,
    *zones: Zone,
    policy: str = "single-numa-node",
    scope: str = "container",
    counting: Iterable[tuple[str, str]] | None = None,
    costs: Sequence[Sequence[int]] = (),
    cards: Sequence[Manifest] = (),
) -> Manifest:
    """`counting`: (namespace, name) of the pods that the numbers hold, for the fingerprint; None = it has none."""
    attributes = [
        {"name": "topologyManagerPolicy", "value": policy},
        {"name": "topologyManagerScope", "value": scope},
    ]
    if counting is not None:
        told = fingerprint(pod_hash(*pod) for pod in counting)
        attributes.append({"name": ATTRIBUTE, "value": told})
    return {
        "apiVersion": names.API_NRT,
        "kind": names.KIND_NRT,
        "metadata": {"name": node},
        "attributes": attributes,
        "zones": [*(_zone(each, number, costs) for number, each in enumerate(zones)), *cards],
    }


def _zone(each: Zone, number: int, costs: Sequence[Sequence[int]]) -> Manifest:
    resources = [
        {"name": name, "capacity": str(there), "allocatable": str(there), "available": str(free)}
        for name, (there, free) in each.holds.items()
    ]
    made: Manifest = {"name": f"node-{number}", "type": "Node", "resources": resources}
    if costs:
        made["costs"] = [{"name": f"node-{other}", "value": cost} for other, cost in enumerate(costs[number])]
    return made


def card_zone(node: str, index: int, *, numa: int, memory_mib: int = 24576) -> Manifest:
    """A card that hangs on that NUMA node."""
    size = f"{memory_mib}Mi"
    return {
        "name": f"gpu-{index}",
        "type": "GPU",
        "parent": f"node-{numa}",
        "attributes": [
            {"name": "uuid", "value": card_uuid(node, index)},
            {"name": "index", "value": str(index)},
            {"name": "model", "value": "NVIDIA-A10"},
        ],
        "resources": [{"name": "memory", "capacity": size, "allocatable": size, "available": size}],
    }
