"""FGD: put a pod where it adds least fragmentation (Weng et al., USENIX ATC 2023). A research baseline.

A node's fragmentation is the GPU that an average pod of the mix could not use there:

    F(m)  all that is free, if a pod of shape m cannot run on the node or needs no GPU;
          else what is free on cards that have less free than m needs
    F     sum over shapes of share(m) * F(m)

The score is 100 / (1 + exp(after - before)) cut to a whole number, in cards, ties to the first node: the published
figures hang on that cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.mix import MOST_KINDS, Renewals
from alnair.scheduling.plugins.card_fractions import (
    CARD,
    chosen_cards,
    fitting,
    free_parts,
    in_thousandths,
    main_demand,
    only,
    requested,
)
from alnair.scheduling.plugins.cards_that_fit import memory_wanted
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass, PodShape

COVERED = 0.95  # of the pods are of a shape that is looked at
ALL_OF_A_CARD = 1 << 40  # MiB: more than a card has, so only an idle one will do


@dataclass(frozen=True, slots=True)
class Typical:
    """One shape of the mix: cpu in thousandths, MiB on each of `cards`, the models that it may have."""

    cpu: int
    cards: int
    mib: int
    models: tuple[str, ...]


def typical(shapes: Iterable[PodShape]) -> tuple[tuple[Typical, int], ...]:
    """The commonest shapes, with how many pods are of each."""
    return commonest(Counter(_typical(shape) for shape in shapes))


def commonest(counts: Counter[Typical]) -> tuple[tuple[Typical, int], ...]:
    ordered = sorted(
        counts.items(),
        key=lambda each: (each[1], each[0].cpu, each[0].mib, each[0].cards, each[0].models),
        reverse=True,
    )
    kept: list[tuple[Typical, int]] = []
    covered, wanted = 0, COVERED * sum(counts.values())
    for shape, count in ordered:
        if covered >= wanted:
            break
        kept.append((shape, count))
        covered += count
    return tuple(kept)


def _typical(shape: PodShape) -> Typical:
    demand = main_demand(shape)
    cpu = requested(shape, "cpu")
    if demand is None:
        return Typical(cpu, 0, 0, ())
    return Typical(
        cpu, demand.cards, ALL_OF_A_CARD if demand.whole else demand.memory_mib, shape.gpu.choice.models
    )


class Fragmentation:
    """By one mix: shapes and how many pods are of each. Sums are of whole numbers, so the score of a node is the same
    whichever others are looked at with it."""

    def __init__(self, mix: Iterable[tuple[Typical, int]]) -> None:
        mix = list(mix)
        self._pods = max(sum(count for _, count in mix), 1)
        mix = [(shape, count) for shape, count in mix if shape.cards]  # F of the others is all that is free
        self._sizes = np.array(sorted({shape.mib for shape, _ in mix}), dtype=np.int64)
        self._size = np.searchsorted(self._sizes, [shape.mib for shape, _ in mix])
        self._cpu = np.array([shape.cpu for shape, _ in mix], dtype=np.int64)
        self._cards = np.array([shape.cards for shape, _ in mix], dtype=np.int64)
        self._count = np.array([count for _, count in mix], dtype=np.float64)
        self._models = [shape.models for shape, _ in mix]

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        demand = main_demand(pod.shape)
        cards = len(draft.card_memory[0]) if len(draft.names) else 0
        if demand is None:
            rows, taken = np.arange(len(draft.names)), np.zeros((len(draft.names), cards), dtype=np.bool_)
        elif demand.whole or demand.cards > 1:
            rows = np.arange(len(draft.names))
            taken = chosen_cards(draft.card_free_memory, fitting(pod, demand, draft), demand.cards)
        else:
            rows, chosen = np.nonzero(_different(fitting(pod, demand, draft), draft))
            taken = chosen[:, None] == np.arange(cards)
        best = np.zeros(len(draft.names))
        np.maximum.at(best, rows, self._scores(requested(pod.shape, "cpu"), demand, draft, rows, taken))
        return best

    def fragmented(self, draft: Draft) -> Floats:
        """N: the GPU, in cards, that an average pod of the mix could not use."""
        cpu, free = draft.free[:, draft.columns["cpu"]], draft.card_free_memory
        amount = self._fragmentation(cpu, free, free_parts(draft), draft.card_memory, self._allowed(draft))
        return amount / (self._pods * CARD)

    def keys(self, cpu: int, demand: CardDemand, one: Draft, cards: Ints) -> Ints:
        """Of one node: these cards of it, smaller is better."""
        taken = cards[:, None] == np.arange(one.card_memory.shape[1])
        scores = self._scores(cpu, demand, one, np.zeros(len(cards), dtype=np.int64), taken)
        return np.rint(-100 * scores).astype(np.int64)

    def _scores(
        self, asked: int, demand: CardDemand | None, draft: Draft, rows: Ints, taken: Bools
    ) -> Floats:
        """One each: a pod that asks for so much cpu, on that row, on the cards that are `taken`."""
        cpu, free = draft.free[:, draft.columns["cpu"]], draft.card_free_memory
        allowed = self._allowed(draft)
        before = self._fragmentation(cpu, free, free_parts(draft), draft.card_memory, allowed)
        less: int | Ints = 0
        if demand is not None:
            less = (
                free[rows]
                if demand.whole
                else np.broadcast_to(memory_wanted(demand, draft), free.shape)[rows]
            )
        free = free[rows] - np.where(taken, less, 0)
        memory = draft.card_memory[rows]
        open_cards = (draft.card_usable & (draft.card_exclusive == 0))[rows]
        after = self._fragmentation(
            cpu[rows] - asked,
            free,
            in_thousandths(free, memory, open_cards),
            memory,
            None if allowed is None else allowed[rows],
        )
        change = (after - before[rows]) / (self._pods * CARD)
        return np.asarray(np.floor(100 / (1 + np.exp(change))) / 100)

    def _allowed(self, draft: Draft) -> Bools | None:
        """N x M: the node has cards of a model that the shape may have. None: no shape minds."""
        if not any(self._models):
            return None
        known = [[not models or model in models for models in self._models] for model in draft.models]
        return np.array(known, dtype=np.bool_)[draft.card_model[:, 0]]

    def _fragmentation(
        self, cpu: Ints, free: Ints, parts: Ints, memory: Ints, allowed: Bools | None
    ) -> Floats:
        """In thousandths of a card, times the pods of the mix."""
        need = np.where(self._sizes == ALL_OF_A_CARD, memory[:, :, None], self._sizes)
        large = (free[:, :, None] >= need) & (parts > 0)[:, :, None]  # rows x cards x sizes
        usable = (large * parts[:, :, None]).sum(axis=1)[:, self._size]
        runs = (large.sum(axis=1)[:, self._size] >= self._cards) & (cpu[:, None] >= self._cpu)
        if allowed is not None:
            runs &= allowed
        return np.asarray(self._pods * parts.sum(axis=1) - (runs * usable) @ self._count)


class FGD:
    """By the mix of what has come so far; or, in the paper's experiment, of all that will come (see `foresee`)."""

    name = "FGD"
    scope = Scope.ROW

    def __init__(self) -> None:
        self._counts: Counter[Typical] = Counter()
        self._renewals = Renewals()
        self._measure = Fragmentation(())

    def arrived(self, pod: PodClass) -> bool:
        self._counts[_typical(pod.shape)] += 1
        if len(self._counts) > MOST_KINDS:
            del self._counts[min(self._counts, key=lambda each: self._counts[each])]
        if due := self._renewals.due():
            self._measure = Fragmentation(commonest(self._counts))
        return due

    def foresee(self, shapes: Iterable[PodShape]) -> None:
        """Know beforehand what will come."""
        self._measure = Fragmentation(typical(shapes))

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return self._measure.score(pod, draft)

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        """The card where the pod adds least fragmentation; for whole cards there is nothing to choose."""
        if demand.whole or demand.cards > 1:
            return np.zeros(len(candidates), dtype=np.int64)
        return self._measure.keys(requested(pod.shape, "cpu"), demand, only(draft, row), candidates)


def _different(fits: Bools, draft: Draft) -> Bools:
    """Of cards of one node that are alike, the first."""
    earlier = np.tri(fits.shape[1], k=-1, dtype=np.bool_)
    alike = (draft.card_free_memory[:, :, None] == draft.card_free_memory[:, None, :]) & (
        draft.card_memory[:, :, None] == draft.card_memory[:, None, :]
    )
    return np.asarray(fits & ~(alike & fits[:, None, :] & earlier).any(axis=2))
