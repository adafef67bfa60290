"""Microsoft's Philly trace, as CSV: timestamp,duration,num_gpus[,…], one job a line.

A job of more cards than a node has is a gang: the fewest equal pods that fit, so 16 cards are two pods of eight and 12
are two of six. The trace tells of no cpu and no memory, so none is asked for. Seconds count from the first arrival.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from alnair.api.quantity import shown
from alnair.simulate.openb import MOST_CARDS, number, rows
from alnair.simulate.trace import CARD, BadTrace, Job, Machine

COLUMNS = ("timestamp", "duration", "num_gpus")
CARDS_A_NODE = 8
MOST_GPUS = 4096
LONGEST = 10 * 365 * 86_400.0
MOST_NODES = 20_000
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{0,20})?(e[+-]?[0-9]{1,2})?", re.ASCII)


def read_jobs(path: Path, cards_a_node: int = CARDS_A_NODE) -> tuple[Job, ...]:
    found: list[tuple[datetime, float, int]] = []
    for where, row in rows(path, COLUMNS):
        try:
            came = datetime.fromisoformat((row["timestamp"] or "").strip()).replace(tzinfo=None)
        except ValueError:
            raise BadTrace(f"{where}: timestamp {shown(row['timestamp'])} is no date and time") from None
        gpus = number(row, "num_gpus", where, most=MOST_GPUS)
        found.append((came, _seconds(row["duration"] or "", where), gpus))
    if not found:
        raise BadTrace(f"{path}: has no jobs")
    first = min(came for came, _, _ in found)
    jobs = []
    for index, (came, lasts, gpus) in enumerate(found):
        pods = next(
            each for each in range(1, max(gpus, 1) + 1) if gpus % each == 0 and gpus // each <= cards_a_node
        )
        cards = gpus // pods
        jobs.append(
            Job(
                name=f"job-{index}",
                cpu=0,
                memory_mib=0,
                cards=cards,
                gpu=CARD if cards else 0,
                pods=pods,
                arrives=(came - first).total_seconds(),
                lasts=lasts,
            )
        )
    return tuple(jobs)


def equal_machines(text: str) -> tuple[Machine, ...] | None:
    """`300x8`: so many nodes with so many cards each, and all else in plenty. None if the text is something else."""
    nodes, cross, cards = text.partition("x")
    if not (cross and nodes.isascii() and nodes.isdigit() and cards.isascii() and cards.isdigit()):
        return None
    count, each = int(nodes[:9]), int(cards[:9])
    if not (0 < count <= MOST_NODES and 0 < each <= MOST_CARDS):
        raise BadTrace(f"{text}: at most {MOST_NODES} nodes of {MOST_CARDS} cards, and at least one of each")
    plenty = 1 << 30
    return tuple(Machine(f"node-{index:05}", plenty, plenty, each) for index in range(count))


def _seconds(text: str, where: str) -> float:
    # Python's own reading takes 1_000 and other scripts' digits too.
    seconds = float(text) if _NUMBER.fullmatch(text.strip()) else -1.0
    if not 0 <= seconds <= LONGEST:
        raise BadTrace(f"{where}: duration {shown(text)} is no number of seconds")
    return seconds
