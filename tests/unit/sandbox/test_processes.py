"""Children of the sandbox start, are waited for, and end with their owner."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alnair.sandbox.processes import Child, ChildFailed

SLEEPER = ["/bin/sh", "-c", "echo started; exec sleep 600"]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_dead(pid: int) -> None:
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.01)


def started(log: Path) -> bool:
    return log.exists() and "started" in log.read_text()


def test_a_child_dies_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from alnair.sandbox.processes import Child\n"
        f"child = Child('sleeper', {SLEEPER!r}, log=pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "child.start(); print(child.pid, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    deadline = time.monotonic() + 10
    while not started(tmp_path / "log"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    owner.kill()
    owner.wait()
    wait_dead(pid)


def test_stop_ends_also_what_ignores_sigterm(tmp_path: Path) -> None:
    child = Child(
        "stubborn",
        ["/bin/sh", "-c", "trap '' TERM; echo started; while :; do sleep 1; done"],
        log=tmp_path / "l",
    )
    child.start()
    child.wait_ready(lambda: started(tmp_path / "l"), timeout=10)
    pid = child.pid
    child.stop(grace=0.2)
    assert not child.running()
    wait_dead(pid)


def test_a_child_that_ends_early_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    child = Child("short", ["/bin/sh", "-c", "echo no such flag; exit 3"], log=tmp_path / "l")
    child.start()
    with pytest.raises(ChildFailed, match=r"short ended with exit code 3(?s:.*)no such flag"):
        child.wait_ready(lambda: False, timeout=10)


def test_a_child_that_is_not_ready_in_time_is_an_error(tmp_path: Path) -> None:
    child = Child("slow", SLEEPER, log=tmp_path / "l")
    child.start()
    try:
        with pytest.raises(ChildFailed, match="slow was not ready after 0 s"):
            child.wait_ready(lambda: False, timeout=0.2)
    finally:
        child.kill()


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    child = Child("absent", ["/nonexistent/program"], log=tmp_path / "l")
    child.start()
    with pytest.raises(ChildFailed, match="cannot run /nonexistent/program"):
        child.wait_ready(lambda: False, timeout=10)


def test_a_child_is_out_of_reach_of_the_terminals_ctrl_c(tmp_path: Path) -> None:
    child = Child("apart", SLEEPER, log=tmp_path / "l")
    child.start()
    try:
        assert os.getsid(child.pid) != os.getsid(0)
    finally:
        child.kill()
