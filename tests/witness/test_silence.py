"""The checker finds what is written where all is at rest, in hand-made histories, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from witness.findings import NOISE
from witness.tale import Tale, card
from witness.words import PODS, RECORDS

breaks, spares = pytest.mark.breaks, pytest.mark.spares


@pytest.fixture
def calm(tale: Tale) -> Tale:
    """A gang of two is bound, and all is at rest."""
    tale.gang("g", "x", "y", least=2)
    tale.commit("g", "x", "y", least=2)
    tale.bind_members("x", "y")
    tale.rest()
    return tale


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda tale: tale.restate("g", phase="Bound"), id="a record settled late"),
        pytest.param(lambda tale: tale.restate("g"), id="a record that says the same again"),
        pytest.param(lambda tale: tale.restate("g", epoch=2), id="a record stamped"),
        pytest.param(lambda tale: tale.gone(RECORDS, "ns/none"), id="a record removed"),
        pytest.param(lambda tale: tale.pod("late"), id="a pod made"),
        pytest.param(lambda tale: tale.annotate("x", "some/key", "value"), id="a pod annotated"),
        pytest.param(lambda tale: tale.gone(PODS, "ns/none"), id="a pod removed"),
        pytest.param(lambda tale: tale.group("g", 2), id="a group's status"),
    ],
)
@breaks("6: silence")
def test_a_write_where_all_is_at_rest(calm: Tale, write: Callable[[Tale], int]) -> None:
    revision = write(calm)
    assert calm.said() == [(NOISE, revision)]


@breaks("6: silence")
def test_writes_that_never_end(calm: Tale) -> None:
    revisions = []
    for _ in range(3):
        calm.wait(10)
        revisions.append(calm.restate("g"))
    assert calm.said() == [(NOISE, revision) for revision in revisions], "each is found"


@breaks("6: silence")
def test_a_write_at_the_second_rest_and_none_in_between(calm: Tale) -> None:
    calm.checker.stirs("ns")
    calm.annotate("x", "some/key", "value")
    calm.rest()
    revision = calm.annotate("x", "some/key", "other")
    assert calm.said() == [(NOISE, revision)]


@spares("6: silence")
def test_elsewhere_later_and_by_leases_and_nodes_anything_may_be_written(tale: Tale) -> None:
    tale.rest("other")
    tale.pod("z")
    tale.rest()
    tale.node("n", card("a"))
    tale.wait(1)
    tale.checker.stirs("ns")
    tale.pod("zz")
