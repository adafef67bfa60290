"""However its owner ends, no process and no folder of a sandbox is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from alnair.sandbox.folders import FolderTaken, claim, keeper_of
from alnair.sandbox.kept import KeeperFailed, KeptControlPlane

OWNER = """
import json, sys, time
from alnair.sandbox.kept import KeptControlPlane
kept = KeptControlPlane.start()
print(json.dumps({"directory": str(kept.access.directory), "keeper": kept.process.pid}), flush=True)
time.sleep(600)
"""


def processes_of(directory: Path) -> list[str]:
    """Command lines of living processes that name the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if str(directory) in command:
                found.append(f"{entry.name}: {command[:120]}")
    return found


def wait_gone(directory: Path, timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while directory.exists() or processes_of(directory):
        assert time.monotonic() < deadline, (
            f"{directory} exists: {directory.exists()}; {processes_of(directory)}"
        )
        time.sleep(0.05)


def wait_dead(pid: int, timeout: float = 30) -> None:
    """Dead or a zombie: its command line is empty then, and reaping it is its parent's business."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            if not Path(f"/proc/{pid}/cmdline").read_bytes():
                return
        except OSError:
            return
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.05)


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    with killed_in_the_end(
        subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    ) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        directory = Path(said["directory"])
        assert len(processes_of(directory)) >= 4, (
            "etcd, kube-apiserver, kube-controller-manager and kwok should run"
        )
        yield process, directory, said["keeper"]


@contextmanager
def killed_in_the_end(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A test that fails leaves nothing running either."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda it: it.name)
def test_nothing_is_left_when_the_owner_ends_by(
    owner: tuple[subprocess.Popen[str], Path, int], number: signal.Signals
) -> None:
    process, directory, _ = owner
    process.send_signal(number)
    process.wait(30)
    wait_gone(directory)


def test_programs_die_with_a_keeper_that_is_killed_and_the_next_sandbox_sweeps_its_folder(
    owner: tuple[subprocess.Popen[str], Path, int],
) -> None:
    process, directory, keeper = owner
    os.kill(keeper, signal.SIGKILL)
    deadline = time.monotonic() + 20
    # A process that is ending has no command line any more while it still holds its lock.
    while processes_of(directory) or keeper_of(directory) is not None:
        assert time.monotonic() < deadline, processes_of(directory)
        time.sleep(0.05)
    claim(None).remove()
    assert not directory.exists()
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda it: it.name)
def test_a_pytest_run_that_is_ended_in_the_middle_of_a_test_leaves_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, number: signal.Signals
) -> None:
    """The whole chain: pytest, its xdist worker, the keeper, the control plane."""
    said = tmp_path / "directory"
    test = tmp_path / "test_hang.py"
    test.write_text(
        "import json, os, time, pathlib\n"
        "def test_hang(cluster):\n"
        "    said = json.dumps([str(cluster.directory), os.getpid()])\n"
        f"    pathlib.Path({str(said)!r}).write_text(said)\n"
        "    time.sleep(600)\n"
    )
    root = request.config.rootpath
    (tmp_path / "conftest.py").write_text((root / "tests" / "conftest.py").read_text())
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    options = ["-q", "-n", "1", "-p", "no:cacheprovider", "-c", root / "pyproject.toml"]
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, "--rootdir", root, "--confcutdir", tmp_path, test],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environment, "PYTHONPATH": str(root / "tests")},
        text=True,
    )
    with killed_in_the_end(run):
        deadline = time.monotonic() + 120
        while not said.exists() or not said.read_text():
            assert run.poll() is None, run.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        directory, worker = json.loads(said.read_text())
        assert worker != run.pid
        run.send_signal(number)
        run.wait(60)
    wait_gone(Path(directory))
    wait_dead(worker)


def test_two_sandboxes_run_side_by_side_and_one_stop_leaves_the_other(
    private_cluster: KeptControlPlane,
) -> None:
    with KeptControlPlane.start() as other:
        assert other.access.server() != private_cluster.access.server()
        other.access.kubectl("create", "namespace", "only-here")
    wait_gone(other.access.directory)
    names = private_cluster.access.kubectl("get", "namespaces", "-o", "name").split()
    assert "namespace/only-here" not in names
    assert "namespace/default" in names


def test_a_folder_with_somebodys_files_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FolderTaken, match="not empty"):
        claim(tmp_path)
    with pytest.raises(KeeperFailed, match="not empty"):
        KeptControlPlane.start(directory=tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_folder_in_use_is_refused_and_names_its_keeper(tmp_path: Path) -> None:
    taken = claim(tmp_path / "sandbox")
    code = (
        f"import pathlib; from alnair.sandbox.folders import claim; claim(pathlib.Path({str(taken.path)!r}))"
    )
    second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"process {os.getpid()}" in second.stderr
    taken.remove()
    assert not taken.path.exists()
    assert keeper_of(taken.path) is None
