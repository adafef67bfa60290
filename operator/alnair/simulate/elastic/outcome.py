"""One run of one rule of sizing over a trace, and what is reported of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from alnair.api.profiles import Profile
from alnair.simulate.elastic.serving import serve
from alnair.simulate.elastic.sizings import PACE, RULES
from alnair.simulate.elastic.stories import Story, figures
from alnair.simulate.trace import CARD, Job, Trace

PAUSE = 30.0  # seconds that a change of size costs


@dataclass(frozen=True, slots=True)
class Outcome:
    """`load`: cards asked for, over the time in which jobs come, by all cards."""

    load: float
    rule: str
    nodes: int
    cards: int
    stories: tuple[Story, ...]

    def report(self) -> dict[str, Any]:
        return {
            "load": self.load,
            "policy": self.rule,
            "nodes": self.nodes,
            **figures(self.stories, self.cards),
        }


def size(
    trace: Trace,
    policy: Profile,
    rule: str,
    *,
    load: float | None = None,
    on_progress: Callable[[float], None] = lambda part: None,
) -> Outcome:
    """`policy` places the pods. `load`: as somebody called it, else as it is."""
    cards = trace.gpu_milli // CARD
    jobs = trace.jobs
    if rule == "rigid":
        jobs = tuple(replace(job, elastic=None) for job in jobs)
    stories = serve(
        Trace(trace.machines, jobs), policy, RULES[rule], pause=PAUSE, pace=PACE, on_progress=on_progress
    )
    if load is None:
        load = round((cards_asked(jobs) or 0.0) / max(cards, 1), 3)
    return Outcome(load, rule, len(trace.machines), cards, tuple(stories))


def cards_asked(jobs: Sequence[Job]) -> float | None:
    """The mean over the time in which jobs come, if each had what it asks for at once; None if that is no time."""
    window = max(job.arrives for job in jobs) - min(job.arrives for job in jobs)
    if window <= 0:
        return None
    return sum(job.gpu_milli / CARD * (job.lasts or 0.0) for job in jobs) / window
