"""What is judged beside what the witness judges."""

from __future__ import annotations

from typing import Final

from witness import findings

BELOW_MIN: Final = "below_min"
ABOVE_MAX: Final = "above_max"
UNCOMMITTED: Final = "uncommitted"
FLAP: Final = "flaps"
IDLE: Final = "idle"
UNEXPLAINED: Final = "unexplained"
STARVED: Final = "starved"
RESTLESS: Final = "restless"

KINDS: Final = (
    BELOW_MIN,
    ABOVE_MAX,
    UNCOMMITTED,
    FLAP,
    IDLE,
    UNEXPLAINED,
    STARVED,
    RESTLESS,
    *findings.KINDS,
)
