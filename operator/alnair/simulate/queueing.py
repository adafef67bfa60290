"""A cluster in use: jobs come when the trace says, wait in a queue, run as long as the trace says, and leave.

As Alnair does it, nothing is held for a job that waits: whoever fits goes, in the queue's order. Jobs that no rule can
tell apart are tried once until something is given back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from alnair.api.profiles import Profile
from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.policies import Policy
from alnair.simulate.trace import Job, Trace
from alnair.state.shapes import PodShape

FOREVER = float("inf")

Key = tuple[float, ...]
ORDERS: Mapping[str, Callable[[Job], Key]] = {
    "fifo": lambda job: (job.arrives,),
    "sjf": lambda job: (FOREVER if job.lasts is None else job.lasts, job.arrives),  # knows how long they last
    "smallest": lambda job: (job.gpu_milli, job.arrives),
    "largest": lambda job: (-job.gpu_milli, job.arrives),
    "least-work": lambda job: (
        job.gpu_milli * (FOREVER if job.lasts is None else job.lasts) if job.gpu_milli else 0.0,
        job.arrives,
    ),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """At some second: per cent of all cards that are taken, jobs that wait."""

    second: float
    allocated: float
    waiting: int


@dataclass(frozen=True, slots=True)
class Served:
    """What came of one run. `waits` and `spans` (arrival to end) are of the jobs that started, or ended, sorted."""

    seed: int
    jobs: int
    started: int
    waits: tuple[float, ...]
    spans: tuple[float, ...]
    last_end: float
    mean_allocation_percent: float  # over time, until the last job has come
    placed: int  # pods
    seconds: float
    cpu_seconds: float
    moments: tuple[Moment, ...]


class _Queue:
    """Waiting jobs, those that no rule can tell apart together."""

    def __init__(self, order: Callable[[Job], Key]) -> None:
        self._order = order
        self._alike: dict[tuple[PodShape, int], list[tuple[Key, int, Job]]] = {}
        self._tickets = 0
        self.waiting = 0

    def put(self, job: Job) -> None:
        heap = self._alike.setdefault((job.shape, job.pods), [])
        heapq.heappush(heap, (self._order(job), self._tickets, job))
        self._tickets += 1
        self.waiting += 1

    def start_all(self, start: Callable[[Job], bool]) -> None:
        """Whoever fits, the first first."""
        heads = [(heap[0][:2], alike) for alike, heap in self._alike.items()]
        heapq.heapify(heads)
        while heads:
            _, alike = heapq.heappop(heads)
            heap = self._alike[alike]
            if not start(heap[0][2]):
                continue
            heapq.heappop(heap)
            self.waiting -= 1
            if heap:
                heapq.heappush(heads, (heap[0][:2], alike))
            else:
                del self._alike[alike]


class _Run:
    def __init__(self, trace: Trace, policy: Profile, seed: int, order: str) -> None:
        self.cluster = SimulatedCluster(
            sorted(trace.machines, key=lambda each: each.name), Policy(policy, trace, seed)
        )
        self.queue = _Queue(ORDERS[order])
        self.now = 0.0
        self.taken = 0
        self.waits: list[float] = []
        self.spans: list[float] = []
        self.placed = 0
        self._ends: list[tuple[float, int, Job]] = []

    def next_end(self) -> float:
        return self._ends[0][0] if self._ends else FOREVER

    def come(self, job: Job) -> None:
        self.cluster.arrived(job)
        self.queue.put(job)

    def end_one(self) -> None:
        second, _, job = heapq.heappop(self._ends)
        self.cluster.end(job)
        self.taken -= job.gpu_milli
        self.spans.append(second - job.arrives)

    def settle(self) -> None:
        self.queue.start_all(self._start)

    def _start(self, job: Job) -> bool:
        if not self.cluster.start(job):
            return False
        self.waits.append(self.now - job.arrives)
        self.taken += job.gpu_milli
        self.placed += job.pods
        if job.lasts is not None:
            heapq.heappush(self._ends, (self.now + job.lasts, len(self.waits), job))
        return True


def serve(
    trace: Trace,
    policy: Profile,
    seed: int,
    *,
    order: str = "fifo",
    inflate: float = 1.0,
    clocks: tuple[Callable[[], float], Callable[[], float]],
    samples: int = 0,
    on_progress: Callable[[float], None] = lambda part: None,
) -> Served:
    """`inflate`: so many times as fast as in the trace do jobs come."""
    run = _Run(trace, policy, seed, order)
    coming = sorted((_sooner(job, inflate) for job in trace.jobs), key=lambda job: job.arrives)
    last = coming[-1].arrives
    moments: list[Moment] = []
    every = max(len(coming) // samples, 1) if samples else 0
    busy, at = 0.0, 0
    began = [clock() for clock in clocks]
    while at < len(coming) or run.next_end() < FOREVER:
        second = min(coming[at].arrives if at < len(coming) else FOREVER, run.next_end())
        busy += run.taken * max(min(second, last) - min(run.now, last), 0.0)
        run.now = second
        while run.next_end() <= second:  # who leaves makes room for who comes
            run.end_one()
        while at < len(coming) and coming[at].arrives <= second:
            run.come(coming[at])
            at += 1
            if every and at % every == 0:
                share = 100 * run.taken / max(trace.gpu_milli, 1)
                moments.append(Moment(second, share, run.queue.waiting))
            if at % 256 == 0:
                on_progress(at / len(coming))
        run.settle()
    wall, cpu = (clock() - start for clock, start in zip(clocks, began, strict=True))
    return Served(
        seed=seed,
        jobs=len(coming),
        started=len(run.waits),
        waits=tuple(sorted(run.waits)),
        spans=tuple(sorted(run.spans)),
        last_end=run.now,
        mean_allocation_percent=100 * busy / max(last * trace.gpu_milli, 1),
        placed=run.placed,
        seconds=wall,
        cpu_seconds=cpu,
        moments=tuple(moments),
    )


def _sooner(job: Job, inflate: float) -> Job:
    return job if inflate == 1.0 else replace(job, arrives=job.arrives / inflate)
