"""The results for people: one row a shape and contestant, medians of the rounds."""

from __future__ import annotations

from statistics import median

from rich.console import Console
from rich.table import Table

from bench.results import Results
from bench.throughput import Outcome

DISTURBED = 0.1
"""Share of the CPU above which others spoil the figures; the kernel's own work is a few per cent."""

PARTS = ("scheduler", "apiserver", "etcd")


def show(results: Results, console: Console) -> None:
    if results.outcomes:
        console.print(_throughput(results))
    if results.latencies:
        console.print(_latency(results))
    if results.others_share() > DISTURBED:
        console.print(
            f"Other programs took up to {results.others_share():.0%} of the CPU: these figures are only indicative.",
            markup=False,
        )
    for failure in results.failures:
        console.print(f"FAILED: {failure}", markup=False)


def _throughput(results: Results) -> Table:
    table = Table(title="Working off a backlog (medians of the rounds)", title_justify="left")
    table.add_column("shape")
    table.add_column("contestant")
    for title in ("pods/s", "lowest-highest", "settled", "p50 s", "p99 s", "peak MiB"):
        table.add_column(title, justify="right")
    for part in PARTS:
        table.add_column(f"CPU ms/pod\n{part}", justify="right")
    table.add_column("busy after\nlast bind s", justify="right")
    table.add_column("others'\nCPU %", justify="right")
    for shape, by_name in results.outcomes.items():
        for who, rounds in by_name.items():
            table.add_row(shape.name, who, *_row(rounds))
        table.add_section()
    return table


def _row(rounds: list[Outcome]) -> list[str]:
    rates = [each.pods_per_second for each in rounds]
    settled = [each.settled_pods_per_second for each in rounds if each.settled_pods_per_second is not None]
    return [
        f"{median(rates):.0f}",
        f"{min(rates):.0f}-{max(rates):.0f}",
        f"{median(settled):.0f}" if len(settled) == len(rounds) else "never",
        f"{median(each.p50_ms for each in rounds) / 1000:.2f}",
        f"{median(each.p99_ms for each in rounds) / 1000:.2f}",
        f"{median(each.peak_mib for each in rounds):.0f}",
        *(f"{median(each.cpu_ms_per_pod[part] for each in rounds):.2f}" for part in PARTS),
        f"{median(each.tail_seconds for each in rounds):.1f}",
        f"{100 * max(each.others_share for each in rounds):.0f}",
    ]


def _latency(results: Results) -> Table:
    table = Table(title="One gang at a time on an idle cluster: creation to last bind", title_justify="left")
    table.add_column("shape")
    table.add_column("contestant")
    for title in ("p50 ms", "p99 ms", "worst ms"):
        table.add_column(title, justify="right")
    for shape, by_name in results.latencies.items():
        for who, it in by_name.items():
            table.add_row(shape.name, who, f"{it.p50_ms:.0f}", f"{it.p99_ms:.0f}", f"{it.worst_ms:.0f}")
        table.add_section()
    return table
