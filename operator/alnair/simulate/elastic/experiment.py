"""The fixed experiment: Philly's first 5,000 jobs that ask for a GPU, on clusters sized for several offered loads.

A pod is one card. Jobs of 2 and more are elastic: from half, rounded up, to double of what they ask for. The offered
load is what the jobs hold if each gets what it asks for, over the time in which they come, by all cards; nodes have 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from alnair.api.profiles import Profile
from alnair.scheduling.elastic.curves import Curve, hull
from alnair.simulate import philly
from alnair.simulate.elastic.outcome import Outcome, cards_asked, size
from alnair.simulate.trace import BadTrace, Elastic, Job, Trace

JOBS, LOADS = 5000, (0.6, 0.8, 1.0)
CARDS_A_NODE = 8


def speed(members: int) -> float:
    """How many times as fast as one: a little is lost to each other member, and twice as much beyond a node."""
    if members <= CARDS_A_NODE:
        return members / (1 + 0.03 * (members - 1))
    return members / (1.21 + 0.06 * (members - CARDS_A_NODE))


def curve(most: int) -> Curve:
    return hull((members, speed(members)) for members in range(1, most + 1))


def read_jobs(path: Path, first: int = JOBS) -> tuple[Job, ...]:
    jobs = [job for job in philly.read_jobs(path, cards_a_node=1) if job.cards]
    jobs.sort(key=lambda job: job.arrives)
    if not jobs:
        raise BadTrace(f"{path}: no job asks for a GPU")
    began = jobs[0].arrives
    longest = curve(2 * max(job.pods for job in jobs[:first]))
    return tuple(
        replace(
            job,
            arrives=job.arrives - began,
            elastic=Elastic((job.pods + 1) // 2, 2 * job.pods, longest) if job.pods > 1 else None,
        )
        for job in jobs[:first]
    )


def nodes_for(jobs: Sequence[Job], load: float) -> int:
    """The fewest nodes with which the offered load is not above this."""
    asked = cards_asked(jobs)
    if asked is None:
        raise BadTrace("all jobs come at the same second: no load can be told")
    return max(math.ceil(asked / load / CARDS_A_NODE), 1)


def run(
    jobs: Sequence[Job],
    policy: Profile,
    case: tuple[float, str],
    *,
    on_progress: Callable[[float], None] = lambda part: None,
) -> Outcome:
    """`case`: the load and the rule of sizing."""
    load, rule = case
    machines = philly.equal_machines(f"{nodes_for(jobs, load)}x{CARDS_A_NODE}")
    assert machines is not None
    return size(Trace(machines, tuple(jobs)), policy, rule, load=load, on_progress=on_progress)
