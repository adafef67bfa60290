"""What a job says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.control.horovod.job import finished
from alnair.control.horovod.plan import Seen
from alnair.control.horovod.status import Trouble, status_of, status_of_invalid
from unit.control.horovod.jobs import job, settled, worker

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def seen(
    workers: int, *, launcher: dict[str, Any] | None = None, group: dict[str, Any] | None = None
) -> Seen:
    there = settled(job(), workers=max(workers, 2))
    children = dict(there.children)
    if launcher is None:
        del children["Job"]
    else:
        children["Job"] = {**children["Job"], "status": launcher}
    children["PodGroup"] = {**children["PodGroup"], "status": group or {}}
    return Seen(children, tuple(worker(job(), ordinal) for ordinal in range(workers)))


def ready(status: dict[str, Any]) -> tuple[str, str]:
    (found,) = (each for each in status["conditions"] if each["type"] == "Ready")
    return found["status"], found["reason"]


def ended(kind: str, reason: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": "it was so"}]}


@pytest.mark.parametrize(
    ("there", "workers", "launcher", "is_ready"),
    [
        (seen(1), "1/2-5", "Waiting", ("False", "WaitingForWorkers")),
        (seen(3), "3/2-5", "Waiting", ("False", "Starting")),
        (seen(3, launcher={"active": 1}), "3/2-5", "Starting", ("False", "Starting")),
        (seen(3, launcher={"active": 1, "ready": 1}), "3/2-5", "Running", ("True", "Running")),
        (seen(1, launcher={"active": 1, "ready": 1}), "1/2-5", "Running", ("False", "WaitingForWorkers")),
        (seen(3, launcher=ended("Complete")), "3/2-5", "Succeeded", ("False", "Complete")),
        (seen(3, launcher=ended("Failed", "DeadlineExceeded")), "3/2-5", "Failed", ("False", "Failed")),
        (seen(3, launcher=ended("FailureTarget")), "3/2-5", "Starting", ("False", "Starting")),
    ],
)
def test_how_the_job_is(there: Seen, workers: str, launcher: str, is_ready: tuple[str, str]) -> None:
    told = status_of(job(), there, None, now=NOW)
    assert (told["workers"], told["launcher"], ready(told)) == (workers, launcher, is_ready)


def test_why_it_has_no_more_is_what_the_sizing_says_of_the_group() -> None:
    elastic = {"elastic": {"wants": 3, "reason": "NoRoom", "message": "no card is free"}}
    told = status_of(job(), seen(3, group=elastic), None, now=NOW)
    assert (told["wantedReplicas"], told["whyNotMore"]) == (3, "no card is free")


def test_why_it_waits_is_what_the_group_was_refused_for() -> None:
    refused = {"conditions": [{"type": "Scheduled", "status": "False", "message": "2 need a card"}]}
    told = status_of(job(), seen(0, group=refused), None, now=NOW)
    assert "0 of at least 2 workers run. 2 need a card." in told["conditions"][0]["message"]


def test_trouble_is_said() -> None:
    told = status_of(job(), seen(3), Trouble("NameTaken", "Service x is not ours"), now=NOW)
    assert ready(told) == ("False", "NameTaken")


@pytest.mark.parametrize(
    ("kind", "reason", "said"),
    [("Complete", "", "Complete"), ("Failed", "DeadlineExceeded", "DeadlineExceeded")],
)
def test_an_ending_is_recorded_once_and_outlives_its_launcher(kind: str, reason: str, said: str) -> None:
    first = status_of(job(), seen(2, launcher=ended(kind, reason)), None, now=NOW)
    assert finished({"status": first}) == kind
    (condition,) = (each for each in first["conditions"] if each["type"] == kind)
    assert (condition["reason"], condition["message"][-1]) == (said, ".")
    after = status_of(job(status=first), Seen(), None, now=LATER)
    assert finished({"status": after}) == kind
    assert after["completionTime"] == NOW
    assert after["launcher"] == first["launcher"]
    assert next(each for each in after["conditions"] if each["type"] == kind) == condition


def test_a_condition_keeps_the_time_of_its_last_turn() -> None:
    first = status_of(job(), seen(1), None, now=NOW)
    same = status_of(job(status=first), seen(0), None, now=LATER)
    assert same["conditions"][0]["lastTransitionTime"] == NOW
    running = status_of(job(status=first), seen(3, launcher={"ready": 1}), None, now=LATER)
    assert running["conditions"][0]["lastTransitionTime"] == LATER


def test_nothing_new_is_nothing_to_write() -> None:
    first = status_of(job(), seen(3), None, now=NOW)
    assert status_of(job(status=first), seen(3), None, now=LATER) == first


def test_a_spec_that_cannot_be_read_is_said_and_taken_back() -> None:
    before = status_of(job(), seen(3), None, now=NOW)
    manifest = {**job().manifest, "status": before}
    told = status_of_invalid(manifest, "spec.workersSpec.image: missing", now=NOW)
    assert told["workers"] == "3/2-5"
    assert {each["type"]: each["status"] for each in told["conditions"]} == {
        "Ready": "False",
        "Invalid": "True",
    }
    right = status_of(job(status=told), seen(3), None, now=LATER)
    assert {each["type"]: each["status"] for each in right["conditions"]}["Invalid"] == "False"
