"""The files in `examples/` are what the demo applies, and its checks notice what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from alnair.sandbox.workloads import GANG, SAMPLES, SHARED_CARD, TOO_LARGE, Sample, Seen
from harness.fixtures import REPOSITORY


def test_the_files_are_what_the_demo_applies() -> None:
    there = {path.name: path.read_text("utf-8") for path in (REPOSITORY / "examples").glob("*.yaml")}
    wanted = {sample.file: sample.text() for sample in SAMPLES}
    assert there == wanted, "run: python -m alnair.sandbox.workloads examples"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda it: it.file)
def test_a_file_says_what_its_sample_holds(sample: Sample) -> None:
    assert list(yaml.safe_load_all(sample.text())) == list(sample.manifests)
    assert max(map(len, sample.text().splitlines())) <= 120


# -- the checks ------------------------------------------------------------------------------------------------


def pod(name: str, *, app: str = "", node: str = "n1", phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase},
    }


def record(kind: str, name: str, *cards: str, phase: str = "Bound") -> dict[str, Any]:
    pods = [{"containers": [{"slices": [{"gpu": card}]}]} for card in cards]
    return {
        "spec": {"owner": {"kind": kind, "name": name, "uid": "u"}},
        "status": {"phase": phase, "scheduled": len(pods), "pods": pods},
    }


def event(kind: str, name: str, reason: str) -> dict[str, Any]:
    return {"reason": reason, "regarding": {"kind": kind, "name": name, "uid": "u"}}


def notebooks(first: str, second: str, **other: Any) -> Seen:
    shown: dict[str, Any] = {
        "pods": [pod("notebook-4g"), pod("notebook-6g")],
        "records": [record("Pod", "notebook-4g", first), record("Pod", "notebook-6g", second)],
        "events": [event("Pod", name, "Scheduled") for name in ("notebook-4g", "notebook-6g")],
    }
    return Seen(**{**shown, **other})


def trainers(pods: int, *, phase: str = "Running") -> Seen:
    return Seen(
        pods=[pod(f"t{number}", app="trainer") for number in range(pods)],
        groups=[{"metadata": {"name": "trainer"}, "status": {"phase": phase}}],
        records=[record("PodGroup", "trainer", *(f"c{number}" for number in range(pods)))],
        events=[event("PodGroup", "trainer", "Scheduled")],
    )


def simulation(*, bound: int = 0, reason: str = "Unschedulable", records: tuple[Any, ...] = ()) -> Seen:
    condition = {"type": "Scheduled", "reason": reason, "message": "8 of 10 members fit."}
    nodes = ["n1"] * bound + [""] * (10 - bound)
    return Seen(
        pods=[pod(f"s{number}", app="simulation", node=node) for number, node in enumerate(nodes)],
        groups=[{"metadata": {"name": "simulation"}, "status": {"conditions": [condition]}}],
        records=records,
        events=[event("PodGroup", "simulation", "Unschedulable")],
    )


@pytest.mark.parametrize(
    ("sample", "seen"),
    [(SHARED_CARD, notebooks("c", "c")), (GANG, trainers(4)), (TOO_LARGE, simulation())],
    ids=lambda it: it.file if isinstance(it, Sample) else "",
)
def test_a_check_has_nothing_to_say_when_all_is_well(sample: Sample, seen: Seen) -> None:
    assert sample.wrong(seen) == []


@pytest.mark.parametrize(
    ("sample", "seen", "said"),
    [
        pytest.param(SHARED_CARD, Seen(), "0 of 2 pods", id="nothing is there"),
        pytest.param(SHARED_CARD, notebooks("c", "d"), "share no card", id="two cards"),
        pytest.param(SHARED_CARD, notebooks("c", "c", events=[]), "no event Scheduled", id="no events"),
        pytest.param(SHARED_CARD, notebooks("c", "c", records=[]), "is not there", id="no records"),
        pytest.param(GANG, Seen(), "0 of 4 pods", id="no gang"),
        pytest.param(GANG, trainers(3), "with 3 pods, expected Bound with 4", id="part of a gang"),
        pytest.param(GANG, trainers(4, phase="Scheduled"), "phase Scheduled", id="not running yet"),
        pytest.param(TOO_LARGE, Seen(), "0 of 10 pods", id="no large gang"),
        pytest.param(TOO_LARGE, simulation(bound=1), "yet s0 are bound", id="one bound"),
        pytest.param(TOO_LARGE, simulation(reason="WaitingForMembers"), "no reason yet", id="another reason"),
        pytest.param(
            TOO_LARGE,
            simulation(records=(record("PodGroup", "simulation"),)),
            "yet a GPUAllocation",
            id="a record without a place",
        ),
    ],
)
def test_a_check_says_what_is_wrong(sample: Sample, seen: Seen, said: str) -> None:
    assert said in "; ".join(sample.wrong(seen))
