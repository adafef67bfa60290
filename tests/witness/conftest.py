"""A small cluster for hand-made histories. What a test's marks say of its history must be what the checker says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from witness.clauses import CLAUSES
from witness.tale import Tale, card


@pytest.fixture
def tale(request: pytest.FixtureRequest) -> Iterator[Tale]:
    """A node `n` with two cards of 10,000 MiB, a device plugin's node `p` with two."""
    told = Tale()
    told.node("n", card("a"), card("b"))
    told.node("p", gpus=2)
    yield told
    _as_marked(request, told)


@pytest.fixture
def delivered_tale(request: pytest.FixtureRequest) -> Iterator[Tale]:
    """The same without `p`; pods have to be told their cards by their environment."""
    told = Tale(delivering=True)
    told.node("n", card("a"), card("b"))
    yield told
    _as_marked(request, told)


def _as_marked(request: pytest.FixtureRequest, told: Tale) -> None:
    broken = [mark.args[0] for mark in request.node.iter_markers("breaks")]
    found = {finding.kind for finding in told.findings}
    for clause in broken:
        assert found & set(CLAUSES[clause]), f"it breaks {clause}, and the checker found {told.findings}"
    if not broken and request.node.get_closest_marker("spares"):
        assert not found, f"it is right, and the checker found {told.findings}"
