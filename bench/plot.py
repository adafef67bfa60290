"""Throughput and latency against the number of nodes, a line for each contestant: the picture in the README.

It is drawn only from a run that measured both at two sizes or more, so that a run of a few shapes does not put half
a picture in the place of a whole one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = {
    "ceiling": ("raw binds, no scheduler", "#9a9a9a"),
    "kube": ("kube-scheduler, no gangs", "#7fa6d6"),
    "kube-gang": ("kube-scheduler, native gangs", "#2f5d9b"),
    "alnair": ("Alnair", "#d9542b"),
}
Lines = dict[str, dict[int, tuple[float, float, float]]]
"""For each contestant and number of nodes, the value, and the two ends of the bar through it."""


def worth_drawing(results: Results) -> bool:
    return all(len({nodes for line in lines.values() for nodes in line}) > 1 for lines in _both(results))


def draw(results: Results, file: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    rates, waits = _both(results)
    _panel(left, rates, title="Gangs of 8, worked off", unit="pods a second")
    left.set_ylim(bottom=0)
    _panel(right, waits, title="One gang of 8, idle cluster", unit="ms to the last bind, p50 to p99")
    right.set_yscale("log")
    right.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    right.yaxis.set_minor_locator(NullLocator())
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    # Text as text and no date: the file stays small, and the same figures give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "alnair", "font.family": "sans-serif"}):
        figure.savefig(file, format="svg", metadata={"Date": None})


def _both(results: Results) -> tuple[Lines, Lines]:
    rates: Lines = defaultdict(dict)
    for shape, by_name in results.outcomes.items():
        if shape.kind == "gang" and shape.size == 8:
            for who, rounds in by_name.items():
                values = [each.pods_per_second for each in rounds]
                rates[who][shape.nodes] = (median(values), min(values), max(values))
    waits: Lines = defaultdict(dict)
    for shape, measured in results.latencies.items():
        for who, it in measured.items():
            waits[who][shape.nodes] = (it.p50_ms, it.p50_ms, it.p99_ms)
    return rates, waits


def _panel(
    axes: Axes, lines: Mapping[str, Mapping[int, tuple[float, float, float]]], *, title: str, unit: str
) -> None:
    for who, (label, colour) in LOOKS.items():
        if who not in lines:
            continue
        nodes = sorted(lines[who])
        middle, low, high = ([lines[who][each][part] for each in nodes] for part in range(3))
        thick = 2.4 if who == "alnair" else 1.6
        axes.plot(nodes, middle, color=colour, linewidth=thick, marker="o", markersize=5, label=label)
        axes.vlines(nodes, low, high, color=colour, linewidth=thick)
    sizes = sorted({each for line in lines.values() for each in line})
    axes.set_xticks(sizes, [f"{each:,}" for each in sizes])
    axes.margins(x=0.1)
    axes.set_xlabel("nodes")
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_ylabel(unit)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
