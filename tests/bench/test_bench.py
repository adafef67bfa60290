"""`python -m bench` with tiny numbers: every contestant does every kind of work on a real control plane.

How fast they were is not looked at, only that it was measured: a test must not depend on how fast a machine is.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness.fixtures import REPOSITORY

WORK = {
    "gang-1x8-5n": {"ceiling", "kube", "kube-gang", "alnair"},
    "gang-infeasible-5x2-5n": {"kube-gang", "alnair"},
    "gang-torn-5x2-5n": {"kube-gang", "alnair"},
    "gang-mixed-1x4-5n": {"kube-gang", "alnair"},
    "single-4x1-5n": {"ceiling", "kube", "alnair"},
}
WAIT = "latency-1x2-6n"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.slow
def test_every_contestant_does_every_kind_of_work_and_the_last_line_tells() -> None:
    shapes = ",".join([*WORK, WAIT, "rss-1x2-12p-6n"])
    done = bench(f"--shapes={shapes}", "--rounds=1")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    # A failure would be here: a pod bound that must not be (a torn gang's), one left out, a node with too many.
    assert said["failures"] == []
    assert {shape: set(rates) for shape, rates in said["rates"].items()} == WORK
    assert all(rate > 0 for rates in said["rates"].values() for rate in rates.values())
    assert said["ratios"].keys() == WORK.keys()
    assert set(said["latency_ms"][WAIT]) == {"kube", "kube-gang", "alnair"}
    assert said["p99_idle_ms"] == said["latency_ms"][WAIT]["alnair"]["p99"] > 0
    assert said["rss_mib"] > 10


def test_a_shape_that_cannot_be_read_is_refused_before_anything_starts() -> None:
    done = bench("--shapes=gang-625x8")
    assert done.returncode == 2
    assert "'gang-625x8' is no shape" in done.stderr
    assert done.stdout == ""
