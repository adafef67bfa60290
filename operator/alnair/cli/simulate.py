"""`alnair simulate`: replay a trace and say how well a policy packs it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from alnair.simulate.filling import Filled
    from alnair.simulate.queueing import Served

MOST_SEEDS = 10_000
CLOCKS = (time.perf_counter, time.process_time)


def simulate(
    *,
    pods: Annotated[
        Path,
        typer.Option(help="The trace: openb's or Philly's CSV, or Alnair's JSONL; told by its first line."),
    ],
    nodes: Annotated[
        str | None,
        typer.Option(
            help="CSV of nodes (sn,cpu_milli,memory_mib,gpu,model), or 300x8: nodes x cards of each."
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="What places the pods; may be given more than once. A profile that Alnair ships (fgd, best-fit, "
            "cost-saving, …) or one of --config, by its schedulerName."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A config file as of `alnair run`: its profiles are policies too.")
    ] = None,
    inflate: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=100,
            help="Pods come until they ask for so many times all cards (1.3); with --departures: so many times as "
            "fast (1).",
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(help="One run for each: 42, 42-51 or 1,5,7.")] = "42",
    departures: Annotated[
        bool,
        typer.Option("--departures", help="Jobs come and leave when the trace says, and wait in a queue."),
    ] = False,
    order: Annotated[
        str,
        typer.Option(help="Who is tried first with --departures: fifo, sjf, smallest, largest, least-work."),
    ] = "fifo",
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Runs at the same time, a process each.")] = 1,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the runs into this file, .svg or .png; needs matplotlib.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON instead of a table.")] = False,
) -> None:
    """Replay a trace through the scheduling core, with no cluster."""
    from alnair.api.config import BadConfig, load_config
    from alnair.scheduling.profile import BadProfile, build
    from alnair.scheduling.registry import installed
    from alnair.simulate import plot as pictures
    from alnair.simulate.filling import fill
    from alnair.simulate.policies import policies as known_policies
    from alnair.simulate.queueing import ORDERS, serve
    from alnair.simulate.reading import read_trace
    from alnair.simulate.report import of_filling, of_serving
    from alnair.simulate.trace import BadTrace

    try:
        known = known_policies(load_config(config).profiles if config is not None else ())
    except BadConfig as error:
        raise _failed(str(error)) from None
    policies = list(dict.fromkeys(policy or ["alnair"]))
    for name in policies:
        _must_be_one_of(name, known, "--policy")
        try:
            build(known[name], installed())
        except BadProfile as error:
            raise _failed(f"policy {name}: {error}") from None
    _must_be_one_of(order, ORDERS, "--order")
    if plot is not None:
        _must_be_one_of(plot.suffix, pictures.KINDS, "--plot")
    chosen, samples = _seeds(seeds), pictures.POINTS if plot else 0
    try:
        trace = read_trace(pods, nodes)
    except BadTrace as error:
        raise _failed(str(error)) from None
    results: list[dict[str, Any]]
    if departures:
        serving = partial(serve, trace, order=order, inflate=inflate or 1.0, clocks=CLOCKS, samples=samples)
        served: dict[str, Sequence[Served]] = {
            name: _runs(partial(serving, known[name]), name, chosen, jobs) for name in policies
        }
        results = [of_serving(name, order, runs) for name, runs in served.items()]
        draw: Callable[[Path], None] = partial(pictures.draw_serving, served)
    else:
        filling = partial(fill, trace, inflate=inflate or 1.3, clocks=CLOCKS, samples=samples)
        filled: dict[str, Sequence[Filled]] = {
            name: _runs(partial(filling, known[name]), name, chosen, jobs) for name in policies
        }
        results = [of_filling(name, runs) for name, runs in filled.items()]
        draw = partial(pictures.draw_filling, filled)
    if plot is not None:
        try:
            draw(plot)
        except ImportError:
            raise _failed("--plot needs matplotlib, which is not installed") from None
        except OSError as error:
            raise _failed(f"{plot}: cannot be written: {error}") from None
    typer.echo(
        json.dumps(results[0] if len(results) == 1 else {"policies": results}) if as_json else _table(results)
    )


def _must_be_one_of(value: str, allowed: Sequence[str] | Any, option: str) -> None:
    if value not in allowed:
        raise typer.BadParameter(f"{value!r} is none of {', '.join(allowed)}", param_hint=option)


def _failed(message: str) -> typer.Exit:
    typer.echo(f"alnair: {message}", err=True)
    return typer.Exit(2)


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


def _runs(run: Callable[..., Any], name: str, seeds: list[int], jobs: int) -> list[Any]:
    """The run with each seed, in the order of the seeds, with a bar on standard error."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(name, total=len(seeds))
        if jobs == 1:
            done = []
            for number, seed in enumerate(seeds):
                done.append(run(seed, on_progress=partial(_show, progress, bar, number)))
                progress.update(bar, completed=number + 1)
            return done
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            futures: list[Future[Any]] = [pool.submit(run, seed) for seed in seeds]
            for future in futures:
                future.add_done_callback(lambda _: progress.advance(bar))
            return [future.result() for future in futures]


def _show(progress: Any, bar: Any, number: int, part: float) -> None:
    progress.update(bar, completed=number + part)


def _table(results: list[dict[str, Any]]) -> str:
    columns = {
        "policy": "policy",
        "gpu_allocation_percent": "GPU allocated, %",
        "multi_gpu_lost_before_90": "multi-GPU lost early",
        "mean_wait_seconds": "mean wait, s",
        "mean_completion_seconds": "mean completion, s",
        "placed": "pods placed",
        "placements_per_second": "a second",
    }
    shown = {key: title for key, title in columns.items() if key in results[0]}
    lines = ["  ".join(title.rjust(12) for title in shown.values())]
    lines += [
        "  ".join(str(each[key]).rjust(max(len(title), 12)) for key, title in shown.items())
        for each in results
    ]
    return "\n".join(lines)
