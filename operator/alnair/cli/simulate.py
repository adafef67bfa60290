"""`alnair simulate`: replay a trace and say how well a policy packs it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from alnair.api.profiles import Profile

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
    sizing: Annotated[
        list[str] | None,
        typer.Option(
            help="Elastic jobs of a JSONL trace come, change their size and leave, first come first served: by rigid, "
            "old-rule or alnair; may be given more than once."
        ),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            help="A fixed experiment of the docs. elastic: Philly's first 5,000 GPU jobs (--pods philly.csv) on "
            "clusters for offered loads 0.6, 0.8 and 1.0, sized rigidly, by the old rule and by alnair."
        ),
    ] = None,
    loads: Annotated[str, typer.Option(help="Of --experiment elastic.")] = "0.6,0.8,1.0",
    first: Annotated[
        int, typer.Option(min=2, max=1_000_000, help="So many jobs of --experiment elastic.")
    ] = 5000,
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
    from alnair.simulate.policies import policies as known_policies
    from alnair.simulate.queueing import ORDERS
    from alnair.simulate.trace import BadTrace

    try:
        known = known_policies(load_config(config).profiles if config is not None else ())
    except BadConfig as error:
        raise _failed(str(error)) from None
    names = list(dict.fromkeys(policy or ["alnair"]))
    for name in names:
        _must_be_one_of(name, known, "--policy")
        try:
            build(known[name], installed())
        except BadProfile as error:
            raise _failed(f"policy {name}: {error}") from None
    _must_be_one_of(order, ORDERS, "--order")
    if plot is not None:
        _must_be_one_of(plot.suffix, pictures.KINDS, "--plot")
    policies = {name: known[name] for name in names}
    chosen, samples = _seeds(seeds), pictures.POINTS if plot else 0
    try:
        if experiment is not None:
            _must_be_one_of(experiment, ("elastic",), "--experiment")
            results, draw = _experiment(pods, nodes, policies, _loads(loads), first, jobs)
        elif sizing:
            results, draw = _sized(pods, nodes, policies, list(dict.fromkeys(sizing)), jobs)
        elif departures:
            results, draw = _served(pods, nodes, policies, chosen, jobs, order, inflate or 1.0, samples)
        else:
            results, draw = _filled(pods, nodes, policies, chosen, jobs, inflate or 1.3, samples)
    except BadTrace as error:
        raise _failed(str(error)) from None
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


Results = tuple[list[dict[str, Any]], Callable[[Path], None]]  # to be told, and what draws them


def _filled(
    pods: Path,
    nodes: str | None,
    policies: Mapping[str, Profile],
    seeds: list[int],
    jobs: int,
    inflate: float,
    samples: int,
) -> Results:
    from alnair.simulate.filling import fill
    from alnair.simulate.plot import draw_filling
    from alnair.simulate.reading import read_trace
    from alnair.simulate.report import of_filling

    run = partial(fill, read_trace(pods, nodes), inflate=inflate, clocks=CLOCKS, samples=samples)
    runs = {name: _runs(partial(run, policy), name, seeds, jobs) for name, policy in policies.items()}
    return [of_filling(name, each) for name, each in runs.items()], partial(draw_filling, runs)


def _served(
    pods: Path,
    nodes: str | None,
    policies: Mapping[str, Profile],
    seeds: list[int],
    jobs: int,
    order: str,
    inflate: float,
    samples: int,
) -> Results:
    from alnair.simulate.plot import draw_serving
    from alnair.simulate.queueing import serve
    from alnair.simulate.reading import read_trace
    from alnair.simulate.report import of_serving

    trace = read_trace(pods, nodes)
    run = partial(serve, trace, order=order, inflate=inflate, clocks=CLOCKS, samples=samples)
    runs = {name: _runs(partial(run, policy), name, seeds, jobs) for name, policy in policies.items()}
    return [of_serving(name, order, each) for name, each in runs.items()], partial(draw_serving, runs)


def _sized(
    pods: Path, nodes: str | None, policies: Mapping[str, Profile], rules: list[str], jobs: int
) -> Results:
    from alnair.simulate.elastic.outcome import size
    from alnair.simulate.elastic.sizings import RULES
    from alnair.simulate.plot import draw_elastic
    from alnair.simulate.reading import read_trace

    for rule in rules:
        _must_be_one_of(rule, RULES, "--sizing")
    outcomes = _runs(partial(size, read_trace(pods, nodes), _only(policies)), "sizing", rules, jobs)
    return [each.report() for each in outcomes], partial(draw_elastic, outcomes)


def _experiment(
    pods: Path,
    nodes: str | None,
    policies: Mapping[str, Profile],
    loads: list[float],
    first: int,
    jobs: int,
) -> Results:
    from alnair.simulate.elastic import experiment
    from alnair.simulate.elastic.sizings import RULES
    from alnair.simulate.plot import draw_elastic

    if nodes is not None:
        raise _failed("--experiment elastic makes its own clusters: leave --nodes out")
    run = partial(experiment.run, experiment.read_jobs(pods, first), _only(policies))
    cases = [(load, rule) for load in loads for rule in RULES]
    outcomes = _runs(run, "elastic", cases, jobs)
    return [each.report() for each in outcomes], partial(draw_elastic, outcomes)


def _only(policies: Mapping[str, Profile]) -> Profile:
    """Rules of sizing are compared under one policy of placement."""
    if len(policies) > 1:
        raise _failed("rules of sizing are compared with one --policy")
    return next(iter(policies.values()))


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


def _loads(text: str) -> list[float]:
    found: list[float] = []
    for part in text.split(","):
        try:
            load = float(part)
        except ValueError:
            load = 0.0
        if not 0.01 <= load <= 100:
            raise typer.BadParameter(f"{part!r} is no load from 0.01 to 100", param_hint="--loads")
        found.append(load)
    return list(dict.fromkeys(found))


def _runs(run: Callable[..., Any], name: str, cases: Sequence[Any], jobs: int) -> list[Any]:
    """The run with each seed, or whatever the cases are, in their order, with a bar on standard error."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(name, total=len(cases))
        if jobs == 1:
            done = []
            for number, case in enumerate(cases):
                done.append(run(case, on_progress=partial(_show, progress, bar, number)))
                progress.update(bar, completed=number + 1)
            return done
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            futures: list[Future[Any]] = [pool.submit(run, case) for case in cases]
            for future in futures:
                future.add_done_callback(lambda _: progress.advance(bar))
            return [future.result() for future in futures]


def _show(progress: Any, bar: Any, number: int, part: float) -> None:
    progress.update(bar, completed=number + part)


def _table(results: list[dict[str, Any]]) -> str:
    columns = {
        "load": "load",
        "policy": "policy",
        "gpu_allocation_percent": "GPU allocated, %",
        "multi_gpu_lost_before_90": "multi-GPU lost early",
        "mean_wait_seconds": "mean wait, s",
        "mean_completion_seconds": "mean completion, s",
        "mean_completion_hours": "completion: mean, h",
        "median_completion_hours": "median, h",
        "p99_completion_hours": "p99, h",
        "mean_queueing_hours": "queueing: mean, h",
        "median_queueing_hours": "median, h",
        "p99_queueing_hours": "p99, h",
        "makespan_hours": "makespan, h",
        "utilisation_while_jobs_come_percent": "GPU used, %",
        "changes": "changes",
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
