"""Utilization: the node, and on it the cards, that are least busy by what was measured.

    of one reading   idle = weight * (1 - load) + (1 - weight) * 0.5      weight: 1 fresh … 0 forgotten or never read
    of one card      mean of compute, memory bandwidth and memory used, by weight
    Utilization      mean of the cards that the pod would get and of the node's CPU and I/O, by weight

So a node of which nobody tells anything is neutral, one that was measured idle is better, one that was measured busy is
worse, and both come back to neutral as their readings grow old (see state/loads). What was handed out since a card was
read counts as load. For a pod without a GPU request the node's CPU and I/O are all there is.
"""

from __future__ import annotations

import numpy as np

from alnair.api.profiles import Part
from alnair.scheduling.plugins.basic import Weight
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.scheduling.plugins.measured import NEUTRAL, best_cards, hardest, measured
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass


class Utilization:
    name = "Utilization"
    scope = Scope.ROW
    reads_load = True

    class Options(Part):
        compute: Weight = 4.0
        memory_bandwidth: Weight = 2.0
        memory: Weight = 2.0
        cpu: Weight = 1.0
        io: Weight = 1.0

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self._of_card = np.array([options.compute, options.memory_bandwidth, options.memory])
        self._of_node = np.array([options.cpu, options.io])

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(self._of_node.sum() or (pod.shape.gpu.demands and self._of_card.sum()))

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        load = draft.load
        total, weight = idle(load.nodes, load.node_weights) @ self._of_node, float(self._of_node.sum())
        demand, of_card = hardest(pod), float(self._of_card.sum())
        if demand is not None and of_card:
            cards = idle(measured(draft), load.card_weights) @ self._of_card / of_card
            total = total + of_card * best_cards(cards, pod, demand, draft)
            weight += of_card
        return np.asarray(total / weight)


def idle(loads: Floats, weights: Floats) -> Floats:
    return weights * (1 - loads) + (1 - weights) * NEUTRAL
