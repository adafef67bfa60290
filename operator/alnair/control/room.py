"""Whether room that came back would take somebody who waits, asked of thousands at once.

Pods alike are asked about once. Pods that differ only in how much they ask for are first asked about together: where
there is no room for the least of everything that any of them asks for, there is none for anybody. So a thousand that
fit nowhere cost about what one costs, and whoever comes behind them does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from alnair.scheduling.guard import Guarded
from alnair.scheduling.plugins.interface import Filter, Scope
from alnair.scheduling.profile import Profile
from alnair.state.draft import Draft, Ints
from alnair.state.shapes import PodClass, PodShape, but_amounts

Kind = tuple[str, PodShape, int]
"""A profile, a shape without its amounts, and the version of the books since which room came back."""


class Room:
    """On the nodes of `draft` where something was given back, as `freed_at` says. Everybody who is asked about has
    been told of before (`awaited`). Good for as long as nothing changes."""

    def __init__(self, draft: Draft, freed_at: Ints) -> None:
        self._draft = draft
        self._freed_at = freed_at
        self._nodes: dict[int, Draft] = {}
        self._least: dict[Kind, dict[str, int]] = {}
        self._answers: dict[tuple[str, PodShape, int], bool] = {}
        self._hopeless: dict[Kind, bool] = {}

    def awaited(self, profile: Profile, pods: Iterable[PodClass], *, since: int) -> None:
        """Somebody waits who was refused at that version of the books, and needs a place for one of these."""
        for pod in pods:
            kind = profile.name, but_amounts(pod.shape), since
            asked, least = dict(pod.shape.requests), self._least.get(kind)
            self._least[kind] = (
                asked
                if least is None
                else {name: min(amount, asked[name]) for name, amount in least.items() if name in asked}
            )

    def takes(self, profile: Profile, pod: PodClass, *, since: int) -> bool:
        """Whether a node that changed since then passes every rule about the node itself. Raises RuleFailed."""
        kind = profile.name, but_amounts(pod.shape), since
        if kind not in self._hopeless:
            least = replace(kind[1], requests=tuple(sorted(self._least[kind].items())))
            rules = filter(_more_is_harder, profile.local_filters)
            self._hopeless[kind] = not self._pass(rules, replace(pod, shape=least), since)
        if self._hopeless[kind]:
            return False
        key = profile.name, pod.shape, since
        if key not in self._answers:
            self._answers[key] = self._pass(profile.local_filters, pod, since)
        return self._answers[key]

    def _pass(self, rules: Iterable[Filter], pod: PodClass, since: int) -> bool:
        nodes = self._nodes.get(since)
        if nodes is None:
            nodes = self._nodes[since] = self._draft.glance(np.flatnonzero(self._freed_at > since))
        return bool(Profile.pass_all(rules, pod, nodes).any())


def _more_is_harder(rule: Filter) -> bool:
    """Whoever asks for more passes on no node where one that asks for less does not: our own rules about what is left
    of a node. What is fixed may be about one shape alone (a kubelet's refusal), and of others' rules nobody knows."""
    return rule.scope is Scope.ROW and not isinstance(rule, Guarded)
