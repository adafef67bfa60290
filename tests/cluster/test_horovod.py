"""ElasticHorovodJobs on the real control plane: what one becomes, and that it stays so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from alnair.api import names
from alnair.sandbox.access import Access
from harness.api import Api, Object, Refused, at
from harness.audit import own_writes
from harness.builders import node
from harness.fixtures import Fleet
from harness.horovod import LAUNCHERS, WORKERS, horovod_job, hosts_listed, launcher_is
from harness.operator import Operator, Release
from harness.plugin import show_log_on_failure
from harness.watching import bound_pods, condition, event_about

CHILDREN = {
    "podgroups": "train",
    "services": "train-workers",
    "configmaps": "train-discovery",
    "statefulsets": "train-workers",
    "jobs": "train-launcher",
}
TWO = ["train-workers-0.train-workers:1", "train-workers-1.train-workers:1"]


async def started(api: Api, namespace: str, fleet: Fleet, operator: Operator, *, high: int = 2) -> Object:
    """A job of two workers that run, with a launcher."""
    await fleet.add(node("gpu").with_cards(2))
    made = horovod_job("train", low=2, high=high).by(operator.scheduler).on(fleet.selector)
    job = await api.create(made.manifest(), namespace=namespace)
    await bound_pods(api, namespace, 2)
    await hosts_listed(api, namespace, "train", TWO)
    await api.until(at("jobs", namespace, "train-launcher"), lambda it: it["status"].get("active"))
    return job


def child(namespace: str, kind: str) -> str:
    return at(kind, namespace, CHILDREN[kind])


async def ready(api: Api, namespace: str, reason: str, *, timeout: float = 30) -> Object:
    """The job, once its condition Ready has that reason."""
    return await api.until(
        at("elastichorovodjobs", namespace, "train"),
        lambda it: condition(it, "Ready").get("reason") == reason,
        timeout=timeout,
    )


async def told_why_not_more(api: Api, namespace: str) -> None:
    """All is said: nothing is left that only waits for its time to be written."""
    await api.until(
        child(namespace, "podgroups"),
        lambda it: it["status"]["elastic"]["reason"] == "AtMax" and it["status"]["running"] == 2,
    )
    await api.until(
        at("elastichorovodjobs", namespace, "train"),
        lambda it: condition(it, "Ready").get("reason") == "Starting" and it["status"].get("whyNotMore"),
    )


@pytest.mark.shares_operator
async def test_a_job_becomes_a_gang_with_a_launcher_beside_it(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    job = await started(api, namespace, fleet, operator)
    for kind in CHILDREN:
        there = await api.get(child(namespace, kind))
        (owner,) = there["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (job["metadata"]["uid"], True)

    workers = await api.get(child(namespace, "statefulsets"))
    assert workers["spec"]["podManagementPolicy"] == "Parallel"
    assert workers["spec"]["serviceName"] == "train-workers"
    assert (await api.get(child(namespace, "services")))["spec"]["clusterIP"] == "None"
    elastic = (await api.get(child(namespace, "podgroups")))["spec"]["elastic"]
    assert (elastic["min"], elastic["max"], elastic["targetRef"]["kind"]) == (2, 2, "StatefulSet")

    (launcher,) = await api.items(at("pods", namespace), labels=LAUNCHERS)
    assert names.POD_GROUP_LABEL not in launcher["metadata"]["labels"]
    assert launcher["spec"]["schedulerName"] == "default-scheduler"
    (container,) = launcher["spec"]["containers"]
    assert "resources" not in container or not container["resources"]
    command = " ".join(container["command"])
    assert (
        "horovodrun -p 12345 -np 2 --max-np 2 --host-discovery-script /etc/alnair/discover_hosts.sh"
        in command
    )
    assert command.endswith("python train.py --epochs 3")

    assert (await ready(api, namespace, "Starting"))["status"]["launcher"] == "Starting"
    await launcher_is(api, namespace, "Running")
    told = (await ready(api, namespace, "Running"))["status"]
    await api.until_all(
        at("pods", namespace),
        lambda pods: names.HOROVOD_HOSTS in pods[0]["metadata"]["annotations"],
        labels=LAUNCHERS,
        what="the launcher to be told of the script",
    )
    assert (told["workers"], told["launcher"], told["availableReplicas"]) == ("2/2-2", "Running", 2)
    assert told["observedGeneration"] == job["metadata"]["generation"]
    created = await event_about(api, namespace, "train", "Created")
    assert "StatefulSet train-workers" in created["note"]


@pytest.mark.shares_operator
async def test_every_child_that_somebody_deletes_comes_back(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await started(api, namespace, fleet, operator)
    for kind in CHILDREN:
        before = await api.get(child(namespace, kind))
        await api.delete(child(namespace, kind))
        after = await api.until(
            child(namespace, kind), lambda it, uid=before["metadata"]["uid"]: it["metadata"]["uid"] != uid
        )
        for label in (names.HOROVOD_JOB, names.HOROVOD_JOB_UID):
            assert after["metadata"]["labels"][label] == before["metadata"]["labels"][label]
        await hosts_listed(api, namespace, "train", TWO)
    await api.until_all(
        at("events", namespace),
        lambda events: (
            {
                "ConfigMap train-discovery",
                "PodGroup train",
                "Service train-workers",
                "StatefulSet train-workers",
            }
            <= {event["note"] for event in events if event["reason"] == "Repaired"}
        ),
    )


EDITS: dict[str, tuple[Any, Any]] = {
    "podgroups": ({"spec": {"elastic": {"max": 7}}}, lambda it: it["spec"]["elastic"]["max"] == 2),
    "services": (
        {"spec": {"selector": {"app": "mine"}}},
        lambda it: "app" not in it["spec"]["selector"],
    ),
    "configmaps": (
        {"data": {"discover_hosts.sh": "echo me"}},
        lambda it: it["data"]["discover_hosts.sh"].count("train-workers-") == 2,
    ),
    "statefulsets": (
        {"spec": {"template": {"spec": {"schedulerName": "other"}}}},
        lambda it: it["spec"]["template"]["spec"]["schedulerName"] != "other",
    ),
    "jobs": ({"spec": {"suspend": True}}, lambda it: not it["spec"]["suspend"]),
}


@pytest.mark.shares_operator
async def test_every_child_that_somebody_edits_is_put_right_and_stays_the_same_object(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await started(api, namespace, fleet, operator)
    for kind, (edit, right) in EDITS.items():
        edited = await api.patch(child(namespace, kind), edit)
        assert not right(edited)
        restored = await api.until(child(namespace, kind), right)
        assert restored["metadata"]["uid"] == edited["metadata"]["uid"]


@pytest.mark.shares_operator
async def test_every_child_that_lost_its_owner_or_its_labels_gets_them_back(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await started(api, namespace, fleet, operator)
    ours = {names.HOROVOD_JOB, names.HOROVOD_JOB_UID}  # others may label it too
    for kind in CHILDREN:
        before = await api.get(child(namespace, kind))
        for taken in ({"ownerReferences": None}, {"labels": None}):
            await api.patch(child(namespace, kind), {"metadata": taken})
            restored = await api.until(
                child(namespace, kind),
                lambda it: it["metadata"].get("ownerReferences") and ours <= it["metadata"]["labels"].keys(),
            )
            assert restored["metadata"]["uid"] == before["metadata"]["uid"]
            assert restored["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no workers at all": ({"minReplicas": 0}, "minReplicas.*greater than or equal to 1"),
    "min above max": ({"minReplicas": 3}, "minReplicas must not be more than maxReplicas"),
    "target above max": ({"targetReplicas": 3}, "targetReplicas must not be less than minReplicas, nor more"),
    "target below min": (
        {"minReplicas": 2, "targetReplicas": 1},
        "targetReplicas must not be less than minReplicas, nor more",
    ),
    "no image": ({"image": None}, "workersSpec.image: Required value"),
    "a word for a number": ({"maxReplicas": "many"}, "workersSpec.maxReplicas.*must be of type integer"),
}


@pytest.mark.parametrize("case", INVALID)
async def test_an_invalid_spec_is_refused_by_the_name_of_its_field(
    api: Api, namespace: str, case: str
) -> None:
    fields, complaint = INVALID[case]
    wrong = horovod_job("train", low=1, high=2).with_(lambda it: it["spec"]["workersSpec"].update(fields))
    with pytest.raises(Refused, match=complaint):
        await api.create(wrong.manifest(), namespace=namespace)


async def test_a_job_cannot_change_hands(api: Api, namespace: str) -> None:
    await api.create(horovod_job("train", low=1, high=2).by("nobody").manifest(), namespace=namespace)
    path = at("elastichorovodjobs", namespace, "train")
    with pytest.raises(Refused, match="schedulerName cannot be changed"):
        await api.patch(path, {"spec": {"schedulerName": "somebody"}})
    with pytest.raises(Refused, match="schedulerName cannot be changed"):
        await api.patch(path, {"spec": {"schedulerName": None}})


@pytest.mark.shares_operator
async def test_a_pod_spec_that_the_apiserver_refuses_is_the_jobs_condition(
    api: Api, namespace: str, operator: Operator
) -> None:
    wrong = (
        horovod_job("train", low=1, high=2)
        .by(operator.scheduler)
        .with_(lambda it: it["spec"]["workersSpec"].update(podSpec={"nodeSelector": {"not a key": "x"}}))
    )
    await api.create(wrong.manifest(), namespace=namespace)
    said = condition(await ready(api, namespace, "Refused"), "Ready")["message"]
    assert "StatefulSet train-workers" in said
    assert "spec.template.spec.nodeSelector" in said


@pytest.mark.shares_operator
async def test_somebody_elses_object_under_a_childs_name_is_left_alone_and_said(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "train-discovery"},
        "data": {"mine": "yes"},
    }
    made = await api.create(theirs, namespace=namespace)
    await fleet.add(node("gpu").with_cards(2))
    job = horovod_job("train", low=2, high=2).by(operator.scheduler).on(fleet.selector)
    await api.create(job.manifest(), namespace=namespace)
    said = condition(await ready(api, namespace, "NameTaken"), "Ready")["message"]
    assert "ConfigMap train-discovery exists and is not this job's" in said
    there = await api.get(child(namespace, "configmaps"))
    assert there["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    await api.delete(child(namespace, "configmaps"))
    await hosts_listed(api, namespace, "train", TWO, timeout=60)


@pytest.mark.shares_operator
async def test_a_childs_name_may_be_taken_in_every_kind(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    container = {"name": "main", "image": "none"}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [container], "restartPolicy": "Always"},
    }
    theirs: dict[str, tuple[str, Object]] = {
        "PodGroup": ("a", {"apiVersion": names.API_PODGROUP, "spec": {"minMember": 1}}),
        "Service": ("b-workers", {"apiVersion": "v1", "spec": {"ports": [{"port": 80}]}}),
        "StatefulSet": (
            "c-workers",
            {
                "apiVersion": "apps/v1",
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "serviceName": "x",
                    "replicas": 0,
                    "template": template,
                },
            },
        ),
        "Job": (
            "d-launcher",
            {
                "apiVersion": "batch/v1",
                "spec": {
                    "suspend": True,
                    "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
                },
            },
        ),
    }
    for kind, (name, rest) in theirs.items():
        await api.create({"kind": kind, "metadata": {"name": name}, **rest}, namespace=namespace)
        job = horovod_job(name[0], low=2, high=2).by(operator.scheduler).on(fleet.selector)
        await api.create(job.manifest(), namespace=namespace)
    for kind, (name, _) in theirs.items():
        shown = await api.until(
            at("elastichorovodjobs", namespace, name[0]),
            lambda it: condition(it, "Ready").get("reason") == "NameTaken",
        )
        assert f"{kind} {name} exists and is not this job's" in condition(shown, "Ready")["message"]


@pytest.mark.shares_operator
async def test_what_its_author_changes_is_applied(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await started(api, namespace, fleet, operator)
    job = at("elastichorovodjobs", namespace, "train")
    (first,) = await api.items(at("pods", namespace), labels=LAUNCHERS)

    await api.patch(job, {"spec": {"workersSpec": {"image": "horovod:2"}}})
    await api.until_all(
        at("pods", namespace),
        lambda pods: [pod["spec"]["containers"][0]["image"] for pod in pods] == ["horovod:2"] * 2,
        labels=WORKERS,
        timeout=60,
        what="the workers to have the new image",
    )
    (same,) = await api.items(at("pods", namespace), labels=LAUNCHERS)
    assert same["metadata"]["uid"] == first["metadata"]["uid"], (
        "the launcher has nothing to do with the image"
    )

    await api.patch(job, {"spec": {"workersSpec": {"minReplicas": 1, "maxReplicas": 3}}})
    await api.until(
        child(namespace, "podgroups"),
        lambda it: (it["spec"]["elastic"]["min"], it["spec"]["elastic"]["max"]) == (1, 3),
    )
    (second,) = await api.until_all(
        at("pods", namespace),
        lambda pods: [pod["metadata"]["uid"] for pod in pods] != [first["metadata"]["uid"]] and pods,
        labels=LAUNCHERS,
    )
    assert "-np 1 --max-np 3" in " ".join(second["spec"]["containers"][0]["command"])
    await event_about(api, namespace, "train", "Updated")


@pytest.mark.shares_operator
async def test_a_deleted_job_is_gone_only_with_all_that_it_consisted_of_and_a_namesake_starts_afresh(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    old = await started(api, namespace, fleet, operator)
    (worker, *_) = await api.items(at("pods", namespace), labels=WORKERS)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    held = at("pods", namespace, worker["metadata"]["name"])
    await api.patch(held, hold)
    job = at("elastichorovodjobs", namespace, "train")
    await api.delete(job)
    await api.until_gone(child(namespace, "statefulsets"))
    await api.until_all(at("pods", namespace), lambda pods: len(pods) == 1)
    assert (await api.get(job))["metadata"]["finalizers"] == [names.HOROVOD_FINALIZER]
    assert await api.find(child(namespace, "podgroups")), "the group goes after its pods"

    await api.patch(held, {"metadata": {"finalizers": None}})
    await api.until_gone(job)
    for kind in CHILDREN:
        assert await api.find(child(namespace, kind)) is None
    assert not await api.items(at("pods", namespace))
    await api.until_all(at("gpuallocations", namespace), lambda records: not records)

    made = horovod_job("train", low=2, high=2).by(operator.scheduler).on(fleet.selector)
    new = await api.create(made.manifest(), namespace=namespace)
    await hosts_listed(api, namespace, "train", TWO)
    workers = await api.get(child(namespace, "statefulsets"))
    assert (
        workers["metadata"]["labels"][names.HOROVOD_JOB_UID]
        == new["metadata"]["uid"]
        != old["metadata"]["uid"]
    )


async def test_a_launcher_that_ends_well_ends_the_job_and_its_workers_give_their_cards_back(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await started(api, namespace, fleet, operator)
    await launcher_is(api, namespace, "Succeeded")
    job = await ready(api, namespace, "Complete")
    assert condition(job, "Complete")["status"] == "True"
    await api.until_all(at("pods", namespace), lambda pods: not pods, labels=WORKERS)
    await api.until_all(at("gpuallocations", namespace), lambda records: not records)
    for kind in ("statefulsets", "services", "podgroups"):
        await api.until_gone(child(namespace, kind))
    await hosts_listed(api, namespace, "train", [])
    told = (await ready(api, namespace, "Complete"))["status"]
    assert (told["launcher"], told["workers"]) == ("Succeeded", "0/2-2")

    await api.delete(child(namespace, "jobs"))
    await operator.restart()
    await api.never(
        child(namespace, "jobs"), lambda it: True, during=3, what="the launcher of a finished job"
    )
    assert await api.find(child(namespace, "statefulsets")) is None


@pytest.mark.shares_operator
async def test_a_launcher_that_fails_fails_the_job_with_the_reason(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    made = horovod_job("train", low=2, high=2).by(operator.scheduler).on(fleet.selector)
    once = made.with_(lambda it: it["spec"]["launcherSpec"].update(backoffLimit=0))
    await api.create(once.manifest(), namespace=namespace)
    await launcher_is(api, namespace, "Failed")
    said = condition(await ready(api, namespace, "Failed"), "Failed")
    assert (said["status"], said["reason"]) == ("True", "BackoffLimitExceeded")
    await api.until_all(at("pods", namespace), lambda pods: not pods, labels=WORKERS)
    assert (await event_about(api, namespace, "train", "Failed"))["type"] == "Warning"


async def test_what_happened_while_nobody_led_is_put_right_by_the_next_leader_and_then_nothing_is_written(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, cluster: Access
) -> None:
    await started(api, namespace, fleet, operator)
    await told_why_not_more(api, namespace)
    operator.kill()
    first = len(own_writes(cluster, namespace))
    await api.delete(child(namespace, "services"))
    await api.patch(
        child(namespace, "configmaps"), {"data": {"discover_hosts.sh": "#!/bin/sh\necho gone:1\n"}}
    )
    await operator.start()
    await api.until(child(namespace, "services"), lambda it: it)
    await hosts_listed(api, namespace, "train", TWO)
    await told_why_not_more(api, namespace)
    await asyncio.sleep(3)  # whatever was under way
    second = [entry["objectRef"]["resource"] for entry in own_writes(cluster, namespace)[first:]]
    left = {"statefulsets", "jobs", "podgroups"}
    assert not left & set(second), f"what was as it should be is left alone: {second}"
    before = len(own_writes(cluster, namespace))
    await asyncio.sleep(3)
    after = [f"{entry['verb']} {entry['requestURI']}" for entry in own_writes(cluster, namespace)[before:]]
    assert not after


@pytest.mark.shares_operator
async def test_a_name_that_no_service_may_have_and_a_long_one_become_names_of_children(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    for name in ("2025.run", "a" * 200):
        made = horovod_job(name, low=1, high=1).by(operator.scheduler).on(fleet.selector)
        await api.create(made.manifest(), namespace=namespace)
    pods = await bound_pods(api, namespace, 2)
    for worker in pods:
        host = f"{worker['metadata']['name']}.{worker['spec']['subdomain']}:1"
        scripts = await api.items(at("configmaps", namespace), labels=names.HOROVOD_JOB_UID)
        assert sum(host in script["data"]["discover_hosts.sh"] for script in scripts) <= 1
        (script,) = await api.until_all(
            at("configmaps", namespace),
            lambda found, host=host: host in found[0]["data"]["discover_hosts.sh"],
            labels=f"{names.HOROVOD_JOB_UID}={worker['metadata']['labels'][names.HOROVOD_JOB_UID]}",
        )
        assert len(script["metadata"]["name"]) <= 63


async def test_an_operator_that_is_to_leave_them_alone_does(
    api: Api, namespace: str, release: Release, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    aloof = Operator(release, tmp_path, flags=("--no-horovod-jobs",))
    show_log_on_failure(request.node, "the operator's log", aloof.log)
    await aloof.start()
    try:
        made = horovod_job("train", low=1, high=1).by(aloof.scheduler)
        await api.create(made.manifest(), namespace=namespace)
        await api.never(at("elastichorovodjobs", namespace, "train"), lambda it: "status" in it, during=3)
        assert await api.find(child(namespace, "statefulsets")) is None
    finally:
        await aloof.stop()
