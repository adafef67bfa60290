"""`python -m bench.extender`: the same pods, each with a slice of a card, placed in three ways in turns.

    kube       kube-scheduler alone; the pods ask for no slice, and get none: what it costs without Alnair
    extender   kube-scheduler, which asks Alnair's extender about every pod and lets it bind
    second     Alnair as a scheduler of its own beside it

Two questions to each. How fast is a backlog of pods worked off: all are created while nobody runs, the clock starts
when the last process says that it is ready, or at the first bind, and stops at the last bind. And how long does one pod
take on an idle cluster: from its creation until it is seen bound. CPU is counted for everybody who takes part, until
the last bind. The last line of standard output is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from alnair.api import names
from alnair.api.extender import DEFAULT_SCHEDULER, Extender
from alnair.extender.advice import Way, kube_scheduler_configuration
from alnair.sandbox import installation
from alnair.sandbox.fleet import gpu_node
from alnair.sandbox.processes import Child
from alnair.sandbox.progress import Report
from bench import extender_plot, manifests
from bench.api import Api
from bench.cluster import Cluster, running
from bench.contestants import free_port, kube_scheduler
from bench.throughput import READY_SECONDS, STALL_SECONDS, WrongResult, percentile
from bench.usage import of_group, of_machine
from bench.watcher import BindWatcher

WAYS = ("kube", "extender", "second")
CARDS, CARD_MIB = 8, 40960
SLICE_GIB, COMPUTE = 4, 10
VALUES = {"extender": {"enabled": True}}
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 0.2
WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    pods: int
    singles: int
    rounds: int


@dataclass(slots=True)
class Measured:
    """Of one way, round by round."""

    pods_per_second: list[float] = field(default_factory=list)
    waits_ms: list[float] = field(default_factory=list)
    cpu_ms_per_pod: list[dict[str, float]] = field(default_factory=list)
    others_share: list[float] = field(default_factory=list)
    """Of the machine's CPU, what programs took that have no part in this."""

    def as_json(self) -> dict[str, Any]:
        waits = sorted(self.waits_ms)
        parts = {part for each in self.cpu_ms_per_pod for part in each}
        return {
            "pods_per_second": round(median(self.pods_per_second), 1),
            "rounds": [round(each, 1) for each in self.pods_per_second],
            "p50_ms": round(percentile(waits, 50), 1),
            "p99_ms": round(percentile(waits, 99), 1),
            "cpu_ms_per_pod": {
                part: round(median(each.get(part, 0.0) for each in self.cpu_ms_per_pod), 2)
                for part in sorted(parts)
            },
        }


class Team:
    """The processes of one way, by name, and the schedulerName of its pods."""

    def __init__(self, way: str, cluster: Cluster, *, run: str) -> None:
        logs = cluster.control_plane.logs
        self.way = way
        self.scheduler = names.PROFILE_DEFAULT if way == "second" else DEFAULT_SCHEDULER
        self.children: dict[str, Child] = {}
        self._ready: list[Any] = []
        config: dict[str, Any] = {"profiles": [{"schedulerName": DEFAULT_SCHEDULER}]}
        if way != "kube":
            secret, port = cluster.folder / "extender-secret", free_port()
            secret.write_text(secrets.token_hex(16))
            log = logs / f"{run}-alnair.log"
            self.children["alnair"] = installation.operator(
                cluster.installed,
                f"--extender-address=127.0.0.1:{port}",
                f"--extender-secret-file={secret}",
                log=log,
            )
            self._ready.append(lambda: installation.says_ready(log))
            way_there = Way(f"http://127.0.0.1:{port}", secret.read_text())
            config = kube_scheduler_configuration(Extender(), way_there)
        if way != "second":
            kube = kube_scheduler("kube", cluster, logs / f"{run}-kube.log", config=config)
            self.children["kube-scheduler"] = kube.child
            self._ready.append(kube.ready)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """One after the other, each when the one before is ready: kube-scheduler finds the extender there."""
        with ExitStack() as stack:
            for child, ready in zip(self.children.values(), self._ready, strict=True):
                child.start()
                stack.callback(child.stop)
                child.wait_ready(ready, timeout=READY_SECONDS)
            yield

    def used(self, cluster: Cluster) -> dict[str, float]:
        """CPU seconds so far."""
        others = cluster.control_plane.children
        pids = {name: child.pid for name, child in self.children.items()}
        pids |= {"apiserver": others["kube-apiserver"].pid, "etcd": others["etcd"].pid}
        return {name: of_group(pid).cpu_seconds for name, pid in pids.items()}


