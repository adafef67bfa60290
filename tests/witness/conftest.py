"""A small cluster for hand-made histories."""

from __future__ import annotations

import pytest

from witness.tale import Tale, card


@pytest.fixture
def tale() -> Tale:
    """A node `n` with two cards of 10,000 MiB, a device plugin's node `p` with two."""
    told = Tale()
    told.node("n", card("a"), card("b"))
    told.node("p", gpus=2)
    return told
