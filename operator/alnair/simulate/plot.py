"""Pictures of runs, policies side by side: what was given out of what was asked for, or how long jobs waited.

Needs matplotlib, which the scheduler itself does not: it is imported when somebody asks for a picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from alnair.simulate.elastic.outcome import Outcome
from alnair.simulate.filling import Filled
from alnair.simulate.queueing import Served

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = (".svg", ".png")
POINTS, FEW = 130, 10  # of a curve; few are marked
COLOURS = ("#d9542b", "#2f5d9b", "#5a9a4a", "#9a5ab0", "#c79a2b", "#4aa3a3", "#9a9a9a", "#333333")

Curve = tuple[Sequence[float], Sequence[float]]


def draw_filling(results: Mapping[str, Sequence[Filled]], file: Path) -> None:
    """Of each policy the mean over the seeds."""
    allocated = {name: _mean(runs, lambda sample: sample.allocated) for name, runs in results.items()}
    fragmented = {name: _mean(runs, lambda sample: sample.fragmented) for name, runs in results.items()}
    _draw(
        file,
        (allocated, "Allocated", "GPU asked for, % of all cards", "% of all cards"),
        (fragmented, "Free, but of no use to most", "GPU asked for, % of all cards", "% of all cards"),
    )


def draw_serving(results: Mapping[str, Sequence[Served]], file: Path) -> None:
    """Of each policy the first seed over time, and all seeds' waits and completion times as distributions."""
    taken = {
        name: ([each.second / 3600 for each in runs[0].moments], [each.allocated for each in runs[0].moments])
        for name, runs in results.items()
    }
    waiting = {
        name: (
            [each.second / 3600 for each in runs[0].moments],
            [float(each.waiting) for each in runs[0].moments],
        )
        for name, runs in results.items()
    }
    waits = {name: _distribution([w for run in runs for w in run.waits]) for name, runs in results.items()}
    spans = {name: _distribution([s for run in runs for s in run.spans]) for name, runs in results.items()}
    _draw(
        file,
        (taken, "Allocated", "hours", "% of all cards"),
        (waiting, "Jobs that wait", "hours", "jobs"),
        (waits, "Time in the queue", "minutes (+1)", "% of jobs, at most"),
        (spans, "Arrival to end", "minutes (+1)", "% of jobs, at most"),
        logarithmic=(2, 3),
    )


def draw_elastic(outcomes: Sequence[Outcome], file: Path) -> None:
    """Completion times by load, and at the highest load as distributions; and what is given out of it over time."""
    loads = sorted({each.load for each in outcomes})
    by_rule: dict[str, dict[float, Outcome]] = {each.rule: {} for each in outcomes}
    for each in outcomes:
        by_rule[each.rule][each.load] = each
    panels: list[tuple[dict[str, Curve], str, str, str]] = [
        (
            {
                rule: (loads, [runs[load].report()[f"{which}_completion_hours"] for load in loads])
                for rule, runs in by_rule.items()
            },
            f"Arrival to end, {which}",
            "offered load",
            "hours",
        )
        for which in ("mean", "p99")
    ]
    full = {rule: runs[loads[-1]] for rule, runs in by_rule.items()}
    spans = {
        rule: _distribution([story.span for story in run.stories if story.ended])
        for rule, run in full.items()
    }
    taken = {rule: _taken(run) for rule, run in full.items()}
    _draw(
        file,
        *panels,
        (spans, f"Arrival to end, load {loads[-1]}", "minutes (+1)", "% of jobs, at most"),
        (taken, f"Cards in use, load {loads[-1]}", "hours", "% of all cards"),
        logarithmic=(2,),
        from_zero=(0, 1),
    )


def _taken(run: Outcome) -> Curve:
    """Per cent of all cards that are held, until the jobs have come and as long again."""
    until = 2 * max(story.job.arrives for story in run.stories)
    seconds = [until * at / POINTS for at in range(POINTS + 1)]
    held = [sum(story.card_seconds(second) for story in run.stories) for second in seconds]
    return (
        [second / 3600 for second in seconds[1:]],
        [100 * (after - before) / max(run.cards * until / POINTS, 1e-9) for before, after in pairwise(held)],
    )


def _mean(runs: Sequence[Filled], value: object) -> Curve:
    assert callable(value)
    length = min(len(run.samples) for run in runs)
    across = [[run.samples[at] for run in runs] for at in range(length)]
    return (
        [sum(sample.arrived for sample in each) / len(each) for each in across],
        [sum(value(sample) for sample in each) / len(each) for each in across],
    )


def _distribution(values: list[float]) -> Curve:
    values = sorted(values)
    picked = [values[at * (len(values) - 1) // POINTS] for at in range(POINTS + 1)] if values else []
    return [1 + value / 60 for value in picked], [100 * at / POINTS for at in range(len(picked))]


def _draw(
    file: Path,
    *panels: tuple[Mapping[str, Curve], str, str, str],
    logarithmic: Sequence[int] = (),
    from_zero: Sequence[int] = (),
) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.9 * ((len(panels) + 1) // 2)), layout="constrained")
    axes: list[Axes] = list(figure.subplots((len(panels) + 1) // 2, 2).flat)
    for number, (each, (curves, title, across, up)) in enumerate(zip(axes, panels, strict=True)):
        for colour, (name, (xs, ys)) in zip(COLOURS * len(curves), curves.items(), strict=False):
            few = "o" if len(xs) < FEW else None
            each.plot(xs, ys, color=colour, linewidth=1.8, label=name, marker=few, markersize=4)
        if number in logarithmic:
            each.set_xscale("log")
        if number in from_zero:
            each.set_ylim(bottom=0)
        each.set_title(title, loc="left", fontsize=11)
        each.set_xlabel(across)
        each.set_ylabel(up)
        each.grid(color="#dddddd", linewidth=0.7)
        each.set_axisbelow(True)
        each.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    # Text as text and no date: the same runs give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "alnair", "font.family": "sans-serif"}):
        metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
        figure.savefig(file, format=file.suffix[1:], metadata=metadata)
