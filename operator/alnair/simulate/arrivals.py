"""Who comes, and in what order: the procedure of the FGD paper.

The pods of the trace are shuffled by the seed, then more are drawn from them, with replacement, until their requests
reach so many times all cards of the cluster. The names of the nodes are shuffled too, because ties go to the smallest.
"""

from __future__ import annotations

import random
from dataclasses import replace

from alnair.simulate.trace import Job, Machine, Trace

MOST_JOBS = 5_000_000


def shuffled(trace: Trace, seed: int) -> tuple[tuple[Machine, ...], list[Job]]:
    """Machines in the order in which ties are decided, jobs in the order in which they come."""
    chance = random.Random(seed)
    jobs = sorted(trace.jobs, key=lambda job: job.name)
    chance.shuffle(jobs)
    machines = sorted(trace.machines, key=lambda machine: machine.name)
    chance.shuffle(machines)
    return tuple(machines), jobs


def inflated(jobs: list[Job], trace: Trace, ratio: float, seed: int) -> list[Job]:
    """The jobs, and more of the same, until they ask for `ratio` times all cards; some fewer if they ask for more.

    As the paper's simulator does it, the last draw is the first whose card no longer fits under the mark, and of a job
    that wants several cards only one is looked at then.
    """
    chance = random.Random(f"inflate {seed}")
    pool = sorted(trace.jobs, key=lambda job: job.name)
    mark = ratio * trace.gpu_milli
    total = sum(job.gpu_milli for job in jobs)
    jobs = list(jobs)
    while total > mark and jobs:
        total -= jobs.pop(chance.randrange(len(jobs))).gpu_milli
    if not any(job.gpu_milli for job in pool):
        return jobs
    drawn = 0
    while len(jobs) < MOST_JOBS:
        job = pool[chance.randrange(len(pool))]
        if total + job.gpu > mark:
            break
        total += job.gpu_milli
        jobs.append(replace(job, name=f"{job.name}-again-{drawn}"))
        drawn += 1
    return jobs
