"""`python -m bench.soak` with tiny numbers, and what it calls growing."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.soak.population import KINDS, Population
from bench.soak.trend import trend
from harness.fixtures import REPOSITORY


def noisy(slope_a_minute: float, *, seed: int, noise: float = 5.0) -> list[tuple[float, float]]:
    """Ten minutes of samples, one every two seconds, around 300."""
    chance = random.Random(seed)
    return [
        (at, 300 + slope_a_minute * at / 60 + chance.gauss(0, noise))
        for at in (2.0 * number for number in range(300))
    ]


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_flat_and_a_leak_is_not(seed: int) -> None:
    assert trend(noisy(0.0, seed=seed)).flat
    leak = trend(noisy(3.0, seed=seed))
    assert not leak.flat
    assert abs(leak.a_minute - 3.0) < 1.0


def test_a_wave_that_ends_high_is_no_leak() -> None:
    waves = [(2.0 * number, 300 + 40 * ((number // 30) % 2)) for number in range(300)]
    assert trend(waves).flat


def test_too_few_samples_show_no_trend() -> None:
    with pytest.raises(ValueError, match="2 samples"):
        trend([(0, 1), (2, 1)])


def test_the_same_seed_draws_the_same_crowds_and_all_kinds_come() -> None:
    drawn = [[each.comes() for _ in range(300)] for each in (Population(7), Population(7))]
    assert drawn[0] == drawn[1]
    assert {crowd.kind.name for crowd in drawn[0]} == {kind.name for kind in KINDS}


def test_who_came_at_once_goes_before_all_who_came_one_by_one() -> None:
    population = Population(7)
    settlers = [population.comes().name for _ in range(40)]
    population.settle()
    gone = []
    while population.settlers:
        gone.append(population.goes().name)
        population.comes()
    assert sorted(gone) == sorted(settlers)
    assert gone != settlers
    left = {population.goes().name for _ in range(40)}
    assert len(left) == 40
    assert not left & set(settlers)
    assert not population.there


@pytest.mark.slow
def test_a_small_cluster_is_soaked_and_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "soak.svg"
    # A card for each pod, whoever comes and wherever the others are: of the plugins' nodes and of Alnair's.
    numbers = ("--nodes=16", "--pods=60", "--minutes=0.2", "--rate=6", "--flood=10", "--restarts=1")
    done = subprocess.run(
        [sys.executable, "-m", "bench.soak", "--json", *numbers, f"--plot={picture}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    said = json.loads(line)
    ways = ("restart_to_bind_s", "kill_to_bind_s", "hand_over_to_bind_s")
    assert all(each > 0 for way in ways for each in said["recovery"][way])
    assert said["recovery"]["records"] > 0
    assert said["flood"]["after_ms"]["n"] > 0
    assert said["flood"]["unexplained"] == []
    assert said["soak"]["pods_came"] > 0
    assert said["soak"]["unexplained"] == []
    assert "Memory of the operator" in picture.read_text()
