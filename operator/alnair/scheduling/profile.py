"""A profile ready to run: the rules that a schedulerName stands for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from alnair.api import config
from alnair.scheduling.plugins import FILTERS, PICKERS, SCORERS, Filter, Picker, Scorer
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Bools, Draft
from alnair.state.shapes import PodClass

NOWHERE = -np.inf


class UnknownRule(ValueError):
    """A profile names a filter that there is none of."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    name: str
    filters: tuple[Filter, ...]
    scorers: tuple[tuple[Scorer, float], ...]
    picker: Picker
    local_filters: tuple[Filter, ...] = field(init=False)
    wide_filters: tuple[Filter, ...] = field(init=False)
    local_scorers: tuple[tuple[Scorer, float], ...] = field(init=False)
    wide_scorers: tuple[tuple[Scorer, float], ...] = field(init=False)

    def __post_init__(self) -> None:
        for part, wide in (("local", False), ("wide", True)):
            filters = tuple(rule for rule in self.filters if (rule.scope is Scope.DOMAIN) is wide)
            scorers = tuple(pair for pair in self.scorers if (pair[0].scope is Scope.DOMAIN) is wide)
            object.__setattr__(self, f"{part}_filters", filters)
            object.__setattr__(self, f"{part}_scorers", scorers)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        """Every filter, asked of every node of the draft."""
        return self.pass_all(self.filters, pod, draft)

    @staticmethod
    def pass_all(filters: Iterable[Filter], pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for rule in filters:
            if rule.concerns(pod, draft):
                mask &= rule.passes(pod, draft)
        return mask

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        """Every scorer, asked of every node of the draft."""
        return self.score_all(self.scorers, pod, draft)

    @staticmethod
    def score_all(scorers: Iterable[tuple[Scorer, float]], pod: PodClass, draft: Draft) -> Floats:
        total = np.zeros(len(draft.names))
        for scorer, weight in scorers:
            if scorer.concerns(pod, draft):
                total += weight * scorer.score(pod, draft)
        return total

    def rated_locally(self, pod: PodClass, draft: Draft) -> Floats:
        """By the rules that hang on the node alone: the score where they pass, NOWHERE elsewhere."""
        passes = self.pass_all(self.local_filters, pod, draft)
        return np.where(passes, self.score_all(self.local_scorers, pod, draft), NOWHERE)

    def rated_by_company(self, pod: PodClass, draft: Draft) -> Floats | None:
        """By the rules that speak of other pods, to be added to the local rating; None if none has anything to say."""
        filters = [rule for rule in self.wide_filters if rule.concerns(pod, draft)]
        scorers = [(rule, weight) for rule, weight in self.wide_scorers if rule.concerns(pod, draft)]
        if not filters and not scorers:
            return None
        passes = self.pass_all(filters, pod, draft)
        return np.where(passes, self.score_all(scorers, pod, draft), NOWHERE)


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
