"""Who is where, as a planner scribbles on it: for a moment pods come that are not there, and others go that are."""

from __future__ import annotations

import pytest

from alnair.state import company as module
from alnair.state.company import Company
from alnair.state.selectors import PodSet, PodTerm, Requirement, Selector
from alnair.state.shapes import APART, EVERY_IP, HostPort, PodClass, PodShape

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


def brings(*ports: int, far_from: int = 0) -> PodClass:
    """Host ports, and a term against pods with so many labels."""
    labels = tuple(Requirement(f"l{number}", "Exists") for number in range(far_from))
    term = PodTerm(PodSet(("a",), Selector(labels)), "k")
    shape = PodShape(
        requests=(("cpu", 1),),
        ports=tuple(HostPort("TCP", EVERY_IP, port) for port in ports),
        apart=(term,) if far_from else (),
    )
    return PodClass(shape, namespace="a")


def test_of_what_pods_brought_nothing_is_kept_when_the_last_has_left() -> None:
    found = company()
    pod = brings(*range(1, 100), far_from=3)
    found.come(0, pod)
    assert found.brought(pod.shape.ports[0].kind)
    found.leave(0, pod)
    assert not any((found._brought, found._editions, found._keys))


def test_terms_that_go_and_come_again_mean_whom_they_mean_then() -> None:
    found, asked = company(), PodClass(POD.shape, namespace="a", labels={"l0": "x"})
    pods = brings(far_from=1), brings(far_from=2)
    found.come(0, pods[0])
    assert len(found.meaning(APART, asked)) == 1
    found.leave(0, pods[0])
    found.come(0, pods[1])
    assert found.meaning(APART, asked) == ()


def test_what_is_remembered_of_pods_with_many_labels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WORDS_MEANT", 1000)
    found = company()
    found.come(0, brings(far_from=100))
    for number in range(50):
        found.meaning(APART, PodClass(POD.shape, namespace="a", labels={"l0": str(number)}))
        assert len(found._meaning) <= 11
