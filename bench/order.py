"""Which run comes when: shuffled by the seed, so that nobody always goes first; and how long it all may take.

Only the number of nodes ascends, because nodes are added once and stay.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from bench.shapes import Plan, Shape

# Seconds on two cores, to say beforehand how long it will take. Nothing depends on them.
SECONDS_PER_POD = {"ceiling": 0.001, "kube": 0.005, "kube-gang": 0.007, "alnair": 0.003}
AROUND_EACH_POD = 0.004  # created before, deleted after
AROUND_EACH_RUN = 6.0
SECONDS_PER_IDLE_GANG = 0.5
START = 15.0


@dataclass(frozen=True, slots=True)
class Run:
    """One contestant does one shape once."""

    shape: Shape
    contestant: str
    round: int
    rounds: int

    def __str__(self) -> str:
        which = f" {self.round} of {self.rounds}" if self.rounds > 1 else ""
        return f"{self.shape.name} {self.contestant}{which}"

    @property
    def label(self) -> str:
        """For file names."""
        return f"{self.shape.name}.{self.contestant}.{self.round}"

    def seconds(self) -> float:
        shape = self.shape
        if shape.kind == "latency":
            return shape.gangs * SECONDS_PER_IDLE_GANG + AROUND_EACH_RUN
        work = shape.pods * SECONDS_PER_POD[self.contestant]
        return work + (shape.pods + shape.filler) * AROUND_EACH_POD + AROUND_EACH_RUN


def in_order(plans: Iterable[Plan], *, seed: int) -> list[Run]:
    runs = [
        Run(plan.shape, plan.contestant, number, plan.rounds)
        for plan in plans
        for number in range(1, plan.rounds + 1)
    ]
    random.Random(seed).shuffle(runs)
    return sorted(runs, key=lambda run: run.shape.nodes)  # a stable sort: shuffled within each size
