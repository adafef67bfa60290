"""Train the picker in Alnair's simulator, and say how it does on arrivals that it has not seen.

    pip install examples/plugins/learned-picker
    python examples/plugins/learned-picker/train.py --nodes nodes.csv --pods pods.csv

The cross-entropy method: draw weights from a normal distribution, fill a small cluster with each of them, keep the best
few, make the distribution theirs, again. Each generation fills another cluster, some machines and jobs of the next
trace drawn by chance, so that nobody gets good at one cluster only. The same seed gives the same weights.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import typer
from learned_picker import FEATURES, KINDS, LearnedPicker
from rich.console import Console
from rich.progress import Progress

from alnair.api.profiles import Profile, Rule, Scorer
from alnair.scheduling.plugins.interface import Floats
from alnair.simulate.filling import Filled, fill
from alnair.simulate.policies import POLICIES
from alnair.simulate.reading import read_trace
from alnair.simulate.trace import Trace

WEIGHTS = Path(__file__).parent / "learned_picker" / "weights.json"
CLOCKS = (time.perf_counter, time.process_time)
INFLATE = 1.3  # pods come until they ask for so many times all cards
LOST = 0.2  # points of allocation for each per cent of early requests for several cards that is lost
JOBS = 25  # for each machine of a small cluster
BESIDE = ("random", "best-fit", "fgd", "alnair")
WIDEST, NARROWEST = 1.0, 0.05  # of the distribution: at the start, and at least, or it stops to look


def picking(weights: list[list[float]]) -> Profile:
    """The profile that is trained: all nodes are as good as each other, and the model decides."""
    return Profile(
        scheduler_name="learned",
        scorers=[Scorer(name="Equal")],
        node_picker=Rule(name=LearnedPicker.name, options={"weights": weights}),
        picker=Rule(name="best-fit"),
    )


def reward(run: Filled) -> float:
    """Per cent of all cards that were given out, less something where large requests were turned away early."""
    lost = 100 * run.early_multi_lost / run.early_multi if run.early_multi else 0.0
    return run.allocation_percent - LOST * lost


def small(trace: Trace, machines: int, seed: int) -> Trace:
    """Some of the machines, and enough of the jobs to fill them."""
    chance = random.Random(f"machines {seed}")
    return Trace(
        tuple(chance.sample(trace.machines, min(machines, len(trace.machines)))),
        tuple(chance.sample(trace.jobs, min(JOBS * machines, len(trace.jobs)))),
    )


def trained(
    traces: Sequence[Trace],
    *,
    seed: int,
    generations: int,
    population: int,
    elite: int,
    machines: int,
    on_filled: Callable[[float], None],
) -> Floats:
    """The weights in the end. `on_filled` hears of each filling, with the best reward of the generation before."""
    chance = np.random.default_rng(seed)
    middle = np.zeros((len(KINDS), len(FEATURES)))
    width = np.full(middle.shape, WIDEST)
    best = 0.0
    for generation in range(generations):
        cluster = small(traces[generation % len(traces)], machines, seed + generation)
        drawn = middle + width * chance.standard_normal((population, *middle.shape))
        drawn[0] = middle  # where it stands has to hold its own
        rewards = []
        for weights in drawn:
            policy = picking(weights.tolist())
            rewards.append(reward(fill(cluster, policy, seed + generation, inflate=INFLATE, clocks=CLOCKS)))
            on_filled(best)
        kept = drawn[np.argsort(rewards)[::-1][:elite]]
        middle, width = kept.mean(axis=0), np.maximum(kept.std(axis=0), NARROWEST)
        best = max(rewards)
    return middle


def figures(
    trace: Trace, weights: list[list[float]], seeds: Sequence[int], progress: Progress
) -> dict[str, dict[str, float]]:
    """How policies do on the whole trace, over seeds that were not trained on."""
    policies = {**{name: POLICIES[name] for name in BESIDE}, "learned": picking(weights)}
    bar = progress.add_task("held-out seeds", total=len(policies) * len(seeds))
    found: dict[str, dict[str, float]] = {}
    for name, policy in policies.items():
        runs = []
        for seed in seeds:
            runs.append(fill(trace, policy, seed, inflate=INFLATE, clocks=CLOCKS))
            progress.advance(bar)
        early = sum(run.early_multi for run in runs)
        found[name] = {
            "gpu_allocation_percent": round(fmean(run.allocation_percent for run in runs), 2),
            "lowest": round(min(run.allocation_percent for run in runs), 2),
            "highest": round(max(run.allocation_percent for run in runs), 2),
            "multi_gpu_lost_before_90": sum(run.early_multi_lost for run in runs),
            "multi_gpu_before_90": early,
            "placements_per_cpu_second": round(
                sum(run.placed for run in runs) / max(sum(run.cpu_seconds for run in runs), 1e-9)
            ),
        }
    return found


def main(
    *,
    nodes: Annotated[str | None, typer.Option(help="CSV of nodes, or for example 300x8.")] = None,
    pods: Annotated[list[Path], typer.Option(help="A trace, as of `alnair simulate`; several take turns.")],
    seed: Annotated[int, typer.Option(help="Of everything that is drawn while training.")] = 1000,
    generations: Annotated[
        int, typer.Option(min=0, help="0: do not train, only say how the weights do that are there.")
    ] = 16,
    population: Annotated[int, typer.Option(min=2, help="Weights that are tried in each.")] = 14,
    elite: Annotated[int, typer.Option(min=1, help="Of them, how many the next one is made of.")] = 4,
    machines: Annotated[int, typer.Option(min=1, help="Nodes of the small clusters.")] = 60,
    held_out: Annotated[int, typer.Option(help="The first seed of those that are not trained on.")] = 42,
    seeds: Annotated[int, typer.Option(min=0, help="How many of those; 0: do not say how it does.")] = 3,
) -> None:
    traces = [read_trace(path, nodes) for path in pods]
    settings = {
        "seed": seed,
        "generations": generations,
        "population": population,
        "elite": elite,
        "machines": machines,
    }
    with Progress(console=Console(stderr=True)) as progress:
        if generations:
            began = time.process_time()
            bar = progress.add_task("training", total=generations * population)

            def show(best: float) -> None:
                progress.update(bar, advance=1, description=f"training, best {best:.2f}")

            weights = trained(traces, **settings, on_filled=show).round(4).tolist()
            story = {"traces": [path.name for path in pods], **settings}
            story["cpu_seconds"] = round(time.process_time() - began)
            made = {"kinds": KINDS, "features": FEATURES, "weights": weights, "training": story}
            WEIGHTS.write_text(json.dumps(made, indent=1) + "\n")
        made = json.loads(WEIGHTS.read_text())
        unseen = range(held_out, held_out + seeds)
        policies = {
            path.name: figures(trace, made["weights"], unseen, progress)
            for path, trace in zip(pods, traces, strict=True)
            if seeds
        }
    typer.echo(json.dumps({"training": made["training"], "policies": policies}))


if __name__ == "__main__":
    typer.run(main)
