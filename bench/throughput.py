"""How fast a contestant works off a backlog.

All groups and pods are created while nobody runs, so that creating them is no part of it; then the contestant is
started. The clock starts when it says that it is ready (informers synced; leads and has caught up), or at its first
bind if that comes before, and stops at the last bind. Not at the first bind: who plans everything before binding
anything would have its planning for free. Pods a second = pods bound in that time. p50 and p99 are from the start of
the clock to each bind.

CPU is counted until the contestant has calmed down, so that what it puts off until after the last bind (events,
status) is in; `tail_seconds` says how long that was.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from alnair.sandbox.processes import ChildFailed
from bench import manifests
from bench.api import Api
from bench.cluster import Cluster
from bench.contestants import Contestant, contestant
from bench.profiling import Profiler
from bench.shapes import CARDS, Shape
from bench.usage import of_group
from bench.watcher import BindWatcher

READY_SECONDS = 60.0
STALL_SECONDS = 60.0
CALM_CORES = 0.10
CALM_SECONDS = 15.0


class WrongResult(Exception):
    """A contestant did what no scheduler may do, so its speed says nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One contestant's run of one shape. Seconds and milliseconds are of wall time unless they are of CPU."""

    pods_per_second: float
    first_to_last_pods_per_second: float
    p50_ms: float
    p99_ms: float
    peak_mib: float
    cpu_ms_per_pod: dict[str, float]
    """Of the scheduler, the apiserver and etcd."""

    tail_seconds: float


async def run(
    api: Api, cluster: Cluster, shape: Shape, name: str, *, run: str, profiler: Profiler | None
) -> Outcome:
    who = contestant(name, cluster, run=run)
    await cluster.fill(api, shape)
    await create(api, shape, who)
    await asyncio.sleep(1)  # the apiserver and etcd come to rest
    async with BindWatcher(api) as watcher:
        watcher.expect(expected(shape))
        with started(who):
            ready = await until_ready(who, watcher)
            before = cluster.usage() | {"scheduler": of_group(who.child.pid)}
            if profiler is not None:
                profiler.attach(who.child.pid)
            await watcher.done(stall_seconds=STALL_SECONDS)
            last = max(watcher.at.values())
            await calm(who)
            if profiler is not None:
                await profiler.detach()
            after = cluster.usage() | {"scheduler": of_group(who.child.pid)}
            tail = time.monotonic() - last
    verify(shape, watcher)
    first = min(watcher.at.values())
    waits = sorted(1000 * (at - min(ready, first)) for at in watcher.at.values())
    count = len(waits)
    return Outcome(
        pods_per_second=count / (last - min(ready, first)),
        first_to_last_pods_per_second=(count - 1) / max(last - first, 1e-9),
        p50_ms=percentile(waits, 50),
        p99_ms=percentile(waits, 99),
        peak_mib=after["scheduler"].peak_mib,
        cpu_ms_per_pod={
            part: 1000 * (after[part].cpu_seconds - before[part].cpu_seconds) / count
            for part in sorted(after)
        },
        tail_seconds=tail,
    )


async def create(api: Api, shape: Shape, who: Contestant) -> None:
    gangs = range(shape.gangs)
    if who.grouping != "none" and shape.kind != "single":
        groups = (manifests.group(gang, size=shape.size, grouping=who.grouping) for gang in gangs)
        await api.create_all(manifests.GROUPS[who.grouping], groups)
    pods = (
        manifests.pod(shape, gang, member, scheduler=who.scheduler, grouping=who.grouping)
        for gang in gangs
        for member in range(shape.size)
    )
    await api.create_all(manifests.PODS, pods)


def expected(shape: Shape) -> Iterator[str]:
    """The pods that have to be bound."""
    for gang in range(shape.gangs):
        if not shape.impossible(gang):
            for member in range(shape.size):
                yield manifests.pod_name(gang, member)


@contextmanager
def started(who: Contestant) -> Iterator[None]:
    who.child.start()
    try:
        yield
    finally:
        who.child.stop()


async def until_ready(who: Contestant, watcher: BindWatcher) -> float:
    """When it said that it is ready; infinitely late if it bound a pod before it could be asked."""
    deadline = time.monotonic() + READY_SECONDS
    while not who.ready():
        if watcher.at:
            return math.inf
        if not who.child.running() or time.monotonic() > deadline:
            raise ChildFailed(f"{who.name} is not ready{who.child.tail()}")
        await asyncio.sleep(0.02)
    return time.monotonic()


async def calm(who: Contestant) -> None:
    """Until it uses next to no CPU, or for a while if it never rests."""
    deadline = time.monotonic() + CALM_SECONDS
    step, used = 0.5, of_group(who.child.pid).cpu_seconds
    while time.monotonic() < deadline:
        await asyncio.sleep(step)
        now = of_group(who.child.pid).cpu_seconds
        if now - used < CALM_CORES * step:
            return
        used = now


def verify(shape: Shape, watcher: BindWatcher) -> None:
    """Bound is exactly what can be, and no node has more pods than cards."""
    wrong = watcher.at.keys() ^ set(expected(shape))
    if wrong:
        raise WrongResult(
            f"{len(wrong)} pods are bound that must not be, or the other way round: {sorted(wrong)[:5]}"
        )
    if shape.kind == "mixed":
        return  # not every member has a card
    node, most = Counter(watcher.node.values()).most_common(1)[0]
    if most > CARDS:
        raise WrongResult(f"{node} has {CARDS} GPUs and {most} pods with one each")


def percentile(ordered: Sequence[float], per_cent: int) -> float:
    """The smallest value that so many per cent are not above; never one in between."""
    return ordered[max(0, math.ceil(len(ordered) * per_cent / 100) - 1)]
