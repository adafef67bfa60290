"""Short pauses for every test in here."""

from __future__ import annotations

import pytest

from alnair.extender import binding, waiting
from unit.control.world import short_pauses

__all__ = ["short_pauses"]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "SEEN_SECONDS", 0.2)
    monkeypatch.setattr(binding, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(waiting, "ROUND_SECONDS", 0.002)
