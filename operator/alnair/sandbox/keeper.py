"""The process that keeps one sandbox: `python -m alnair.sandbox.keeper [--directory D]`.

When all is ready it prints one JSON line: {"kubeconfig", "directory", "audit_log", "kubectl"} (or {"error"}). It
lives until SIGTERM, SIGINT, or the end of its standard input, which comes when its owner dies, even by kill -9.
Then it stops everything and removes the folder. The control plane's programs are its children and die with it.

Its standard input takes commands for fault tests, a line each, answered by one JSON line:
`kill NAME`, `start NAME`, `stop NAME`, `restart NAME`, with NAME such as kube-apiserver or etcd.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from alnair.sandbox.access import CommandFailed, RequestFailed
from alnair.sandbox.binaries import BuildFailed, obtain
from alnair.sandbox.control_plane import ControlPlane, Options
from alnair.sandbox.folders import FolderTaken, claim
from alnair.sandbox.go import GoMissing
from alnair.sandbox.processes import ChildFailed
from alnair.sandbox.progress import Report

EXPECTED = (
    BuildFailed,
    ChildFailed,
    CommandFailed,
    FolderTaken,
    GoMissing,
    RequestFailed,
    OSError,
    ValueError,
)
NO_MORE = ""
"""In place of a command: the owner is gone."""


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    commands: queue.SimpleQueue[str] = queue.SimpleQueue()
    if not chosen.detached:
        threading.Thread(target=_listen, args=(commands,), name="owner", daemon=True).start()
    try:
        _keep(chosen, commands)
    except EXPECTED as problem:
        _say({"error": str(problem)})
        return 1
    except SystemExit:
        pass
    return 0


def _keep(chosen: argparse.Namespace, commands: queue.SimpleQueue[str]) -> NoReturn:
    binaries = obtain(Report())
    folder = claim(chosen.directory)
    control_plane: ControlPlane | None = None
    try:
        options = Options(
            scheduler=chosen.scheduler,
            scheduler_config=chosen.scheduler_config,
            controller_manager=not chosen.no_controller_manager,
            kwok=not chosen.no_kwok,
            audit=not chosen.no_audit,
            feature_gates=dict(chosen.feature_gate),
            runtime_config=dict(chosen.runtime_config),
            apiserver_flags=chosen.apiserver_flag,
            stages=chosen.stage or None,
        )
        control_plane = ControlPlane(folder.path, binaries, options)
        control_plane.start()
        _say(control_plane.access.to_json())
        while line := commands.get():
            _obey(line, control_plane)
        raise SystemExit(0)
    finally:
        # A second signal must not leave half of it behind.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if control_plane is not None:
            control_plane.stop()
        folder.remove()


def _obey(line: str, control_plane: ControlPlane) -> None:
    verb, _, name = line.strip().partition(" ")
    verbs = {
        "kill": control_plane.kill_program,
        "start": control_plane.start_program,
        "stop": control_plane.stop_program,
        "restart": control_plane.restart_program,
    }
    if verb not in verbs:
        known = ", ".join(verbs)
        _say({"error": f"{line.strip()!r} is no command; there are {known}, each with a program's name"})
        return
    try:
        verbs[verb](name)
    except EXPECTED as problem:
        _say({"error": str(problem)})
    else:
        _say({"done": line.strip()})


def _listen(commands: queue.SimpleQueue[str]) -> None:
    """In a thread of its own, because the owner may die while the main thread compiles or starts programs."""
    for line in sys.stdin:
        commands.put(line)
    commands.put(
        NO_MORE
    )  # a signal that comes a moment before the main thread waits for commands does not wake it
    os.kill(os.getpid(), signal.SIGTERM)


def _leave(*_: object) -> NoReturn:
    raise SystemExit(0)


def _say(answer: dict[str, str]) -> None:
    with suppress(BrokenPipeError):  # the owner is gone; its end of standard input says so too
        print(json.dumps(answer), flush=True)


def _switch(text: str) -> tuple[str, bool]:
    name, _, value = text.partition("=")
    if value not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=true or NAME=false")
    return name, value == "true"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m alnair.sandbox.keeper", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--directory", type=Path, help="the sandbox's folder, removed at the end (default: a fresh one)"
    )
    parser.add_argument(
        "--detached", action="store_true", help="live until a signal, whatever standard input does"
    )
    parser.add_argument("--scheduler", action="store_true", help="run kube-scheduler too")
    parser.add_argument(
        "--scheduler-config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration as JSON"
    )
    parser.add_argument("--no-controller-manager", action="store_true", help="run no kube-controller-manager")
    parser.add_argument("--no-kwok", action="store_true", help="run no kwok")
    parser.add_argument("--no-audit", action="store_true", help="write no audit log")
    parser.add_argument("--feature-gate", type=_switch, action="append", default=[], metavar="NAME=BOOL")
    parser.add_argument("--runtime-config", type=_switch, action="append", default=[], metavar="API=BOOL")
    parser.add_argument("--apiserver-flag", action="append", default=[], metavar="FLAG")
    parser.add_argument(
        "--stage",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a Stage file for kwok, instead of the fast ones",
    )
    parser.add_argument("--json", action="store_true", help="accepted for clarity: the output is always JSON")
    return parser


if __name__ == "__main__":
    # Not sys.exit: at its end the interpreter would wait for the thread that reads standard input.
    code = main()
    sys.stdout.flush()
    os._exit(code)
