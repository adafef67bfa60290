"""Nodes with cards for kwok to play, as plain manifests: for the demo, the tests and the benchmarks.

A node describes its cards in one of the ways that Alnair reads: the profiler's annotations (nodes that Alnair owns),
GFD's labels and `nvidia.com/gpu` (nodes that a device plugin owns), HAMi's registration, or a NodeResourceTopology of
some publisher (which can tell different cards). The same arguments always give the same manifest.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from alnair.api import names
from alnair.api import topology as nrt

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


def hami_node(
    name: str, kind: CardKind, cards: int, *, cpu: str = "64", memory: str = "512Gi", slots: int = 10
) -> Manifest:
    """A node of Alnair's whose cards HAMi registers: half of them on each of two sockets, linked in pairs."""
    register = [
        {
            "id": card_uuid(name, index),
            "index": index,
            "count": slots,
            "devmem": kind.memory_mib,
            "devcore": 100,
            "type": kind.model,
            "numa": socket_of(index, cards),
            "mode": "hami-core",
            "health": True,
        }
        for index in range(cards)
    ]
    scores = [
        {
            "uuid": card_uuid(name, index),
            "score": {
                card_uuid(name, other): _HAMI_SCORES[_link(index, other, cards)]
                for other in range(cards)
                if other != index
            },
        }
        for index in range(cards)
    ]
    return plain_node(
        name,
        cpu=cpu,
        memory=memory,
        labels={names.GPU_OWNER: names.OWNED_BY_ALNAIR},
        annotations={names.HAMI_REGISTER: json.dumps(register), names.HAMI_SCORES: json.dumps(scores)},
    )


_HAMI_SCORES = {"pair": 250, "socket": 20, "far": 10}


def socket_of(index: int, cards: int) -> int:
    """The first half of the cards hangs on NUMA node 0, the second on 1."""
    return int(index >= (cards + 1) // 2)


def _link(one: int, other: int, cards: int) -> str:
    """Cards 0 and 1, 2 and 3, … are a pair, unless a socket lies between them."""
    if socket_of(one, cards) != socket_of(other, cards):
        return "far"
    return "pair" if one // 2 == other // 2 else "socket"


def topology(
    node: str,
    kinds: Sequence[CardKind],
    *,
    used_mib: Sequence[int] | None = None,
    pair_cost: int | None = None,
    same_socket_cost: int = 10,
    other_socket_cost: int = 40,
    distance: Callable[[int, int], int] | None = None,
) -> Manifest:
    """A NodeResourceTopology as somebody else publishes it: two NUMA nodes, each card its own zone.

    The cards hang on the sockets in turn; with a `pair_cost`, one half on each, and linked in pairs. `distance` between
    the cards of two indices, where that does not tell all of it.
    """
    used = list(used_mib or [0] * len(kinds))
    costs = {"pair": pair_cost or same_socket_cost, "socket": same_socket_cost, "far": other_socket_cost}

    def socket(index: int) -> int:
        return index % 2 if pair_cost is None else socket_of(index, len(kinds))

    def cost(one: int, other: int) -> int:
        if distance is not None:
            return distance(one, other)
        if pair_cost is None:
            return costs["socket" if one % 2 == other % 2 else "far"]
        return costs[_link(one, other, len(kinds))]

    zones: list[Manifest] = [
        {
            "name": f"node-{number}",
            "type": nrt.ZONE_NODE,
            "costs": [{"name": f"node-{other}", "value": 10 if other == number else 21} for other in (0, 1)],
        }
        for number in (0, 1)
    ]
    for index, kind in enumerate(kinds):
        zones.append(
            {
                "name": f"gpu-{index}",
                "type": nrt.ZONE_GPU,
                "parent": f"node-{socket(index)}",
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
        "attributes": _at_a_glance(kinds, paired=pair_cost is not None),
        "zones": zones,
    }


def nvlink_pairs(one: int, other: int) -> int:
    """Cards 0 and 1, 2 and 3, … joined by NVLink, four on a PCIe switch, the rest across sockets."""
    return 10 if one // 2 == other // 2 else 20 if one // 4 == other // 4 else 40


def _at_a_glance(kinds: Sequence[CardKind], *, paired: bool) -> list[Manifest]:
    """What `kubectl get` prints of the cards, if their publisher says it."""
    models = Counter(kind.model for kind in kinds)
    first = range(0, len(kinds), 2) if paired else ()
    pairs = [f"{one}-{one + 1}" for one in first if _link(one, one + 1, len(kinds)) == "pair"]
    values = {
        nrt.CARDS: ", ".join(f"{number} x {model}" for model, number in models.items()),
        nrt.MEMORY: ", ".join(dict.fromkeys(_mib(kind.memory_mib) for kind in kinds)),
        nrt.NUMA: "0,1",
        nrt.LINKS: " ".join(pairs),
    }
    return [{"name": name, "value": value} for name, value in values.items() if value]


def _mib(size: int) -> str:
    return f"{size // 1024}Gi" if size % 1024 == 0 else f"{size}Mi"


def mixed_node(
    name: str, kinds: Sequence[CardKind], *, cpu: str = "64", memory: str = "512Gi"
) -> list[Manifest]:
    """A node of Alnair's with different cards, and the topology object that alone can tell them apart."""
    node = plain_node(name, cpu=cpu, memory=memory, labels={names.GPU_OWNER: names.OWNED_BY_ALNAIR})
    return [node, topology(name, kinds)]


def small_mixed_fleet() -> list[Manifest]:
    """Seven nodes, four models and sizes of memory, both owners, and a node with two different cards.

    Each node's cards are told by a source that knows NUMA nodes and links, whatever else the node says: HAMi's
    registration, or a NodeResourceTopology beside the profiler's annotations, beside GFD's labels, or alone.
    """
    return [
        hami_node("a100-1", A100_40, 8),
        hami_node("a10-1", A10, 4),
        gpu_node("a10-2", model=A10.model, cards=4, memory_mib=A10.memory_mib),
        topology("a10-2", [A10] * 4, pair_cost=4),
        hami_node("t4-1", T4, 2, cpu="16", memory="64Gi"),
        gpu_node("v100-1", model=V100.model, cards=4, memory_mib=V100.memory_mib, owner="device-plugin"),
        topology("v100-1", [V100] * 4, pair_cost=4),
        *mixed_node("mixed-1", [A10, T4], cpu="32", memory="128Gi"),
        plain_node("cpu-1"),
    ]


def has_cards(manifest: Manifest) -> bool:
    """Whether it is a node that tells of cards, or the topology of one."""
    told = {names.GFD_COUNT, names.PHYSICAL_GPU_UUIDS, names.HAMI_REGISTER}
    meta = manifest["metadata"]
    return manifest["kind"] == names.KIND_NRT or not told.isdisjoint(
        {**meta.get("labels", {}), **meta.get("annotations", {})}
    )


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
