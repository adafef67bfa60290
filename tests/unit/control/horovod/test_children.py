"""What a job consists of, and whether what stands there says so."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from alnair.api import names
from alnair.control.horovod import children
from alnair.control.horovod.discovery import live_workers, script
from alnair.control.horovod.drift import amended, belongs, says
from alnair.control.horovod.job import read, scheduler_of
from alnair.control.horovod.overlay import overlaid
from harness.horovod import horovod_job
from unit.control.horovod.jobs import job, stored, worker


def command(**launcher: Any) -> list[str]:
    of = job(**launcher.pop("workers", {}))
    of.manifest["spec"]["launcherSpec"] |= launcher
    made = read(of.manifest)
    assert not isinstance(made, str), made
    (container,) = children.launcher(made)["spec"]["template"]["spec"]["containers"]
    words: list[str] = container["command"]
    return words[words.index("horovodrun") :]


def test_horovodrun_is_told_the_bounds_and_the_script() -> None:
    assert command() == [
        *("horovodrun", "-p", "12345", "-np", "2", "--max-np", "5"),
        *("--host-discovery-script", "/etc/alnair/discover_hosts.sh"),
        *("python", "train.py", "--epochs", "3"),
    ]


def test_a_worker_of_several_cards_has_as_many_slots() -> None:
    cards = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    assert command(workers=cards)[4:7] == ["8", "--max-np", "20"]
    of = job(**cards)
    assert (
        "train-workers-1.train-workers:4"
        in children.discovery(of, ["train-workers-1"])["data"]["discover_hosts.sh"]
    )


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (["python train.py --name 'two words'"], ["python", "train.py", "--name", "two words"]),
        (["python", "-c", "print(1); print(2)"], ["python", "-c", "print(1); print(2)"]),
        (["it's"], ["it's"]),
    ],
)
def test_a_command_of_one_word_is_taken_apart_as_a_shell_would(words: list[str], last: list[str]) -> None:
    assert command(pythonCommand=words)[9:] == last


def test_only_the_workers_are_members_and_have_a_card() -> None:
    of = job()
    template = children.workers(of, replicas=2)["spec"]["template"]
    assert template["metadata"]["labels"][names.POD_GROUP_LABEL] == children.group(of)["metadata"]["name"]
    assert template["spec"]["schedulerName"] == "alnair"
    assert template["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    launcher = children.launcher(of)["spec"]["template"]
    assert names.POD_GROUP_LABEL not in launcher["metadata"]["labels"]
    assert "schedulerName" not in launcher["spec"]


def test_an_empty_name_of_the_secret_means_none() -> None:
    of = job()
    of.manifest["spec"]["sshSecretName"] = ""
    bare = read(of.manifest)
    assert not isinstance(bare, str)
    for made in (children.workers(bare, replicas=1), children.launcher(bare)):
        spec = made["spec"]["template"]["spec"]
        assert not [volume for volume in spec["volumes"] if "secret" in volume]
        assert "/etc/secrets" not in str(spec)
    assert "horovod-sshkeys" in str(children.launcher(of))


def test_the_scheduler_of_the_workers_is_not_to_be_laid_over() -> None:
    of = job(podSpec={"schedulerName": "other", "priorityClassName": "high"})
    spec = children.workers(of, replicas=1)["spec"]["template"]["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("alnair", "high")


def test_an_overlay_merges_by_name_and_replaces_other_lists() -> None:
    below = {
        "containers": [{"name": "worker", "image": "a", "env": [{"name": "A", "value": "1"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "x"}],
    }
    above = {
        "containers": [
            {"name": "worker", "env": [{"name": "B", "value": "2"}]},
            {"name": "side", "image": "s"},
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "tolerations": [{"key": "y"}],
    }
    kept = deepcopy((below, above))
    assert overlaid(below, above) == {
        "containers": [
            {
                "name": "worker",
                "image": "a",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            },
            {"name": "side", "image": "s"},
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "tolerations": [{"key": "y"}],
    }
    assert (below, above) == kept


@pytest.mark.parametrize("nonsense", ["no list", [1], [{"image": "nameless"}], None, 7])
def test_an_overlay_that_is_no_pod_spec_is_the_apiservers_to_refuse(nonsense: Any) -> None:
    assert overlaid({"containers": [{"name": "worker"}]}, {"containers": nonsense})["containers"] == nonsense


# -- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["train", "a" * 253, "2025.run", "x.y-z", "1", "a" * 43 + "-b"])
def test_every_name_becomes_names_that_children_may_have(name: str) -> None:
    of = job(name)
    for child in (of.group, of.workers, of.discovery, of.launcher):
        assert len(child) <= 63
        assert child[0].isalpha()
        assert child[-1].isalnum()
        assert set(child) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert len(f"{of.workers}-0123456789") <= 63  # a label of the pods
    assert all(len(value) <= 63 for value in of.labels().values())


def test_names_that_differ_have_children_that_differ() -> None:
    alike = ["a.b", "a-b", "a" * 200, "a" * 201, "1", "j1", "a.b.", "a..b"]
    assert len({job(name).group for name in alike}) == len(alike)


# -- who lives --------------------------------------------------------------------------------------------------------


def test_workers_are_listed_by_ordinal() -> None:
    of = job()
    pods = [worker(of, ordinal) for ordinal in (10, 2, 0, 9)]
    assert live_workers(of, pods) == [f"train-workers-{ordinal}" for ordinal in (0, 2, 9, 10)]
    assert script(of, ["train-workers-0"], 1) == "#!/bin/sh\necho train-workers-0.train-workers:1\n"


@pytest.mark.parametrize(
    ("says_so", "listed"),
    [
        ({}, True),
        ({"ready": None}, True),
        ({"ready": "False"}, False),
        ({"ready": "Unknown"}, False),
        ({"phase": "Pending"}, False),
        ({"phase": "Failed"}, False),
        ({"phase": "Succeeded"}, False),
        ({"deletion_timestamp": "2026-01-01T00:00:00Z"}, False),
        ({"labels": {names.HOROVOD_ROLE: "launcher"}}, False),
        ({"owner_references": []}, False),
        ({"name": "train-workers-x"}, False),
        ({"name": "other-0"}, False),
    ],
)
def test_only_workers_that_run_are_ready_and_stay_are_listed(says_so: dict[str, Any], listed: bool) -> None:
    of = job()
    assert bool(live_workers(of, [worker(of, 0, **says_so)])) is listed


# -- drift ------------------------------------------------------------------------------------------------------------


def test_defaults_and_other_ways_to_write_an_amount_are_no_drift() -> None:
    of = job(resources={"limits": {"nvidia.com/gpu": 1, "memory": "1024Mi", "cpu": "0.5"}})
    wanted = children.workers(of, replicas=None)
    there = stored(deepcopy(wanted), replicas=4, updateStrategy={"type": "RollingUpdate"})
    container = there["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": "1", "memory": "1Gi", "cpu": "500m"}}
    container["terminationMessagePath"] = "/dev/termination-log"
    there["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    there["metadata"]["labels"]["added-by"] = "somebody"
    assert says(there, wanted)


@pytest.mark.parametrize(
    "edit",
    [
        lambda it: it["spec"]["template"]["spec"]["containers"].append({"name": "more"}),
        lambda it: it["spec"]["template"]["spec"]["containers"][0].update(image="other"),
        lambda it: it["spec"]["template"]["metadata"]["labels"].pop(names.POD_GROUP_LABEL),
        lambda it: it["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"].update(
            {"nvidia.com/gpu": "2"}
        ),
        lambda it: it["metadata"].pop("ownerReferences"),
        lambda it: it["metadata"]["labels"].clear(),
    ],
)
def test_an_edit_is_seen_and_undone_and_what_others_added_is_kept(edit: Any) -> None:
    of = job()
    wanted = children.workers(of, replicas=None)
    there = deepcopy(stored(wanted, replicas=3))
    there["metadata"]["annotations"] = {"theirs": "kept"}
    edit(there)
    assert not says(there, wanted)
    right = amended(there, wanted)
    assert says(right, wanted)
    assert right["spec"]["replicas"] == 3
    assert right["metadata"]["annotations"] == {"theirs": "kept"}
    assert right["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"]


def test_a_map_that_only_we_fill_must_have_nothing_more() -> None:
    wanted = children.service(job())
    there = deepcopy(stored(wanted))
    there["spec"]["selector"]["app"] = "mine"
    assert not says(there, wanted)
    assert amended(there, wanted)["spec"]["selector"] == wanted["spec"]["selector"]


def test_who_it_belongs_to() -> None:
    of, other = job(), job(uid="u-2")
    mine = stored(children.service(of))
    assert belongs(of, mine)
    assert not belongs(other, mine)
    orphan = deepcopy(mine)
    del orphan["metadata"]["ownerReferences"]
    assert belongs(of, orphan)
    assert not belongs(other, orphan)
    stranger = {"metadata": {"name": "train-workers"}}
    assert not belongs(of, stranger)


# -- jobs that cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"minReplicas": 3}, "spec.workersSpec: minReplicas must not be more than maxReplicas: 3 > 2"),
        ({"targetReplicas": 3}, "spec.workersSpec: targetReplicas must not be less"),
        ({"minReplicas": 0}, "spec.workersSpec.minReplicas: 0 is not valid"),
        ({"maxReplicas": "2"}, "spec.workersSpec.maxReplicas: '2' is not valid"),
        ({"image": ""}, "spec.workersSpec.image: '' is not valid"),
    ],
)
def test_what_an_older_schema_let_pass_is_refused_by_the_name_of_the_field(
    fields: dict[str, Any], complaint: str
) -> None:
    manifest = horovod_job("train", low=1, high=2).manifest()
    manifest["spec"]["workersSpec"] |= fields
    said = read(manifest)
    assert isinstance(said, str)
    assert said.startswith(complaint)


@pytest.mark.parametrize("spec", [None, {}, {"workersSpec": 1}, {"launcherSpec": {}, "schedulerName": 7}])
def test_a_job_of_nonsense_is_nobodys_fault_and_somebodys_job(spec: Any) -> None:
    manifest = {"metadata": {"name": "x", "namespace": "ns", "uid": "u"}, "spec": spec}
    assert isinstance(read(manifest), str)
    assert scheduler_of(manifest) == "alnair"


def test_an_item_of_a_list_need_not_say_what_it_is() -> None:
    """It does not: an operator that starts anew would write all children again, at every look."""
    wanted = children.workers(job(), replicas=None)
    there = stored(wanted)
    del there["apiVersion"], there["kind"]
    assert says(there, wanted)
