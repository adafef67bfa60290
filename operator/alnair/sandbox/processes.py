"""Child processes of the sandbox: started, waited for, stopped, and never left behind.

A child is in a session of its own (a Ctrl-C in the terminal reaches its owner only, who then stops it in
order), writes its output to a file, and is killed by the kernel when its owner dies. The kernel means the
*thread* that started it: start children only from a thread that lives as long as they should.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launcher.py")


class ChildFailed(Exception):
    """A child ended, or did not become ready in time. The message ends with the tail of its log."""


class Child:
    """One program with its log file. It can be started again after it ended; the log is continued."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self.environment = dict(environment) if environment is not None else None
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self.process is None:
            raise ChildFailed(f"{self.name} was not started")
        return self.process.pid

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        if self.running():
            raise ChildFailed(f"{self.name} runs already, as process {self.pid}")
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self.environment,
                cwd=self.directory,
            )

    def wait_ready(self, ready: Callable[[], bool], *, timeout: float) -> None:
        """Asks `ready` until it says yes. A child that ends meanwhile is an error at once, not at the time-out."""
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running():
                code = self.process.returncode if self.process is not None else None
                raise ChildFailed(f"{self.name} ended with exit code {code} before it was ready{self.tail()}")
            if time.monotonic() > deadline:
                raise ChildFailed(f"{self.name} was not ready after {timeout:.0f} s{self.tail()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL to it and all it started; returns when it is gone."""
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def stop(self, *, grace: float = 10.0) -> None:
        """SIGTERM, and SIGKILL for what is still there after the grace time."""
        if self.process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._signal(signal.SIGKILL)  # what it left in its process group

    def pause(self) -> None:
        """SIGSTOP: it is there and does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        # A session of its own makes its pid the number of its process group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def tail(self, lines: int = 25) -> str:
        """The end of the log as an indented block, to be put after an error's sentence."""
        return log_tail(self.log, lines=lines)


def log_tail(log: Path, *, lines: int = 25) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 64 * 1024))
            last = file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except FileNotFoundError:
        return f"; it wrote no log at {log}"
    if not last:
        return f"; its log {log} is empty"
    return f"; the end of {log}:\n" + "\n".join(f"    {line[:600]}" for line in last)
