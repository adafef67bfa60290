"""A small cluster for hand-made histories."""

from __future__ import annotations

import pytest

from elastic.tale import Tale


@pytest.fixture
def tale() -> Tale:
    return Tale()
