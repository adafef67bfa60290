"""The judge of sizes finds what is wrong in hand-made histories, at the revision where it happens, and nothing else."""

from __future__ import annotations

import pytest

from elastic.findings import ABOVE_MAX, BELOW_MIN, FLAP, UNCOMMITTED
from elastic.tale import STABILIZATION, Tale
from witness.words import PODS

# -- the operator's numbers ----------------------------------------------------------------------------------------


def test_a_gang_that_grows_to_its_most_and_shrinks_to_its_least_is_fine(tale: Tale) -> None:
    tale.gang("g", least=2, most=4, replicas=2)
    tale.scaled("g", 4)
    tale.wait(STABILIZATION + 1)
    tale.scaled("g", 2)
    assert tale.findings == []
    assert tale.sizes.counts == {"grown": 1, "shrunk": 1}


def test_the_operator_shrinks_a_gang_below_its_least(tale: Tale) -> None:
    tale.gang("g", least=2, most=4, replicas=3)
    revision = tale.scaled("g", 1)
    assert tale.said() == [(BELOW_MIN, revision)]


def test_the_operator_raises_a_gang_to_less_than_its_least(tale: Tale) -> None:
    tale.gang("g", least=3, most=4, replicas=0)
    revision = tale.scaled("g", 2)
    assert tale.said() == [(BELOW_MIN, revision)], (
        "the number was somebody else's, the answer is the operator's"
    )


def test_the_operator_grows_a_gang_above_its_most(tale: Tale) -> None:
    tale.gang("g", least=1, most=2, replicas=2)
    revision = tale.scaled("g", 3)
    assert tale.said() == [(ABOVE_MAX, revision)]


def test_the_operator_answers_a_hand_with_a_number_above_the_most(tale: Tale) -> None:
    tale.gang("g", least=1, most=2, replicas=2)
    tale.scaled("g", 5, by_hand=True)
    assert tale.said() == []
    revision = tale.scaled("g", 4)
    assert tale.said() == [(ABOVE_MAX, revision)]


@pytest.mark.parametrize("replicas", [0, 9])
def test_a_hand_beyond_the_bounds_is_no_fault_of_the_operator(tale: Tale, replicas: int) -> None:
    tale.gang("g", least=2, most=4, replicas=3)
    tale.scaled("g", replicas, by_hand=True)
    tale.scaled("g", 2 if not replicas else 4)
    assert tale.findings == []
    assert tale.sizes.counts == {"by hand": 1, "corrected": 1}


# -- members -------------------------------------------------------------------------------------------------------


def bound(tale: Tale, number: int) -> list[int]:
    return [tale.pod(f"p{place}", gang="g", node="own") for place in range(number)]


def test_one_member_more_than_the_most_is_bound(tale: Tale) -> None:
    tale.gang("g", least=1, most=2, replicas=3)
    revisions = bound(tale, 3)
    assert tale.said() == [(ABOVE_MAX, revisions[-1])]


def test_members_that_wait_beyond_the_most_are_fine(tale: Tale) -> None:
    tale.gang("g", least=1, most=2, replicas=3)
    bound(tale, 2)
    tale.pod("p3", gang="g")
    assert tale.findings == []


def test_terminating_and_ended_members_make_room_for_others(tale: Tale) -> None:
    tale.gang("g", least=1, most=2, replicas=2)
    bound(tale, 2)
    tale.pod("p0", gang="g", node="own", deletionTimestamp="2026-01-01T00:00:00Z")
    tale.ended("p1", "Failed")
    tale.pod("p2", gang="g", node="own")
    tale.pod("p3", gang="g", node="own")
    assert tale.findings == []
    assert [(ABOVE_MAX, tale.pod("p4", gang="g", node="own"))] == tale.said()


