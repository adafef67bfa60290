"""Nodes with cards for kwok to play, as plain manifests: for the demo, the tests and the benchmarks.

A node describes its cards in one of the three ways that Alnair reads: the profiler's annotations (nodes that
Alnair owns), GFD's labels and `nvidia.com/gpu` (nodes that a device plugin owns), or a NodeResourceTopology
(nodes with different cards). The same arguments always give the same manifest.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from alnair.api import names

Manifest = dict[str, Any]
Owner = Literal["alnair", "device-plugin"]

KWOK_NODE = "kwok.x-k8s.io/node"
_UUIDS = uuid.uuid5(uuid.NAMESPACE_DNS, names.GROUP_ALLOCATION)


@dataclass(frozen=True, slots=True)
class CardKind:
    """A model of card and what one holds."""

    model: str
    memory_mib: int


A100_40 = CardKind("NVIDIA-A100-SXM4-40GB", 40_960)
A100_80 = CardKind("NVIDIA-A100-SXM4-80GB", 81_920)
A10 = CardKind("NVIDIA-A10", 24_576)
L4 = CardKind("NVIDIA-L4", 24_576)
T4 = CardKind("Tesla-T4", 16_384)
V100 = CardKind("Tesla-V100-SXM2-32GB", 32_768)


def card_uuid(node: str, index: int) -> str:
    """A card's UUID in NVIDIA's form, the same for a node's name and index every time."""
    return f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{index}')}"


def plain_node(
    name: str,
    *,
    cpu: str = "32",
    memory: str = "256Gi",
    pods: int = 110,
    extended: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
) -> Manifest:
    """A node without cards. kwok makes it Ready and keeps the capacity given here."""
    holds = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "1Ti", **(extended or {})}
    spec: Manifest = {}
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **(labels or {}),
            },
            "annotations": {KWOK_NODE: "fake", **(annotations or {})},
        },
        "spec": spec,
        "status": {"capacity": dict(holds), "allocatable": dict(holds)},
    }


def gpu_node(
    name: str,
    *,
    model: str,
    cards: int,
    memory_mib: int,
    owner: Owner = "alnair",
    cpu: str = "64",
    memory: str = "512Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
) -> Manifest:
    """A node with equal cards, described the way its owner describes them."""
    own_labels, own_annotations, extended = _described(name, CardKind(model, memory_mib), cards, owner)
    return plain_node(
        name,
        cpu=cpu,
        memory=memory,
        pods=pods,
        extended=extended,
        labels={**own_labels, **(labels or {})},
        annotations={**own_annotations, **(annotations or {})},
        taints=taints,
        unschedulable=unschedulable,
    )


def _described(
    name: str, kind: CardKind, cards: int, owner: Owner
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Labels, annotations and extended resources that tell of `cards` equal cards."""
    if owner == "device-plugin":
        labels = {
            names.GFD_PRODUCT: kind.model,
            names.GFD_MEMORY: str(kind.memory_mib),
            names.GFD_COUNT: str(cards),
        }
        return labels, {}, {names.NVIDIA_GPU: str(cards)}
    static = {"count": str(cards), "model": kind.model, "mem_size": f"{kind.memory_mib}MiB"}
    annotations = {
        names.PHYSICAL_GPU_COUNT: str(cards),
        names.PHYSICAL_GPU_UUIDS: ",".join(card_uuid(name, index) for index in range(cards)),
        names.GPU_STATIC: json.dumps(static),
    }
    return {names.GPU_OWNER: names.OWNED_BY_ALNAIR}, annotations, {}


def topology(
    node: str,
    kinds: Sequence[CardKind],
    *,
    used_mib: Sequence[int] | None = None,
    same_socket_cost: int = 10,
    other_socket_cost: int = 40,
    distance: Callable[[int, int], int] | None = None,
) -> Manifest:
    """A NodeResourceTopology: two NUMA nodes, the cards spread over them in turn, each card its own zone.

    `distance` between the cards of two indices, where sockets do not tell all of it.
    """

    def by_socket(one: int, other: int) -> int:
        return same_socket_cost if other % 2 == one % 2 else other_socket_cost

    cost = distance or by_socket
    used = list(used_mib or [0] * len(kinds))
    zones: list[Manifest] = [
        {
            "name": f"node-{socket}",
            "type": "Node",
            "costs": [{"name": f"node-{other}", "value": 10 if other == socket else 21} for other in (0, 1)],
        }
        for socket in (0, 1)
    ]
    for index, kind in enumerate(kinds):
        zones.append(
            {
                "name": f"gpu-{index}",
                "type": "GPU",
                "parent": f"node-{index % 2}",
                "attributes": [
                    {"name": "uuid", "value": card_uuid(node, index)},
                    {"name": "model", "value": kind.model},
                    {"name": "index", "value": str(index)},
                ],
                "resources": [
                    {
                        "name": "memory",
                        "capacity": _mib(kind.memory_mib),
                        "allocatable": _mib(kind.memory_mib),
                        "available": _mib(kind.memory_mib - used[index]),
                    }
                ],
                "costs": [
                    {"name": f"gpu-{other}", "value": cost(index, other)}
                    for other in range(len(kinds))
                    if other != index
                ],
            }
        )
    return {
        "apiVersion": names.API_NRT,
        "kind": names.KIND_NRT,
        "metadata": {"name": node},
        "topologyPolicies": ["BestEffort"],
        "zones": zones,
    }


def nvlink_pairs(one: int, other: int) -> int:
    """Cards 0 and 1, 2 and 3, … joined by NVLink, four on a PCIe switch, the rest across sockets."""
    return 10 if one // 2 == other // 2 else 20 if one // 4 == other // 4 else 40


def _mib(size: int) -> str:
    return f"{size // 1024}Gi" if size % 1024 == 0 else f"{size}Mi"


def mixed_node(
    name: str, kinds: Sequence[CardKind], *, cpu: str = "64", memory: str = "512Gi"
) -> list[Manifest]:
    """A node of Alnair's with different cards, and the topology object that alone can tell them apart."""
    node = plain_node(name, cpu=cpu, memory=memory, labels={names.GPU_OWNER: names.OWNED_BY_ALNAIR})
    return [node, topology(name, kinds)]


def small_mixed_fleet() -> list[Manifest]:
    """Seven nodes, five models, four sizes of memory, both owners, and a node with two different cards."""
    return [
        gpu_node("a100-1", model=A100_40.model, cards=8, memory_mib=A100_40.memory_mib),
        gpu_node("a10-1", model=A10.model, cards=4, memory_mib=A10.memory_mib),
        gpu_node("a10-2", model=A10.model, cards=4, memory_mib=A10.memory_mib),
        gpu_node("t4-1", model=T4.model, cards=2, memory_mib=T4.memory_mib, cpu="16", memory="64Gi"),
        gpu_node("v100-1", model=V100.model, cards=4, memory_mib=V100.memory_mib, owner="device-plugin"),
        *mixed_node("mixed-1", [A10, T4], cpu="32", memory="128Gi"),
        plain_node("cpu-1"),
    ]


def uniform_fleet(
    count: int, *, kind: CardKind = A10, cards: int = 8, owner: Owner = "alnair", prefix: str = "gpu"
) -> list[Manifest]:
    """Equal nodes `gpu-001`, `gpu-002`, …: for benchmarks and large tests."""
    width = max(3, len(str(count)))
    return [
        gpu_node(
            f"{prefix}-{number:0{width}d}",
            model=kind.model,
            cards=cards,
            memory_mib=kind.memory_mib,
            owner=owner,
        )
        for number in range(1, count + 1)
    ]
