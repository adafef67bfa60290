"""A sandbox in a process of its own, as its owner sees it.

    with KeptControlPlane.start() as sandbox:
        sandbox.access.kubectl("get", "nodes")
        sandbox.restart("kube-apiserver")

However the owner ends, the keeper notices and removes everything; see `keeper.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from alnair.sandbox.access import Access


class KeeperFailed(Exception):
    """The keeper could not start the sandbox or carry out a command. The message is the keeper's own."""


class KeptControlPlane:
    """The owner's end of a keeper. Commands are for one thread at a time."""

    def __init__(self, process: subprocess.Popen[str], access: Access) -> None:
        self.process = process
        self.access = access

    @classmethod
    def start(
        cls,
        *,
        directory: Path | None = None,
        scheduler: bool = False,
        scheduler_config: Path | None = None,
        controller_manager: bool = True,
        kwok: bool = True,
        audit: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        apiserver_flags: Sequence[str] = (),
        stages: Sequence[Path] = (),
        stderr: IO[str] | int | None = None,
    ) -> Self:
        """Returns when the control plane works: in seconds once it is compiled. Progress goes to `stderr`."""
        command = [sys.executable, "-m", "alnair.sandbox.keeper", "--json"]
        command += [f"--directory={directory.absolute()}"] if directory else []
        command += ["--scheduler"] if scheduler else []
        command += [f"--scheduler-config={scheduler_config.absolute()}"] if scheduler_config else []
        command += [] if controller_manager else ["--no-controller-manager"]
        command += [] if kwok else ["--no-kwok"]
        command += [] if audit else ["--no-audit"]
        command += [f"--feature-gate={name}={str(on).lower()}" for name, on in (feature_gates or {}).items()]
        command += [
            f"--runtime-config={name}={str(on).lower()}" for name, on in (runtime_config or {}).items()
        ]
        command += [f"--apiserver-flag={flag}" for flag in apiserver_flags]
        command += [f"--stage={stage.absolute()}" for stage in stages]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        try:
            said = _answer(process)
        except BaseException:
            _end(process)
            raise
        return cls(process, Access.from_json(said))

    def kill(self, program: str) -> None:
        """kill -9 of a program of the control plane, such as `kube-apiserver` or `etcd`."""
        self._command(f"kill {program}")

    def start_again(self, program: str) -> None:
        """Starts a killed or stopped program with the same data at the same address; returns when it is ready."""
        self._command(f"start {program}")

    def stop(self, program: str) -> None:
        self._command(f"stop {program}")

    def restart(self, program: str) -> None:
        self._command(f"restart {program}")

    def _command(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        _answer(self.process)

    def close(self) -> None:
        """Stops everything and returns when it is gone. May be called twice."""
        _end(self.process)
        # Only if the keeper itself was killed; it removes its folder otherwise.
        shutil.rmtree(self.access.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise KeeperFailed(
            f"the keeper ended with exit code {process.wait()} without an answer; its standard error says why"
        )
    said: dict[str, str] = json.loads(line)
    if "error" in said:
        raise KeeperFailed(said["error"])
    return said


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
