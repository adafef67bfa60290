"""Where Alnair's CPU goes: py-spy looks at the running operator a few hundred times a second, from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

SAMPLES_PER_SECOND = 250


class ProfilerMissing(Exception):
    """py-spy is not installed."""


class Profiler:
    """One recording at a time. The stacks stay in `file`, in the form that flame-graph programs read."""

    def __init__(self, file: Path) -> None:
        self.program = Path(sys.executable).with_name("py-spy")
        if not self.program.exists():
            raise ProfilerMissing(f"no py-spy beside {sys.executable}: `make venv`, or pip install py-spy")
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None

    def attach(self, pid: int) -> None:
        options = ["--nonblocking", "--format=raw", f"--rate={SAMPLES_PER_SECOND}", f"--output={self.file}"]
        self.process = subprocess.Popen(
            [self.program, "record", f"--pid={pid}", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    async def detach(self) -> None:
        """py-spy writes its file when it is interrupted."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGINT)
            await asyncio.to_thread(self.process.wait, 60)

    def summary(self, *, lines: int = 30) -> str:
        """The functions that take the most by themselves, and with all that they call."""
        own: Counter[str] = Counter()
        whole: Counter[str] = Counter()
        for line in self.file.read_text("utf-8").splitlines():
            stack, _, count = line.rpartition(" ")
            frames = [frame.strip() for frame in stack.split(";")]
            own[_function(frames[-1])] += int(count)
            whole.update(dict.fromkeys(map(_function, frames), int(count)))
        total = max(1, own.total())
        return "\n".join(
            [
                f"{total} samples, all stacks in {self.file}",
                *_table("by itself", own, total=total, lines=lines),
                *_table("with all it calls", whole, total=total, lines=lines),
            ]
        )


def _function(frame: str) -> str:
    """`name (path/file.py:12)` without the line number and most of the path."""
    name, _, place = frame.partition(" (")
    file = place.rpartition(":")[0].rstrip(")") or place.rstrip(")")
    return f"{name} ({'/'.join(Path(file).parts[-2:])})"


def _table(title: str, counts: Counter[str], *, total: int, lines: int) -> list[str]:
    return [
        f"  {title}:",
        *(f"    {100 * n / total:5.1f} %  {name}" for name, n in counts.most_common(lines)),
    ]