def test_members_of_another_namespace_are_others(tale: Tale) -> None:
    tale.gang("g", least=1, most=1, replicas=1)
    bound(tale, 1)
    meta = {"uid": "x", "name": "x", "namespace": "other", "labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    spec = {"schedulerName": "alnair", "nodeName": "own", "containers": [{"name": "main"}]}
    tale.change(PODS, "other/x", {"metadata": meta, "spec": spec})
    assert tale.findings == []


def test_a_lost_member_that_is_replaced_is_counted_and_one_that_was_taken_back_is_not(tale: Tale) -> None:
    tale.gang("g", least=1, most=3, replicas=3)
    bound(tale, 3)
    tale.deleted("p0")
    tale.pod("p0", gang="g", node="own", uid="again")
    assert tale.sizes.counts["replaced"] == 1
    tale.scaled("g", 2)
    tale.deleted("p2")
    tale.wait(STABILIZATION + 1)
    tale.scaled("g", 3)
    tale.pod("p2", gang="g", node="own", uid="grown")
    assert tale.sizes.counts == {"replaced": 1, "shrunk": 1, "grown": 1}


# -- places before replicas ----------------------------------------------------------------------------------------


def test_a_gang_that_runs_grows_into_places_that_its_record_holds(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=4)
    tale.holding("g", {"g-0": "a", "+1": "b"})
    tale.scaled("g", 2)
    assert tale.findings == []


def test_the_replicas_of_a_gang_that_runs_are_raised_without_a_place(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=4)
    revision = tale.scaled("g", 2)
    assert tale.said() == [(UNCOMMITTED, revision)]


def test_the_replicas_of_a_gang_that_runs_are_raised_by_more_than_there_are_places(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=4)
    tale.holding("g", {"g-0": "a", "+1": "b"})
    revision = tale.scaled("g", 3)
    assert tale.said() == [(UNCOMMITTED, revision)]


def test_a_member_on_its_way_out_holds_no_place_for_another(tale: Tale) -> None:
    tale.running("g", "ab", least=1, most=4)
    tale.pod("g-1", gang="g", node="own", deletionTimestamp="2026-01-01T00:00:00Z")
    tale.scaled("g", 1)
    tale.wait(STABILIZATION + 1)
    revision = tale.scaled("g", 2)
    assert tale.said() == [(UNCOMMITTED, revision)]


# -- flaps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(4, 2), (2, 4), (4, 3), (2, 3)])
def test_a_change_that_is_undone_too_soon(tale: Tale, first: int, second: int) -> None:
    tale.gang("g", least=1, most=5, replicas=3)
    tale.scaled("g", first)
    tale.wait(STABILIZATION - 2)
    revision = tale.scaled("g", second)
    assert tale.said() == [(FLAP, revision)]


def test_a_change_is_not_undone_too_soon_where_only_the_historys_clock_stood_still(tale: Tale) -> None:
    tale.gang("g", least=1, most=5, replicas=3)
    tale.scaled("g", 4)
    tale.wait(STABILIZATION - 4, away=5)
    tale.scaled("g", 2)
    assert tale.said() == []


def test_an_outage_excuses_no_more_than_it_took(tale: Tale) -> None:
    tale.gang("g", least=1, most=5, replicas=3)
    tale.scaled("g", 4)
    tale.wait(STABILIZATION - 6, away=2)
    revision = tale.scaled("g", 2)
    assert tale.said() == [(FLAP, revision)]


def test_a_change_that_is_undone_in_steps_is_undone_at_the_first(tale: Tale) -> None:
    tale.gang("g", least=1, most=5, replicas=1)
    tale.scaled("g", 3)
    tale.wait(5)
    tale.scaled("g", 5)
    tale.wait(5)
    revision = tale.scaled("g", 4)
    assert tale.said() == [(FLAP, revision)], "the last growth was five seconds ago, whenever the first was"


def test_changes_in_one_direction_are_no_flaps(tale: Tale) -> None:
    tale.gang("g", least=1, most=5, replicas=1)
    for replicas in (2, 3, 5):
        tale.scaled("g", replicas)
    assert tale.findings == []


def test_a_hand_between_two_changes_starts_anew(tale: Tale) -> None:
    tale.gang("g", least=1, most=5, replicas=1)
    tale.scaled("g", 4)
    tale.scaled("g", 3, by_hand=True)
    tale.scaled("g", 2)
    assert tale.findings == []


def test_the_answer_to_a_hand_beyond_the_bounds_is_no_change_of_ours(tale: Tale) -> None:
    tale.gang("g", least=1, most=3, replicas=1)
    tale.scaled("g", 9, by_hand=True)
    tale.scaled("g", 3)
    tale.scaled("g", 2)
    assert tale.findings == []
    assert [(FLAP, tale.scaled("g", 3))] == tale.said(), "but what follows is judged"


def test_gangs_are_judged_each_by_itself(tale: Tale) -> None:
    for name in ("g", "h"):
        tale.gang(name, least=1, most=5, replicas=3)
    tale.scaled("g", 4)
    tale.scaled("h", 2)
    assert tale.findings == []
