"""The checker finds what is wrong in hand-made histories, at the revision where it goes wrong, and nothing else."""

from __future__ import annotations

import pytest

from alnair.api import names
from churn.checker import GRACE, LATE, RELEASE
from churn.findings import LEAK, MISMATCH, OVER_ALLOCATION
from churn.requests import Ask, Asked
from churn.tale import MIB, Tale, card, entry, main, piece
from churn.words import NODES, RECORDS, TOPOLOGIES


@pytest.fixture
def tale() -> Tale:
    """A node `n` with two cards of 10,000 MiB, a device plugin's node `p` with two."""
    told = Tale()
    told.node("n", card("a"), card("b"))
    told.node("p", gpus=2)
    return told


# -- more than a card has ------------------------------------------------------------------------------------------


def test_a_card_filled_to_the_brim_by_several_pods_is_fine(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 6000, 50)))
    tale.recorded_and_bound("y", "n", main(piece("a", 4000, 50)))
    tale.recorded_and_bound("z", "n", main(piece("b", whole=True)))
    assert tale.findings == []


def test_more_memory_than_the_card_has(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 6000)))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 4001))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]
    assert "10001 MiB are given, it has 10000" in tale.findings[0].what
    assert tale.findings[0].objects == ("ns/y", "ns/x")


def test_more_compute_than_the_card_has(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 10, 60)))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 10, 41))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_more_sharers_than_the_card_has_slots(tale: Tale) -> None:
    for number in range(16):
        tale.recorded_and_bound(f"x{number}", "n", main(piece("a", 10)))
    assert tale.findings == []
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 10))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_slots_that_the_node_itself_tells_count(tale: Tale) -> None:
    tale.node("h", card("c", slots=2))
    for name in ("x", "y"):
        tale.recorded_and_bound(name, "h", main(piece("c", 10)))
    tale.pod("z")
    revision = tale.record("z", entry("z", "h", main(piece("c", 10))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_a_whole_card_has_one_holder(tale: Tale, first: bool, second: bool) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 10, whole=first)))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 10, whole=second))))
    assert (OVER_ALLOCATION, revision) in tale.said()
    assert any("whole card" in finding.what for finding in tale.findings)


def test_two_pods_of_one_record_count_together(tale: Tale) -> None:
    tale.group("g", 2)
    for name in ("x", "y"):
        tale.pod(name, group="g")
    entries = [entry(name, "n", main(piece("a", 6000))) for name in ("x", "y")]
    revision = tale.record("g", *entries, group="g", least=2)
    assert (OVER_ALLOCATION, revision) in tale.said()


def test_a_slice_given_again_once_its_record_has_dropped_it_is_fine(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 9000)))
    tale.deleted("x")
    tale.gone(RECORDS, "ns/x")
    tale.recorded_and_bound("y", "n", main(piece("a", 9000)))
    assert tale.findings == []


def test_a_slice_given_again_while_a_record_still_lists_it(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 9000)))
    tale.deleted("x")
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 9000))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_a_replacement_takes_the_place_of_a_lost_member_in_one_write(tale: Tale) -> None:
    tale.group("g", 1)
    tale.pod("x", group="g")
    tale.record("g", entry("x", "n", main(piece("a", 9000))), group="g")
    tale.deleted("x")
    tale.pod("y", group="g")
    tale.record("g", entry("y", "n", main(piece("a", 9000))), group="g")
    assert tale.findings == []


# -- moments of a pod's life ---------------------------------------------------------------------------------------


def test_init_containers_count_as_the_most_at_any_moment(tale: Tale) -> None:
    containers = [
        main(piece("a", 9000, 90), name="first", stage="Init"),
        main(piece("a", 2000, 10), name="side", stage="Sidecar"),
        main(piece("a", 8000, 90), name="second", stage="Init"),
        main(piece("a", 7000, 50)),
    ]
    tale.recorded_and_bound("x", "n", *containers)
    assert tale.findings == []
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 1))))
    assert tale.said() == [(OVER_ALLOCATION, revision)], "the moment of `second` takes all of the card"


