"""BinPack and Spread: fill what is in use, or go where most is free.

Both look at the GPU first (weight 0.8) and at cpu and memory for the rest. For slices the GPU part is about the card,
not the node: BinPack likes the card that the slice leaves fullest, Spread the one that it leaves emptiest. A pod
without a GPU request is kept off nodes with cards while others will do.
"""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins.card_fractions import has_cards
from alnair.scheduling.plugins.cards_that_fit import candidates, memory_wanted
from alnair.scheduling.plugins.gpu_cards import advertised, idle_counted
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

GPU_WEIGHT = 0.8


class BinPack:
    """The card, then the node, that the pod leaves fullest."""

    name = "BinPack"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return GPU_WEIGHT * _gpu_part(pod, draft, full=True) + (1 - GPU_WEIGHT) * _used_after(pod, draft)


class Spread:
    """The card, then the node, that the pod leaves emptiest."""

    name = "Spread"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        used = 1 - _used_after(pod, draft)
        return GPU_WEIGHT * _gpu_part(pod, draft, full=False) + (1 - GPU_WEIGHT) * used


def _used_after(pod: PodClass, draft: Draft) -> Floats:
    """Mean of the cpu and memory fractions that are taken once the pod is there."""
    requests = dict(pod.shape.requests)
    total = np.zeros(len(draft.names))
    for resource in ("cpu", "memory"):
        column = draft.columns[resource]
        there = np.maximum(draft.allocatable[:, column], 1)
        left = draft.free[:, column] - requests.get(resource, 0)
        total += 1 - _fraction(left / there)
    return total / 2


def _gpu_part(pod: PodClass, draft: Draft, *, full: bool) -> Floats:
    if not pod.shape.gpu.demands:
        return np.where(has_cards(draft), 0.0, 1.0)
    demand = max(pod.shape.gpu.demands, key=lambda each: (each.whole, each.size, each.cards))
    return _whole_part(demand, draft, full) if demand.whole else _slice_part(demand, pod, draft, full)


def _whole_part(demand: CardDemand, draft: Draft, full: bool) -> Floats:
    """By the fraction of the node's cards that stay idle."""
    there = np.where(draft.owned, (draft.card_memory > 0).sum(axis=1), advertised(draft))
    idle = np.where(
        draft.owned, (draft.card_usable & (draft.card_users == 0)).sum(axis=1), idle_counted(draft)
    )
    left = _fraction((idle - demand.cards) / np.maximum(there, 1))
    return 1 - left if full else left


def _slice_part(demand: CardDemand, pod: PodClass, draft: Draft, full: bool) -> Floats:
    """By the fraction of the best card that stays free: the tightest for BinPack, the roomiest for Spread."""
    fits = candidates(demand, pod.shape.gpu, draft, pod.shape.alignment)
    left = (draft.card_free_memory - memory_wanted(demand, draft)) / np.maximum(draft.card_memory, 1)
    if full:
        return 1 - np.asarray(np.where(fits, left, 1.0).min(axis=1).clip(0, 1))
    return np.asarray(np.where(fits, left, 0.0).max(axis=1).clip(0, 1))


def _fraction(values: Floats) -> Floats:
    """Into 0 to 1; for one node several times as fast as `np.clip`."""
    return np.minimum(np.maximum(values, 0.0), 1.0)
