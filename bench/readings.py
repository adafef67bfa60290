"""What a profiler on every node costs the operator: `python -m bench.readings [nodes [cards]]`.

Every node's event comes once a period, decoded and read as the operator does it, with a reading of each card that is
new. Printed: CPU seconds of a period as per cent of one core, in all and without what the event costs anyway.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

import msgspec

from alnair.api import names
from alnair.sandbox.fleet import gpu_node
from alnair.state import wire
from alnair.state.cluster import ClusterState
from alnair.state.nodes import read_node

PERIOD_SECONDS = 30.0
ROUNDS = 3


def main(nodes: int = 5000, cards: int = 8) -> None:
    draw = random.Random(1)
    plain = [gpu_node(f"n{number}", model="A10", cards=cards, memory_mib=24576) for number in range(nodes)]
    state = ClusterState()
    anyway = min(_seconds([_encoded(each) for each in plain], state) for _ in range(ROUNDS))
    rounds = [_seconds([_encoded(_read(each, cards, draw)) for each in plain], state) for _ in range(ROUNDS)]
    began = time.process_time()
    for second in range(int(PERIOD_SECONDS)):
        state.loads.pass_time(ROUNDS * PERIOD_SECONDS + second)
    ticks = time.process_time() - began
    renewing = min(rounds[1:])
    print(
        json.dumps(
            {
                "nodes": nodes,
                "cards": cards,
                "percent_of_a_core": round(100 * (renewing + ticks) / PERIOD_SECONDS, 2),
                "of_that_the_event_itself": round(100 * anyway / PERIOD_SECONDS, 2),
                "of_that_time_passing": round(100 * ticks / PERIOD_SECONDS, 2),
                "microseconds_a_node": round(1e6 * renewing / nodes, 1),
            }
        )
    )


def _read(node: dict[str, Any], cards: int, draw: random.Random) -> dict[str, Any]:
    """The node with new readings."""
    annotations = dict(node["metadata"]["annotations"])
    for card in range(cards):
        used = draw.randint(0, 24)
        annotations[f"{names.PREFIX}gpu-{card}"] = str(
            {
                "mem_used": f"{used}GB",
                "mem_free": f"{24 - used}GB",
                "process_cnt": 1,
                "pid-mem": [(draw.randint(1, 99999), f"{used * 1000}MB")],
                "cyclic_pattern": False,
                "max_mem_bw_util": draw.randint(0, 100),
                "max_gpu_util": draw.randint(0, 100),
            }
        )
    return {**node, "metadata": {**node["metadata"], "annotations": annotations}}


def _encoded(node: dict[str, Any]) -> bytes:
    return msgspec.json.encode(node)


def _seconds(events: list[bytes], state: ClusterState) -> float:
    """CPU for all of them, one after another, as handlers/feeds does it."""
    began = time.process_time()
    for event in events:
        node = msgspec.json.decode(event, type=wire.Node)
        state.put_node(read_node(node))
        state.put_readings(node, now=time.monotonic(), wall=time.time())
    return time.process_time() - began


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
