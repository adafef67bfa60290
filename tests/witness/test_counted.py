"""The checker counts whole cards that a device plugin picks, in hand-made histories: in use, promised, out of reach."""

from __future__ import annotations

import pytest

from witness.checker import GRACE
from witness.findings import MISMATCH, OVER_ALLOCATION
from witness.tale import Tale, entry, main, piece, place

breaks, spares = pytest.mark.breaks, pytest.mark.spares


@breaks("1: cards by number")
def test_a_device_plugins_cards_are_counted(tale: Tale) -> None:
    tale.counted("x", 1)
    tale.counted("y", 1)
    assert tale.findings == []
    revision = tale.counted("z", 1)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@spares("1: cards by number")
def test_a_device_plugins_cards_are_free_when_their_pod_ends(tale: Tale) -> None:
    tale.counted("x", 2)
    tale.phase("x", "Succeeded")
    tale.counted("y", 2)
    tale.deleted("y")
    tale.counted("z", 2)
    assert tale.findings == []


@breaks("1: cards by number")
def test_a_device_plugin_that_lost_cards(tale: Tale) -> None:
    tale.node("p", gpus=1)
    tale.wait(GRACE + 1)
    revision = tale.counted("x", 2)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: cards by number")
def test_cards_by_number_of_a_pod_that_terminates_are_not_free(tale: Tale) -> None:
    tale.counted("x", 2)
    tale.terminating("x")
    revision = tale.counted("y", 1)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: cards by number")
def test_cards_by_number_of_a_pod_that_may_run_on_out_of_reach_are_not_free(tale: Tale) -> None:
    tale.counted("x", 2)
    tale.record("x", entry("x", "p", counts={"main": 2}))
    tale.node("p", gpus=2, ready=False)
    tale.wait(GRACE + 1)
    tale.deleted("x")
    revision = tale.counted("y", 1)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@spares("1: cards by number")
def test_cards_by_number_of_a_pod_that_was_out_of_reach_are_free_once_its_node_is_back(tale: Tale) -> None:
    tale.counted("x", 2)
    tale.record("x", entry("x", "p", counts={"main": 2}))
    tale.node("p", gpus=2, ready=False)
    tale.wait(GRACE + 1)
    tale.deleted("x")
    tale.node("p", gpus=2)
    tale.counted("y", 2)


@breaks("1: cards by number")
def test_cards_by_number_that_are_promised_count_beside_those_in_use(tale: Tale) -> None:
    tale.counted("z", 1)
    kept = [place(number, "p", counts={"main": 1}) for number in (1, 2)]
    tale.grown(kept[0])
    assert tale.findings == []
    revision = tale.record("g", entry("x", "n", main(piece("a", 4000))), group="g", reserved=kept)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: cards by number")
def test_a_pod_is_not_bound_where_the_last_card_by_number_is_promised(tale: Tale) -> None:
    tale.grown(place(1, "p", counts={"main": 1}), place(2, "p", counts={"main": 1}))
    revision = tale.counted("y", 1)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


# -- what somebody else binds ----------------------------------------------------------------------------------------


@breaks("1: cards by number")
def test_cards_that_somebody_else_has_taken_long_since_are_not_free(tale: Tale) -> None:
    tale.stolen("theirs", "p", gpus=2)
    tale.wait(GRACE + 1)
    revision = tale.counted("x", 1)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@spares("1: cards by number")
def test_cards_that_somebody_else_takes_a_moment_before_could_not_be_known_of(tale: Tale) -> None:
    tale.stolen("theirs", "p", gpus=2)
    tale.counted("x", 1)
    assert tale.findings == []


# -- a plan that came too late ---------------------------------------------------------------------------------------


@spares("1: cards by number")
def test_a_plan_that_is_created_when_somebody_else_leads_promises_nothing(tale: Tale) -> None:
    tale.leads(1)
    tale.pod("late", gpus=1)
    tale.leads(2)
    tale.counted("x", 2)
    tale.record("late", entry("late", "p", counts={"main": 1}), by_creation=True)
    assert tale.findings == []


@breaks("1: cards by number")
def test_a_plan_that_is_created_in_time_promises_its_cards_though_somebody_else_leads_later(
    tale: Tale,
) -> None:
    tale.leads(1)
    tale.pod("first", gpus=1)
    tale.record("first", entry("first", "p", counts={"main": 1}), by_creation=True)
    tale.leads(2)
    revision = tale.counted("x", 2)
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("3: no member before its gang's commit")
def test_a_member_is_not_bound_by_a_plan_that_came_too_late(tale: Tale) -> None:
    tale.group("g", 1)
    tale.pod("late", group="g", gpus=1)
    tale.leads(2)
    tale.record("g", entry("late", "p", counts={"main": 1}), group="g", by_creation=True)
    revision = tale.bind("late", "p", {"name": "main", "gpuCount": 1})
    assert tale.said() == [(MISMATCH, revision)]
