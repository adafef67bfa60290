"""The checker finds pods that are bound twice and epochs that go back, in hand-made histories, and nothing else."""

from __future__ import annotations

import pytest

from witness.findings import MISMATCH
from witness.tale import Tale, entry, main, piece, share
from witness.words import RECORDS

breaks, spares = pytest.mark.breaks, pytest.mark.spares

# -- bound once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", ["p", "elsewhere", ""])
@breaks("5: bound once")
def test_a_bound_pod_that_is_bound_again_or_no_more(tale: Tale, node: str) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.moved("x", node)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("5: bound once")
def test_a_bound_pod_that_is_bound_again_as_its_record_says(tale: Tale) -> None:
    tale.node("m")
    tale.gang("g", "x", least=1)
    tale.record("g", entry("x", "n"), group="g")
    tale.bind("x", "n")
    moved = tale.record("g", entry("x", "m"), group="g")
    revision = tale.bind("x", "m")
    assert tale.said() == [(MISMATCH, moved), (MISMATCH, revision)]


@breaks("5: bound once")
def test_a_pod_that_has_ended_and_is_bound_again(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    tale.phase("x", "Failed")
    tale.gone(RECORDS, "ns/x")
    revision = tale.moved("x", "p")
    assert tale.said() == [(MISMATCH, revision)]


@breaks("5: bound once")
def test_a_second_binding_to_the_same_node_with_another_card(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.bind("x", "n", main(piece("b")))
    assert tale.said() == [(MISMATCH, revision)]


@spares("5: bound once")
def test_a_namesake_that_is_bound_elsewhere_is_another_pod(tale: Tale) -> None:
    tale.node("m")
    tale.pod("x")
    tale.bind("x", "n")
    tale.phase("x", "Running")
    tale.pod("x", uid="newer!")
    tale.bind("x", "m")


@spares("5: bound once")
def test_a_binding_that_is_carried_out_twice_is_one(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    tale.bind("x", "n", main(piece("a")))


# -- the epoch -----------------------------------------------------------------------------------------------------


@breaks("5: the epoch never goes back")
def test_an_epoch_that_goes_back(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", epoch=4)
    revision = tale.record("x", epoch=3)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("5: the epoch never goes back")
def test_a_commit_of_a_leader_whose_record_a_successor_has_stamped(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    tale.record("g", group="g", least=2, phase="Pending", epoch=1)
    tale.restate("g", epoch=2)
    revision = tale.record("g", share("x"), share("y"), group="g", least=2, epoch=1)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("5: the epoch never goes back")
def test_a_record_settled_by_a_leader_that_was_paused(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    for epoch in (5, 6):
        tale.restate("x", epoch=epoch)
    revision = tale.restate("x", phase="Bound", epoch=5)
    tale.restate("x", epoch=7)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("5: the epoch never goes back")
def test_a_record_that_says_no_epoch_any_more(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.restate("x", epoch=None)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("5: the epoch never goes back")
def test_a_status_older_than_the_plan_that_its_record_was_created_with(tale: Tale) -> None:
    tale.gang("g", "x", least=1)
    one = entry("x", "p", counts={"main": 1})
    tale.record("g", one, group="g", epoch=3, by_creation=True)
    revision = tale.record("g", one, group="g", epoch=2)
    assert tale.said() == [(MISMATCH, revision)]


@spares("5: the epoch never goes back")
def test_an_epoch_that_stays_or_grows_and_a_record_made_anew(tale: Tale) -> None:
    tale.pod("x")
    for epoch in (4, 4, 9):
        tale.record("x", epoch=epoch)
    tale.record("y", epoch=1)
    tale.gone(RECORDS, "ns/x")
    tale.record("x", epoch=3, uid="again=")
