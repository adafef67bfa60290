"""Allocated: the node where this pod would leave most room in truth, not on paper.

    of one card     now   = trust * weight * measured + (1 - trust * weight) * given out      compute and memory, each
                    after = min(1, now + what the pod adds)
    of the node     the same for CPU
    Allocated       mean of 1 - after: compute and memory of the cards that the pod would get, and CPU, by weight

What is given out and not used is what it lives on: a card given out to 80 % and used to 10 % has more room than one
given out to 20 % and used to 90 %. Measurements are not trusted to the last (0.8): a pod that has just started uses
nothing yet. Without a measurement what was given out is all there is, and this is much like Spread.

What the pod adds: the measured peak of its like, where an annotation tells it (`peak-gpu-util`, `peak-gpu-memory`,
`peak-cpu`), else its requests. A whole card without a peak is added whole, a slice that asks for no compute as much as
it asks for memory.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from alnair.api.gpurequest import CardDemand
from alnair.api.profiles import Part
from alnair.scheduling.plugins.basic import Weight
from alnair.scheduling.plugins.cards_that_fit import memory_wanted
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.scheduling.plugins.measured import best_cards, expected, hardest
from alnair.state.draft import Draft
from alnair.state.readings import CPU
from alnair.state.shapes import PodClass

TRUST = 0.8
Trust = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Allocated:
    name = "Allocated"
    scope = Scope.ROW
    reads_load = True

    class Options(Part):
        compute: Weight = 2.0
        memory: Weight = 2.0
        cpu: Weight = 1.0
        trust: Trust = TRUST

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self._of_card = np.array([options.compute, options.memory])
        self._cpu = options.cpu
        self._trust = options.trust

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(self._cpu or (pod.shape.gpu.demands and self._of_card.sum()))

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        total, weight = self._cpu * self._cpu_left(pod, draft), self._cpu
        demand, of_card = hardest(pod), float(self._of_card.sum())
        if demand is not None and of_card:
            after = np.minimum(expected(draft, self._trust) + added(pod, demand, draft), 1.0)
            left = (1 - after) @ self._of_card / of_card
            total = total + of_card * best_cards(left, pod, demand, draft)
            weight += of_card
        return np.asarray(total / weight)

    def _cpu_left(self, pod: PodClass, draft: Draft) -> Floats:
        column = draft.columns["cpu"]
        there = np.maximum(draft.allocatable[:, column], 1)
        weight = self._trust * draft.load.node_weights[:, CPU]
        given_out = 1 - draft.free[:, column] / there
        now = weight * draft.load.nodes[:, CPU] + (1 - weight) * given_out
        peak = pod.shape.peak
        adds = dict(pod.shape.requests).get("cpu", 0) if peak is None or peak.cpu is None else peak.cpu
        return 1 - np.clip(now + adds / there, 0.0, 1.0)


def added(pod: PodClass, demand: CardDemand, draft: Draft) -> Floats:
    """N x C x 2, compute and memory: what the pod adds to each card that it gets."""
    there = np.maximum(draft.card_memory, 1)
    peak = pod.shape.peak
    memory: Floats | float = 1.0 if demand.whole else memory_wanted(demand, draft) / there
    compute: Floats | float = np.maximum(demand.compute_percent / 100, memory)
    if peak is not None and peak.compute is not None:
        compute = peak.compute
    if peak is not None and peak.memory_mib is not None:
        memory = peak.memory_mib / there
    adds = np.empty((*there.shape, 2))
    adds[..., 0], adds[..., 1] = compute, memory
    return adds
