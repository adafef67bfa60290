"""The checker finds records that lie, and places that leak, in hand-made histories, and nothing else."""

from __future__ import annotations

import pytest

from alnair.api import names
from witness.checker import GRACE, LATE, RELEASE
from witness.findings import HALF_GANG, LEAK, MISMATCH
from witness.requests import Ask, Asked
from witness.tale import MIB, Tale, card, entry, main, piece
from witness.words import RECORDS

# -- records and annotations ---------------------------------------------------------------------------------------


def test_a_pod_bound_without_a_record(tale: Tale) -> None:
    tale.pod("x")
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)]


def test_a_member_bound_before_its_record_is_committed(tale: Tale) -> None:
    tale.group("g", 1)
    tale.pod("x", group="g")
    tale.record("g", group="g")
    revision = tale.bind("x", "n")
    tale.record("g", entry("x", "n"), group="g")
    assert tale.said() == [(MISMATCH, revision)], "the empty object was no commit"


def test_a_lone_pod_without_gpus_needs_no_record(tale: Tale) -> None:
    tale.pod("x")
    tale.bind("x", "n")
    tale.wait(LATE + 1)
    assert tale.findings == []


def test_a_lone_pod_of_a_device_plugins_is_recorded_soon(tale: Tale) -> None:
    tale.counted("x", 1)
    tale.wait(LATE / 2)
    tale.record("x", entry("x", "p", counts={"main": 1}))
    tale.counted("y", 1)
    tale.wait(LATE / 2)
    tale.deleted("y")
    tale.wait(LATE)
    assert tale.findings == [], "one is recorded in time, the other did not live that long"
    tale.counted("z", 1)
    tale.wait(LATE + 1)
    assert [kind for kind, _ in tale.said()] == [MISMATCH]


def test_a_gang_decided_by_the_creation_of_its_record(tale: Tale) -> None:
    tale.group("g", 1)
    tale.pod("x", group="g", gpus=1)
    tale.record("g", entry("x", "p", counts={"main": 1}), group="g", by_creation=True)
    tale.bind("x", "p", {"name": "main", "gpuCount": 1})
    assert tale.findings == []


@pytest.mark.parametrize(
    ("node", "containers", "annotated"),
    [
        pytest.param("n", [main(piece("b"))], "", id="another card"),
        pytest.param("n", [main(piece("a", 999))], "", id="another size"),
        pytest.param("n", [main(piece("a"), name="other")], "", id="another container"),
        pytest.param("p", [main(piece("a"))], "", id="another node"),
        pytest.param("n", [main(piece("a"))], "p", id="annotation with another node"),
    ],
)
def test_annotations_that_differ_from_the_record(
    tale: Tale, node: str, containers: list[dict[str, object]], annotated: str
) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    revision = tale.bind("x", node, *containers, annotated=annotated)
    assert tale.said() == [(MISMATCH, revision)]


def test_a_record_of_a_namesake_is_no_record(tale: Tale) -> None:
    tale.pod("x")
    other = {**entry("x", "n", main(piece("a"))), "uid": "older!"}
    tale.record("x", other)
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)]


