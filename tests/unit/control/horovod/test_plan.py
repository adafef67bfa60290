"""What is to be done for a job: cluster in, steps out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from alnair.api import names
from alnair.control.horovod import plan
from alnair.control.horovod.job import Job, read
from alnair.control.horovod.plan import Create, NameTaken, Remove, Replace, Seen
from unit.control.horovod.jobs import carried_out, job, settled, stored, worker

KINDS = ("ConfigMap", "PodGroup", "Service", "StatefulSet", "Job")


def kinds(steps: list[plan.Step], step: type) -> list[str]:
    return [each.manifest["kind"] for each in steps if isinstance(each, step)]


def test_everything_but_the_launcher_is_made_at_once() -> None:
    steps = plan.set_up(job(), Seen())
    assert kinds(steps, Create) == ["ConfigMap", "PodGroup", "Service", "StatefulSet"]
    assert len(steps) == 4


def test_the_launcher_comes_when_as_many_workers_live_as_are_needed() -> None:
    of = job(low=2)
    seen = carried_out(Seen(), plan.set_up(of, Seen()))
    one = carried_out(seen, [], pods=[worker(of, 0), worker(of, 1, phase="Pending")])
    assert "Job" not in kinds(plan.set_up(of, one), Create)
    two = carried_out(seen, [], pods=[worker(of, 0), worker(of, 1)])
    assert kinds(plan.set_up(of, two), Create) == ["Job"]


def test_a_launcher_stays_when_workers_are_lost() -> None:
    of = job(low=2)
    seen = carried_out(settled(of, workers=2), [], pods=[])
    assert kinds(plan.set_up(of, seen), Remove) == []


def test_nothing_is_to_be_done_at_rest() -> None:
    of = job()
    assert plan.set_up(of, settled(of, workers=3)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_missing_is_made_again(kind: str) -> None:
    of = job()
    seen = settled(of, workers=2)
    left = {name: manifest for name, manifest in seen.children.items() if name != kind}
    assert kinds(plan.set_up(of, Seen(left, seen.pods)), Create) == [kind]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_on_its_way_out_is_waited_for(kind: str) -> None:
    of = job()
    seen = settled(of, workers=2)
    going = deepcopy(seen.children[kind])
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    going["spec" if kind != "ConfigMap" else "data"] = {"template": {"metadata": {}}}
    assert plan.set_up(of, Seen({**seen.children, kind: going}, seen.pods)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_somebody_elses_object_stops_everything(kind: str) -> None:
    of, other = job(), job(uid="u-2")
    theirs = settled(other, workers=2).children[kind]
    with pytest.raises(NameTaken, match=kind):
        plan.set_up(of, Seen({kind: theirs}))
    assert plan.take_apart(of, Seen({kind: theirs})) == []
    assert plan.is_gone(of, Seen({kind: theirs}))


def replicas_after(of: Job, replicas: int) -> Any:
    """What a changed image makes of a StatefulSet that was scaled."""
    seen = settled(of, workers=2)
    scaled = stored(seen.children["StatefulSet"], replicas=replicas)
    steps = plan.set_up(job(image="newer"), Seen({**seen.children, "StatefulSet": scaled}, seen.pods))
    (step,) = (each for each in steps if each.manifest["kind"] == "StatefulSet")
    assert isinstance(step, Replace)
    assert step.manifest["spec"]["template"]["spec"]["containers"][0]["image"] == "newer"
    assert step.manifest["metadata"]["resourceVersion"] == scaled["metadata"]["resourceVersion"]
    return step.manifest["spec"]["replicas"]


@pytest.mark.parametrize("replicas", [0, 1, 4])
def test_replicas_are_never_written_again(replicas: int) -> None:
    assert replicas_after(job(), replicas) == replicas


@pytest.mark.parametrize(
    ("target", "wants", "first"),
    [(None, None, 2), (4, None, 4), (4, 3, 3), (None, 9, 5), (4, 1, 2), (None, 0, 2)],
)
def test_a_new_statefulset_starts_with_what_is_wanted_now_or_aimed_at_or_least(
    target: int | None, wants: int | None, first: int
) -> None:
    of = job(low=2, high=5, targetReplicas=target)
    group = plan.set_up(of, Seen())[1].manifest
    seen = Seen({"PodGroup": {**stored(group), "status": {"elastic": {"wants": wants}}}})
    (made,) = (step.manifest for step in plan.set_up(of, seen) if step.manifest["kind"] == "StatefulSet")
    assert made["spec"]["replicas"] == first


@pytest.mark.parametrize(
    "change",
    [
        {"launcherSpec": {"image": "newer"}},
        {"launcherSpec": {"pythonCommand": ["x"]}},
        {"sshSecretName": "mine"},
    ],
)
def test_a_launcher_that_would_be_another_goes_before_the_new_one_comes(change: dict[str, Any]) -> None:
    of = job()
    seen = settled(of, workers=2)
    changed = deepcopy(of.manifest)
    for field, value in change.items():
        changed["spec"][field] = {**changed["spec"][field], **value} if isinstance(value, dict) else value
    after = read(changed)
    assert isinstance(after, Job)
    steps = plan.set_up(after, seen)
    (removal,) = (step for step in steps if isinstance(step, Remove))
    assert (removal.manifest["kind"], removal.after_pods) == ("Job", True)
    assert kinds(steps, Create) == []
    assert kinds(plan.set_up(after, carried_out(seen, steps)), Create) == ["Job"]


def test_the_workers_are_none_of_the_launchers_business() -> None:
    of = job()
    steps = plan.set_up(job(image="newer", weight=2.0), settled(of, workers=2))
    assert [step.manifest["kind"] for step in steps] == ["PodGroup", "StatefulSet"]
    assert kinds(steps, Replace) == ["PodGroup", "StatefulSet"]


def test_other_bounds_are_for_the_group_and_the_launcher() -> None:
    steps = plan.set_up(job(high=7), settled(job(high=5), workers=2))
    assert (kinds(steps, Replace), kinds(steps, Remove)) == (["PodGroup"], ["Job"])


def test_a_launcher_that_runs_is_told_when_the_script_is_another() -> None:
    of = job()

    def told(number: int, **meta: Any) -> tuple[str, list[str]]:
        there = settled(of, workers=number)
        launcher = worker(of, 0, labels={**of.labels(), names.HOROVOD_ROLE: names.LAUNCHER}, **meta)
        digits, pods = plan.to_be_told(Seen(there.children, (*there.pods, launcher)))
        return digits, [pod.metadata.name for pod in pods]

    two, pods = told(2)
    assert len(pods) == 1
    assert told(2, annotations={names.HOROVOD_HOSTS: two}) == (two, [])
    three, pods = told(3, annotations={names.HOROVOD_HOSTS: two})
    assert three != two
    assert len(pods) == 1
    assert told(3, phase="Pending")[1] == []


def test_a_job_that_has_ended_keeps_its_launcher_and_its_group_until_the_workers_are_gone() -> None:
    of = job()
    seen = settled(of, workers=2)
    steps = plan.wind_down(of, seen)
    assert kinds(steps, Remove) == ["StatefulSet"]
    seen = carried_out(seen, steps)
    assert plan.wind_down(of, seen) == []
    seen = carried_out(seen, [], pods=[worker(of, 0, deletion_timestamp="2026-01-01T00:00:00Z")])
    assert kinds(plan.wind_down(of, seen), Replace) == ["ConfigMap"]
    seen = carried_out(seen, plan.wind_down(of, seen), pods=[])
    steps = plan.wind_down(of, seen)
    assert kinds(steps, Remove) == ["Service", "PodGroup"]
    seen = carried_out(seen, steps)
    assert seen.children.keys() == {"ConfigMap", "Job"}
    assert plan.wind_down(of, seen) == []


def test_a_deleted_job_goes_when_its_last_pod_is_gone() -> None:
    of = job()
    seen = settled(of, workers=2)
    steps = plan.take_apart(of, seen)
    assert kinds(steps, Remove) == ["Job", "StatefulSet"]
    seen = carried_out(seen, steps)
    assert plan.take_apart(of, seen) == []
    assert not plan.is_gone(of, seen)
    seen = carried_out(seen, [], pods=[])
    steps = plan.take_apart(of, seen)
    assert kinds(steps, Remove) == ["Service", "ConfigMap", "PodGroup"]
    assert plan.is_gone(of, carried_out(seen, steps))