def node(number: int) -> manifests.Manifest:
    made = gpu_node(manifests.node_name(number), model="A100", cards=CARDS, memory_mib=CARD_MIB, pods=250)
    made["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return made


def pod(name: str, team: Team) -> manifests.Manifest:
    slices = {names.VGPU_MEMORY: str(SLICE_GIB), names.VGPU_COMPUTE: str(COMPUTE)}
    requests = {"cpu": "100m", "memory": "256Mi", **(slices if team.way != "kube" else {})}
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource}
    container = {
        "name": "main",
        "image": "registry.example/trainer:1",
        "resources": {"requests": requests, "limits": limits},
    }
    spec = {"schedulerName": team.scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
    metadata = {"name": name, "namespace": manifests.NAMESPACE, "labels": {"app": "bench"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def backlog(api: Api, cluster: Cluster, way: str, size: Size, run: str, into: Measured) -> None:
    team = Team(way, cluster, run=run)
    wanted = [f"pod-{number:05d}" for number in range(size.pods)]
    await api.create_all(manifests.PODS, (pod(name, team) for name in wanted))
    async with BindWatcher(api) as watcher:
        watcher.expect(wanted)
        with team.at_work():
            ready, before = time.monotonic(), team.used(cluster)
            machine, bench = of_machine(), time.process_time()
            await watcher.done(stall_seconds=STALL_SECONDS)
            after, seconds = team.used(cluster), time.monotonic() - ready
            ours = sum(after.values()) - sum(before.values()) + time.process_time() - bench
            others = (of_machine() - machine - ours) / (seconds * (os.cpu_count() or 1))
            took = max(watcher.at.values()) - min(ready, *watcher.at.values())
    await verify(api, team, wanted)
    into.pods_per_second.append(size.pods / took)
    into.others_share.append(max(0.0, others))
    into.cpu_ms_per_pod.append({part: 1000 * (after[part] - before[part]) / size.pods for part in after})


async def one_by_one(api: Api, cluster: Cluster, way: str, size: Size, run: str, into: Measured) -> None:
    team, chance = Team(way, cluster, run=run), random.Random(run)
    wanted = [f"one-{number:05d}" for number in range(size.singles + WARM_UP)]
    async with BindWatcher(api) as watcher:
        with team.at_work():
            await asyncio.sleep(1)
            for number, name in enumerate(wanted):
                watcher.expect([name])
                began = time.monotonic()
                await api.call("POST", manifests.PODS, pod(name, team))
                await watcher.done(stall_seconds=STALL_SECONDS)
                if number >= WARM_UP:
                    into.waits_ms.append(1000 * (watcher.at[name] - began))
                await asyncio.sleep(chance.uniform(SHORTEST_PAUSE, LONGEST_PAUSE))
    await verify(api, team, wanted)


async def verify(api: Api, team: Team, wanted: Sequence[str]) -> None:
    """With Alnair each pod is recorded, and no card is given out twice. Raises WrongResult."""
    records = (await api.get(manifests.RECORDS))["items"]
    entries = [entry for each in records for entry in (each.get("status") or {}).get("pods") or []]
    listed = sorted(entry["name"] for entry in entries)
    if listed != (sorted(wanted) if team.way != "kube" else []):
        raise WrongResult(f"{team.way}: {len(listed)} pods are recorded, {len(wanted)} were bound")
    taken: dict[str, int] = {}
    for entry in entries:
        for container in entry["containers"]:
            for piece in container["slices"]:
                taken[piece["gpu"]] = taken.get(piece["gpu"], 0) + piece["memoryMiB"]
    if taken and max(taken.values()) > CARD_MIB:
        raise WrongResult(f"{team.way}: {max(taken.values())} MiB of one card are given, it has {CARD_MIB}")


async def measure(cluster: Cluster, size: Size, report: Report) -> dict[str, Measured]:
    found = {way: Measured() for way in WAYS}
    async with Api(cluster.access) as api:
        await api.create_all(manifests.NODES, (node(number) for number in range(size.nodes)))
        for number in range(size.rounds):
            for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
                run = f"extender-{number}-{way}"
                await backlog(api, cluster, way, size, run, found[way])
                await cluster.clean(api)
                await one_by_one(api, cluster, way, size, f"{run}-one", found[way])
                await cluster.clean(api)
                speed, waits = found[way].pods_per_second[-1], sorted(found[way].waits_ms)
                report.say(
                    f"[{number + 1}/{size.rounds}] {way}: {speed:.0f} pods/s, p50 {percentile(waits, 50):.0f} ms"
                )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.extender", description="The extender's cost.")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=1000, help="of the backlog (default: 1000)")
    parser.add_argument("--singles", type=int, default=40, help="pods one by one, a round (default: 40)")
    parser.add_argument("--rounds", type=int, default=3, help="each way once a round, in turns (default: 3)")
    parser.add_argument("--plot", type=Path, help="where to draw it (SVG)")
    parser.add_argument("--json", action="store_true", help="only the last line: nothing about progress")
    chosen = parser.parse_args(arguments)
    size = Size(chosen.nodes, chosen.pods, chosen.singles, chosen.rounds)
    console = Console(stderr=True, highlight=False, quiet=chosen.json)
    report = Report(console)
    began = time.monotonic()
    with running(report, values=VALUES) as cluster:
        found = asyncio.run(measure(cluster, size, report))
    said = {
        "nodes": size.nodes,
        "pods": size.pods,
        "ways": {way: each.as_json() for way, each in found.items()},
        "others_cpu": round(max(share for each in found.values() for share in each.others_share), 3),
        "seconds": round(time.monotonic() - began),
    }
    if chosen.plot is not None:
        extender_plot.draw(said, chosen.plot)
    print(json.dumps(said), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
