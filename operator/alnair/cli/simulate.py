"""`alnair simulate`: replay a trace and say how well a policy packs it."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from alnair.simulate.filling import Filled
    from alnair.simulate.trace import Trace

MOST_SEEDS = 10_000


def simulate(
    *,
    nodes: Annotated[Path, typer.Option(help="CSV of nodes: sn,cpu_milli,memory_mib,gpu,model.")],
    pods: Annotated[
        Path, typer.Option(help="CSV of pods: name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec].")
    ],
    policy: Annotated[list[str], typer.Option(help="What places the pods; may be given more than once.")],
    inflate: Annotated[
        float,
        typer.Option(min=0.01, max=100, help="Let pods come until they ask for so many times all cards."),
    ] = 1.3,
    seeds: Annotated[str, typer.Option(help="One run for each: 42, 42-51 or 1,5,7.")] = "42",
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Runs at the same time, a process each.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON instead of a table.")] = False,
) -> None:
    """Replay a trace through the scheduling core, with no cluster."""
    from alnair.simulate import openb
    from alnair.simulate.policies import POLICIES
    from alnair.simulate.report import of_filling
    from alnair.simulate.trace import BadTrace, Trace

    for name in policy:
        if name not in POLICIES:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(POLICIES)}", param_hint="--policy")
    chosen = _seeds(seeds)
    try:
        trace = Trace(openb.read_machines(nodes), openb.read_jobs(pods))
    except BadTrace as error:
        typer.echo(f"alnair: {error}", err=True)
        raise typer.Exit(2) from None
    results = [of_filling(name, _runs(trace, name, chosen, inflate, jobs)) for name in policy]
    if as_json:
        typer.echo(json.dumps(results[0] if len(results) == 1 else {"policies": results}))
    else:
        typer.echo(_table(results))


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip(), re.ASCII)
        if match is None:
            raise typer.BadParameter(
                f"{part!r} is neither a number nor a range as 42-51", param_hint="--seeds"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + MOST_SEEDS:
            raise typer.BadParameter(
                f"{part!r} goes backwards or names more than {MOST_SEEDS} seeds", param_hint="--seeds"
            )
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def _runs(trace: Trace, policy: str, seeds: list[int], inflate: float, jobs: int) -> list[Filled]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(policy, total=len(seeds))
        if jobs == 1:
            done = []
            for number, seed in enumerate(seeds):
                done.append(
                    _run(
                        trace,
                        policy,
                        seed,
                        inflate,
                        lambda part, n=number: progress.update(bar, completed=n + part),
                    )
                )
            return done
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            futures: list[Future[Filled]] = [
                pool.submit(_run, trace, policy, seed, inflate) for seed in seeds
            ]
            for future in futures:
                future.add_done_callback(lambda _: progress.advance(bar))
            return [future.result() for future in futures]


def _run(trace: Trace, policy: str, seed: int, inflate: float, on_progress: Any = None) -> Filled:
    from alnair.simulate.filling import fill

    return fill(
        trace,
        policy,
        seed,
        inflate=inflate,
        clocks=(time.perf_counter, time.process_time),
        on_progress=on_progress or (lambda part: None),
    )


def _table(results: list[dict[str, Any]]) -> str:
    lines = [f"{'policy':<14} {'GPU allocated':>14} {'lost early':>11} {'placed':>9} {'pods/s':>8}"]
    lines += [
        f"{each['policy']:<14} {each['gpu_allocation_percent']:>12.2f} % "
        f"{each['multi_gpu_lost_before_90']:>5}/{each['multi_gpu_before_90']:<5} {each['placed']:>9} "
        f"{each['placements_per_second']:>8.0f}"
        for each in results
    ]
    return "\n".join(lines)
