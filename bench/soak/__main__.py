"""`python -m bench.soak --minutes 10`: runs the three measures on one cluster; the last line is JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from alnair.sandbox.progress import Report
from bench import manifests
from bench.api import Api
from bench.cluster import OPTIONS, Cluster, running
from bench.soak import plot
from bench.soak.measures import Size, flood, recovery, soak
from bench.soak.population import NEVER, NEVER_ALIKE, node
from bench.soak.world import World
from bench.watcher import BindWatcher

READY_SECONDS = 120.0
NODE_LEASE_SECONDS = 24 * 3600
"""Nobody looks at the nodes' Leases here, and to renew 2,000 of them takes the core that the operator would have to
itself in any other cluster."""


async def measure(
    cluster: Cluster, size: Size, *, seed: int, report: Report
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    async with Api(cluster.access) as api, BindWatcher(api, leaving=True) as watcher:
        report.say(f"{size.nodes} nodes come")
        await api.create_all(manifests.NODES, (node(number) for number in range(size.nodes)))
        cluster.nodes = size.nodes
        await _ready(api, size.nodes)
        world = World(cluster, api, watcher, seed=seed)
        world.start("--lease-duration=5")
        try:
            await world.until_ready()
            report.say(f"{size.pods // 2} pods come")
            await world.fill(size.pods // 2)
            found: dict[str, Any] = {"recovery": await recovery(world, size, report)}
            if size.flood:
                found["flood"] = await flood(world, size, NEVER, report)
                found["flood_of_shapes"] = await flood(world, size, NEVER_ALIKE, report)
            report.say(f"{size.pods - world.population.pods} more pods come")
            await world.fill(size.pods)
            found["soak"], samples = await soak(world, size, report)
        finally:
            await asyncio.to_thread(world.operator.stop)
    return found, samples


async def _ready(api: Api, nodes: int) -> None:
    """kwok makes them so."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        listed = (await api.get(manifests.NODES))["items"]
        ready = sum(
            any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in one["status"].get("conditions", ())
            )
            for one in listed
        )
        if ready >= nodes:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{ready} of {nodes} nodes are ready after {READY_SECONDS:g} s")
        await asyncio.sleep(2)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="A large cluster for long.")
    parser.add_argument(
        "--minutes",
        type=float,
        default=10,
        help="how long pods come and go, after all who came at once have left (default: 10)",
    )
    parser.add_argument("--nodes", type=int, default=2000, help="(default: 2000)")
    parser.add_argument("--pods", type=int, default=20_000, help="that are there at a time (default: 20000)")
    parser.add_argument("--rate", type=float, default=30, help="pods a second that come and go (default: 30)")
    parser.add_argument(
        "--flood", type=int, default=5000, help="gangs that fit nowhere; 0 = none (default: 5000)"
    )
    parser.add_argument("--restarts", type=int, default=3, help="and as many kills (default: 3)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="where to draw it (SVG)")
    parser.add_argument("--samples", type=Path, help="where to write what it is drawn from (JSON)")
    parser.add_argument("--json", action="store_true", help="only the last line: nothing about progress")
    chosen = parser.parse_args(arguments)
    size = Size(chosen.nodes, chosen.pods, chosen.minutes, chosen.rate, chosen.flood, chosen.restarts)
    report = Report(Console(stderr=True, highlight=False, quiet=chosen.json))
    options = replace(OPTIONS, kwok=True, node_lease_seconds=NODE_LEASE_SECONDS)
    began = time.monotonic()
    with running(report, options=options) as cluster:
        found, samples = asyncio.run(measure(cluster, size, seed=chosen.seed, report=report))
    if chosen.plot is not None:
        plot.draw(samples, chosen.plot)
    if chosen.samples is not None:
        chosen.samples.write_text(json.dumps(samples), encoding="utf-8")
    print(json.dumps({**found, "seed": chosen.seed, "seconds": round(time.monotonic() - began)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
