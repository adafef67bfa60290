"""What a profiler would write on nodes, and nodes that it wrote on."""

from __future__ import annotations

from typing import Any

import msgspec

from alnair.api import names
from alnair.state import wire
from unit.builders import Cluster, decoded


def reading(compute: float = 0, bandwidth: float = 0, memory: int = 0, *, of: int = 24, **more: Any) -> str:
    """One card, as the old profiler writes it: per cents, and GB of so many."""
    told = {
        "mem_used": f"{memory}GB",
        "mem_free": f"{of - memory}GB",
        "process_cnt": 1,
        "pid-mem": [(18477, "11094MB")],
        "cyclic_pattern": False,
        "max_mem_bw_util": bandwidth,
        "max_gpu_util": compute,
        **more,
    }
    return str(told)


def of_cards(*texts: str | None, node: str | None = None) -> dict[str, str]:
    """The annotations for cards 0, 1, … (None: none of that one) and the node."""
    told = {f"{names.PREFIX}gpu-{index}": text for index, text in enumerate(texts) if text is not None}
    return told | ({names.NODE_READING: node} if node is not None else {})


def of_node(cpu: float, io: float = 0, **more: Any) -> str:
    return msgspec.json.encode({"cpu_util": cpu, "io_util": io, **more}).decode()


def tell(
    cluster: Cluster,
    name: str,
    annotations: dict[str, str],
    *,
    now: float = 0.0,
    wall: float = 1_000_000.0,
    managed: list[dict[str, Any]] | None = None,
) -> None:
    """The node's event comes, with these readings on it."""
    meta = {"name": name, "annotations": annotations, **({"managedFields": managed} if managed else {})}
    cluster.state.put_readings(decoded({"metadata": meta}, wire.Node), now=now, wall=wall)
