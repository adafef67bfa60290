"""How long one gang takes on an idle cluster: submitted, bound, a pause, the next.

The PodGroup is created first (where there is one); the clock starts before the first of the gang's pods is sent,
all of them at once, and stops when the last is seen bound. The contestant runs and has caught up; a few gangs before
the first that counts let it load what it loads lazily. Pauses vary, so that nothing falls in step with a timer.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

from bench import manifests
from bench.api import Api
from bench.cluster import Cluster
from bench.contestants import Contestant, contestant
from bench.shapes import Shape
from bench.throughput import STALL_SECONDS, calm, percentile, started, until_ready
from bench.watcher import BindWatcher

WARM_UP = 3
SHORTEST_PAUSE, LONGEST_PAUSE = 0.15, 0.3


@dataclass(frozen=True, slots=True)
class Latency:
    """From the first pod's creation to the last one's bind, over all gangs."""

    p50_ms: float
    p99_ms: float
    worst_ms: float
    gangs: int


async def run(
    api: Api, cluster: Cluster, shape: Shape, name: str, *, run: str, chance: random.Random
) -> Latency:
    who = contestant(name, cluster, run=run)
    waits: list[float] = []
    async with BindWatcher(api) as watcher:
        with started(who):
            await until_ready(who, watcher)
            await calm(who, seconds=10)
            for gang in range(shape.gangs + WARM_UP):
                took = await _one(api, watcher, who, shape, gang)
                if gang >= WARM_UP:
                    waits.append(1000 * took)
                await asyncio.sleep(chance.uniform(SHORTEST_PAUSE, LONGEST_PAUSE))
    waits.sort()
    return Latency(
        p50_ms=percentile(waits, 50), p99_ms=percentile(waits, 99), worst_ms=waits[-1], gangs=len(waits)
    )


async def _one(api: Api, watcher: BindWatcher, who: Contestant, shape: Shape, gang: int) -> float:
    if who.grouping != "none":
        made = manifests.group(gang, size=shape.size, grouping=who.grouping)
        await api.call("POST", manifests.GROUPS[who.grouping], made)
    pods = [
        manifests.pod(shape, gang, member, scheduler=who.scheduler, grouping=who.grouping)
        for member in range(shape.size)
    ]
    names = [pod["metadata"]["name"] for pod in pods]
    watcher.expect(names)
    began = time.monotonic()
    await api.create_all(manifests.PODS, pods)
    await watcher.done(stall_seconds=STALL_SECONDS)
    return max(watcher.at[name] for name in names) - began
