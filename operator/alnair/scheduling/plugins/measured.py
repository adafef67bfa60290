"""What Utilization, Allocated and the picker coolest have in common: how busy a card is, and how busy it will be.

A reading is of a moment. What was handed out since is not in it and is added; a slice that asks for no compute is taken
to use as much of it as of the memory.
"""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins.cards_that_fit import candidates
from alnair.scheduling.plugins.gpu_cards import advertised, idle_counted
from alnair.scheduling.plugins.interface import Floats
from alnair.state.draft import Bools, Draft
from alnair.state.readings import COMPUTE, MEMORY
from alnair.state.shapes import PodClass

NEUTRAL = 0.5  # of what nobody knows: neither good nor bad


def hardest(pod: PodClass) -> CardDemand | None:
    """The demand by which a node is judged: the largest."""
    return max(pod.shape.gpu.demands, key=lambda each: (each.whole, each.size, each.cards), default=None)


def measured(draft: Draft) -> Floats:
    """N x C x 3: the loads of the cards, with what was handed out since they were read."""
    load = draft.load
    compute = np.maximum(load.free_compute - draft.card_free_compute, 0) / 100
    memory = np.maximum(load.free_memory - draft.card_free_memory, 0) / np.maximum(draft.card_memory, 1)
    values = load.cards.copy()
    values[..., COMPUTE] += np.maximum(compute, memory)
    values[..., MEMORY] += memory
    return np.minimum(values, 1.0)


def allocated(draft: Draft) -> Floats:
    """N x C x 2, compute and memory: what is given out of each card; on a device plugin's node, of all its cards."""
    given_out = np.empty((*draft.card_memory.shape, 2))
    given_out[..., 1] = 1 - draft.card_free_memory / np.maximum(draft.card_memory, 1)
    given_out[..., 0] = np.maximum(1 - draft.card_free_compute / 100, given_out[..., 1])
    if not draft.owned.all():
        there = advertised(draft)
        counted = (there - idle_counted(draft)) / np.maximum(there, 1)
        given_out = np.where(draft.owned[:, None, None], given_out, counted[:, None, None])
    return np.minimum(np.maximum(given_out, 0.0), 1.0)  # for one node several times as fast as `np.clip`


def expected(draft: Draft, trust: float) -> Floats:
    """N x C x 2, compute and memory: how busy the card is. As far as that is measured, and measurements are trusted, by
    them; for the rest, by what is given out."""
    of_two = [COMPUTE, MEMORY]
    weight = trust * draft.load.card_weights[..., of_two]
    return weight * measured(draft)[..., of_two] + (1 - weight) * allocated(draft)


def best_cards(goodness: Floats, pod: PodClass, demand: CardDemand, draft: Draft) -> Floats:
    """N: the mean of as many cards as are asked for, the best that would do; on a device plugin's node, whose kubelet
    picks, of all its cards. NEUTRAL where no card is known."""
    fitting = candidates(demand, pod.shape.gpu, draft, pod.shape.alignment)
    ranked = -np.sort(np.where(fitting, -goodness, 1.0), axis=1)[:, : demand.cards]
    chosen = mean_over(ranked, ranked >= 0, default=NEUTRAL)
    if draft.owned.all():
        return chosen
    return np.where(draft.owned, chosen, mean_over(goodness, draft.card_memory > 0, default=NEUTRAL))


def mean_over(values: Floats, there: Bools, *, default: float) -> Floats:
    """N: the mean of the row's values that are there."""
    count = there.sum(axis=1)
    mean = (values * there).sum(axis=1) / np.maximum(count, 1)
    return mean if count.all() else np.where(count > 0, mean, default)
