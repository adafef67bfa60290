"""`python -m bench`: runs the shapes, shows a table, draws the plot; the last line of standard output is JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import aiohttp
from rich.console import Console

from alnair.sandbox.processes import ChildFailed
from alnair.sandbox.progress import Report, span
from bench import latency, plot, tables, throughput
from bench.api import Api, Refused
from bench.cluster import Cluster, running
from bench.order import START, Run, in_order
from bench.profiling import Profiler
from bench.results import Results
from bench.shapes import EVERYBODY, WHOLE, BadShape, plans
from bench.watcher import WatchCut

PROJECT = Path(__file__).parents[1]
FAILURES = (ChildFailed, Refused, WatchCut, throughput.WrongResult, aiohttp.ClientError, TimeoutError)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    console = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 180)
    try:
        work = plans(chosen.shapes or WHOLE, rounds=chosen.rounds, only=chosen.contestants)
    except BadShape as bad:
        console.print(f"bench: {bad}", markup=False)
        return 2
    signal.signal(signal.SIGTERM, _leave)
    runs = in_order(work, seed=chosen.seed)
    results = Results(chosen.seed)
    report = Report(console)
    began = time.monotonic()
    report.say(f"{len(runs)} runs, about {span(START + sum(run.seconds() for run in runs))} on two cores")
    with running(report) as cluster:
        asyncio.run(_run_all(cluster, runs, results, report, profile=chosen.profile))
    tables.show(results, console)
    if chosen.plot is not None and plot.worth_drawing(results):
        plot.draw(results, chosen.plot)
        report.say(f"drawn: {chosen.plot}")
    said = results.as_json()
    said["seconds"] = round(time.monotonic() - began)
    print(json.dumps(said), flush=True)
    return 1 if results.failures else 0


async def _run_all(
    cluster: Cluster, runs: list[Run], results: Results, report: Report, *, profile: bool
) -> None:
    async with Api(cluster.access) as api:
        for number, run in enumerate(runs):
            left = span(sum(each.seconds() for each in runs[number:]))
            report.say(f"[{number + 1}/{len(runs)}] {run} (about {left} to go)")
            began = time.monotonic()
            if run.shape.nodes > cluster.nodes:
                await cluster.grow(api, run.shape.nodes)
            try:
                await _run(api, cluster, run, results, report, profile=profile)
            except FAILURES as problem:
                results.failures.append(f"{run}: {str(problem).splitlines()[0]}")
                report.say(f"      FAILED: {problem}")
            await cluster.clean(api)
            report.say(f"      {span(time.monotonic() - began)} with creating and deleting everything")


async def _run(
    api: Api, cluster: Cluster, run: Run, results: Results, report: Report, *, profile: bool
) -> None:
    if run.shape.kind == "latency":
        chance = random.Random(f"{results.seed} {run.label}")
        waited = await latency.run(api, cluster, run.shape, run.contestant, run=run.label, chance=chance)
        results.add(run, waited)
        report.say(
            f"      p50 {waited.p50_ms:.0f} ms, p99 {waited.p99_ms:.0f} ms, worst {waited.worst_ms:.0f} ms"
        )
        return
    wanted = profile and run.contestant == "alnair"
    profiler = Profiler(PROJECT / "build" / "bench" / f"{run.label}.stacks.txt") if wanted else None
    outcome = await throughput.run(api, cluster, run.shape, run.contestant, run=run.label, profiler=profiler)
    results.add(run, outcome)
    parts = ", ".join(f"{part} {ms:.2f}" for part, ms in outcome.cpu_ms_per_pod.items())
    settled = outcome.settled_pods_per_second
    report.say(
        f"      {outcome.pods_per_second:.0f} pods/s"
        + (
            f", {settled:.0f} with what it writes after the last bind"
            if settled is not None
            else ", never at rest"
        )
        + f", {outcome.peak_mib:.0f} MiB, CPU ms a pod: {parts}"
    )
    if profiler is not None:
        report.say(profiler.summary())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shapes", type=_names, help=f"comma-separated; default: {','.join(WHOLE)}")
    parser.add_argument("--contestants", type=_names, help=f"only these of {','.join(EVERYBODY)}")
    parser.add_argument("--rounds", type=int, help="rounds of every throughput shape (default: 1 to 3)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the runs (default: 1)")
    parser.add_argument("--plot", type=Path, help="where to draw throughput and latency against nodes (SVG)")
    parser.add_argument("--profile", action="store_true", help="say where Alnair's CPU goes (py-spy)")
    return parser


def _names(text: str) -> tuple[str, ...] | None:
    """An empty text is what an unset make variable gives: nothing was said."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) or None


def _leave(*_: object) -> NoReturn:
    raise SystemExit(143)


if __name__ == "__main__":
    sys.exit(main())
