"""Who is where, as a planner scribbles on it: for a moment pods come that are not there, and others go that are."""

from __future__ import annotations

from alnair.state.company import Company
from alnair.state.selectors import PodSet, Selector
from alnair.state.shapes import PodClass, PodShape

POD = PodClass(PodShape(requests=(("cpu", 1),)), namespace="a")
ALL, THE_SAME = PodSet(("a",), Selector()), PodSet(("a", "b"), Selector())


def company() -> Company:
    found = Company(lambda: [(0, POD), (0, POD)])
    found.resize(2)
    return found


def test_who_is_taken_away_for_a_moment_is_not_counted_and_leaves_no_trace_when_put_back() -> None:
    found = company()
    assert found.count(ALL).tolist() == [2, 0]
    for _ in range(3):
        found.end_visit(0, POD)
        assert found.count(ALL).tolist() == [1, 0]
        found.visit(0, POD)
    assert found.count(ALL).tolist() == [2, 0]
    # A set that is first asked about now is counted from all who are there and all who visit.
    assert found.count(THE_SAME).tolist() == [2, 0]


def test_a_set_first_asked_about_while_somebody_is_away_is_right_then_and_later() -> None:
    found = company()
    found.end_visit(0, POD)
    found.visit(1, POD)
    assert found.count(ALL).tolist() == [1, 1]
    found.end_visit(1, POD)
    found.visit(0, POD)
    assert found.count(ALL).tolist() == [2, 0]
