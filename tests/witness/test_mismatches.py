"""The checker finds bound pods of which no record says the same, in hand-made histories, and nothing else."""

from __future__ import annotations

import pytest

from alnair.api import names
from witness.checker import LATE
from witness.findings import MISMATCH
from witness.requests import Ask, Asked
from witness.tale import MIB, Tale, entry, main, piece, share
from witness.words import RECORDS, Object

breaks, spares = pytest.mark.breaks, pytest.mark.spares

# -- in a record ---------------------------------------------------------------------------------------------------


@breaks("2: in a record")
def test_a_pod_bound_without_a_record(tale: Tale) -> None:
    tale.pod("x")
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: in a record")
def test_a_binding_that_lands_when_the_record_has_let_its_pod_go(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.gone(RECORDS, "ns/x")
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: in a record")
def test_a_pod_bound_by_a_record_that_only_keeps_a_place_like_it(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=1)
    tale.record("g", share("x"), group="g", reserved=[{**share("y"), "id": "r1"}])
    revision = tale.bind_members("x", "y")
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: in a record")
def test_a_pod_bound_without_a_word_of_its_place(tale: Tale) -> None:
    tale.pod("x")
    revision = tale.moved("x", "n")
    assert tale.said() == [(MISMATCH, revision)], "not even a lone pod without GPUs is"


@spares("2: in a record")
def test_a_lone_pod_without_gpus_needs_no_record(tale: Tale) -> None:
    tale.pod("x")
    tale.bind("x", "n")
    tale.wait(LATE + 1)
    assert tale.findings == []


# -- a lone pod of a device plugin's -------------------------------------------------------------------------------


@spares("2: recorded soon, if a device plugin picks")
def test_a_lone_pod_of_a_device_plugins_is_recorded_soon(tale: Tale) -> None:
    tale.counted("x", 1)
    tale.wait(LATE / 2)
    tale.record("x", entry("x", "p", counts={"main": 1}))
    tale.counted("y", 1)
    tale.wait(LATE / 2)
    tale.deleted("y")
    tale.wait(LATE)
    assert tale.findings == [], "one is recorded in time, the other did not live that long"


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param(None, id="no record"),
        pytest.param([], id="an empty one"),
        pytest.param([entry("x", "p", counts={"main": 1}, uid="older!")], id="a namesake's"),
    ],
)
@breaks("2: recorded soon, if a device plugin picks")
def test_a_lone_pod_of_a_device_plugins_that_is_not_recorded_in_time(
    tale: Tale, listed: list[Object] | None
) -> None:
    tale.counted("x", 1)
    if listed is not None:
        tale.record("x", *listed)
    tale.wait(LATE - 1)
    assert tale.findings == []
    revision = tale.wait(2)
    assert tale.said() == [(MISMATCH, revision)]


# -- in one record only --------------------------------------------------------------------------------------------


@breaks("2: in one record only")
def test_a_bound_pod_that_a_second_record_lists(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.record("other", entry("x", "n", main(piece("a"))))
    assert set(tale.said()) == {(MISMATCH, revision)}


@breaks("2: in one record only")
def test_a_pod_in_two_records_before_it_is_bound(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    second = tale.record("other", entry("x", "n", main(piece("a"))))
    bound = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, second), (MISMATCH, bound)]


