"""A record says the same in memory and as JSON, and an object that no ledger of ours wrote is refused."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.api import names
from alnair.api.allocation import GPUAllocation
from alnair.api.stages import Stage
from alnair.ledger.records import (
    BOUND,
    COMMITTED,
    MOST_VERSIONS,
    PENDING,
    Member,
    Owner,
    Record,
    Unparsable,
    parse,
)
from alnair.ledger.writer import epoch_of, says_the_same
from alnair.state.holding import ContainerShare, Holding, Slice
from unit.builders import all_of, holds, part

OWNER = Owner("PodGroup", "team", "train", "uid-of-train")


def of(name: str, *slices: Slice, stage: Stage = "", counted: int = 0) -> ContainerShare:
    return ContainerShare(name, slices, counted, stage)


WITH_INIT = {
    "e": Holding(
        "n1",
        (
            of("load", part("n1", 1, 20000, 80), stage="Init"),
            of("proxy", part("n1", 1, 1000), stage="Sidecar"),
            of("main", part("n1", 1, 6000)),
            of("second", part("n1", 2, 500)),
        ),
    ),
    "f": Holding("n3", (of("load", counted=3, stage="Init"), of("main", counted=2))),
}


def a_record(*, init: bool = False, **fields: Any) -> Record:
    record = Record(owner=OWNER, scheduler="alnair", min_member=2, epoch=3, phase=COMMITTED, **fields)
    for name, holding in (
        ("b", holds("n2", part("n2", 0, 6144, 50))),
        ("a", holds("n1", all_of("n1", 0, 24576))),
        ("c", Holding("n3", (ContainerShare("main", counted=2),))),
        ("d", Holding("n1")),
        *((name, holding) for name, holding in WITH_INIT.items() if init),
    ):
        record.members[f"uid-{name}"] = Member(f"uid-{name}", name, holding)
    return record


def as_object(record: Record) -> dict[str, Any]:
    """As the apiserver would hand it out."""
    manifest = record.manifest()
    manifest["metadata"] |= {"uid": "object-uid", "resourceVersion": "42"}
    manifest["status"] = record.status()
    return deepcopy(manifest)


@pytest.mark.parametrize("init", [False, True], ids=["ordinary containers", "init containers"])
def test_a_record_comes_back_as_it_went(init: bool) -> None:
    record = a_record(conditions=[{"type": "Adopted", "status": "True"}], satisfied=True, init=init)
    read = parse(as_object(record))
    assert read.status() == record.status()
    assert read.manifest() == record.manifest()
    assert {uid: member.holding for uid, member in read.members.items()} == {
        uid: member.holding for uid, member in record.members.items()
    }
    assert (read.uid, read.version, read.satisfied) == ("object-uid", "42", True)
    assert read.own_versions == ("42",)


def test_of_its_own_versions_a_record_knows_the_last() -> None:
    record = a_record()
    for version in range(100):
        record.seen({"metadata": {"uid": "u", "resourceVersion": str(version)}})
    assert record.own_versions == tuple(map(str, range(100 - MOST_VERSIONS, 100)))


def test_a_record_is_valid_by_its_own_schema() -> None:
    GPUAllocation.model_validate(as_object(a_record()))
    GPUAllocation.model_validate(as_object(a_record(init=True)))


def test_totals_tell_what_pods_take_and_not_the_sum_of_their_containers() -> None:
    without, with_init = a_record().status(), a_record(init=True).status()
    assert with_init["memoryMiB"] - without["memoryMiB"] == 20000 + 500
    assert with_init["gpus"] - without["gpus"] == 2 + 3


def test_numbers_of_cards_in_init_containers_are_decided_by_creation_too() -> None:
    record = a_record()
    record.members = {"uid-f": Member("uid-f", "f", WITH_INIT["f"])}
    there = as_object(record)
    there["metadata"]["annotations"] = {names.PLAN: record.plan()}
    del there["status"]
    assert parse(there).members["uid-f"].holding == WITH_INIT["f"]


def test_what_is_known_of_a_pod_is_not_in_the_record() -> None:
    read = parse(as_object(a_record()))
    assert not any(member.bound or member.gone for member in read.members.values())


def test_the_status_tells_at_a_glance_what_is_held() -> None:
    status = a_record().status()
    assert [pod["name"] for pod in status["pods"]] == ["a", "b", "c", "d"]
    assert (status["scheduled"], status["minMember"], status["gpus"]) == (4, 2, 4)
    assert status["memoryMiB"] == 24576 + 6144
    assert status["nodes"] == "n1,n2,n3"


def test_a_card_that_two_members_share_is_one_gpu() -> None:
    record = Record(owner=OWNER, scheduler="alnair", min_member=2, epoch=1)
    for name in "ab":
        record.members[name] = Member(name, name, holds("n", part("n", 0, 100)))
    assert record.status()["gpus"] == 1


def test_a_record_is_created_with_nothing_decided() -> None:
    manifest = a_record().manifest()
    assert "status" not in manifest
    assert "ownerReferences" not in manifest["metadata"]
    assert manifest["metadata"]["finalizers"] == [names.FINALIZER]
    assert manifest["spec"] == {
        "owner": {"kind": "PodGroup", "name": "train", "uid": "uid-of-train"},
        "schedulerName": "alnair",
    }


def test_a_group_made_again_has_another_record() -> None:
    again = Record(
        owner=Owner("PodGroup", "team", "train", "other"), scheduler="alnair", min_member=1, epoch=0
    )
    assert again.key != a_record().key
    assert again.key[1].startswith("train-")


def test_a_record_just_created_reads_as_pending_and_empty() -> None:
    manifest = as_object(a_record())
    del manifest["status"]
    read = parse(manifest)
    assert (read.phase, read.epoch, read.min_member, read.members) == (PENDING, 0, 1, {})


def _without(*path: Any) -> Any:
    def change(it: Any) -> None:
        for key in path[:-1]:
            it = it[key]
        del it[path[-1]]

    return change


def _set(value: Any, *path: Any) -> Any:
    def change(it: Any) -> None:
        for key in path[:-1]:
            it = it[key]
        it[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_without("spec"), id="no spec"),
        pytest.param(_without("spec", "owner"), id="no owner"),
        pytest.param(_without("spec", "owner", "uid"), id="an owner without UID"),
        pytest.param(_without("spec", "schedulerName"), id="no scheduler"),
        pytest.param(_set("forged", "metadata", "name"), id="a name that is not its owner's"),
        pytest.param(_set("other", "spec", "owner", "uid"), id="an owner that is not its name's"),
        pytest.param(_set("many", "status", "epoch"), id="an epoch that is no number"),
        pytest.param(_set([1], "status", "pods"), id="a pod that is no object"),
        pytest.param(_without("status", "pods", 0, "uid"), id="a pod without UID"),
        pytest.param(_without("status", "pods", 0, "node"), id="a pod without node"),
        pytest.param(_set({"a": 1}, "status", "pods", 0, "containers"), id="containers that are no list"),
        pytest.param(_set(-1, "status", "pods", 0, "containers", 0, "slices", 0, "memoryMiB"), id="negative memory"),
        pytest.param(_set(101, "status", "pods", 0, "containers", 0, "slices", 0, "computePercent"), id="101 per cent"),
        pytest.param(_set(2**63 - 1, "status", "epoch"), id="an epoch after which there is none"),
        pytest.param(_set(float("inf"), "status", "epoch"), id="an infinite epoch"),
        pytest.param(_set(-1, "status", "minMember"), id="fewer members than none"),
        pytest.param(_set(["a"], "status", "pods", 0, "name"), id="a pod's name that is a list"),
        pytest.param(_set("a b", "status", "pods", 0, "name"), id="a pod's name that would end a request's line"),
        pytest.param(_set("a\nb", "status", "pods", 0, "node"), id="a node's name with a line end"),
        pytest.param(_set("Done", "status", "phase"), id="a phase that is none"),
        pytest.param(_set("3", "status", "size"), id="a size that is text"),
    ],
)  # fmt: skip
def test_what_no_ledger_wrote_is_refused(change: Any) -> None:
    manifest = as_object(a_record())
    change(manifest)
    with pytest.raises(Unparsable):
        parse(manifest)


JUNK: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(
    field=st.sampled_from(["phase", "epoch", "minMember", "pods", "conditions", "complete"]),
    value=JUNK,
    of_pod=st.sampled_from(["", "name", "uid", "node", "containers"]),
)
def test_any_junk_in_a_status_is_read_or_refused(field: str, value: Any, of_pod: str) -> None:
    manifest = as_object(a_record())
    if of_pod:
        manifest["status"]["pods"][0][of_pod] = value
    else:
        manifest["status"][field] = value
    try:
        parse(manifest)
    except Unparsable:
        return


@given(
    st.lists(
        st.tuples(
            st.text("abcdef", min_size=1, max_size=6),
            st.lists(
                st.builds(
                    Slice, st.sampled_from("xyz"), st.integers(0, 1 << 20), st.integers(0, 100), st.booleans()
                )
            ),
        ),
        max_size=4,
        unique_by=lambda each: each[0],
    )
)
def test_every_record_comes_back_as_it_went(members: list[tuple[str, list[Slice]]]) -> None:
    record = Record(owner=OWNER, scheduler="alnair", min_member=1, epoch=1, phase=BOUND)
    for name, slices in members:
        record.members[f"uid-{name}"] = Member(f"uid-{name}", name, holds("n", *slices))
    assert parse(as_object(record)).status() == record.status()


# -- is it what we wrote? ----------------------------------------------------------------------------------------


def test_a_status_read_back_says_the_same_even_where_empty_fields_are_left_out() -> None:
    ours = Record(owner=OWNER, scheduler="alnair", min_member=1, epoch=1).status()
    there = {key: value for key, value in ours.items() if value not in (0, "", [], None, False)}
    assert says_the_same(there, ours)
    assert says_the_same({**ours, "fieldOfALaterVersion": 1}, ours)


@pytest.mark.parametrize(
    "change",
    [
        _set("Bound", "phase"),
        _set(4, "epoch"),
        _without("epoch"),
        _set([], "pods"),
        _set("n9", "pods", 0, "node"),
        _set(1, "pods", 0, "containers", 0, "slices", 0, "memoryMiB"),
        _set("other", "pods", 0, "containers", 0, "slices", 0, "gpu"),
        _without("pods", 0, "containers", 0, "slices", 0, "whole"),
        _set([{"type": "Edited", "status": "True"}], "conditions"),
    ],
)
def test_an_edit_is_noticed(change: Any) -> None:
    ours = a_record().status()
    there = deepcopy(ours)
    change(there)
    assert not says_the_same(there, ours)


def test_a_condition_that_makes_no_sense_does_not_cost_the_record() -> None:
    manifest = as_object(a_record(conditions=[{"type": "Adopted", "status": "True"}]))
    manifest["status"]["conditions"] += [None, 3, {"type": ["x"]}]
    read = parse(manifest)
    assert read.conditions == [{"type": "Adopted", "status": "True"}]
    read.set_condition({"type": "Adopted", "status": "True"}, now="now")
    assert read.conditions[0]["lastTransitionTime"] == "now"


def test_an_epoch_after_which_there_is_none_is_nobody_s() -> None:
    """Else one forged record would make every leader's next epoch one that no object can hold."""
    manifest = as_object(a_record())
    manifest["status"]["epoch"] = 2**63 - 1
    assert epoch_of(manifest) == 0


def test_what_is_wrong_is_told_in_one_line() -> None:
    manifest = as_object(a_record())
    manifest["status"]["phase"] = "Bound\n2026 INFO all is well" * 1000
    with pytest.raises(Unparsable) as told:
        parse(manifest)
    assert str(told.value).isprintable()
    assert len(str(told.value)) <= 300
