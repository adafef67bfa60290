"""ServiceSpreading: rather where fewest pods of the pod's Services are, on the node and in its zone.

One node, or one zone, that fails should take as little of a Service with it as can be. Zones count twice as much as
nodes; a node in no zone is judged by itself alone.
"""

from __future__ import annotations

import numpy as np

from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

ZONE = "topology.kubernetes.io/zone"
ZONE_WEIGHT = 2 / 3


class ServiceSpreading:
    name = "ServiceSpreading"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(draft.services.of(pod.namespace, pod.labels))

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        whole = draft.all_nodes()
        on_node = np.zeros(len(whole.names))
        for pods in whole.services.of(pod.namespace, pod.labels):
            on_node += whole.count(pods)
        total = _fewest(on_node)
        zones = whole.label(ZONE)
        zoned = zones >= 0
        if zoned.any():
            in_zone = _fewest(np.bincount(zones[zoned], weights=on_node[zoned]).astype(np.float64))
            total[zoned] = (1 - ZONE_WEIGHT) * total[zoned] + ZONE_WEIGHT * in_zone[zones[zoned]]
        return total[draft.rows]


def _fewest(counts: Floats) -> Floats:
    """From 1 for none to 0 for the most that there are."""
    most = counts.max(initial=0)
    return (most - counts) / most if most else np.ones(len(counts))
