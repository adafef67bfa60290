"""Alibaba's openb traces (cluster-trace-gpu-v2023), as CSV: one file of nodes, one of pods.

    nodes  sn,cpu_milli,memory_mib,gpu,model
    pods   name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,…,creation_time,deletion_time,…]

`gpu_spec` lists the allowed models, divided by `|`; empty means any. Times are in seconds and may be missing.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from alnair.api.quantity import shown
from alnair.simulate.trace import CARD, BadTrace, Job, Machine

MOST = 1 << 40  # of anything: more is a slip of the pen
MOST_CARDS = 64
MOST_LINES = 5_000_000

Row = Mapping[str, str | None]


def read_machines(path: Path) -> tuple[Machine, ...]:
    machines: dict[str, Machine] = {}
    for where, row in rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        name = row["sn"] or ""
        if not name or name in machines:
            raise BadTrace(f"{where}: sn {shown(name)} is empty or stands twice")
        machines[name] = Machine(
            name=name,
            cpu=number(row, "cpu_milli", where),
            memory_mib=number(row, "memory_mib", where),
            cards=number(row, "gpu", where, most=MOST_CARDS),
            model=row["model"] or "",
        )
    if not machines:
        raise BadTrace(f"{path}: has no nodes")
    return tuple(machines.values())


def read_jobs(path: Path) -> tuple[Job, ...]:
    jobs = []
    for where, row in rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        cards = number(row, "num_gpu", where, most=MOST_CARDS)
        gpu = number(row, "gpu_milli", where, most=CARD)
        if bool(cards) != bool(gpu):
            raise BadTrace(f"{where}: num_gpu {cards} and gpu_milli {gpu}: both are 0, or none")
        came, gone = (_seconds(row, key, where) for key in ("creation_time", "deletion_time"))
        jobs.append(
            Job(
                name=row["name"] or "",
                cpu=number(row, "cpu_milli", where),
                memory_mib=number(row, "memory_mib", where),
                cards=cards,
                gpu=gpu,
                models=tuple(part for part in (row.get("gpu_spec") or "").split("|") if part),
                arrives=came or 0.0,
                lasts=None if came is None or gone is None else max(gone - came, 0.0),
            )
        )
    if not jobs:
        raise BadTrace(f"{path}: has no pods")
    return tuple(jobs)


def rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[str, Row]]:
    """Each line with where it stands, for complaints."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if missing := [column for column in needed if column not in (reader.fieldnames or ())]:
                raise BadTrace(f"{path}: the first line names no column {', '.join(missing)}")
            for count, row in enumerate(reader, start=2):
                if count > MOST_LINES:
                    raise BadTrace(f"{path}: has more than {MOST_LINES} lines")
                yield f"{path} line {count}", row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadTrace(f"{path}: cannot be read: {error}") from error


def number(row: Row, column: str, where: str, *, most: int = MOST) -> int:
    text = (row[column] or "").strip()
    # Some of the published files carry whole numbers as 1000.0
    digits = text.removesuffix(".0")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15 or int(digits) > most:
        raise BadTrace(f"{where}: {column} {shown(text)} is no whole number from 0 to {most}")
    return int(digits)


def _seconds(row: Row, column: str, where: str) -> float | None:
    if not (row.get(column) or "").strip():
        return None
    return float(number(row, column, where))
