"""What the extender costs, in one picture: the speed of a backlog, the wait of one pod, the CPU of one pod."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {
    "kube": "kube-scheduler,\nno cards",
    "extender": "kube-scheduler\n+ extender",
    "second": "Alnair itself",
}
COLOURS = {"kube": "#9a9a9a", "extender": "#2f5d9b", "second": "#d9542b"}
PARTS = {
    "kube-scheduler": "#2f5d9b",
    "alnair": "#d9542b",
    "apiserver": "#b9b9b9",
    "etcd": "#dddddd",
}


def draw(said: dict[str, Any], file: Path) -> None:
    """`said`: what the bench prints."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.4, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    ways = said["ways"]
    rates = {way: it["pods_per_second"] for way, it in ways.items()}
    spans = {way: (min(it["rounds"]), max(it["rounds"])) for way, it in ways.items()}
    _bars(left, rates, spans, title=f"A backlog of {said['pods']:,} pods", unit="pods a second")
    waits = {way: it["p50_ms"] for way, it in ways.items()}
    worst = {way: (it["p50_ms"], it["p99_ms"]) for way, it in ways.items()}
    _bars(middle, waits, worst, title="One pod, idle cluster", unit="ms to its bind, p50 to p99")
    _stacks(right, {way: it["cpu_ms_per_pod"] for way, it in ways.items()})
    file.parent.mkdir(parents=True, exist_ok=True)
    # Text as text and no date: the file stays small, and the same figures give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "alnair", "font.family": "sans-serif"}):
        figure.savefig(file, format="svg", metadata={"Date": None})


def _bars(
    axes: Axes, values: dict[str, float], spans: dict[str, tuple[float, float]], *, title: str, unit: str
) -> None:
    for place, (way, value) in enumerate(values.items()):
        axes.bar(place, value, width=0.62, color=COLOURS[way])
        axes.vlines(place, *spans[way], color="#333333", linewidth=1.4)
        axes.annotate(
            f"{value:,.0f}", (place, 0), (0, 4), textcoords="offset points", ha="center", color="white"
        )
    _frame(axes, list(values), title=title, unit=unit)


def _stacks(axes: Axes, parts: dict[str, dict[str, float]]) -> None:
    for name, colour in PARTS.items():
        heights = [each.get(name, 0.0) for each in parts.values()]
        below = [
            sum(each.get(other, 0.0) for other in list(PARTS)[: list(PARTS).index(name)])
            for each in parts.values()
        ]
        axes.bar(range(len(parts)), heights, width=0.62, bottom=below, color=colour, label=name)
    axes.set_ylim(top=1.12 * max(sum(each.values()) for each in parts.values()))
    axes.legend(frameon=False, fontsize=8, loc="upper center", ncols=4, columnspacing=1.0, handlelength=1.0)
    _frame(axes, list(parts), title="CPU of one pod of the backlog", unit="ms")


def _frame(axes: Axes, ways: list[str], *, title: str, unit: str) -> None:
    axes.set_xticks(range(len(ways)), [LABELS[way] for way in ways], fontsize=8)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_ylabel(unit)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
