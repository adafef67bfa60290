"""What the checker reports: one finding for each promise that a revision breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

OVER_ALLOCATION: Final = "over_allocations"
MISMATCH: Final = "mismatches"
LEAK: Final = "leaks"
HALF_GANG: Final = "half_gangs"
KINDS: Final = (OVER_ALLOCATION, MISMATCH, LEAK, HALF_GANG)
NOISE: Final = "noises"
"""Something was written where all was at rest; only who tells the checker of rest can have such a finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    revision: int
    objects: tuple[str, ...]
    what: str

    def __str__(self) -> str:
        return f"{self.kind} at revision {self.revision}: {self.what} [{', '.join(self.objects)}]"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a run that was judged: what was found, and what is told at its end."""

    findings: list[Finding]
    figures: dict[str, Any]

    @property
    def clean(self) -> bool:
        return not self.findings
