"""Who starts and who changes size: what the allocator is asked, and when it may not be asked.

Jobs that wait start in their order, each as soon as it fits beside the others at their lowest sizes; at the first that
does not fit the line ends. This is the one place where order and limits are decided.

Against flapping: a job that grew may not shrink, and one that shrank may not grow, for `stabilization` seconds; nobody
grows until cards have stayed idle for `grow_after` seconds; and a change has to win back within `horizon` seconds what
the `restart` seconds cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from alnair.scheduling.elastic.allocator import MOST_LOOKS, allocate
from alnair.scheduling.elastic.jobs import Allocation, Job, Pool, Room

RoomFor = Callable[[Sequence[Job]], tuple[Room, Pool | None]]


@dataclass(frozen=True, slots=True)
class Pace:
    """In seconds."""

    stabilization: float = 60.0
    grow_after: float = 10.0
    restart: float = 30.0
    horizon: float = 600.0

    def change_cost(self, job: Job) -> float:
        """What the job does not get done while it restarts, as a part of the horizon."""
        return job.weight * job.curve.at(job.has) * self.restart / self.horizon


@dataclass(frozen=True, slots=True)
class LastChange:
    """When a running job last got another size, and whether it grew by that."""

    at: float
    grew: bool


def held_steady(job: Job, last: LastChange | None, now: float, pace: Pace, *, grows: bool) -> Job:
    """A running job with the limits of this moment and the cost of a change. `grows`: cards were idle long enough."""
    recent = last is not None and now < last.at + pace.stabilization
    floor, ceiling = job.floor, job.ceiling
    if recent and last is not None and last.grew:
        floor = max(job.has, floor or 0)
    if not grows or (recent and last is not None and not last.grew):
        ceiling = job.has if ceiling is None else min(job.has, ceiling)
    return replace(job, floor=floor, ceiling=ceiling, change_cost=pace.change_cost(job))


def who_starts(running: Sequence[Job], waiting: Iterable[Job], room_for: RoomFor) -> list[Job]:
    """First come, first served: as many of the first as fit with everybody at the lowest size."""
    starting: list[Job] = []
    for job in waiting:
        first = replace(job, starts=True)
        jobs = [*running, *starting, first]
        room, pool = room_for(jobs)
        smallest = [each.smallest for each in jobs]
        if not ((pool is None or pool.fits(smallest)) and room.fits(smallest)):
            break
        starting.append(first)
    return starting


def size_all(jobs: Sequence[Job], room_for: RoomFor, *, most_looks: int = MOST_LOOKS) -> Allocation:
    """A size for each of the running jobs and of those that start now."""
    room, pool = room_for(jobs)
    return allocate(jobs, room, pool=pool, most_looks=most_looks)
