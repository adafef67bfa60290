"""The rules of sizing that are compared: rigid, the old rule, and Alnair's own.

Each looks at the jobs that run and at those that wait, in their order, and says who gets how many pods now. First come,
first served with all of them: a job that waits is never overtaken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from alnair.scheduling.elastic.jobs import Job
from alnair.scheduling.elastic.old_rule import allocate_by_old_rule
from alnair.scheduling.elastic.sizing import LastChange, Pace, RoomFor, held_steady, size_all, who_starts


@dataclass(frozen=True, slots=True)
class View:
    """What a rule may know. `running`: the elastic jobs among those that run. `idle_since`: when cards last became
    free, if some are."""

    now: float
    running: Sequence[Job]
    last: Mapping[str, LastChange]
    waiting: Iterable[Job]
    room_for: RoomFor
    idle_since: float | None


Sizes = dict[str, int]  # by the job's key; who waits and is not among them goes on waiting
Rule = Callable[[View], Sizes]


def rigid(view: View) -> Sizes:
    """What a job asks for, or nothing."""
    return {job.key: job.least for job in who_starts((), view.waiting, view.room_for)}


def old_rule(view: View) -> Sizes:
    jobs = list(view.running)
    for job in view.waiting:
        room, pool = view.room_for([*jobs, job])
        if pool is not None and not pool.fits([*(each.least for each in jobs), job.least]):
            break  # not worth a search
        found = allocate_by_old_rule([*jobs, job], room).sizes
        if not found[-1]:
            break
        jobs = [replace(each, has=size) for each, size in zip([*jobs, job], found, strict=True)]
    return {job.key: job.has for job in jobs}


@dataclass(frozen=True, slots=True)
class Sized:
    """Alnair's own: the allocator of scheduling/elastic, at its pace."""

    pace: Pace

    def __call__(self, view: View) -> Sizes:
        grows = view.idle_since is not None and view.now >= view.idle_since + self.pace.grow_after
        running = [
            held_steady(job, view.last.get(job.key), view.now, self.pace, grows=grows) for job in view.running
        ]
        starting = who_starts(running, view.waiting, view.room_for)
        if not starting and not grows:
            return {}
        jobs = [*running, *starting]
        found = size_all(jobs, view.room_for)
        return {job.key: size for job, size in zip(jobs, found.sizes, strict=True)}


PACE = Pace()
RULES: Mapping[str, Rule] = {"rigid": rigid, "old-rule": old_rule, "alnair": Sized(PACE)}
