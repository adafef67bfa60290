"""A cluster in use by elastic jobs: they come, wait, start, change their size, and end when their work is done.

A job's work is what it lasts times its speed at the size that the trace tells of. While a job changes its size it
stands still for some seconds, and holds its cards. Starting is no change.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from alnair.api.profiles import Profile
from alnair.scheduling.elastic.curves import LINEAR
from alnair.scheduling.elastic.jobs import Job as Sizeable
from alnair.scheduling.elastic.jobs import Pool
from alnair.scheduling.elastic.sizing import LastChange, Pace
from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.elastic.sizings import Rule, View
from alnair.simulate.elastic.stories import Story
from alnair.simulate.policies import Policy
from alnair.simulate.queueing import FOREVER
from alnair.simulate.trace import CARD, Job, Trace


@dataclass(slots=True)
class _Course:
    """A job on its way. `left`: work at `since`, in seconds of one pod; nothing is done before `resumes`."""

    job: Job
    left: float
    pods: int = 0
    since: float = 0.0
    resumes: float = 0.0
    version: int = 0
    last: LastChange | None = None
    sizes: list[tuple[float, int]] = field(default_factory=list)

    def speed(self) -> float:
        elastic = self.job.elastic
        return elastic.curve.at(self.pods) if elastic is not None else float(self.pods > 0)

    def work_until(self, now: float) -> None:
        self.left -= max(now - max(self.since, self.resumes), 0.0) * self.speed()
        self.since = now

    def ends(self) -> float:
        if self.left == FOREVER:
            return FOREVER
        return max(self.since, self.resumes) + max(self.left, 0.0) / self.speed()


class _Run:
    def __init__(
        self, trace: Trace, policy: Profile, rule: Rule, pause: float, pace: Pace, seed: int
    ) -> None:
        machines = sorted(trace.machines, key=lambda each: each.name)
        self.cluster = SimulatedCluster(machines, Policy(policy, trace, seed))
        self._rule = rule
        self._pause = pause
        self._pace = pace
        self.free = trace.gpu_milli
        self.now = 0.0
        self.courses = {job.name: _Course(job, _work(job)) for job in trace.jobs}
        self.waiting: deque[_Course] = deque()
        self._elastic: dict[str, _Course] = {}  # those that run
        self._ends: list[tuple[float, str, int]] = []
        self._alarms: list[float] = []
        self._idle_since: float | None = 0.0

    # -- time ----------------------------------------------------------------------------------------------------

    def next_moment(self) -> float:
        """When something happens by itself: a job ends, or a rule may do what it might not do before."""
        while self._ends and self.courses[self._ends[0][1]].version != self._ends[0][2]:
            heapq.heappop(self._ends)
        return min(self._ends[0][0] if self._ends else FOREVER, self._alarms[0] if self._alarms else FOREVER)

    def advance(self, second: float) -> None:
        self.now = second
        while self._alarms and self._alarms[0] <= second:
            heapq.heappop(self._alarms)
        while self._ends and self._ends[0][0] <= second:
            _, name, version = heapq.heappop(self._ends)
            course = self.courses[name]
            if course.version == version:
                self._end(course)

    def come(self, job: Job) -> None:
        self.cluster.arrived(job)
        self.waiting.append(self.courses[job.name])

    # -- sizes ---------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Ask the rule, and do as it says: who shrinks first, then who grows, then who starts."""
        if not self.waiting and not self._elastic:
            return
        sizes = self._rule(self._view())
        changed = [(course, sizes.get(name, course.pods)) for name, course in self._elastic.items()]
        for course, pods in changed:
            if pods < course.pods:
                self.cluster.shrink(course.job, course.pods - pods)
                self._resize(course, pods)
        for course, pods in changed:
            if pods > course.pods and self.cluster.grow(course.job, pods - course.pods):
                self._resize(course, pods)
        while self.waiting and (pods := sizes.get(self.waiting[0].job.name, 0)):
            if not self.cluster.start(self.waiting[0].job, pods):
                break
            self._resize(self.waiting.popleft(), pods)
        self._note_idle(since=self._idle_since)

    def _view(self) -> View:
        return View(
            now=self.now,
            running=[_sizeable(course) for course in self._elastic.values()],
            last={name: course.last for name, course in self._elastic.items() if course.last is not None},
            waiting=(_sizeable(course) for course in self.waiting),
            room_for=self._room_for,
            idle_since=self._idle_since,
        )

    def _room_for(self, jobs: Sequence[Sizeable]) -> tuple[_ClusterRoom, Pool | None]:
        chosen = [self.courses[job.key] for job in jobs]
        room = _ClusterRoom(self.cluster, chosen)
        if any(course.job.cards and course.job.gpu != CARD for course in chosen):
            return room, None  # parts of cards are not to be counted
        held = sum(course.pods * course.job.cards for course in chosen)
        return room, Pool(self.free // CARD + held, tuple(course.job.cards for course in chosen))

    def _resize(self, course: _Course, pods: int) -> None:
        course.work_until(self.now)
        if course.pods:
            course.resumes = self.now + self._pause
            course.last = LastChange(self.now, grew=pods > course.pods)
            heapq.heappush(self._alarms, self.now + self._pace.stabilization)
        elif course.job.elastic is not None:
            self._elastic[course.job.name] = course
        self.free -= (pods - course.pods) * course.job.cards * course.job.gpu
        course.pods = pods
        course.sizes.append((self.now, pods))
        course.version += 1
        if course.ends() < FOREVER:
            heapq.heappush(self._ends, (course.ends(), course.job.name, course.version))

    def _end(self, course: _Course) -> None:
        self.cluster.end(course.job)
        self._elastic.pop(course.job.name, None)
        self.free += course.pods * course.job.cards * course.job.gpu
        course.pods, course.left = 0, 0.0
        course.version += 1
        course.sizes.append((self.now, 0))
        self._note_idle(since=self.now)

    def _note_idle(self, since: float | None) -> None:
        if not self.free:
            self._idle_since = None
        elif since is None or since == self.now:
            self._idle_since = self.now
            heapq.heappush(self._alarms, self.now + self._pace.grow_after)


class _ClusterRoom:
    """What the search says. Sizes are counted from what the jobs have in the cluster."""

    def __init__(self, cluster: SimulatedCluster, courses: Sequence[_Course]) -> None:
        self._cluster = cluster
        self._courses = courses

    def fits(self, sizes: Sequence[int]) -> bool:
        return self._cluster.fits(
            (course.job, size - course.pods) for course, size in zip(self._courses, sizes, strict=True)
        )


def serve(
    trace: Trace,
    policy: Profile,
    rule: Rule,
    *,
    pause: float,
    pace: Pace,
    seed: int = 1,
    on_progress: Callable[[float], None] = lambda part: None,
) -> list[Story]:
    """`policy` places the pods, `rule` says how many; `pause`: seconds that a change of size takes."""
    run = _Run(trace, policy, rule, pause, pace, seed)
    coming = sorted(trace.jobs, key=lambda job: job.arrives)
    at = 0
    while (second := min(coming[at].arrives if at < len(coming) else FOREVER, run.next_moment())) < FOREVER:
        run.advance(second)  # who leaves makes room for who comes
        while at < len(coming) and coming[at].arrives <= second:
            run.come(coming[at])
            at += 1
            if at % 64 == 0:
                on_progress(at / len(coming))
        run.settle()
    return [Story(course.job, tuple(course.sizes)) for course in run.courses.values()]


def _work(job: Job) -> float:
    """In seconds of one pod; a job that is not elastic has one speed."""
    if job.lasts is None:
        return FOREVER
    return job.lasts * (job.elastic.curve.at(job.pods) if job.elastic is not None else 1.0)


def _sizeable(course: _Course) -> Sizeable:
    job = course.job
    least, most, curve = (
        (job.elastic.least, job.elastic.most, job.elastic.curve)
        if job.elastic is not None
        else (job.pods, job.pods, LINEAR)
    )
    return Sizeable(job.name, least, most, course.pods, curve)
