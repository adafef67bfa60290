"""Short pauses for every test in here."""

from __future__ import annotations

from unit.control.world import short_pauses

__all__ = ["short_pauses"]
