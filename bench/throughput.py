"""How fast a contestant works off a backlog.

All groups and pods are created while nobody runs, so that creating them is no part of it; then the contestant is
started. The clock starts when it says that it is ready (informers synced; leads and has caught up), or at its first
bind if that comes before, and stops at the last bind. Not at the first bind: who plans everything before binding
anything would have its planning for free. Pods a second = pods bound in that time. p50 and p99 are from the start of
the clock to each bind.

That rate does not see what a contestant puts off until after the last bind: events, status, records. So there is a
second one, `settled`, whose clock stops when the contestant has calmed down and everything is written; and CPU is
counted until then. `tail_seconds` is the time in between. Some never rest, kube-scheduler with gangs that do not fit
for one: after a quarter of a minute nobody waits any more, and `settled` is not there.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from alnair.sandbox.processes import ChildFailed
from bench import manifests
from bench.api import Api
from bench.cluster import Cluster
from bench.contestants import Contestant, contestant
from bench.profiling import Profiler
from bench.shapes import CARDS, Shape
from bench.usage import Usage, of_group, of_machine
from bench.watcher import BindWatcher, Stalled

READY_SECONDS = 120.0
STALL_SECONDS = 60.0
CALM_CORES = 0.10
CALM_STEP = 0.5
LONGEST_CALM = 15.0


class WrongResult(Exception):
    """A contestant did what no scheduler may do, so its speed says nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One contestant's run of one shape. Seconds and milliseconds are of wall time unless they are of CPU."""

    pods_per_second: float
    settled_pods_per_second: float | None
    """None if it had not calmed down when nobody waited any more: then the CPU figures hold idle work, too."""

    p50_ms: float
    p99_ms: float
    peak_mib: float
    cpu_ms_per_pod: dict[str, float]
    """Of the scheduler, the apiserver and etcd."""

    others_share: float
    """Of the machine's CPU, what programs took that have no part in this: above a few per cent, measure again."""

    tail_seconds: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What had been used at one moment."""

    at: float
    parts: dict[str, Usage]
    bench: float
    machine: float

    @classmethod
    def now(cls, cluster: Cluster, who: Contestant) -> Self:
        return cls(time.monotonic(), cluster.usage(who.child.pid), time.process_time(), of_machine())

    def since(self, before: Self) -> dict[str, float]:
        """CPU seconds of each part."""
        return {part: used.cpu_seconds - before.parts[part].cpu_seconds for part, used in self.parts.items()}

    def others_share(self, before: Self) -> float:
        ours = sum(self.since(before).values()) + self.bench - before.bench
        there = (self.at - before.at) * (os.cpu_count() or 1)
        return max(0.0, (self.machine - before.machine - ours) / there)


async def run(
    api: Api, cluster: Cluster, shape: Shape, name: str, *, run: str, profiler: Profiler | None
) -> Outcome:
    who = contestant(name, cluster, run=run)
    await cluster.fill(api, shape)
    await create(api, shape, who)
    await asyncio.sleep(min(1.0, shape.pods / 1000))  # the apiserver and etcd come to rest
    async with BindWatcher(api) as watcher:
        watcher.expect(expected(shape))
        with started(who):
            ready = await until_ready(who, watcher)
            before = Reading.now(cluster, who)
            if profiler is not None:
                profiler.attach(who.child.pid)
            await watcher.done(stall_seconds=STALL_SECONDS)
            last = max(watcher.at.values())
            calmed = await calm(who, seconds=min(LONGEST_CALM, 3 + 2 * (last - min(watcher.at.values()))))
            if profiler is not None:
                await profiler.detach()
            after = Reading.now(cluster, who)
    verify(shape, watcher)
    start = min(ready, *watcher.at.values())
    waits = sorted(1000 * (at - start) for at in watcher.at.values())
    count = len(waits)
    return Outcome(
        pods_per_second=count / (last - start),
        settled_pods_per_second=count / (max(calmed, last) - start) if calmed is not None else None,
        p50_ms=percentile(waits, 50),
        p99_ms=percentile(waits, 99),
        peak_mib=after.parts["scheduler"].peak_mib,
        cpu_ms_per_pod={part: 1000 * seconds / count for part, seconds in after.since(before).items()},
        others_share=after.others_share(before),
        tail_seconds=max(0.0, (calmed or after.at) - last),
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
    """Runs it meanwhile. When it binds no more, its log is what one wants to see."""
    who.child.start()
    try:
        yield
    except Stalled as stalled:
        raise ChildFailed(f"{stalled}{who.child.tail()}") from None
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
        await asyncio.sleep(0.03)
    return time.monotonic()


async def calm(who: Contestant, *, seconds: float) -> float | None:
    """When it began to use next to no CPU; None if it had not after so many seconds."""
    deadline = time.monotonic() + seconds
    used = of_group(who.child.pid).cpu_seconds
    while True:
        began = time.monotonic()
        await asyncio.sleep(CALM_STEP)
        now = of_group(who.child.pid).cpu_seconds
        if now - used < CALM_CORES * CALM_STEP:
            return began
        if began > deadline:
            return None
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
