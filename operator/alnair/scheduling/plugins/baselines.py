"""What the FGD paper compares itself with: random, dot product, clustering, packing, best fit. Research baselines.

Each is as its authors' simulator does it, whole numbers from 0 to 100 and ties to the first node included, so that
published figures can be had again; `alnair simulate` shows that they can.
"""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.api.profiles import Part
from alnair.scheduling.plugins.card_fractions import (
    CARD,
    asked_gpu,
    chosen_cards,
    fitting,
    free_gpu,
    free_parts,
    idle,
    main_demand,
    requested,
)
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft, Ints
from alnair.state.selectors import PodSet, Requirement, Selector
from alnair.state.shapes import PodClass, PodShape

LARGEST_CPU = 128_000  # thousandths; what a full node counts as
LARGEST_CARDS = 8

KIND = "ai.centaurus.io/gpu-kind"
"""Label of a pod that Clustering tells kinds by: see `kind_of`."""


def kind_of(shape: PodShape) -> str:
    """Pods of one kind like each other's company: `slice`, or `n-cards`. Empty without a GPU."""
    demand = main_demand(shape)
    if demand is None:
        return ""
    return f"{demand.cards}-cards" if demand.whole else "slice"


def _vectors(pod: PodClass, draft: Draft) -> tuple[Floats, Floats, float, Floats]:
    """Free cpu and GPU of each node, and asked cpu and GPU, as parts of the largest node."""
    demand = main_demand(pod.shape)
    gpu = np.zeros(len(draft.names)) if demand is None else asked_gpu(demand, draft)
    return (
        draft.free[:, draft.columns["cpu"]] / LARGEST_CPU,
        free_gpu(draft) / LARGEST_CARDS,
        requested(pod.shape, "cpu") / LARGEST_CPU,
        gpu / LARGEST_CARDS,
    )


def _whole_number(score: Floats) -> Floats:
    # Half a millionth, so that 0.57 * 100 is 57
    return np.clip(np.floor(100 * score + 5e-7), 0, 100) / 100


class Random:
    """Any node and any card that fits, as the seed has it."""

    name = "Random"
    scope = Scope.DOMAIN  # asked anew for each pod

    class Options(Part):
        seed: int = 0

    def __init__(self, options: Options | None = None) -> None:
        self._chance = np.random.default_rng((options or self.Options()).seed)

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return self._chance.random(len(draft.names))

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        if demand.whole:
            return np.zeros(len(candidates), dtype=np.int64)
        return self._chance.permutation(len(candidates))


class DotProduct:
    """Where what is free and what is asked for have the least in common (as the paper's simulator has it)."""

    name = "DotProduct"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        free_cpu, free_gpu, cpu, gpu = _vectors(pod, draft)
        return _whole_number(1 - (free_cpu * cpu + free_gpu * gpu) / 2)


class TightestNode:
    """The node that has least left afterwards, cpu and GPU weighed alike: the paper's BestFit."""

    name = "TightestNode"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        free_cpu, free_gpu, cpu, gpu = _vectors(pod, draft)
        return _whole_number(1 - (free_cpu - cpu) / 2 - (free_gpu - gpu) / 2)


class Clustering:
    """Beside pods of the same kind (label `KIND`): only those, then among others, then an idle node, then any."""

    name = "Clustering"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.gpu.demands)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        kinds = Requirement(KIND, "In", (kind_of(pod.shape),))
        like = draft.count(PodSet((pod.namespace,), Selector((kinds,))))
        everyone = draft.count(PodSet((pod.namespace,), Selector((Requirement(KIND, "Exists"),))))
        tier = np.where(like > 0, np.where(like == everyone, 3, 2), np.where(everyone == 0, 1, 0))
        used = np.floor(25 * np.clip(1 - free_gpu(draft) / LARGEST_CARDS, 0, 1) + 1e-9)
        return np.asarray((25 * tier + used) / 100)


class Packing:
    """A card in use, the fullest first; else idle cards of a node in use; else a node that is idle, the smallest."""

    name = "Packing"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.gpu.demands)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        demand = main_demand(pod.shape)
        assert demand is not None
        parts, unused = free_parts(draft), idle(draft)
        free = unused.sum(axis=1)
        all_idle = free == (draft.card_memory > 0).sum(axis=1)
        taken = chosen_cards(parts, fitting(pod, demand, draft), demand.cards)
        fresh = (taken & unused).sum(axis=1)
        shared = 100 - np.where(taken, parts * 100 // CARD, 0).sum(axis=1) // 10
        score = np.where(fresh > 0, np.maximum(50 - fresh, 33), np.maximum(shared, 50))
        score = np.where(all_idle, np.maximum(33 - free, free), score)
        return np.asarray(score / 100)
