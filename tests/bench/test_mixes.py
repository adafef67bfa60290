"""The mixes are what their names say, and the same files make the same mixes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from alnair.simulate import openb
from bench.mixes import Pods, cards, gpu, is_slice, mixes, read, write


def pod(gpus: int, milli: int, spec: str = "", cpu: int = 4000) -> dict[str, str]:
    numbers = {"cpu_milli": cpu, "memory_mib": 1024, "num_gpu": gpus, "gpu_milli": milli}
    return {"name": "", "gpu_spec": spec, **{column: str(number) for column, number in numbers.items()}}


DEFAULT = (
    [pod(0, 0)] * 130 + [pod(1, 300)] * 300 + [pod(1, 700)] * 80 + [pod(1, 1000)] * 400 + [pod(8, 1000)] * 5
)
PATTERN = [pod(1, 300, "T4")] * 20 + [pod(1, 1000, "V100")] * 30 + [pod(8, 1000, "G2")] * 2 + DEFAULT
MIXES = mixes(DEFAULT, PATTERN)


def made(name: str) -> Pods:
    return MIXES[name](random.Random(name))


def of_gpu(pods: Pods, which: Pods) -> float:
    return sum(map(gpu, which)) / sum(map(gpu, pods))


@pytest.mark.parametrize("part", [5, 10, 20, 25, 33])
def test_so_many_pods_ask_for_no_gpu(part: int) -> None:
    pods = made(f"cpu{part:02}0")
    assert sum(not cards(each) for each in pods) / len(pods) == pytest.approx(part / 100, abs=0.002)
    assert sum(map(bool, map(cards, pods))) == 785  # all of them


@pytest.mark.parametrize("part", [20, 40, 60, 80, 100])
def test_so_much_gpu_is_asked_for_in_slices(part: int) -> None:
    pods = made(f"gpushare{part}")
    assert of_gpu(pods, list(filter(is_slice, pods))) == pytest.approx(part / 100, abs=0.04)
    assert len(pods) == len(DEFAULT)


@pytest.mark.parametrize("part", [20, 30, 40, 50])
def test_so_much_gpu_is_asked_for_by_pods_with_several_cards(part: int) -> None:
    pods = made(f"multigpu{part}")
    assert of_gpu(pods, [each for each in pods if cards(each) > 1]) == pytest.approx(part / 100, abs=0.01)


@pytest.mark.parametrize("part", [5, 10, 20, 25, 33])
def test_so_many_pods_with_a_gpu_say_a_model_that_their_like_say(part: int) -> None:
    pods = made(f"gpuspec{part:02}")
    choosy = [each for each in pods if each["gpu_spec"]]
    assert len(choosy) / 785 == pytest.approx(part / 100, abs=0.04)
    assert {each["gpu_spec"] for each in choosy if is_slice(each)} <= {"T4"}
    assert {each["gpu_spec"] for each in choosy if cards(each) > 1} <= {"G2"}


def test_the_same_files_make_the_same_mixes_which_the_simulator_reads(tmp_path: Path) -> None:
    for name in MIXES:
        assert made(name) == made(name)
        write(tmp_path / name, made(name))
        assert len(openb.read_jobs(tmp_path / name)) == len(read(tmp_path / name)) == len(made(name))
