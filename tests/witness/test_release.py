"""The checker finds places that are kept for nobody, or taken from who still has them, in hand-made histories."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from witness.checker import GRACE, RELEASE
from witness.findings import LEAK, MISMATCH, OVER_ALLOCATION
from witness.tale import Tale, card, entry, main, piece, place
from witness.words import NODES, RECORDS

breaks, spares = pytest.mark.breaks, pytest.mark.spares

Told = Callable[[Tale], int]


def held(tale: Tale) -> None:
    """The pod x has more than half of the card a."""
    tale.recorded_and_bound("x", "n", main(piece("a", 6000)))


def ending(tale: Tale, how: str) -> None:
    held(tale)
    match how:
        case "deleted":
            tale.deleted("x")
        case "succeeded":
            tale.phase("x", "Succeeded")
        case "failed while it terminated":
            tale.terminating("x")
            tale.phase("x", "Failed")
        case "a namesake came":
            tale.pod("x", uid="newer!")


ENDINGS = ["deleted", "succeeded", "failed while it terminated", "a namesake came"]

# -- kept for nobody -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ENDINGS)
@breaks("4: released within the release time")
def test_a_place_kept_for_a_pod_that_is_long_gone(tale: Tale, how: str) -> None:
    ending(tale, how)
    tale.wait(RELEASE - 1)
    assert tale.findings == []
    revision = tale.wait(2)
    assert tale.said() == [(LEAK, revision)]


@breaks("4: released within the release time")
def test_a_place_given_to_a_pod_that_was_gone_already(tale: Tale) -> None:
    tale.pod("x")
    tale.deleted("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    revision = tale.wait(RELEASE + 1)
    assert tale.said() == [(LEAK, revision)]


@breaks("4: released within the release time")
def test_a_place_given_to_a_pod_that_never_was(tale: Tale) -> None:
    tale.record("x", entry("x", "n", main(piece("a"))))
    revision = tale.wait(RELEASE + 1)
    assert tale.said() == [(LEAK, revision)]


@breaks("4: released within the release time")
def test_a_lost_members_place_in_a_gang_that_goes_on(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    tale.commit("g", "x", "y", least=2)
    tale.bind_members("x", "y")
    tale.deleted("y")
    tale.wait(RELEASE - 1)
    tale.restate("g", phase="Bound")
    revision = tale.wait(2)
    assert tale.said() == [(LEAK, revision)], "another word of the record is no release"


@spares("4: released within the release time")
def test_a_place_released_in_time(tale: Tale) -> None:
    ending(tale, "deleted")
    tale.wait(3)
    tale.gone(RECORDS, "ns/x")
    tale.wait(RELEASE + 1)
    assert tale.findings == []
    assert 3 <= tale.checker.longest_release < 4


@spares("4: released within the release time")
def test_a_pod_that_terminates_for_long_is_not_gone(tale: Tale) -> None:
    held(tale)
    tale.terminating("x")
    tale.wait(RELEASE + 1)


@pytest.mark.parametrize("how", ENDINGS)
@breaks("4: released at rest")
def test_a_pod_that_is_gone_is_listed_by_no_record_at_rest(tale: Tale, how: str) -> None:
    ending(tale, how)
    revision = tale.rest()
    assert tale.said() == [(LEAK, revision)]


@breaks("4: released at rest")
def test_a_pod_that_never_was_is_listed_by_no_record_at_rest(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a")), uid="older!"))
    revision = tale.rest()
    assert tale.said() == [(LEAK, revision)]


@spares("4: released at rest")
def test_a_pod_that_terminates_or_waits_may_be_listed_at_rest(tale: Tale) -> None:
    held(tale)
    tale.terminating("x")
    tale.pod("y")
    tale.record("y", entry("y", "n", main(piece("b"))))
    tale.rest()


# -- a record that nobody is there for -----------------------------------------------------------------------------


def emptied(tale: Tale) -> int:
    """The pod is gone, its record lets it go, and stays."""
    ending(tale, "deleted")
    return tale.record("x", phase="Bound")


def never_filled(tale: Tale) -> int:
    """The record is made, and its pod goes before the commit."""
    tale.pod("x")
    tale.record("x", phase="")
    return tale.deleted("x")


def made_too_late(tale: Tale) -> int:
    """A creation of which nobody knew lands when the pod is gone."""
    tale.pod("x")
    tale.deleted("x")
    return tale.record("x", phase="")


def of_a_gang(tale: Tale) -> int:
    """All members go, one after the other, and the record, which waits for replacements, stays."""
    tale.gang("g", "x", "y", least=2)
    tale.commit("g", "x", "y", least=2)
    tale.commit("g", least=2)
    tale.deleted("x")
    tale.wait(RELEASE + 1)
    return tale.deleted("y")


@pytest.mark.parametrize("left", [emptied, never_filled, made_too_late, of_a_gang])
@pytest.mark.parametrize("at_rest", [True, False], ids=["at rest", "for long"])
@breaks("4: no record that nobody is there for")
def test_an_empty_record_that_outlives_its_pods(tale: Tale, left: Told, at_rest: bool) -> None:
    left(tale)
    assert tale.findings == []
    revision = tale.rest() if at_rest else tale.wait(RELEASE + 1)
    assert tale.said() == [(LEAK, revision)]


@spares("4: no record that nobody is there for")
def test_an_empty_record_of_a_pod_that_waits(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", phase="")
    tale.gang("g", "y", "z", least=2)
    tale.commit("g", least=2)
    tale.deleted("y")
    tale.wait(RELEASE + 1)
    tale.rest()


@spares("4: no record that nobody is there for")
def test_an_empty_record_that_goes_in_time_or_whose_gang_comes_back(tale: Tale) -> None:
    never_filled(tale)
    tale.gang("g", "y", least=1)
    tale.commit("g", least=1)
    tale.deleted("y")
    tale.wait(RELEASE - 1)
    tale.gone(RECORDS, "ns/x")
    tale.pod("z", group="g")
    tale.wait(RELEASE + 1)


# -- taken from who has it -----------------------------------------------------------------------------------------


def removed(tale: Tale) -> int:
    return tale.gone(RECORDS, "ns/x")


def dropped(tale: Tale) -> int:
    return tale.record("x")


def kept_for_another(tale: Tale) -> int:
    return tale.record("x", reserved=[place(1, "n", main(piece("a", 6000)))])


def given_to_another(tale: Tale) -> int:
    """In one write of its record."""
    tale.pod("y")
    return tale.record("x", entry("y", "n", main(piece("a", 6000))))


def given_to_a_namesake(tale: Tale) -> int:
    return tale.record("x", entry("x", "n", main(piece("a", 6000)), uid="newer!"))


def cut_down(tale: Tale) -> int:
    return tale.record("x", entry("x", "n", main(piece("a", 10))))


def moved_away(tale: Tale) -> int:
    return tale.record("x", entry("x", "n", main(piece("b", 6000))))


def given_twice(tale: Tale) -> int:
    """Its own record still lists it."""
    tale.pod("y")
    return tale.record("y", entry("y", "n", main(piece("a", 6000))))


TAKEN = [removed, dropped, kept_for_another, given_to_another, given_to_a_namesake, cut_down, moved_away]


@pytest.mark.parametrize("taken", TAKEN)
@breaks("4: kept while its pod is bound")
def test_a_slice_taken_from_a_pod_that_is_bound(tale: Tale, taken: Told) -> None:
    held(tale)
    revision = taken(tale)
    assert tale.said() == [(MISMATCH, revision)]


@pytest.mark.parametrize("taken", TAKEN)
@breaks("4: kept while its pod terminates")
def test_a_slice_taken_from_a_pod_that_terminates(tale: Tale, taken: Told) -> None:
    held(tale)
    tale.phase("x", "Running")
    tale.terminating("x")
    tale.wait(RELEASE + 1)
    revision = taken(tale)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("4: kept while its pod terminates")
def test_a_slice_given_twice_while_its_pod_terminates(tale: Tale) -> None:
    held(tale)
    tale.terminating("x")
    revision = given_twice(tale)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("4: kept while its pod terminates")
def test_a_gangs_slices_given_up_while_one_of_its_members_terminates(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    tale.commit("g", "x", "y", least=2)
    tale.bind_members("x", "y")
    for name in ("x", "y"):
        tale.terminating(name)
    tale.deleted("x")
    revision = tale.gone(RECORDS, "ns/g")
    assert tale.said() == [(MISMATCH, revision)]


@spares("4: kept while its pod is bound")
def test_a_slice_of_an_unbound_or_ended_pod_may_be_released(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a"))))
    tale.gone(RECORDS, "ns/x")
    tale.recorded_and_bound("y", "n", main(piece("a")))
    tale.phase("y", "Failed")
    tale.gone(RECORDS, "ns/y")


@pytest.mark.parametrize("ended", ["deleted", "succeeded", "never bound"])
@spares("4: kept while its pod terminates")
def test_a_slice_of_a_pod_that_terminated_may_be_given_to_others_once_it_has_ended(
    tale: Tale, ended: str
) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a", 6000))))
    if ended != "never bound":
        tale.bind("x", "n", main(piece("a", 6000)))
    tale.terminating("x")
    if ended == "deleted":
        tale.deleted("x")
    elif ended == "succeeded":
        tale.phase("x", "Succeeded")
    given_to_another(tale)


# -- out of reach --------------------------------------------------------------------------------------------------


def out_of_reach(tale: Tale, seconds: float = GRACE + 1) -> None:
    """The pod x is deleted by force on a node that is not ready for so long."""
    held(tale)
    tale.node("n", card("a"), card("b"), ready=False)
    tale.wait(seconds)
    tale.deleted("x")


@pytest.mark.parametrize("taken", TAKEN)
@breaks("4: kept while its pod is out of reach")
def test_a_slice_taken_from_a_pod_that_may_run_on_out_of_reach(tale: Tale, taken: Told) -> None:
    out_of_reach(tale)
    revision = taken(tale)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("4: kept while its pod is out of reach")
def test_a_slice_given_twice_while_its_pod_may_run_on(tale: Tale) -> None:
    out_of_reach(tale)
    revision = given_twice(tale)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("4: kept while its pod is out of reach")
def test_a_slice_released_because_a_namesake_came(tale: Tale) -> None:
    held(tale)
    tale.node("n", card("a"), card("b"), ready=False)
    tale.wait(GRACE + 1)
    tale.terminating("x")
    tale.pod("x", uid="newer!")
    revision = tale.gone(RECORDS, "ns/x")
    assert tale.said() == [(MISMATCH, revision)]


@pytest.mark.parametrize("how", ["ready again", "gone", "just lost", "ended before"])
@spares("4: kept while its pod is out of reach")
def test_it_may_be_released_once_the_node_is_ready_or_gone_or_if_nobody_could_know(
    tale: Tale, how: str
) -> None:
    if how == "ended before":
        held(tale)
        tale.phase("x", "Failed")
        tale.node("n", card("a"), card("b"), ready=False)
        tale.wait(GRACE + 1)
        tale.deleted("x")
    else:
        out_of_reach(tale, seconds=GRACE / 2 if how == "just lost" else GRACE + 1)
    if how == "ready again":
        tale.node("n", card("a"), card("b"))
    elif how == "gone":
        tale.gone(NODES, "n")
    tale.gone(RECORDS, "ns/x")


@spares("4: released at rest")
@breaks("4: released within the release time")
def test_what_is_out_of_reach_is_no_leak_until_the_node_is_back(tale: Tale) -> None:
    out_of_reach(tale)
    tale.wait(RELEASE + 1)
    tale.rest()
    tale.checker.stirs("ns")
    assert tale.findings == []
    tale.node("n", card("a"), card("b"))
    revision = tale.wait(RELEASE + 1)
    assert tale.said() == [(LEAK, revision)]
