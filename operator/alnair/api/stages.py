"""When the containers of a pod run: what decides which of their demands stand beside each other.

Ordinary init containers run one after another, each beside the sidecars (init containers that restart always) that
were started before it; then all sidecars and all ordinary containers run together. So a pod never uses the sum of
all that its containers ask for, but the largest of these moments, as Kubernetes counts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeVar

Stage = Literal["", "Init", "Sidecar"]

MAIN: Final = ""  # an ordinary container
INIT: Final = "Init"
SIDECAR: Final = "Sidecar"


class Staged(Protocol):
    @property
    def stage(self) -> Stage: ...


S = TypeVar("S", bound=Staged)


def moments(parts: Sequence[S]) -> list[tuple[S, ...]]:
    """Which of these stand beside each other, moment by moment; each is in one at least. `parts` in running order.

    A moment that lies within another (a sidecar alone, before the next container starts) is left out.
    """
    if all(part.stage != INIT for part in parts):
        return [tuple(parts)] if parts else []
    found: list[tuple[S, ...]] = []
    sidecars: list[S] = []
    for part in parts:
        if part.stage == INIT:
            found.append((*sidecars, part))
        elif part.stage == SIDECAR:
            sidecars.append(part)
    if last := tuple(part for part in parts if part.stage != INIT):
        found.append(last)
    return found
