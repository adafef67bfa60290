"""What became of each job, and the figures that are made of it. Everything that is reported is told by the stories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from alnair.simulate.report import quantile
from alnair.simulate.trace import Job


@dataclass(frozen=True, slots=True)
class Story:
    """`sizes`: (second, pods from then on), from its start to its end, where pods are 0. Empty: it never started."""

    job: Job
    sizes: tuple[tuple[float, int], ...]

    @property
    def wait(self) -> float:
        return self.sizes[0][0] - self.job.arrives

    @property
    def span(self) -> float:
        """From its arrival to its end."""
        return self.sizes[-1][0] - self.job.arrives

    @property
    def ended(self) -> bool:
        return bool(self.sizes) and self.sizes[-1][1] == 0

    @property
    def changes(self) -> int:
        """Neither the start nor the end is one."""
        return max(len(self.sizes) - 1 - self.ended, 0)

    def card_seconds(self, until: float) -> float:
        """Cards that it held, over time."""
        held = sum(
            pods * (min(after, until) - min(second, until))
            for (second, pods), (after, _) in zip(self.sizes, self.sizes[1:], strict=False)
        )
        return held * self.job.cards * self.job.gpu / 1000


def figures(stories: Sequence[Story], cards: int) -> dict[str, Any]:
    """Times in hours; completion is from arrival to end. Utilisation is of all cards, until the last arrival and until
    the last end."""
    ended = [story for story in stories if story.ended]
    spans, waits = sorted(story.span for story in ended), sorted(story.wait for story in ended)
    last_arrival = max(story.job.arrives for story in stories)
    last_end = max((story.sizes[-1][0] for story in ended), default=0.0)
    return {
        "jobs": len(stories),
        "never_ended": len(stories) - len(ended),
        **{f"{name}_completion_hours": value for name, value in _spread(spans).items()},
        **{f"{name}_queueing_hours": value for name, value in _spread(waits).items()},
        "makespan_hours": _hours(last_end),
        "utilisation_percent": _used(stories, cards, last_end),
        "utilisation_while_jobs_come_percent": _used(stories, cards, last_arrival),
        "changes": sum(story.changes for story in stories),
        "elastic_jobs": sum(story.job.elastic is not None for story in stories),
    }


def _spread(ordered: Sequence[float]) -> dict[str, float]:
    return {
        "mean": _hours(fmean(ordered)) if ordered else 0.0,
        "median": _hours(quantile(ordered, 0.5)),
        "p99": _hours(quantile(ordered, 0.99)),
    }


def _hours(seconds: float) -> float:
    return round(seconds / 3600, 3)


def _used(stories: Sequence[Story], cards: int, until: float) -> float:
    held = sum(story.card_seconds(until) for story in stories)
    return round(100 * held / max(cards * until, 1e-9), 2)
