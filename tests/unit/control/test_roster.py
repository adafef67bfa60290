"""The roster: which pods belong together, who must hear of it, and what cannot even be tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from alnair.api import names
from alnair.control.gangs import Gang, Group, Roster, read_group
from harness.builders import PodBuilder, group, pod
from unit.builders import as_pod

OURS = frozenset({"alnair", "alnair-cost-saving"})
MEMBER = pod("m").in_group("train").by("alnair").asking(gpu=1)
KEY = ("team", "PodGroup", "train")


class Watched:
    """A roster and the gangs that were said to have changed."""

    def __init__(self) -> None:
        self.changed: list[Gang] = []
        self.reported: list[Gang] = []
        self.roster = Roster(OURS, on_change=self.changed.append, on_status=self.reported.append)

    def put(self, sentence: PodBuilder, **fields: Any) -> Gang | None:
        read = as_pod(sentence, **fields)
        self.roster.put_pod(read)
        return next((gang for gang in self.roster.gangs.values() if read.uid in gang.pods), None)

    def put_group(self, name: str = "train", *, uid: str = "g1", generation: int = 1, **spec: Any) -> Group:
        made = read_group(
            {
                "metadata": {"namespace": "team", "name": name, "uid": uid, "generation": generation},
                "spec": {"minMember": 2, **spec},
            }
        )
        self.roster.put_group(made)
        return made


def test_a_status_that_somebody_else_wrote_is_reported_anew_and_is_no_reason_to_try() -> None:
    watched = Watched()
    gang = watched.put(MEMBER)
    known = watched.put_group()
    watched.changed.clear()
    watched.roster.put_group(replace(known), listed=True)
    assert (watched.changed, watched.reported) == ([], [])
    watched.roster.put_group(replace(known, status={"phase": "Pending"}), listed=True)
    assert (watched.changed, watched.reported) == ([], [gang])
    assert gang is not None
    assert gang.group is not None
    gang.group.status = {"phase": "Scheduled"}  # as we wrote it over
    watched.reported.clear()
    watched.roster.put_group(replace(known, status={"phase": "Pending"}), listed=True)
    assert watched.reported == [], "who insists on it has the last word"


def test_pods_join_by_label_in_their_own_namespace() -> None:
    watched = Watched()
    one, two = watched.put(MEMBER.named("a")), watched.put(MEMBER.named("b"))
    other = watched.put(MEMBER.named("c").in_namespace("elsewhere"))
    assert one is two
    assert other is not one
    assert one is not None
    assert sorted(each.name for each in one.pods.values()) == ["a", "b"]


def test_a_pod_without_a_group_is_a_gang_of_its_own() -> None:
    watched = Watched()
    one, two = (watched.put(pod(name).by("alnair")) for name in "ab")
    assert one is not None
    assert one is not two
    assert not one.is_group
    assert one.min_member == 1
    assert (one.owner.kind, one.owner.name) == ("Pod", "a")


def test_pods_of_another_scheduler_are_none_of_our_business() -> None:
    watched = Watched()
    assert watched.put(MEMBER.by("default-scheduler")) is None
    assert watched.roster.gangs == {}
    assert watched.changed == []


def test_a_pod_that_changes_its_label_changes_its_gang() -> None:
    watched = Watched()
    before = watched.put(MEMBER)
    after = watched.put(MEMBER.in_group("other"))
    assert before is not None
    assert after is not None
    assert (before.pods, list(after.pods)) == ({}, ["uid-m"])
    assert list(watched.roster.gangs) == [("team", "PodGroup", "other")]


def test_a_gang_ends_with_its_last_pod_but_not_while_its_plan_is_carried_out() -> None:
    watched = Watched()
    gang = watched.put(MEMBER)
    assert gang is not None
    gang.busy = True
    watched.roster.drop_pod("uid-m")
    assert KEY in watched.roster.gangs
    gang.busy = False
    watched.put(MEMBER)
    watched.roster.drop_pod("uid-m")
    assert watched.roster.gangs == {}


def test_a_gang_that_was_followed_by_another_of_its_name_is_not_forgotten_twice() -> None:
    watched = Watched()
    old = watched.put(MEMBER)
    assert old is not None
    watched.roster.drop_pod("uid-m")
    new = watched.put(MEMBER)
    watched.roster.forget(old)
    assert watched.roster.gangs == {KEY: new}


# -- groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_first", [True, False])
def test_a_group_and_its_pods_find_each_other_in_either_order(group_first: bool) -> None:
    watched = Watched()
    if group_first:
        watched.put_group()
    gang = watched.put(MEMBER)
    watched.put_group()
    assert gang is not None
    assert gang.group is not None
    assert (gang.min_member, gang.owner.uid) == (2, "g1")


def test_a_status_that_we_wrote_ourselves_is_no_reason_to_try_again() -> None:
    watched = Watched()
    watched.put_group()
    gang = watched.put(MEMBER)
    assert gang is not None
    before = len(watched.changed)
    watched.put_group()
    assert len(watched.changed) == before
    watched.put_group(generation=2, minMember=3)
    assert watched.changed[before:] == [gang]
    assert gang.min_member == 3


def test_a_group_made_again_is_another_group() -> None:
    watched = Watched()
    watched.put_group(uid="g1")
    gang = watched.put(MEMBER)
    assert gang is not None
    gang.timed_out = True
    before = len(watched.changed)
    watched.put_group(uid="g2")
    assert (gang.owner.uid, gang.timed_out) == ("g2", False)
    assert watched.changed[before:] == [gang]


@pytest.mark.parametrize(
    ("fields", "news"),
    [
        ({"resourceVersion": "2"}, False),
        ({"annotations": {"seen-by": "somebody"}}, False),
        ({"phase": "Running"}, True),
        ({"on": "n1"}, True),
        ({"terminating": True}, True),
        ({"labels": {names.POD_GROUP_LABEL: "train", "tier": "gold"}}, True),
    ],
)
def test_a_pod_that_only_got_older_is_no_news(fields: dict[str, Any], news: bool) -> None:
    watched = Watched()
    watched.put_group()
    gang = watched.put(MEMBER)
    before = len(watched.changed)
    watched.put(MEMBER, **fields)
    assert watched.changed[before:] == ([gang] if news else [])
    assert gang is not None
    assert next(iter(gang.pods.values())).version == fields.get("resourceVersion", "1"), (
        "it is kept all the same"
    )


def test_a_deleted_group_leaves_its_pods_without_one() -> None:
    watched = Watched()
    watched.put_group()
    gang = watched.put(MEMBER)
    assert gang is not None
    watched.roster.drop_group("team", "train", "another-uid")
    assert gang.group is not None, "a late word of a predecessor"
    watched.roster.drop_group("team", "train", "g1")
    assert "PodGroup team/train does not exist" in gang.problem()


def test_a_fresh_list_ends_only_groups_that_were_known_before_it() -> None:
    watched = Watched()
    watched.put_group("old")
    known = watched.roster.groups()
    watched.put_group("new", uid="g2")
    watched.roster.keep_groups(set(), known)
    assert [each.name for each in watched.roster.groups()] == ["new"]


def test_a_list_never_brings_back_what_an_event_has_ended_or_outdated() -> None:
    watched = Watched()
    first = watched.put_group(generation=1)
    watched.put_group(generation=2, minMember=5)
    watched.roster.put_group(first, listed=True)
    assert [each.min_member for each in watched.roster.groups()] == [5]
    watched.roster.drop_group("team", "train", "g1")
    watched.roster.put_group(first, listed=True)
    assert watched.roster.groups() == []


@pytest.mark.parametrize(
    ("spec", "least", "timeout"),
    [
        ({}, 1, 0),
        ({"minMember": 0}, 1, 0),
        ({"minMember": 8, "scheduleTimeoutSeconds": 30}, 8, 30),
        (None, 1, 0),
    ],
)
def test_a_group_asks_for_at_least_one(spec: dict[str, Any] | None, least: int, timeout: int) -> None:
    read = read_group({"metadata": {"namespace": "t", "name": "g", "uid": "u"}, "spec": spec})
    assert (read.min_member, read.timeout_seconds, read.problem) == (least, timeout, "")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minMember": -1}, "spec.minMember: -1 is not valid"),
        ({"minMember": "four"}, "spec.minMember: 'four' is not valid"),
        ({"minMember": 2**31}, "spec.minMember: 2147483648 is not valid"),
        ({"scheduleTimeoutSeconds": 1.5}, "spec.scheduleTimeoutSeconds: 1.5 is not valid"),
        ([1], "spec.: [1] is not valid"),
    ],
)
def test_a_group_that_cannot_be_read_names_field_and_value(spec: Any, problem: str) -> None:
    read = read_group({"metadata": {"namespace": "t", "name": "g", "uid": "u"}, "spec": spec})
    assert read.problem.startswith(problem)


# -- one gang ----------------------------------------------------------------------------------------------------


def test_members_wait_in_order_of_creation() -> None:
    watched = Watched()
    watched.put(MEMBER.named("late"), creationTimestamp="2026-01-02T00:00:00Z")
    watched.put(MEMBER.named("b"), creationTimestamp="2026-01-01T00:00:00Z")
    watched.put(MEMBER.named("a"), creationTimestamp="2026-01-01T00:00:00Z")
    watched.put(MEMBER.named("bound"), on="n")
    gang = watched.put(MEMBER.named("gated").gated())
    assert gang is not None
    assert [each.name for each in gang.waiting()] == ["a", "b", "late"]


def test_a_gang_is_as_important_as_its_most_important_member() -> None:
    watched = Watched()
    watched.put(MEMBER.named("a"))
    gang = watched.put(MEMBER.named("b").with_(lambda it: it["spec"].update(priority=1000)))
    assert gang is not None
    assert gang.priority == 1000


@pytest.mark.parametrize(
    ("sentence", "needed"),
    [
        (pod("p").by("alnair"), False),
        (pod("p").by("alnair").slice(memory_gib=1), True),
        (pod("p").by("alnair").in_group("g"), True),
    ],
)
def test_only_a_lone_pod_without_gpus_needs_no_record(sentence: PodBuilder, needed: bool) -> None:
    gang = Watched().put(sentence)
    assert gang is not None
    assert gang.needs_record is needed


def test_one_members_problem_is_the_gangs_until_that_member_is_gone() -> None:
    watched = Watched()
    watched.put_group()
    watched.put(MEMBER.named("good"))
    gang = watched.put(MEMBER.named("bad").annotated({"ai.centaurus.io/gpu-memory": "much"}))
    assert gang is not None
    assert gang.problem().startswith("pod bad: ai.centaurus.io/gpu-memory: 'much'")
    watched.roster.drop_pod("uid-bad")
    assert gang.problem() == ""


def test_a_manifest_of_the_harness_is_a_group() -> None:
    manifest = group("g", min_member=4).giving_up_after(9).manifest()
    manifest["metadata"] |= {
        "namespace": "team",
        "uid": "u",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    read = read_group(manifest)
    assert (read.min_member, read.timeout_seconds, read.generation) == (4, 9, 3)
