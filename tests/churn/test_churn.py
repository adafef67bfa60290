"""A fixed small part of the churn; `make churn` does the rest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from churn import cluster, run
from churn.kinds import KINDS
from churn.workload import NAMESPACES, Arrive, Befall, Script
from conformance.drawing.dice import Dice
from harness.rights import Note
from witness import plane

SEED = 100
PODS = 150
NODES = 20


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a minute by itself, but it waits for a machine that has more to do
async def test_the_ledger_never_lies_while_pods_come_and_go_and_cards_fail(
    tmp_path: Path, noted: Note
) -> None:
    async with plane.start(tmp_path, namespaces=NAMESPACES, noted=noted) as running:
        outcome = await run.churn(running, seed=SEED, pods=PODS, nodes=NODES)
    assert not outcome.findings, "\n".join(str(each) for each in outcome.findings)
    assert outcome.figures["pods"] >= PODS * 0.9
    assert outcome.figures["bound"] >= PODS * 0.5, "a cluster where nothing is bound proves nothing"
    assert outcome.figures["never_bound"] == []
    assert outcome.figures["operator_kills"] == 1
    assert sum(outcome.figures["faults"].values()) >= 5


def test_a_run_draws_every_kind_every_source_and_every_fault() -> None:
    dice = Dice("churn/1")
    stations = cluster.draw(dice)
    assert {station.source for station in stations} == {source for source, _ in cluster.SOURCES}
    script = Script(dice, stations, scheduler="alnair", pods=3000)
    steps = list(script)
    assert script.drawn.keys() == {kind.name for kind in KINDS}
    faults = {step.name for step in steps if isinstance(step, Befall)}
    assert faults == {
        "unhealthy",
        "vanished",
        "shrunk",
        "silent",
        "cordoned",
        "not-ready",
        "absent",
        "mended",
    }
    made = [each for step in steps if isinstance(step, Arrive) for each in step.work.manifests]
    assert {each["kind"] for each in made} == {"Pod", "PodGroup", "Deployment", "Job"}


def test_a_seed_draws_the_same_run_in_any_process() -> None:
    program = (
        "from churn.test_churn import drawn; import hashlib;"
        "print(hashlib.sha256(drawn().encode()).hexdigest())"
    )
    for hash_seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert printed == hashlib.sha256(drawn().encode()).hexdigest()


def drawn() -> str:
    dice = Dice("churn/7")
    stations = cluster.draw(dice)
    script = Script(dice, stations, scheduler="alnair", pods=200)
    return repr([stations, list(script), list(script.ending())])
