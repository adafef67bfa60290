"""`python -m bench.extender` with tiny numbers: each way places every pod, and was measured; not how fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from harness.fixtures import REPOSITORY


def test_each_way_is_measured_and_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "extender.svg"
    numbers = ("--nodes=3", "--pods=6", "--singles=2", "--rounds=1")
    done = subprocess.run(
        [sys.executable, "-m", "bench.extender", "--json", *numbers, f"--plot={picture}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    said = json.loads(line)
    assert said["ways"].keys() == {"kube", "extender", "second"}
    for way, parts in (
        ("kube", {"kube-scheduler"}),
        ("extender", {"kube-scheduler", "alnair"}),
        ("second", {"alnair"}),
    ):
        measured = said["ways"][way]
        assert measured["pods_per_second"] > 0
        assert 0 < measured["p50_ms"] <= measured["p99_ms"]
        assert measured["cpu_ms_per_pod"].keys() == {"apiserver", "etcd", *parts}
    assert "+ extender" in picture.read_text()
