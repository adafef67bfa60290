"""What a process, or the machine, has used so far, read from /proc: CPU seconds, and the most memory it ever had.

A contestant is counted with all processes of its group, so that work in a second process is not free.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_seconds: float
    peak_mib: float


def of_group(leader: int) -> Usage:
    """All processes of the group that `leader` leads; those that ended count by their parent's word."""
    cpu, peak = 0.0, 0.0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in brackets may hold blanks; what is needed comes after it.
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[2]) != leader:
                continue
            cpu += sum(int(ticks) for ticks in fields[11:15]) / TICKS
            peak += _peak(entry)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return Usage(cpu_seconds=cpu, peak_mib=peak)


def _peak(process: Path) -> float:
    for line in (process / "status").read_text("utf-8", "replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0  # a process that is ending has no memory any more


def of_machine() -> float:
    """CPU seconds that anybody used since the machine started, and that were taken from it by its host."""
    user, nice, system, _idle, _waiting, irq, softirq, stolen = (
        int(ticks) for ticks in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + stolen) / TICKS
