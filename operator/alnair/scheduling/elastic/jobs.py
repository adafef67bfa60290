"""What an allocator is asked and what it answers: jobs with their bounds, the room there is, and a size for each job.

Sizes are numbers of members. 0 is not started. A job that runs is never sent below `least` nor above `most`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from alnair.scheduling.elastic.curves import Curve


@dataclass(frozen=True, slots=True)
class Job:
    """`has`: members that it has now. `floor` and `ceiling` narrow the bounds for this moment (a size that may not
    change yet, a hand's wish); where they contradict each other the floor wins, because taking members away does harm.
    `starts`: it is this job's turn, so it gets at least `least`; else a job that is not started may be left out.
    `change_cost` is what a running job loses, in units of the objective, if it gets another size than it has.
    """

    key: str
    least: int
    most: int
    has: int
    curve: Curve
    weight: float = 1.0
    change_cost: float = 0.0
    floor: int | None = None
    ceiling: int | None = None
    starts: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise ValueError(f"job {self.key}: not 1 <= least {self.least} <= most {self.most}")
        if self.has < 0 or self.weight < 0 or self.change_cost < 0:
            raise ValueError(
                f"job {self.key}: has {self.has}, weight {self.weight} or change_cost {self.change_cost} is below 0"
            )

    @property
    def low(self) -> int:
        """The fewest members with which it may run now."""
        return self._clamped(self.floor, self.least)

    @property
    def high(self) -> int:
        return max(self.low, self._clamped(self.ceiling, self.most))

    @property
    def smallest(self) -> int:
        """The smallest size that it may be given: 0 where it may be left out."""
        return self.low if self.has or self.starts else 0

    @property
    def present(self) -> int:
        """The size nearest to what it has: nobody gains, nobody pays."""
        return min(max(self.has, self.smallest), self.high)

    def sizes(self) -> tuple[int, ...]:
        """Every size that it may be given, ascending."""
        running = tuple(range(self.low, self.high + 1))
        return running if self.smallest else (0, *running)

    def worth(self, size: int) -> float:
        """What this size adds to the objective."""
        changed = self.has > 0 and size != self.has
        return self.weight * self.curve.at(size) - (self.change_cost if changed else 0.0)

    def _clamped(self, limit: int | None, otherwise: int) -> int:
        return otherwise if limit is None else min(max(limit, self.least), self.most)


class Room(Protocol):
    """What really fits. Monotone: what fits still fits when some sizes are smaller."""

    def fits(self, sizes: Sequence[int]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Pool:
    """Room by counting: so many cards in all, so many for a member of each job."""

    capacity: int
    units: tuple[int, ...]

    def fits(self, sizes: Sequence[int]) -> bool:
        return sum(map(int.__mul__, sizes, self.units)) <= self.capacity


@dataclass(frozen=True, slots=True)
class Allocation:
    """A size for each job, in the order of the jobs.

    `exact`: nothing better fits. `fits` is False only if not even the least of the jobs that must run fits; then every
    running job keeps what it has and nobody starts. `looks`: how often the room was asked.
    """

    sizes: tuple[int, ...]
    objective: float
    exact: bool
    fits: bool = True
    looks: int = 0


def objective(jobs: Sequence[Job], sizes: Sequence[int]) -> float:
    return sum(job.worth(size) for job, size in zip(jobs, sizes, strict=True))


def as_it_is(jobs: Sequence[Job], looks: int) -> Allocation:
    sizes = tuple(job.has for job in jobs)
    return Allocation(sizes, objective(jobs, sizes), exact=False, fits=False, looks=looks)
