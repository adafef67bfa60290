"""A cluster that fills up: pods come, none leaves, and one that does not fit is lost. The FGD paper's experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from alnair.api.profiles import Profile
from alnair.scheduling.plugins.fragmentation import Fragmentation, typical
from alnair.simulate.arrivals import inflated, shuffled
from alnair.simulate.cluster import SimulatedCluster
from alnair.simulate.policies import Policy
from alnair.simulate.trace import Job, Machine, Trace

EARLY = 0.9  # of all cards asked for: until then no request for several cards should be lost


@dataclass(frozen=True, slots=True)
class Sample:
    """At some moment, in per cent of all cards: asked for so far, given out, and free but of no use to most."""

    arrived: float
    allocated: float
    fragmented: float


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of one run. `early_multi` counts requests for several cards before 90 % load, without those
    that even the empty cluster could not have served."""

    seed: int
    allocation_percent: float
    arrived_percent: float
    pods: int
    placed: int
    early_multi: int
    early_multi_lost: int
    early_multi_impossible: int
    seconds: float
    cpu_seconds: float
    samples: tuple[Sample, ...] = field(default=())


def fill(
    trace: Trace,
    policy: Profile,
    seed: int,
    *,
    inflate: float,
    clocks: tuple[Callable[[], float], Callable[[], float]],
    samples: int = 0,
    on_progress: Callable[[float], None] = lambda part: None,
) -> Filled:
    """`clocks`: seconds by the wall and of the processor, only read; `samples`: how many points of a curve to keep."""
    machines, jobs = shuffled(trace, seed)
    jobs = inflated(jobs, trace, inflate, seed)
    cluster = SimulatedCluster(machines, Policy(policy, trace, seed))
    measure = Fragmentation(typical(job.shape for job in trace.jobs))
    cards = max(trace.gpu_milli, 1)
    arrived = allocated = placed = early = lost = impossible = 0
    kept: list[Sample] = []
    marks = _marks(len(jobs), samples)
    mark = next(marks, -1)
    began = [clock() for clock in clocks]
    for number, job in enumerate(jobs):
        arrived += job.gpu_milli
        cluster.arrived(job)
        found = cluster.start(job)
        placed += found * job.pods
        allocated += found * job.gpu_milli
        if job.cards > 1 and arrived < EARLY * cards:
            hopeless = not found and not fits_empty(job, machines)
            impossible += hopeless
            early += not hopeless
            lost += not found and not hopeless
        if number == mark:
            fragmented = float(measure.fragmented(cluster.state.draft()).sum()) * 1000
            kept.append(Sample(100 * arrived / cards, 100 * allocated / cards, 100 * fragmented / cards))
            mark = next(marks, -1)
        if number % 64 == 0:
            on_progress(number / len(jobs))
    wall, cpu = (clock() - start for clock, start in zip(clocks, began, strict=True))
    return Filled(
        seed=seed,
        allocation_percent=100 * cluster.allocated() / cards,  # by the books, not by our own sum
        arrived_percent=100 * arrived / cards,
        pods=sum(job.pods for job in jobs),
        placed=placed,
        early_multi=early,
        early_multi_lost=lost,
        early_multi_impossible=impossible,
        seconds=wall,
        cpu_seconds=cpu,
        samples=tuple(kept),
    )


def fits_empty(job: Job, machines: Iterable[Machine]) -> bool:
    """Whether some machine could take one of its pods if it were idle."""
    return any(
        machine.cards >= job.cards
        and machine.cpu >= job.cpu
        and machine.memory_mib >= job.memory_mib
        and (not job.models or machine.model in job.models)
        for machine in machines
    )


def _marks(length: int, samples: int) -> Iterator[int]:
    """The numbers of the arrivals after which to look, the last among them."""
    return (length * each // samples - 1 for each in range(1, samples + 1)) if samples else iter(())
