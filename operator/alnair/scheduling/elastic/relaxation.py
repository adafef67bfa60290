"""The allocation by counting cards alone: an upper bound for what really fits, and often the answer itself.

A dynamic programme over jobs and cards, exact for any worth by size (a change has a cost, so worth is not concave).
Without a pool every job gets its best size: a bound still, and the same code with no cards to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import gcd

import numpy as np
import numpy.typing as npt

from alnair.scheduling.elastic.jobs import Job, Pool

MOST_CELLS = 40_000_000  # of all tables together: about a tenth of a second

Floats = npt.NDArray[np.float64]


class Relaxation:
    """Cards are counted beyond the smallest size of each job, in units of the greatest common divisor. `spare` of them
    may be given out; it is below 0 if not even the smallest sizes can be had."""

    def __init__(self, jobs: Sequence[Job], pool: Pool | None) -> None:
        self.jobs = jobs
        units = pool.units if pool is not None else (0,) * len(jobs)
        scale = gcd(*units) or 1
        self._units = tuple(unit // scale for unit in units)
        self.options = [
            [(size, unit * (size - job.smallest), job.worth(size)) for size in job.sizes()]
            for unit, job in zip(self._units, jobs, strict=True)
        ]
        self.spare = 0
        if pool is not None:
            smallest = sum(unit * job.smallest for unit, job in zip(self._units, jobs, strict=True))
            useful = sum(options[-1][1] for options in self.options)
            self.spare = min(pool.capacity // scale - smallest, useful)
        if sum(map(len, self.options)) * (self.spare + 1) > MOST_CELLS:
            self.spare = 0
            self.options = [[(size, 0, worth) for size, _, worth in each] for each in self.options]

    def per_member(self, at: int) -> int:
        """Cards of a member, to weigh what it adds."""
        return self._units[at] or 1

    def sizes(self) -> tuple[int, ...]:
        """The best by counting. Of equals, what the job has, then the smaller."""
        wished = [
            max(options, key=lambda option: (option[2], option[0] == job.has, -option[0]))
            for job, options in zip(self.jobs, self.options, strict=True)
        ]
        if sum(cards for _, cards, _ in wished) <= self.spare:
            return tuple(size for size, _, _ in wished)
        left, found = self.spare, []
        for at, job in enumerate(self.jobs):
            after = self.best[at + 1]
            _, _, size, cards = max(
                (worth + float(after[left - cards]), size == job.has, -size, cards)
                for size, cards, worth in self.options[at]
                if cards <= left
            )
            found.append(-size)
            left -= cards
        return tuple(found)

    @cached_property
    def best(self) -> list[Floats]:
        """`best[i][c]`: the most that jobs i, i+1, … can be worth with c cards."""
        tables = [np.zeros(self.spare + 1)]
        for options in reversed(self.options):
            after = tables[-1]
            table = after + options[0][2]  # the smallest size takes no card
            for _, cards, worth in options[1:]:
                if cards <= self.spare:
                    np.maximum(table[cards:], after[: len(after) - cards] + worth, out=table[cards:])
            tables.append(table)
        tables.reverse()
        return tables