def test_a_slice_released_while_its_pod_lives(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    tale.terminating("x")
    revision = tale.gone(RECORDS, "ns/x")
    assert tale.said() == [(MISMATCH, revision)]


def test_a_slice_of_an_unbound_or_ended_pod_may_be_released(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.gone(RECORDS, "ns/x")
    tale.recorded_and_bound("y", "n", main(piece("a")))
    tale.phase("y", "Failed")
    tale.gone(RECORDS, "ns/y")
    assert tale.findings == []


def test_a_record_that_moves_a_bound_pod_to_another_card(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.record("x", entry("x", "n", main(piece("b"))))
    assert tale.said() == [(MISMATCH, revision)]


def test_annotations_that_change_after_the_bind(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.annotate("x", names.NODE, "m")
    assert tale.said() == [(MISMATCH, revision)]


def test_a_pod_in_two_records(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.record("other", entry("x", "n", main(piece("a"))))
    assert set(tale.said()) == {(MISMATCH, revision)}


def test_half_a_gang_is_committed(tale: Tale) -> None:
    tale.group("g", 2)
    tale.pod("x", group="g")
    revision = tale.record("g", entry("x", "n"), group="g", least=2)
    assert tale.said() == [(HALF_GANG, revision)]
    revision = tale.record("h", entry("x", "n"), entry("y", "n"), group="g", least=1)
    assert (HALF_GANG, revision) in tale.said(), "it says that one would do"


def test_a_member_that_is_done_counts_for_its_gang(tale: Tale) -> None:
    tale.group("g", 2)
    for name in ("x", "y"):
        tale.pod(name, group="g")
    tale.record("g", entry("x", "n"), entry("y", "n"), group="g", least=2)
    tale.bind("x", "n")
    tale.phase("x", "Succeeded")
    tale.deleted("y")
    tale.gone(RECORDS, "ns/g")
    tale.pod("z", group="g")
    tale.record("g", entry("z", "n"), group="g", least=1)
    assert tale.findings == []


def test_a_member_that_went_a_moment_ago_counts_for_its_gang_and_one_that_went_long_ago_does_not(
    tale: Tale,
) -> None:
    tale.group("g", 2)
    for name in ("x", "y", "z"):
        tale.pod(name, group="g")
    tale.record("g", entry("x", "n"), entry("y", "n"), group="g", least=2)
    tale.bind("x", "n")
    tale.phase("x", "Succeeded")
    tale.deleted("y")
    tale.gone(RECORDS, "ns/g")
    tale.deleted("x")
    tale.record("g", entry("z", "n"), group="g", least=1)
    assert tale.findings == []
    tale.gone(RECORDS, "ns/g")
    tale.wait(GRACE + 1)
    revision = tale.record("g", entry("z", "n"), group="g", least=1)
    assert tale.said() == [(HALF_GANG, revision)]


def test_an_epoch_that_goes_back(tale: Tale) -> None:
    tale.record("x", epoch=4)
    revision = tale.record("x", epoch=3)
    assert tale.said() == [(MISMATCH, revision)]


# -- what was asked for --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "containers", "right"),
    [
        (Asked((Ask("main", memory_mib=1000),)), [main(piece("a"))], True),
        (Asked((Ask("main", memory_mib=1001),)), [main(piece("a"))], False),
        (Asked((Ask("main", 2, memory_mib=1000),)), [main(piece("a"), piece("b"))], True),
        (Asked((Ask("main", 2, memory_mib=1000),)), [main(piece("a"))], False),
        (Asked((Ask("main", memory_mib=1000, compute=5),)), [main(piece("a", 1000, 5))], True),
        (Asked((Ask("main", memory_mib=1000, compute=5),)), [main(piece("a"))], False),
        (Asked((Ask("main", whole=True),)), [main(piece("a", whole=True))], True),
        (Asked((Ask("main", whole=True),)), [main(piece("a", MIB, 100))], False),
        (Asked((Ask("main", percent=33),)), [main(piece("a", 3300))], True),
        (Asked((Ask("main", percent=33),)), [main(piece("a", 3299))], False),
        (Asked((Ask("main", memory_mib=1000),), models=("A10",)), [main(piece("a"))], True),
        (Asked((Ask("main", memory_mib=1000),), models=("T4",)), [main(piece("a"))], False),
        (Asked((Ask("main", memory_mib=1000),), not_models=("A10",)), [main(piece("a"))], False),
        (Asked((Ask("main", memory_mib=1000),), cards=("b",)), [main(piece("a"))], False),
        (Asked((Ask("other", memory_mib=1000),)), [main(piece("a"))], False),
        (Asked(), [main(piece("a"))], False),
    ],
)
def test_a_pod_is_given_what_it_asked_for(
    tale: Tale, asked: Asked, containers: list[dict[str, object]], right: bool
) -> None:
    tale.pod("x", asked=asked)
    tale.record("x", entry("x", "n", *containers))
    revision = tale.bind("x", "n", *containers)
    assert tale.said() == ([] if right else [(MISMATCH, revision)])


def test_a_pod_that_can_never_be_served_is_bound(tale: Tale) -> None:
    tale.pod("x", never=True)
    revision = tale.bind("x", "n")
    assert tale.said() == [(MISMATCH, revision)]


# -- what the containers are told ----------------------------------------------------------------------------------

VARIABLES = {
    "NVIDIA_VISIBLE_DEVICES": "k/cards",
    "CUDA_DEVICE_SM_LIMIT": "k/sm",
    "CUDA_DEVICE_MEMORY_LIMIT_0": "k/0",
}


@pytest.mark.parametrize(
    ("variables", "values", "right"),
    [
        (VARIABLES, {"k/cards": "a", "k/sm": "5", "k/0": "1000m"}, True),
        (VARIABLES, {"k/cards": "b", "k/sm": "5", "k/0": "1000m"}, False),
        (VARIABLES, {"k/cards": "a", "k/sm": "5", "k/0": "999m"}, False),
        (VARIABLES, {"k/cards": "a", "k/sm": "5"}, False),
        (
            {**VARIABLES, "CUDA_DEVICE_MEMORY_LIMIT_1": "k/0"},
            {"k/cards": "a", "k/sm": "5", "k/0": "1000m"},
            False,
        ),
        ({"NVIDIA_VISIBLE_DEVICES": "k/cards"}, {"k/cards": "a"}, False),
        ({}, {}, False),
    ],
)
def test_a_container_is_told_exactly_its_cards(
    variables: dict[str, str], values: dict[str, str], right: bool
) -> None:
    tale = Tale(delivering=True)
    tale.node("n", card("a"), card("b"))
    tale.pod("x")
    tale.reading("x", **variables)
    for key, value in values.items():
        tale.annotate("x", key, value)
    tale.record("x", entry("x", "n", main(piece("a", 1000, 5))))
    revision = tale.bind("x", "n", main(piece("a", 1000, 5)))
    assert tale.said() == ([] if right else [(MISMATCH, revision)])


def test_what_a_bound_container_is_told_is_frozen(tale: Tale) -> None:
    tale.pod("x")
    tale.reading("x", NVIDIA_VISIBLE_DEVICES="k/cards")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.bind("x", "n", main(piece("a")))
    revision = tale.annotate("x", "k/cards", "b")
    assert tale.said() == [(MISMATCH, revision)]


# -- leaks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", ["deleted", "terminal", "recreated"])
def test_a_place_kept_for_a_pod_that_is_long_gone(tale: Tale, ended: str) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    if ended == "terminal":
        tale.phase("x", "Succeeded")
    else:
        tale.deleted("x")
    if ended == "recreated":
        tale.change("pods", "ns/x", {**_bare("x"), "metadata": {**_bare("x")["metadata"], "uid": "newer!"}})
    tale.wait(RELEASE - 1)
    assert tale.findings == []
    tale.wait(2)
    assert [kind for kind, _ in tale.said()] == [LEAK]


def test_a_place_released_in_time(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    tale.deleted("x")
    tale.wait(3)
    tale.gone(RECORDS, "ns/x")
    tale.wait(RELEASE + 1)
    assert tale.findings == []
    assert 3 <= tale.checker.longest_release < 4


def _bare(name: str) -> dict[str, dict[str, object]]:
    return {
        "metadata": {"uid": f"{name}!", "name": name, "namespace": "ns"},
        "spec": {"schedulerName": "alnair", "containers": [{"name": "main"}]},
    }
