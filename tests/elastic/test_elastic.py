"""A fixed small part of the run; `make elastic` does the rest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.drawing.dice import Dice
from elastic import cluster, run
from elastic.jobs import CONTROLLERS, NAMESPACES
from elastic.script import GANGS, Arrive, Befall, Leave, Script, Step
from harness.rights import Note
from witness import plane

SEED = 100
EVENTS = 60


@pytest.mark.slow
@pytest.mark.timeout(1500)  # three minutes by itself, but it waits for a machine that has more to do
async def test_elastic_gangs_keep_every_promise_while_everything_comes_and_goes(
    tmp_path: Path, noted: Note
) -> None:
    async with plane.start(tmp_path, namespaces=NAMESPACES, elastic=run.VALUES, noted=noted) as running:
        outcome = await run.elastic(running, seed=SEED, events=EVENTS)
    assert not outcome.findings, "\n".join(str(each) for each in outcome.findings)
    figures = outcome.figures
    assert figures["idle_fraction"] == 0
    assert figures["gangs"] >= GANGS
    assert figures["least_gangs_at_rest"] >= GANGS
    assert figures["grown"] >= 10, "a run in which nothing grows proves nothing"
    assert figures["shrunk"] >= 1
    assert figures["replaced"] >= 3
    assert min(figures["started_at_rest"]) >= GANGS // 2


def drawn(seed: int = 7, events: int = 300) -> tuple[Script, list[Step], list[Step]]:
    dice = Dice(f"elastic/{seed}")
    script = Script(dice, cluster.stations(12, 6), scheduler="alnair", events=events)
    return script, list(script.opening()), list(script.events())


def test_a_run_draws_every_kind_of_event() -> None:
    script, _, events = drawn()
    assert len(events) == 300
    assert script.drawn.keys() == {
        "elastic comes",
        "elastic goes",
        "gang comes",
        "gang goes",
        "lone comes",
        "lone goes",
        "member deleted",
        "member fails",
        "node cordoned",
        "node lost",
        "node mended",
        "operator killed",
        "scaled beyond bounds",
        "scaled by hand",
    }
    lost = {step.sweep for step in events if isinstance(step, Befall) and step.name == "lost"}
    assert lost == {True, False}


def test_there_are_twenty_elastic_gangs_at_all_times_of_both_controllers_and_all_requests() -> None:
    _, opening, events = drawn()
    there: dict[str, str] = {}
    fewest = 0
    requests = set()
    for step in [*opening, *events]:
        if isinstance(step, Arrive) and step.job.how == "elastic":
            there[step.job.key] = step.job.controller
            requests.add((step.job.pool, step.job.demand % 1 == 0))
        elif isinstance(step, Leave):
            there.pop(step.job.key, None)
        if len(there) >= GANGS:
            fewest = fewest or len(there)
        fewest = min(fewest, len(there)) if fewest else 0
        if fewest:
            assert set(there.values()) == set(CONTROLLERS)
    assert fewest == GANGS
    assert requests >= {("own", True), ("own", False), ("counted", True)}


def test_a_seed_draws_the_same_run_in_any_process() -> None:
    program = "from elastic.test_elastic import digest; print(digest())"
    for hash_seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert printed == digest()


def digest() -> str:
    _, opening, events = drawn()
    return hashlib.sha256(repr([opening, events]).encode()).hexdigest()
