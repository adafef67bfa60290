"""The three questions: recovery, flood, soak. Each returns its part of the result, ready for JSON."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from alnair.sandbox.processes import Child
from alnair.sandbox.progress import Report
from bench import manifests
from bench.soak.population import KINDS, Crowd, Kind
from bench.soak.trend import Trend, trend
from bench.soak.world import GROUPS, World
from bench.throughput import percentile

PROBE = next(kind for kind in KINDS if kind.name == "slices-4")
SHORT_LEASE = "--lease-duration=5"
REST_SECONDS = 15.0
"""Before each end of a leader and after the last pod: a new one has stamped what is settled, a stand-by has heard of
everything that Kopf tells it at its start, and reports have caught up, as all have that run for days."""
GRACE_SECONDS = 30.0
EXPLAINING_SECONDS = 120.0
PROBES = 10
FLOOD_AT_ONCE = 20
"""Gangs: a probe's own creations wait behind no more than theirs."""
STEP_SECONDS = 0.5
SAMPLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    pods: int
    minutes: float
    rate: float
    """Pods a second that come, and as many that go."""
    flood: int
    """Gangs that fit nowhere."""
    restarts: int


# -- recovery --------------------------------------------------------------------------------------------------------


async def recovery(world: World, size: Size, report: Report) -> dict[str, Any]:
    """Seconds until a pod that came while nobody led is bound: from the start of a new process after a clean end, and
    from the kill or the clean end of one that has a stand-by beside it, with a lease of 5 s."""
    restarted = []
    for _ in range(size.restarts):
        await asyncio.sleep(REST_SECONDS)
        await asyncio.to_thread(_clean_end, world.operator)
        probe = await _probe(world)
        began = time.monotonic()
        world.start(SHORT_LEASE)
        restarted.append(await _bound(world, probe) - began)
        await world.until_ready()
        report.say(f"restarted: {restarted[-1]:.1f} s to the next bind")
    killed, handed = [], []
    for _ in range(size.restarts):
        killed.append(await _succession(world, Child.kill))
        report.say(f"killed: {killed[-1]:.1f} s until the stand-by binds")
    for _ in range(size.restarts):
        handed.append(await _succession(world, _clean_end))
        report.say(f"told to end: {handed[-1]:.1f} s until the stand-by binds")
    return {
        "nodes": world.cluster.nodes,
        "pods": world.population.pods,
        "records": len((await world.api.get(manifests.RECORDS))["items"]),
        "restart_to_bind_s": [round(each, 2) for each in restarted],
        "kill_to_bind_s": [round(each, 2) for each in killed],
        "hand_over_to_bind_s": [round(each, 2) for each in handed],
    }


def _clean_end(operator: Child) -> None:
    operator.stop(grace=GRACE_SECONDS)


async def _succession(world: World, end: Callable[[Child], None]) -> float:
    """From the leader's end, which a stand-by was waiting for, to the bind of a pod that came after it."""
    leader = world.operator
    world.start(SHORT_LEASE)
    await asyncio.sleep(REST_SECONDS)
    began = time.monotonic()
    ending = asyncio.get_running_loop().run_in_executor(None, end, leader)
    seconds = await _bound(world, await _probe(world)) - began
    await ending
    await world.until_ready()
    return seconds


async def _probe(world: World) -> Crowd:
    crowd = world.population.comes(PROBE)
    await world.bring([crowd])
    return crowd


async def _bound(world: World, crowd: Crowd) -> float:
    await world.all_bound([crowd])
    return max(world.watcher.at[name] for name in crowd.pod_names)


# -- flood -----------------------------------------------------------------------------------------------------------


async def flood(world: World, size: Size, kind: Kind, report: Report) -> dict[str, Any]:
    """How long a gang that fits takes before, while and after `size.flood` gangs of a kind come that fits nowhere."""
    before = [await _wait_of_one(world) for _ in range(PROBES)]
    crowds = [world.population.comes(kind) for _ in range(size.flood)]
    coming = asyncio.create_task(_bring_by_and_by(world, crowds))
    during = []
    while not coming.done():
        during.append(await _wait_of_one(world))
        await asyncio.sleep(STEP_SECONDS)
    await coming
    after = []
    for _ in range(2 * PROBES):
        after.append(await _wait_of_one(world))
        await asyncio.sleep(STEP_SECONDS)
    usual = median(before)
    worst = f"{max(during):.2f} s at worst while it comes, {max(after):.2f} s after"
    report.say(f"flood of {kind.name}: {usual:.2f} s before, {worst}")
    explained_s, silent = await _explained(world)
    report.say(f"flood: all are told why they wait {explained_s:.0f} s later, but {len(silent)}")
    world.population.there = [each for each in world.population.there if each.kind is not kind]
    await world.send_away(crowds)
    return {
        "gangs": size.flood,
        "before_ms": _spread(before),
        "while_coming_ms": _spread(during),
        "after_ms": _spread(after),
        "worst_delay_s": round(max(*during, *after) - usual, 2),
        "worst_delay_after_s": round(max(after) - usual, 2),
        "explained_s": round(explained_s, 1),
        "unexplained": silent[:10],
    }


async def _bring_by_and_by(world: World, crowds: Sequence[Crowd]) -> None:
    for first in range(0, len(crowds), FLOOD_AT_ONCE):
        await world.bring(crowds[first : first + FLOOD_AT_ONCE])


async def _wait_of_one(world: World) -> float:
    """From its last pod's creation to its last bind; then it leaves."""
    crowd = await _probe(world)
    waited = await _bound(world, crowd) - max(world.created[name] for name in crowd.pod_names)
    world.population.there.remove(crowd)
    await world.send_away([crowd])
    return waited


