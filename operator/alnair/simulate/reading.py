"""Which of the formats a trace is in, told by its first line: people name files as they like."""

from __future__ import annotations

from pathlib import Path

from alnair.simulate import jsonl, openb, philly
from alnair.simulate.trace import BadTrace, Machine, Trace


def read_trace(pods: Path, nodes: str | None) -> Trace:
    """`nodes` is a CSV of nodes, or `300x8` for so many with so many cards; a JSONL file may have its own."""
    first = _first_line(pods)
    if first.startswith("{"):
        trace = jsonl.read_trace(pods)
        if nodes is None and not trace.machines:
            raise BadTrace(f"{pods}: has no nodes; add some, or give --nodes")
        return trace if nodes is None else Trace(_machines(nodes), trace.jobs)
    if nodes is None:
        raise BadTrace(f"{pods}: tells of no nodes; give --nodes, a CSV or for example 300x8")
    machines = _machines(nodes)
    if set(philly.COLUMNS) <= set(first.split(",")):
        return Trace(machines, philly.read_jobs(pods, max(machine.cards for machine in machines)))
    return Trace(machines, openb.read_jobs(pods))


def _machines(nodes: str) -> tuple[Machine, ...]:
    return philly.equal_machines(nodes) or openb.read_machines(Path(nodes))


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(1 << 16).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadTrace(f"{path}: cannot be read: {error}") from error
