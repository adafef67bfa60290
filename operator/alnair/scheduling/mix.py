"""What kinds of pods have come lately: the habits that a policy places by.

Learned from arrivals alone, one at a time, with nothing known beforehand; old arrivals count less and less. Bounded,
and the same arrivals always teach the same: no clock, no chance.
"""

from __future__ import annotations

from dataclasses import dataclass

from alnair.scheduling.plugins.card_fractions import main_demand, requested
from alnair.state.shapes import PodShape

MOST_KINDS = 1024  # the rarest is forgotten
HALF_LIFE = 20_000  # pods; then all that came before counts half


@dataclass(frozen=True, slots=True)
class Kind:
    """As much of a pod as habits are made of. `mib` is 0 for whole cards, `cards` without a GPU."""

    cpu: int  # thousandths
    cards: int = 0
    mib: int = 0
    percent: int = 0  # of a card, where a slice says so instead of MiB
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Habits:
    """How often each kind came: any unit, only proportions matter."""

    kinds: tuple[tuple[Kind, float], ...] = ()


class Renewals:
    """After which arrivals what was learned is worth looking at anew: often at first, then with every second more."""

    def __init__(self) -> None:
        self._seen = 0
        self._next = 1

    def due(self) -> bool:
        """One more came. Whether this is one of those."""
        self._seen += 1
        if self._seen < self._next:
            return False
        self._next = self._seen + max(1, min(self._seen // 2, HALF_LIFE // 4))
        return True


class Mix:
    """Counts of kinds."""

    def __init__(self) -> None:
        self._counts: dict[Kind, float] = {}
        self._weight = 0.0
        self._renewals = Renewals()

    def note(self, shape: PodShape) -> bool:
        """A pod came. Whether the habits should be looked at anew."""
        demand = main_demand(shape)
        cpu = requested(shape, "cpu")
        kind = Kind(cpu)
        if demand is not None:
            kind = Kind(
                cpu,
                demand.cards,
                0 if demand.whole else demand.memory_mib,
                0 if demand.whole else demand.memory_percent,
                demand.whole,
            )
        self._counts[kind] = self._counts.get(kind, 0.0) + 1
        self._weight += 1
        if self._weight >= 2 * HALF_LIFE:
            self._weight /= 2
            self._counts = {each: count / 2 for each, count in self._counts.items()}
        if len(self._counts) > MOST_KINDS:
            rarest = min(self._counts, key=lambda each: self._counts[each])
            self._weight -= self._counts.pop(rarest)
        return self._renewals.due()

    def habits(self) -> Habits:
        return Habits(tuple(self._counts.items()))
