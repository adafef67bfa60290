"""LeastRequested and MostRequested: cpu and memory alone, by what is left, or taken, once the pod is there.

Each resource counts the same, and one that the node has none of does not count. What pods were promised counts, not
what they use; a pod that asks for nothing takes nothing.
"""

from __future__ import annotations

import numpy as np

from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

RESOURCES = ("cpu", "memory")


def fractions_left(pod: PodClass | None, draft: Draft) -> Floats:
    """N x 2: the fraction of cpu and of memory that stays free, from 0 to 1; NaN where the node has none at all.

    Without a pod: as things are.
    """
    requests = dict(pod.shape.requests) if pod is not None else {}
    columns = [draft.columns[resource] for resource in RESOURCES]
    there = draft.allocatable[:, columns].astype(np.float64)
    there[there == 0] = np.nan
    left = draft.free[:, columns] - np.array([requests.get(resource, 0) for resource in RESOURCES])
    return np.asarray((left / there).clip(0, 1))


def _mean(fractions: Floats) -> Floats:
    """N: over the resources that there are; 0 where there is none."""
    known = ~np.isnan(fractions)
    return np.asarray(np.nan_to_num(fractions).sum(axis=1) / np.maximum(known.sum(axis=1), 1))


class LeastRequested:
    """The node with most cpu and memory left."""

    name = "LeastRequested"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return _mean(fractions_left(pod, draft))


class MostRequested:
    """The node with least cpu and memory left."""

    name = "MostRequested"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return _mean(1 - fractions_left(pod, draft))
