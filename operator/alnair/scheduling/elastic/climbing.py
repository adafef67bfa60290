"""Good allocations in few looks at the room: grow by marginal gain, then exchange members between jobs.

The jobs' next sizes are put in order of what they add a card. The longest part of that order that fits is found by
galloping; the job that does not fit there is passed over, and so on. Used where counting alone does not tell the
answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alnair.scheduling.elastic.jobs import Job, Room

EPSILON = 1e-9  # worth less is worth nothing
MOST_PARTNERS = 16  # gainers, and givers, that an exchange is sought among


class Looks:
    """The room, asked at most so often; the same question is asked once. When the looks are spent nothing fits."""

    def __init__(self, room: Room, most: int) -> None:
        self._room = room
        self._known: dict[tuple[int, ...], bool] = {}
        self.most = most
        self.spent = 0
        self.refused = False  # a question was left unasked

    def fits(self, sizes: Sequence[int]) -> bool:
        key = tuple(sizes)
        known = self._known.get(key)
        if known is None:
            if self.spent >= self.most:
                self.refused = True
                return False
            self.spent += 1
            known = self._known[key] = self._room.fits(key)
        return known


@dataclass(frozen=True, slots=True)
class Step:
    """From one corner of a job's worth to the next: `rate` is what it adds a card."""

    job: int
    size: int
    rate: float


def climb(jobs: Sequence[Job], sizes: Sequence[int], looks: Looks, cards: Callable[[int], int]) -> list[int]:
    """Grow from sizes that fit until nothing more fits. `cards`: of a member of each job."""
    found = list(sizes)
    steps = [step for at, job in enumerate(jobs) for step in ascent(at, job, found[at], cards(at))]
    steps.sort(key=lambda step: -step.rate)
    while steps:
        count = _longest(steps, found, looks)
        for step in steps[:count]:
            found[step.job] = step.size
        if count == len(steps):
            break
        blocked = steps[count]
        found[blocked.job] = _as_far_as(jobs[blocked.job], blocked, found, looks)
        steps = [step for step in steps[count + 1 :] if step.job != blocked.job]
    return found


def exchange(
    jobs: Sequence[Job], sizes: Sequence[int], looks: Looks, cards: Callable[[int], int]
) -> list[int]:
    """Let one job shrink for another, and grow again, as long as that pays."""
    found = list(sizes)
    while better := _exchanged(jobs, found, looks, cards):
        found = climb(jobs, better, looks, cards)
    return found


def ascent(at: int, job: Job, size: int, cards: int) -> list[Step]:
    """The job's way up from this size: the corners of the upper hull of its worth, as far as it rises."""
    corners = [(size, job.worth(size))]
    for larger in job.sizes():
        if larger <= size:
            continue
        point = (larger, job.worth(larger))
        while len(corners) > 1 and _rate(corners[-2], corners[-1]) <= _rate(corners[-1], point):
            corners.pop()
        corners.append(point)
    steps = []
    for before, after in itertools.pairwise(corners):
        if after[1] - before[1] <= EPSILON:
            break
        steps.append(Step(at, after[0], _rate(before, after) / cards))
    return steps


def _longest(steps: Sequence[Step], sizes: Sequence[int], looks: Looks) -> int:
    """How many of the first steps fit together: galloping, then halving."""

    def good(count: int) -> bool:
        tried = list(sizes)
        for step in steps[:count]:
            tried[step.job] = step.size
        return looks.fits(tried)

    low, stride = 0, 1
    while low < len(steps) and good(min(low + stride, len(steps))):
        low = min(low + stride, len(steps))
        stride *= 2
    high = min(low + stride, len(steps) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if good(middle):
            low = middle
        else:
            high = middle
    return low


def _as_far_as(job: Job, blocked: Step, sizes: Sequence[int], looks: Looks) -> int:
    """The best size short of the step that did not fit."""
    present, tried = sizes[blocked.job], list(sizes)
    between = [size for size in job.sizes() if present < size < blocked.size]
    low, high = 0, len(between)  # so many of `between` fit
    while low < high:
        middle = (low + high + 1) // 2
        tried[blocked.job] = between[middle - 1]
        if looks.fits(tried):
            low = middle
        else:
            high = middle - 1
    return max([present, *between[:low]], key=lambda size: (job.worth(size), -size))


def _exchanged(
    jobs: Sequence[Job], sizes: Sequence[int], looks: Looks, cards: Callable[[int], int]
) -> list[int] | None:
    gainers = sorted(
        (steps[0] for at, job in enumerate(jobs) if (steps := ascent(at, job, sizes[at], cards(at)))),
        key=lambda step: -step.rate,
    )[:MOST_PARTNERS]
    givers = sorted(
        (
            (job.worth(sizes[at]) - job.worth(smaller), at, smaller)
            for at, job in enumerate(jobs)
            for smaller in _below(job, sizes[at])
        ),
    )[: MOST_PARTNERS * 4]
    moves = sorted(
        (
            (
                lost - (jobs[step.job].worth(step.size) - jobs[step.job].worth(sizes[step.job])),
                step,
                at,
                smaller,
            )
            for step in gainers
            for lost, at, smaller in givers
            if at != step.job
        ),
        key=lambda move: move[0],
    )
    for net, step, at, smaller in moves:
        if net >= -EPSILON or looks.refused:
            return None
        tried = list(sizes)
        tried[step.job], tried[at] = step.size, smaller
        if looks.fits(tried):
            return tried
    return None


def _below(job: Job, size: int) -> list[int]:
    """The next smaller size, and the smallest: little or all is given up."""
    smaller = [each for each in job.sizes() if each < size]
    return sorted({smaller[0], smaller[-1]}) if smaller else []


def _rate(before: tuple[int, float], after: tuple[int, float]) -> float:
    return (after[1] - before[1]) / (after[0] - before[0])
