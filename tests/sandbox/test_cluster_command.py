"""`alnair cluster up` and `down`, as somebody at a terminal uses them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "alnair.cli.cluster"]


def kubectl(said: dict[str, str], *arguments: str) -> str:
    environment = {
        **os.environ,
        "KUBECONFIG": said["kubeconfig"],
        "KUBECACHEDIR": f"{said['directory']}/kube-cache",
    }
    return subprocess.run(
        [said["kubectl"], *arguments], env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda it: it.name)
def test_up_runs_in_the_foreground_until_it_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "c"
    up = subprocess.Popen(
        [*COMMAND, "up", "--json", "--directory", folder], stdout=subprocess.PIPE, text=True
    )
    try:
        assert up.stdout is not None
        said = json.loads(up.stdout.readline())
        assert Path(said["directory"]) == folder
        names = kubectl(said, "get", "nodes,noderesourcetopologies", "-o", "name").split()
        assert "node/a100-1" in names
        assert "noderesourcetopology.topology.node.k8s.io/mixed-1" in names
        up.send_signal(number)
        assert up.wait(30) == 0
        assert not folder.exists()
    finally:
        up.kill()
        up.wait()


def test_a_background_cluster_lives_until_down(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    up = [*COMMAND, "up", "--background", "--json", "--nodes", "3", "--directory", str(folder)]
    said = json.loads(subprocess.run(up, stdout=subprocess.PIPE, text=True, check=True).stdout)
    try:
        assert len(kubectl(said, "get", "nodes", "-o", "name").split()) == 3
        again = subprocess.run(up, capture_output=True, text=True, check=False)
        assert again.returncode == 1
        assert "a sandbox runs in" in again.stderr
    finally:
        down = subprocess.run(
            [*COMMAND, "down", "--directory", folder], capture_output=True, text=True, check=True
        )
    assert "is gone" in down.stderr
    assert not folder.exists()
    down = subprocess.run(
        [*COMMAND, "down", "--directory", folder], capture_output=True, text=True, check=True
    )
    assert "no cluster runs" in down.stderr
