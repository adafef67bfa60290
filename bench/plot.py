"""Throughput and latency against the number of nodes, every contestant a line: docs/bench/throughput.svg."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def worth_drawing(results: Results) -> bool:
    return False


def draw(results: Results, file: Path) -> None:
    pass