@breaks("2: in one record only")
def test_a_pod_that_goes_over_to_another_record_before_the_first_has_let_go(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.record("other", entry("x", "n", main(piece("a"))))
    tale.gone(RECORDS, "ns/x")
    assert set(tale.said()) == {(MISMATCH, revision)}


@breaks("2: in one record only")
def test_a_member_in_the_record_of_its_group_and_in_that_of_an_earlier_one_of_that_name(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=1)
    tale.commit("g", "x", least=1)
    tale.bind_members("x")
    revision = tale.commit("g-again", "x", "y", least=1, group="g")
    assert tale.said() == [(MISMATCH, revision)]


@spares("2: in one record only")
def test_a_pod_that_waits_may_go_over_to_another_record_once_the_first_has_let_go(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.gone(RECORDS, "ns/x")
    tale.record("other", entry("x", "n", main(piece("b"))))
    tale.bind("x", "n", main(piece("b")))


# -- the same UID --------------------------------------------------------------------------------------------------


@breaks("2: same UID")
def test_a_record_of_a_namesake_is_no_record(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a")), uid="older!"))
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: same UID")
def test_a_binding_that_meets_the_namesake_who_came_after_the_commit(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.deleted("x")
    tale.pod("x", uid="newer!")
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: same UID")
def test_a_replacement_under_its_forerunners_name_bound_before_the_record_lists_it(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    tale.commit("g", "x", "y", least=2)
    tale.bind_members("x", "y")
    tale.pod("y", group="g", uid="newer!")
    revision = tale.bind_members("y")
    tale.record("g", share("x"), entry("y", "n", main(piece("a")), uid="newer!"), group="g", least=2)
    assert tale.said() == [(MISMATCH, revision)]


@spares("2: same UID")
def test_a_namesake_that_the_record_lists_in_its_forerunners_place(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.pod("x", uid="newer!")
    tale.record("x", entry("x", "n", main(piece("a")), uid="newer!"))
    tale.bind("x", "n", main(piece("a")))


# -- the same node and cards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "containers", "annotated"),
    [
        pytest.param("n", [main(piece("b"))], "", marks=breaks("2: same cards"), id="another card"),
        pytest.param("n", [main(piece("a", 999))], "", marks=breaks("2: same cards"), id="another size"),
        pytest.param("n", [main(piece("a", 1000, 5))], "", marks=breaks("2: same cards"), id="more compute"),
        pytest.param(
            "n", [main(piece("a"), piece("b"))], "", marks=breaks("2: same cards"), id="a card more"
        ),
        pytest.param("n", [], "", marks=breaks("2: same cards"), id="no card"),
        pytest.param(
            "n", [main(piece("a"), name="other")], "", marks=breaks("2: same cards"), id="another container"
        ),
        pytest.param("p", [main(piece("a"))], "", marks=breaks("2: same node"), id="another node"),
        pytest.param(
            "n", [main(piece("a"))], "p", marks=breaks("2: same node"), id="annotation with another node"
        ),
    ],
)
def test_annotations_that_differ_from_the_record(
    tale: Tale, node: str, containers: list[Object], annotated: str
) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    revision = tale.bind("x", node, *containers, annotated=annotated)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: same node")
def test_an_older_binding_that_lands_after_its_pod_was_re_targeted(tale: Tale) -> None:
    tale.node("m")
    tale.gang("g", "x", least=1)
    tale.record("g", entry("x", "n"), group="g")
    tale.record("g", entry("x", "m"), group="g")
    revision = tale.bind("x", "n")
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: same node")
def test_two_members_that_are_bound_each_in_the_others_place(tale: Tale) -> None:
    tale.node("m")
    tale.gang("g", "x", "y", least=2)
    tale.record("g", entry("x", "n"), entry("y", "m"), group="g", least=2)
    first, second = tale.bind("x", "m"), tale.bind("y", "n")
    assert tale.said() == [(MISMATCH, first), (MISMATCH, second)]


@breaks("2: same cards")
def test_a_list_of_cards_that_is_not_that_of_the_slices(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    revision = tale.bind("x", "n", main(piece("a")), listed="b")
    assert tale.said() == [(MISMATCH, revision)]


@spares("2: same node")
@spares("2: same cards")
def test_a_pod_bound_where_it_was_re_targeted_to(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.record("x", entry("x", "n", main(piece("b"), piece("a"))))
    tale.bind("x", "n", main(piece("b"), piece("a")))


# -- committed at an earlier revision ------------------------------------------------------------------------------


@breaks("2: committed at an earlier revision")
def test_a_record_that_is_committed_after_its_pod_was_bound(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", phase="")
    revision = tale.bind("x", "n", main(piece("a")))
    tale.record("x", entry("x", "n", main(piece("a"))))
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: committed at an earlier revision")
def test_a_record_that_is_committed_at_the_very_revision_of_the_bind(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.at_once()
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: committed at an earlier revision")
def test_a_record_that_lists_its_pod_and_was_not_committed(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))), phase="Pending")
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: committed at an earlier revision")
def test_cards_that_were_given_by_the_creation_of_a_record(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))), by_creation=True)
    revision = tale.bind("x", "n", main(piece("a")))
    assert tale.said() == [(MISMATCH, revision)], "a creation cannot be fenced"


@breaks("2: committed at an earlier revision")
def test_a_commit_that_says_otherwise_until_after_the_bind(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("b"))))
    revision = tale.bind("x", "n", main(piece("a")))
    tale.record("x", entry("x", "n", main(piece("a"))))
    assert tale.said() == [(MISMATCH, revision)]


@spares("2: committed at an earlier revision")
def test_a_gang_decided_by_the_creation_of_its_record(tale: Tale) -> None:
    tale.group("g", 1)
    tale.pod("x", group="g", gpus=1)
    tale.record("g", entry("x", "p", counts={"main": 1}), group="g", by_creation=True)
    tale.bind("x", "p", {"name": "main", "gpuCount": 1})
    assert tale.findings == []


@spares("2: committed at an earlier revision")
def test_a_pod_bound_at_the_revision_after_the_commit_and_a_record_stamped_in_between(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.restate("x", epoch=2)
    tale.at_once()
    tale.bind("x", "n", main(piece("a")))
    assert tale.findings == [], "the stamp changed nothing of what was committed before"


# -- and so it stays -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([entry("x", "n", main(piece("b")))], id="another card"),
        pytest.param([entry("x", "n", main(piece("a", 500)))], id="less of it"),
        pytest.param([entry("x", "p", main(piece("a")))], id="another node"),
    ],
)
@breaks("2: and so it stays")
def test_a_record_that_says_otherwise_of_a_bound_pod(tale: Tale, entries: list[Object]) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.record("x", *entries)
    assert (MISMATCH, revision) in tale.said()


