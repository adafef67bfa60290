"""A profile ready to run: the rules that a schedulerName stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alnair.api import config
from alnair.scheduling.plugins import FILTERS, PICKERS, SCORERS, Filter, Picker, Scorer
from alnair.scheduling.plugins.interface import Floats
from alnair.state.draft import Bools, Draft
from alnair.state.pods import PodShape


class UnknownRule(ValueError):
    """A profile names a filter that there is none of."""


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    filters: tuple[Filter, ...]
    scorers: tuple[tuple[Scorer, float], ...]
    picker: Picker

    def passes(self, shape: PodShape, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for rule in self.filters:
            mask &= rule.passes(shape, draft)
        return mask

    def still_passes(self, shape: PodShape, one: Draft) -> bool:
        """After something was placed on this node: only the rules that look at usage are asked again."""
        return all(bool(rule.passes(shape, one)[0]) for rule in self.filters if rule.follows_usage)

    def score(self, shape: PodShape, draft: Draft) -> Floats:
        total = np.zeros(len(draft.names))
        for scorer, weight in self.scorers:
            total += weight * scorer.score(shape, draft)
        return total


def build(profile: config.Profile) -> Profile:
    chosen = profile.filters if profile.filters is not None else list(FILTERS)
    for name in chosen:
        if name not in FILTERS:
            raise UnknownRule(
                f"profile {profile.scheduler_name}: no filter is called {name!r}; there are {', '.join(FILTERS)}"
            )
    return Profile(
        name=profile.scheduler_name,
        filters=tuple(rule for name, rule in FILTERS.items() if name in chosen),
        scorers=tuple((SCORERS[scorer.name], float(scorer.weight)) for scorer in profile.scorers),
        picker=PICKERS[profile.picker],
    )
