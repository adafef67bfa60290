"""BalancedResource: rather where the pod makes cpu and memory more evenly used, so that neither runs out alone.

0.75 is a node that stays as balanced as it is; 1 and 0.5 are the best and worst that a pod could do to it. A pod
that asks for neither changes nothing anywhere.
"""

from __future__ import annotations

import numpy as np

from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.scheduling.plugins.requested_scores import RESOURCES, fractions_left
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass


class BalancedResource:
    name = "BalancedResource"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return any(resource in RESOURCES for resource, _ in pod.shape.requests)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        before, after = _imbalance(fractions_left(None, draft)), _imbalance(fractions_left(pod, draft))
        return np.asarray(0.75 + (before - after) / 2)


def _imbalance(fractions: Floats) -> Floats:
    """N: the standard deviation of the two; none where the node has only one of them."""
    return np.nan_to_num(np.abs(fractions[:, 0] - fractions[:, 1]) / 2)