def test_a_sidecar_runs_beside_the_main_containers(tale: Tale) -> None:
    tale.pod("x")
    both = [main(piece("a", 6000), name="side", stage="Sidecar"), main(piece("a", 6000))]
    revision = tale.record("x", entry("x", "n", *both))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_a_card_whole_for_an_init_container_is_nobody_elses(tale: Tale) -> None:
    tale.recorded_and_bound(
        "x", "n", main(piece("a", whole=True), name="i", stage="Init"), main(piece("a", 10))
    )
    assert tale.findings == [], "one after the other within the pod is fine"
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 0))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_a_whole_card_for_one_container_and_a_slice_of_it_for_another(tale: Tale) -> None:
    tale.pod("x")
    both = [main(piece("a", whole=True)), main(piece("a", 0), name="other")]
    revision = tale.record("x", entry("x", "n", *both))
    assert {(OVER_ALLOCATION, revision)} == set(tale.said())


def test_two_slices_of_one_card_are_not_two_cards(tale: Tale) -> None:
    tale.pod("x")
    revision = tale.record("x", entry("x", "n", main(piece("a", 10), piece("a", 10))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


# -- cards that fail -----------------------------------------------------------------------------------------------


def test_what_is_given_just_after_the_card_failed_is_forgiven(tale: Tale) -> None:
    tale.node("n", card("a", healthy=False), card("b"))
    tale.recorded_and_bound("x", "n", main(piece("a")))
    assert tale.findings == []
    assert 0 < tale.checker.latest_use < GRACE
    assert tale.checker.forgiven == 1


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda tale: tale.node("n", card("a", healthy=False), card("b")), id="unhealthy"),
        pytest.param(lambda tale: tale.node("n", card("b")), id="vanished"),
        pytest.param(lambda tale: tale.gone(NODES, "n"), id="node deleted"),
    ],
)
def test_nothing_new_on_a_card_that_is_out_of_use(tale: Tale, trouble) -> None:  # type: ignore[no-untyped-def]
    tale.recorded_and_bound("x", "n", main(piece("a")))
    trouble(tale)
    tale.wait(GRACE + 1)
    assert tale.findings == [], "who has it keeps it"
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a"))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_a_card_that_came_back_may_be_given(tale: Tale) -> None:
    tale.node("n", card("b"))
    tale.wait(GRACE + 1)
    tale.node("n", card("a"), card("b"))
    tale.recorded_and_bound("x", "n", main(piece("a")))
    assert tale.findings == []


def test_a_card_of_another_node(tale: Tale) -> None:
    tale.node("m", card("c"))
    tale.pod("x")
    revision = tale.record("x", entry("x", "m", main(piece("a"))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_a_card_that_shrank_keeps_its_holders_and_gets_nothing_new(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 6000)))
    tale.node("n", card("a", memory_mib=5000), card("b"))
    tale.wait(GRACE + 1)
    tale.record("x", entry("x", "n", main(piece("a", 6000))), epoch=2)
    assert tale.findings == []
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 1))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_one_card_under_two_names_is_one_card(tale: Tale) -> None:
    tale.topology("n", card("u"))
    tale.recorded_and_bound("x", "n", main(piece("u", 6000)))
    tale.gone(TOPOLOGIES, "n")
    tale.node("n", card("n/0", card="u"))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("n/0", 6000))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


# -- cards that a device plugin picks ------------------------------------------------------------------------------


def counted(tale: Tale, name: str, gpus: int) -> int:
    tale.pod(name, gpus=gpus)
    return tale.bind(name, "p", {"name": "main", "gpuCount": gpus})


def test_a_device_plugins_cards_are_counted(tale: Tale) -> None:
    counted(tale, "x", 1)
    counted(tale, "y", 1)
    assert tale.findings == []
    revision = counted(tale, "z", 1)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


def test_a_device_plugins_cards_are_free_when_their_pod_ends(tale: Tale) -> None:
    counted(tale, "x", 2)
    tale.phase("x", "Succeeded")
    counted(tale, "y", 2)
    tale.deleted("y")
    counted(tale, "z", 2)
    assert tale.findings == []


def test_a_device_plugin_that_lost_cards(tale: Tale) -> None:
    tale.node("p", gpus=1)
    tale.wait(GRACE + 1)
    revision = counted(tale, "x", 2)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


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
    counted(tale, "x", 1)
    tale.wait(LATE / 2)
    tale.record("x", entry("x", "p", counts={"main": 1}))
    counted(tale, "y", 1)
    tale.wait(LATE / 2)
    tale.deleted("y")
    tale.wait(LATE)
    assert tale.findings == [], "one is recorded in time, the other did not live that long"
    counted(tale, "z", 1)
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
    assert tale.said() == [(MISMATCH, revision)]
    revision = tale.record("h", entry("x", "n"), entry("y", "n"), group="g", least=1)
    assert (MISMATCH, revision) in tale.said(), "it says that one would do"


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
