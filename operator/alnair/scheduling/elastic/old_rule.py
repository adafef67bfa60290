"""The rule of the autonomous scheduler's initial GPU allocator, its faults repaired, to compare ours with.

For each job that waits, in order: the most members that are free, up to its `most`; if not even `least` are free, the
others are shrunk towards their least, largest surplus first, until `least` fit; if they would not fit then either,
nobody is shrunk and it waits.

Repaired: what is free is what the room says (the original counted the GPUs in use in one namespace against those of the
whole cluster); nobody gets more than its `most`; others shrink only if that suffices. Left, because it is the rule:
a job that was started small, or shrunk, never grows again.
"""

from __future__ import annotations

from collections.abc import Sequence

from alnair.scheduling.elastic.climbing import Looks
from alnair.scheduling.elastic.jobs import Allocation, Job, Room, as_it_is, objective

MOST_LOOKS = 100_000


def allocate_by_old_rule(jobs: Sequence[Job], room: Room, *, most_looks: int = MOST_LOOKS) -> Allocation:
    looks = Looks(room, most_looks)
    sizes = [job.present if job.has else 0 for job in jobs]
    if not looks.fits(sizes):
        return as_it_is(jobs, looks.spent)
    for at, job in enumerate(jobs):
        if job.has == 0:
            sizes = _joined(jobs, sizes, at, looks)
    return Allocation(tuple(sizes), objective(jobs, sizes), exact=False, looks=looks.spent)


def _joined(jobs: Sequence[Job], sizes: Sequence[int], at: int, looks: Looks) -> list[int]:
    """The sizes with this job started, or as they were."""
    job, tried = jobs[at], list(sizes)
    free = _most_that_fit(tried, at, 0, job.high, looks)
    if free >= job.low:
        tried[at] = free
        return tried
    tried[at] = job.low
    surplus = sorted(
        (other for other in range(len(jobs)) if other != at and sizes[other] > jobs[other].low),
        key=lambda other: jobs[other].low - sizes[other],
    )
    for other in surplus:
        kept = sizes[other]
        tried[other] = jobs[other].low
        if looks.fits(tried):
            tried[other] = _most_that_fit(tried, other, jobs[other].low, kept, looks)
            return tried
    return list(sizes)


def _most_that_fit(sizes: Sequence[int], at: int, low: int, high: int, looks: Looks) -> int:
    """The largest size of one job from low (known to fit) to high, the others as they are."""
    tried = list(sizes)
    while low < high:
        middle = (low + high + 1) // 2
        tried[at] = middle
        if looks.fits(tried):
            low = middle
        else:
            high = middle - 1
    return low
