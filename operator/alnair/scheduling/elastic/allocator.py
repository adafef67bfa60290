"""The allocator: the best number of members for each elastic job, all of them together.

It maximises the sum of weight x speed-up, less what changes cost, over sizes that really fit. First by counting cards
(see relaxation): if that answer fits, nothing can be better and one look at the room was enough. Else good sizes are
climbed to, and branch and bound seeks better ones or proves that there are none, as far as the looks reach.

Never: a running job below its least or above its most, a size that the room has not said yes to, a job shrunk for
another that does not start after all.
"""

from __future__ import annotations

from collections.abc import Sequence

from alnair.scheduling.elastic.climbing import EPSILON, Looks, climb, exchange
from alnair.scheduling.elastic.jobs import Allocation, Job, Pool, Room, as_it_is, objective
from alnair.scheduling.elastic.relaxation import Relaxation

__all__ = ["MOST_LOOKS", "Allocation", "Job", "Pool", "Room", "allocate", "objective"]

MOST_LOOKS, FEWEST_LOOKS = 1000, 3  # at the smallest sizes, at those by counting, at the present ones
MOST_BRANCHES = 50_000  # sizes tried by branch and bound, most of them without a look
MOST_BRANCHED = 200  # jobs: the depth of the recursion


def allocate(
    jobs: Sequence[Job], room: Room, *, pool: Pool | None = None, most_looks: int = MOST_LOOKS
) -> Allocation:
    """`pool`: cards by number, so that whatever fits the room fits the pool. A room that is a pool is its own."""
    if pool is None and isinstance(room, Pool):
        pool = room
    looks = Looks(room, max(most_looks, FEWEST_LOOKS))
    smallest = [job.smallest for job in jobs]
    relaxed = Relaxation(jobs, pool)
    if relaxed.spare < 0 or not looks.fits(smallest):
        return as_it_is(jobs, looks.spent)
    if looks.fits(counted := relaxed.sizes()):
        return Allocation(counted, objective(jobs, counted), exact=True, looks=looks.spent)
    looks.most = max(most_looks // 2, FEWEST_LOOKS)  # the other half is for the proof
    found = max(_climbed(jobs, looks, relaxed), key=lambda sizes: objective(jobs, sizes))
    looks.most, looks.refused = max(most_looks, FEWEST_LOOKS), False
    search = _Branches(jobs, looks, relaxed, found)
    return Allocation(
        tuple(search.sizes), objective(jobs, search.sizes), exact=search.exhausted, looks=looks.spent
    )


def _climbed(jobs: Sequence[Job], looks: Looks, relaxed: Relaxation) -> list[list[int]]:
    """From where the jobs are, if that fits, and from the smallest sizes: who is to pay for a change is not known."""
    starts = [[job.present for job in jobs], [job.smallest for job in jobs]]
    return [
        exchange(jobs, climb(jobs, start, looks, relaxed.per_member), looks, relaxed.per_member)
        for start in starts
        if looks.fits(start)
    ] or [starts[1]]


class _Branches:
    """Depth first, job after job, the most promising size first. A branch is cut off where its bound is no better
    than what is known, or where it does not fit even with the smallest sizes of the jobs to come."""

    def __init__(self, jobs: Sequence[Job], looks: Looks, relaxed: Relaxation, known: Sequence[int]) -> None:
        self._jobs = jobs
        self._looks = looks
        self._relaxed = relaxed
        self._left = MOST_BRANCHES
        self._now = [job.smallest for job in jobs]
        self.sizes = list(known)
        self._best = objective(jobs, known)
        self.exhausted = len(jobs) <= MOST_BRANCHED
        if self.exhausted:
            self._descend(0, relaxed.spare, 0.0)

    def _descend(self, at: int, spare: int, worth: float) -> None:
        if at == len(self._jobs):
            self.sizes, self._best = list(self._now), worth
            return
        after = self._relaxed.best[at + 1]
        options = sorted(
            (
                (worth + own + float(after[spare - cards]), -size, cards, own)
                for size, cards, own in self._relaxed.options[at]
                if cards <= spare
            ),
            reverse=True,
        )
        for bound, size, cards, own in options:
            if bound <= self._best + EPSILON:
                break
            self._left -= 1
            self._now[at] = -size
            if self._left < 0 or (not self._looks.fits(self._now) and self._looks.refused):
                self.exhausted = False
                break
            if self._looks.fits(self._now):
                self._descend(at + 1, spare - cards, worth + own)
            if not self.exhausted:
                break
        self._now[at] = self._jobs[at].smallest