@pytest.mark.parametrize(
    ("key", "value"),
    [(names.NODE, "m"), (names.GPU_SLICES, "[]"), (names.GPU_SLICES, "nonsense"), (names.GPU_ID, "b")],
)
@breaks("2: and so it stays")
def test_annotations_that_change_after_the_bind(tale: Tale, key: str, value: str) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.annotate("x", key, value)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: and so it stays")
def test_what_a_bound_container_is_told_is_frozen(tale: Tale) -> None:
    tale.pod("x")
    tale.reading("x", NVIDIA_VISIBLE_DEVICES="k/cards")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.bind("x", "n", main(piece("a")))
    revision = tale.annotate("x", "k/cards", "b")
    assert tale.said() == [(MISMATCH, revision)]


@spares("2: and so it stays")
def test_annotations_of_others_and_the_epoch_may_change(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    tale.annotate("x", "of/others", "b")
    tale.restate("x", phase="Bound", epoch=7)
    tale.phase("x", "Running")


# -- what was asked for --------------------------------------------------------------------------------------------


def given(tale: Tale, asked: Asked, containers: list[Object]) -> int:
    tale.pod("x", asked=asked)
    tale.record("x", entry("x", "n", *containers))
    return tale.bind("x", "n", *containers)


@pytest.mark.parametrize(
    ("asked", "containers"),
    [
        (Asked((Ask("main", memory_mib=1000),)), [main(piece("a"))]),
        (Asked((Ask("main", 2, memory_mib=1000),)), [main(piece("a"), piece("b"))]),
        (Asked((Ask("main", memory_mib=1000, compute=5),)), [main(piece("a", 1000, 5))]),
        (Asked((Ask("main", whole=True),)), [main(piece("a", whole=True))]),
        (Asked((Ask("main", percent=33),)), [main(piece("a", 3300))]),
        (Asked((Ask("main", memory_mib=1000),), models=("A10",)), [main(piece("a"))]),
    ],
)
@spares("2: given what it asked for")
def test_a_pod_that_is_given_what_it_asked_for(tale: Tale, asked: Asked, containers: list[Object]) -> None:
    given(tale, asked, containers)
    assert tale.findings == []


@pytest.mark.parametrize(
    ("asked", "containers"),
    [
        (Asked((Ask("main", memory_mib=1001),)), [main(piece("a"))]),
        (Asked((Ask("main", 2, memory_mib=1000),)), [main(piece("a"))]),
        (Asked((Ask("main", memory_mib=1000, compute=5),)), [main(piece("a"))]),
        (Asked((Ask("main", whole=True),)), [main(piece("a", MIB, 100))]),
        (Asked((Ask("main", percent=33),)), [main(piece("a", 3299))]),
        (Asked((Ask("main", memory_mib=1000),), models=("T4",)), [main(piece("a"))]),
        (Asked((Ask("main", memory_mib=1000),), not_models=("A10",)), [main(piece("a"))]),
        (Asked((Ask("main", memory_mib=1000),), cards=("b",)), [main(piece("a"))]),
        (Asked((Ask("other", memory_mib=1000),)), [main(piece("a"))]),
        (Asked(), [main(piece("a"))]),
    ],
)
@breaks("2: given what it asked for")
def test_a_pod_that_is_not_given_what_it_asked_for(
    tale: Tale, asked: Asked, containers: list[Object]
) -> None:
    revision = given(tale, asked, containers)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("2: given what it asked for")
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
VALUES = {"k/cards": "a", "k/sm": "5", "k/0": "1000m"}


def told(tale: Tale, variables: dict[str, str], values: dict[str, str]) -> int:
    tale.pod("x")
    tale.reading("x", **variables)
    for key, value in values.items():
        tale.annotate("x", key, value)
    tale.record("x", entry("x", "n", main(piece("a", 1000, 5))))
    return tale.bind("x", "n", main(piece("a", 1000, 5)))


@spares("2: told its cards")
def test_a_container_is_told_exactly_its_cards(delivered_tale: Tale) -> None:
    told(delivered_tale, VARIABLES, VALUES)
    assert delivered_tale.findings == []


@pytest.mark.parametrize(
    ("variables", "values"),
    [
        pytest.param(VARIABLES, {**VALUES, "k/cards": "b"}, id="another card"),
        pytest.param(VARIABLES, {**VALUES, "k/cards": "a,b"}, id="a card more"),
        pytest.param(VARIABLES, {**VALUES, "k/0": "999m"}, id="another limit"),
        pytest.param(VARIABLES, {"k/cards": "a", "k/sm": "5"}, id="an empty limit"),
        pytest.param({**VARIABLES, "CUDA_DEVICE_MEMORY_LIMIT_1": "k/0"}, VALUES, id="a limit more"),
        pytest.param({"NVIDIA_VISIBLE_DEVICES": "k/cards"}, VALUES, id="no limit"),
        pytest.param({}, {}, id="nothing"),
    ],
)
@breaks("2: told its cards")
def test_a_container_that_is_not_told_exactly_its_cards(
    delivered_tale: Tale, variables: dict[str, str], values: dict[str, str]
) -> None:
    revision = told(delivered_tale, variables, values)
    assert delivered_tale.said() == [(MISMATCH, revision)]
