"""InterPodAffinity: near the pods that it must be near, apart from those that it must be apart from, and from those
that must be apart from it.

Domains are the values of a node label. A node without the label is in no domain: nothing is near there, and nothing
is too near. A pod that must be near pods like itself may be the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alnair.scheduling.plugins.interface import Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.selectors import Pods, PodTerm, in_all_of
from alnair.state.shapes import APART, PodClass


class InterPodAffinity:
    name = "InterPodAffinity"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.near or pod.shape.apart or draft.company.brought(APART))

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return self.near(pod, draft) & self.apart(pod, draft) & self.welcome(pod, draft)

    def near(self, pod: PodClass, draft: Draft) -> Bools:
        """The pods that count are those that all terms mean; each term has its own domain."""
        mask = draft.exists.copy()
        if not pod.shape.near:
            return mask
        for term in pod.shape.near:
            mask &= draft.label(term.topology_key) >= 0
        if self._first_of_its_kind(pod, draft):
            return mask
        meant = meant_by_all(pod)
        for term in pod.shape.near:
            mask &= _in_domain(draft.count_by_domain(meant, term.topology_key) > 0, term, draft)
        return mask

    def _first_of_its_kind(self, pod: PodClass, draft: Draft) -> bool:
        """No pod that counts is in any domain, and the pod means itself."""
        meant = meant_by_all(pod)
        if not draft.company.is_in(meant, pod):
            return False
        return not any(draft.count_by_domain(meant, term.topology_key).any() for term in pod.shape.near)

    def apart(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for term in pod.shape.apart:
            mask &= ~_in_domain(draft.count_by_domain(term.pods, term.topology_key) > 0, term, draft)
        return mask

    def welcome(self, pod: PodClass, draft: Draft) -> Bools:
        """Nobody is there who must be apart from it."""
        mask = draft.exists.copy()
        for term, rows in draft.company.brought(APART).items():
            if isinstance(term, PodTerm) and draft.company.is_in(term.pods, pod):
                codes = draft.label_column(term.topology_key).codes
                closed = np.unique(codes[np.fromiter(rows, dtype=np.int64, count=len(rows))])
                mask &= ~np.isin(draft.label(term.topology_key), closed[closed >= 0])
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        reasons = []
        for told, mask in (
            (f"has no pods near that match {_listed(pod.shape.near)}", self.near(pod, draft)),
            (f"has pods near that match {_listed(pod.shape.apart)}", self.apart(pod, draft)),
            ("has pods near whose anti-affinity keeps the pod away", self.welcome(pod, draft)),
        ):
            lacking = failed[~mask[failed]]
            if len(lacking):
                reasons.append((told, len(lacking)))
                failed = np.setdiff1d(failed, lacking)
        return reasons


def meant_by_all(pod: PodClass) -> Pods:
    """The pods that count for the affinity terms: those that every one of them means."""
    return in_all_of(term.pods for term in pod.shape.near)


def _in_domain(of_domain: Bools, term: PodTerm, draft: Draft) -> Bools:
    """N: what holds for the node's domain; False where it has none."""
    return np.append(of_domain, False)[draft.label(term.topology_key)]


def _listed(terms: Sequence[PodTerm]) -> str:
    return " and ".join(str(term) for term in terms)