async def _explained(world: World) -> tuple[float, list[str]]:
    """Seconds until everybody who waits is told why, and who never was."""
    began = time.monotonic()
    while True:
        silent, took = await _unexplained(world), time.monotonic() - began
        if not silent or took > EXPLAINING_SECONDS:
            return took, silent
        await asyncio.sleep(EXPLAINING_SECONDS / 24)


def _spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(1000 * each for each in seconds)
    return {"p50": round(percentile(ordered, 50)), "p99": round(percentile(ordered, 99)), "n": len(ordered)}


# -- soak ------------------------------------------------------------------------------------------------------------


async def soak(world: World, size: Size, report: Report) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """The result, and the samples that it is made from; those of the warm-up are from before second 0.

    It is warm when all who came at once, packed close, have given way to who came one by one, and as much time again
    has passed. So those go first. (Where anybody may go, a third of them is still there when as many have come as there
    are.) Then everybody is of another age than those who stay: none has been there for longer than that took, and
    until some have, memory finds its size: the older the oldest, the more holes between what is old.
    """
    world.population.settle()
    began = next_sample = time.monotonic()
    warm_at = math.inf
    owed, came = 0.0, 0
    samples: list[dict[str, float]] = []
    waits: list[tuple[float, float]] = []  # (when it was bound, for how long it had waited)
    seen = set(world.watcher.at)
    while time.monotonic() < warm_at + size.minutes * 60:
        now = time.monotonic()
        if warm_at == math.inf and not world.population.settlers:
            warm_at = now + (now - began)
            report.say(f"nobody is left who came at once; warm in {(warm_at - now) / 60:.1f} min")
        if now >= next_sample:
            fresh = world.watcher.at.keys() - seen
            seen = set(world.watcher.at)
            waits += [
                (world.watcher.at[name], world.watcher.at[name] - world.created[name])
                for name in fresh
                if name in world.created
            ]
            samples.append(_sample(world, now))
            next_sample = now + SAMPLE_SECONDS
            if len(samples) % 30 == 0:
                report.say(_progress(world, samples[-1], now, warm_at))
        owed += size.rate * STEP_SECONDS
        going, coming = [], []
        while owed > 0:
            going.append(world.population.goes())
            owed -= going[-1].kind.size
        while world.population.pods < size.pods:
            coming.append(world.population.comes())
        came += sum(crowd.kind.size for crowd in coming)
        await asyncio.gather(world.send_away(going), world.bring(coming))
        await asyncio.sleep(max(0.0, now + STEP_SECONDS - time.monotonic()))
    ended = time.monotonic()
    await world.all_bound(world.population.there)
    await asyncio.sleep(REST_SECONDS)
    for each in samples:
        each["at_s"] = round(each["at_s"] - warm_at, 1)
    steady = [each for each in samples if each["at_s"] >= 0]
    memory = trend([(each["at_s"], each["memory_mib"]) for each in steady])
    queue = trend([(each["at_s"], each["waiting"]) for each in steady])
    waits = sorted((at, wait) for at, wait in waits if at >= warm_at)
    slow = trend(waits)
    ordered = sorted(1000 * wait for _, wait in waits)
    result = {
        "minutes": size.minutes,
        "nodes": size.nodes,
        "pods": size.pods,
        "warm_up_minutes": round((warm_at - began) / 60, 1),
        "pods_came": came,
        "pods_a_second": round(came / (ended - began), 1),
        "memory_mib": {**_told(memory), "most": round(max(each["memory_mib"] for each in steady))},
        "waiting_pods": {**_told(queue), "most": max(each["waiting"] for each in steady)},
        "wait_s": {
            **_told(slow),
            "p50_ms": round(percentile(ordered, 50)),
            "p99_ms": round(percentile(ordered, 99)),
        },
        "unexplained": await _unexplained(world),
    }
    return result, samples


def _progress(world: World, latest: dict[str, float], now: float, warm_at: float) -> str:
    where = (
        f"warming up, {world.population.settlers} gangs and lone pods to go"
        if warm_at == math.inf
        else f"{(now - warm_at) / 60:.1f} min"
    )
    return f"{where}: {latest['memory_mib']:.0f} MiB, {latest['waiting']:.0f} wait"


def _sample(world: World, at: float) -> dict[str, float]:
    waiting = world.waiting()
    return {
        "at_s": round(at, 1),
        "memory_mib": round(world.memory_mib(), 1),
        "waiting": float(len(waiting)),
        "longest_s": round(max(waiting, default=0.0), 2),
    }


def _told(found: Trend) -> dict[str, Any]:
    return {
        "mean": round(found.mean, 2),
        "a_minute": round(found.a_minute, 3),
        "error": round(found.error, 3),
        "flat": found.flat,
    }


async def _unexplained(world: World) -> list[str]:
    """Gangs and pods that wait and are not told why."""
    groups = (await world.api.get(GROUPS))["items"]
    silent = [
        f"PodGroup {each['metadata']['name']}"
        for each in groups
        if not (each.get("status") or {}).get("phase")
        or (
            each["status"]["phase"] not in ("Scheduled", "Running", "Finished")
            and not _reason(each, "Scheduled")
        )
    ]
    unbound = (await world.api.get(manifests.PODS, fieldSelector="spec.nodeName="))["items"]
    silent += [f"Pod {each['metadata']['name']}" for each in unbound if not _reason(each, "PodScheduled")]
    return silent


def _reason(thing: dict[str, Any], kind: str) -> str:
    conditions = (thing.get("status") or {}).get("conditions") or ()
    return next((each.get("message") or "" for each in conditions if each["type"] == kind), "")
