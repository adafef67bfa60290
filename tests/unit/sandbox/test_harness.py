"""The harness itself: which runs need a cluster, and what the builders' sentences mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from alnair.sandbox.fleet import small_mixed_fleet
from harness.builders import group, job, node, pod
from harness.plugin import is_whole, needs_cluster

ROOT = Path("/repo")


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        ([], True),
        (["tests"], True),
        (["tests/unit"], False),
        (["tests/unit/api/test_names.py::test_one", "tests/chart"], False),
        (["tests/unit", "tests/sandbox"], True),
        (["tests/unitary"], True),
        (["/repo/tests/chart"], False),
    ],
)
def test_a_cluster_is_started_unless_only_clusterless_tests_are_asked_for(
    arguments: list[str], needed: bool
) -> None:
    assert needs_cluster(arguments, root=ROOT, invoked_in=ROOT) is needed


@pytest.mark.parametrize(
    ("narrowed", "whole"),
    [({}, True), ({"keyword": "repair"}, False), ({"markexpr": "not slow"}, False), ({"lf": True}, False)],
)
def test_rights_are_judged_only_where_every_test_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config, narrowed: dict[str, object], whole: bool
) -> None:
    monkeypatch.setattr(pytestconfig, "args_source", pytest.Config.ArgsSource.TESTPATHS)
    monkeypatch.setattr(pytestconfig, "getoption", lambda name, default=None: narrowed.get(name, default))
    assert is_whole(pytestconfig) is whole
    monkeypatch.setattr(pytestconfig, "args_source", pytest.Config.ArgsSource.ARGS)
    assert not is_whole(pytestconfig)


def test_a_half_sentence_can_be_continued_in_two_ways() -> None:
    half = pod("a").in_group("team")
    whole = half.asking(gpu=1).manifest()
    part = half.slice(memory_gib=6, compute=50).manifest()
    assert whole["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert part["spec"]["containers"][0]["resources"]["requests"] == {
        "alnair/vgpu-memory": "6",
        "alnair/vgpu-compute": "50",
    }
    assert "resources" not in half.manifest()["spec"]["containers"][0]


def test_copies_differ_by_name_only() -> None:
    first, second = pod("a").by("alnair").copies(2)
    assert (first["metadata"].pop("name"), second["metadata"].pop("name")) == ("a-0", "a-1")
    assert first == second


def test_a_jobs_pods_carry_the_groups_label() -> None:
    made = job("train", pod("x").in_group("team"), count=3).manifest()
    assert made["spec"]["template"]["metadata"]["labels"] == {"scheduling.x-k8s.io/pod-group": "team"}
    assert made["spec"]["parallelism"] == 3


def test_a_group_says_when_it_gives_up() -> None:
    assert group("g", min_member=2).giving_up_after(9).manifest()["spec"] == {
        "minMember": 2,
        "scheduleTimeoutSeconds": 9,
    }


def test_different_cards_are_told_by_a_topology_object() -> None:
    made = node("n").with_cards(1, model="A10").with_cards(1, model="T4", memory_mib=16384).manifests()
    assert [each["kind"] for each in made] == ["Node", "NodeResourceTopology"]
    assert "ai.centaurus.io/physical-gpu-uuids" not in made[0]["metadata"]["annotations"]


def test_labels_cannot_tell_different_cards() -> None:
    mixed = node("n").with_cards(1, model="A").with_cards(1, model="B").owned_by("device-plugin")
    with pytest.raises(ValueError, match="labels cannot describe different cards"):
        mixed.manifests()


def test_the_small_fleet_is_as_mixed_as_the_demo_needs() -> None:
    fleet = small_mixed_fleet()
    nodes = [each for each in fleet if each["kind"] == "Node"]
    owners = {
        "device-plugin" if "nvidia.com/gpu" in each["status"]["capacity"] else "other" for each in nodes
    }
    assert owners == {"device-plugin", "other"}
    topology = next(
        each
        for each in fleet
        if each["kind"] == "NodeResourceTopology" and each["metadata"]["name"] == "mixed-1"
    )
    sizes = {zone["resources"][0]["capacity"] for zone in topology["zones"] if zone["type"] == "GPU"}
    assert sizes == {"24Gi", "16Gi"}
