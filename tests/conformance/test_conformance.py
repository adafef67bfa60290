"""A fixed-seed part of the conformance run; `make conformance` does the rest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from conformance import compare, ours, plane, report
from conformance.scenario import draw

SEED = 100
PAIRS = 5000

one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[plane.Plane]:
    async with plane.start() as started:
        yield started


@pytest.mark.slow
@one_loop
async def test_our_filters_agree_with_kube_scheduler_and_every_rule_decides(running: plane.Plane) -> None:
    outcome = await compare.run(running, seed=SEED, pairs=PAIRS)
    found = "\n---\n".join(report.written(each, seed=SEED) for each in outcome.disagreements)
    assert not outcome.disagreements, found
    assert not outcome.refused
    assert not [name for name, times in outcome.decided.items() if not times]


@one_loop
async def test_a_filter_that_is_missing_is_found_out_and_the_report_has_what_it_takes(
    running: plane.Plane,
) -> None:
    outcome = compare.Outcome()
    less = replace(
        ours.PROFILE, filters=tuple(rule for rule in ours.PROFILE.filters if rule.name != "NodeResourcesFit")
    )
    await compare.judge(running, draw(SEED, 0), outcome, profile=less, pauses=())
    assert outcome.disagreements
    found = outcome.disagreements[0]
    assert set(found.nodes.values()) == {False}, "kube-scheduler must be the one that refuses"
    objects = list(yaml.safe_load_all(report.written(found, seed=SEED)))
    assert objects[-1]["metadata"]["name"] == found.pod["metadata"]["name"]
    assert {each["metadata"]["name"] for each in objects if each["kind"] == "Node"} >= set(found.nodes)


def test_a_seed_draws_the_same_objects_in_any_process() -> None:
    program = (
        "from conformance.scenario import draw; import hashlib;"
        "print(hashlib.sha256(repr(draw(7, 3)).encode()).hexdigest())"
    )
    for hash_seed in ("1", "2"):
        drawn = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert drawn == hashlib.sha256(repr(draw(7, 3)).encode()).hexdigest()
