"""`alnair demo` as a new user runs it: a control plane of its own, and nothing left of it afterwards."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ALNAIR = Path(sys.executable).with_name("alnair")
REASON = re.compile(
    r"Unschedulable: 8 of 10 members fit\. 2 more each need 36 GiB on one card.*, but .*\.$", re.MULTILINE
)
TOPOLOGIES = (
    r"^a100-1 +8 x NVIDIA-A100-SXM4-40GB +40Gi +0,1 +0-1 2-3 4-5 6-7 +HAMi ",
    r"^a10-1 +4 x NVIDIA-A10 +24Gi +0,1 +0-1 2-3 +HAMi ",
    r"^a10-2 +4 x NVIDIA-A10 +24Gi +0,1 +0-1 2-3 ",
    r"^mixed-1 +1 x NVIDIA-A10, 1 x Tesla-T4 +24Gi, 16Gi +0,1 ",
    r"^t4-1 +2 x Tesla-T4 +16Gi +0,1 +0-1 +HAMi ",
    r"^v100-1 +4 x Tesla-V100-SXM2-32GB +32Gi +0,1 +0-1 2-3 ",
)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A place for temporary files, which the demo must leave empty. Short: etcd's socket lies below it."""
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        yield Path(folder)


def environment(scratch: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(scratch)}


def test_once_it_shows_bound_records_and_the_reason_of_the_pending_group(scratch: Path) -> None:
    done = subprocess.run(
        [ALNAIR, "demo", "--once"],
        env=environment(scratch),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    bound = re.findall(r"^(notebook-4g|notebook-6g|trainer)-[0-9a-f]{8} +Bound ", done.stdout, re.MULTILINE)
    assert bound == ["notebook-4g", "notebook-6g", "trainer"]
    assert re.search(r"^simulation +Pending +0 +10 +10 ", done.stdout, re.MULTILINE)
    assert re.search(r"Unschedulable +podgroup/simulation +8 of 10 members fit", done.stdout)
    assert REASON.search(done.stdout)
    for line in TOPOLOGIES:
        assert re.search(line, done.stdout, re.MULTILINE), done.stdout
    assert list(scratch.iterdir()) == []


def test_in_a_terminal_it_stays_until_it_is_interrupted(scratch: Path) -> None:
    """And its second command to try, a node with larger cards, lets the pending gang start."""
    ours, theirs = pty.openpty()
    demo = subprocess.Popen(
        [ALNAIR, "demo"],
        env={**environment(scratch), "TERM": "dumb", "COLUMNS": "200"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        said = read_until(ours, "Ctrl-C ends everything", timeout=200)
        exported = re.search(r"export KUBECONFIG=(\S+)", said)
        command = re.search(r"^ +(\S*kubectl apply -f \S+larger-node\.yaml) ", said, re.MULTILINE)
        assert exported, said
        assert command, said
        cluster = {**environment(scratch), "KUBECONFIG": exported[1], "KUBECACHEDIR": f"{scratch}/cache"}
        apply = shlex.split(command[1])
        subprocess.run(apply, env=cluster, check=True, capture_output=True)
        wait = ["-n", "demo", "wait", "podgroup/simulation", "--for=jsonpath={.status.phase}=Running"]
        subprocess.run([apply[0], *wait, "--timeout=30s"], env=cluster, check=True, capture_output=True)
        demo.send_signal(signal.SIGINT)
        read_until(ours, "cleaning up", timeout=30)
        assert demo.wait(30) == 0
    finally:
        demo.kill()
        demo.wait()
        os.close(ours)
    assert [each.name for each in scratch.iterdir() if each.name != "cache"] == []


def read_until(terminal: int, words: str, *, timeout: float) -> str:
    """What the program wrote up to the end of the line with these words."""
    said, deadline = "", time.monotonic() + timeout
    while words not in said or not said.endswith("\n"):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{words!r} was not said within {timeout:g} s:\n{said}"
        try:
            said += os.read(terminal, 65536).decode("utf-8", "replace").replace("\r", "")
        except OSError:  # the other end is closed
            raise AssertionError(f"the demo ended before it said {words!r}:\n{said}") from None
    return said


def test_without_a_chart_it_says_what_to_do_and_starts_nothing(tmp_path: Path) -> None:
    done = subprocess.run([ALNAIR, "demo", "--chart", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"there is no chart at {tmp_path}" in done.stderr
    assert done.stdout == ""
