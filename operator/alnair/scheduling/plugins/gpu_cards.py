"""GPUCards: the node has the cards, whole or in slices, that the pod asks for.

On nodes whose cards are Alnair's, each card is looked at: a slice must fit on one card, a whole card must be idle, and
n cards mean n different ones. On a device plugin's nodes the kubelet picks, so whole cards are counted and slices
cannot be had; and while pods are there with cards that Alnair picked for them, before the node became the plugin's,
nothing can, for the plugin knows nothing of those and may give them again. For a pod with one GPU container the answer
is exact; with several it is necessary, and the picker has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from alnair.api import names
from alnair.api.gpurequest import GpuRequest
from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import Model, enough_of
from alnair.scheduling.plugins import card_packing
from alnair.scheduling.plugins.cards_that_fit import candidates, of_allowed_model
from alnair.scheduling.plugins.interface import Scope
from alnair.scheduling.words import count, memory
from alnair.state.alignment import Alignment
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

UNCOUNTED = 1 << 52


def idle_counted(draft: Draft) -> Ints:
    """N: whole cards free on a device plugin's node."""
    column = draft.column(names.NVIDIA_GPU)
    if column is None:
        return np.zeros(len(draft.names), dtype=np.int64)
    return draft.free[:, column]


class GPUCards:
    name = "GPUCards"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.gpu.demands)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return self._served(pod, draft, pod.shape.alignment)

    def _served(self, pod: PodClass, draft: Draft, alignment: Alignment | None) -> Bools:
        gpu = pod.shape.gpu
        whole = sum(demand.cards for demand in gpu.demands if demand.whole)
        own = draft.owned.copy()
        for demand in gpu.demands:
            needed = whole if demand.whole else demand.cards
            own &= candidates(demand, gpu, draft, alignment).sum(axis=1) >= needed
        # Where the node advertises whole GPUs as well, the kubelet counts them, for slices in HAMi's dialect too.
        if counted := dict(pod.shape.requests).get(names.NVIDIA_GPU, 0):
            own &= (idle_counted(draft) >= counted) | ~self._advertised(draft)
        if any(not demand.whole for demand in gpu.demands):
            return own
        plugin = ~draft.owned & (idle_counted(draft) >= whole) & self._model_counted(gpu, draft)
        return own | (plugin & ~self._disputed(draft))

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        far = self._served(pod, draft, None)[failed]
        if far.any():
            phrase = "has such cards, but on other NUMA nodes than the kubelet would align the pod with"
            return [(phrase, int(far.sum())), *self._why_not(pod, draft, failed[~far])]
        return self._why_not(pod, draft, failed)

    def _why_not(self, pod: PodClass, draft: Draft, failed: Ints) -> list[tuple[str, int]]:
        gpu = pod.shape.gpu
        with_cards = failed[(draft.card_memory[failed] > 0).any(axis=1) | self._advertised(draft)[failed]]
        reasons = []
        if without := len(failed) - len(with_cards):
            reasons.append(("has no GPUs", without))
        right_model = with_cards[of_allowed_model(gpu, draft)[with_cards].any(axis=1) | (not gpu.models)]
        if others := len(with_cards) - len(right_model):
            reasons.append((f"has no GPU of model {' or '.join(gpu.models)}", others))
        if any(not demand.whole for demand in gpu.demands):
            return reasons + self._why_no_slice(pod, draft, right_model)
        return reasons + self._why_no_whole_card(gpu, draft, right_model)

    def _why_no_slice(self, pod: PodClass, draft: Draft, rows: Ints) -> list[tuple[str, int]]:
        reasons = []
        sliceable = rows[draft.owned[rows]]
        if others := len(rows) - len(sliceable):
            reasons.append(("has its GPUs owned by a device plugin, which gives no slices", others))
        counted = dict(pod.shape.requests).get(names.NVIDIA_GPU, 0)
        fitting = sliceable[~(self._advertised(draft) & (idle_counted(draft) < counted))[sliceable]]
        if others := len(sliceable) - len(fitting):
            reasons.append((f"has too few {names.NVIDIA_GPU} left ({counted} needed)", others))
        if whole := tuple(demand for demand in pod.shape.gpu.demands if demand.whole):
            beside = replace(pod.shape.gpu, demands=whole)
            needed = sum(demand.cards for demand in whole)
            lacking = fitting[self._idle(beside, draft)[fitting] < needed]
            reasons += self._why_no_whole_card(beside, draft, lacking)
            fitting = np.setdiff1d(fitting, lacking)
        if len(fitting):
            reasons.append((self._largest_slice(pod.shape.gpu, draft, fitting), len(fitting)))
        return reasons

    def _why_no_whole_card(self, gpu: GpuRequest, draft: Draft, rows: Ints) -> list[tuple[str, int]]:
        reasons = []
        undisputed = rows[~self._disputed(draft)[rows]]
        if others := len(rows) - len(undisputed):
            reasons.append(
                ("has GPUs owned by a device plugin, which may give some that pods have from Alnair", others)
            )
        rows = undisputed
        certain = rows[(draft.owned | self._model_counted(gpu, draft))[rows]]
        if others := len(rows) - len(certain):
            reasons.append(
                ("has GPUs of several models owned by a device plugin, which may give any", others)
            )
        if len(certain):
            needed = sum(demand.cards for demand in gpu.demands)
            idle = self._idle(gpu, draft)[certain]
            best = int(idle.argmax())
            most = max(int(idle[best]), 0)
            where = f", {draft.names[certain[best]]} has {most}" if most else ""
            reasons.append(
                (f"has too few free whole GPUs ({needed} needed on one node{where})", len(certain))
            )
        return reasons

    def _idle(self, gpu: GpuRequest, draft: Draft) -> Ints:
        """N: whole cards of an allowed model that are free."""
        counted = idle_counted(draft)
        cards = candidates(gpu.demands[0], gpu, draft).sum(axis=1)
        own = np.where(self._advertised(draft), np.minimum(cards, counted), cards)
        return np.where(draft.owned, own, counted)

    @staticmethod
    def _largest_slice(gpu: GpuRequest, draft: Draft, rows: Ints) -> str:
        """What is wanted of the cards, and the best that there is."""
        slices = [demand for demand in gpu.demands if not demand.whole]
        hardest = max(slices, key=lambda demand: (demand.memory_mib, demand.compute_percent))
        open_cards = (draft.card_usable & of_allowed_model(gpu, draft) & (draft.card_exclusive == 0))[rows]
        open_cards &= draft.card_free_slots[rows] >= 1
        free = np.where(open_cards, draft.card_free_memory[rows], 0)
        row, card = np.unravel_index(int(free.argmax()), free.shape)
        largest = int(free[row, card])
        wanted = "has no card" if hardest.cards == 1 else f"has fewer than {hardest.cards} cards"
        wanted += f" with {memory(hardest.memory_mib)} free"
        found = memory(largest)
        if hardest.compute_percent:
            wanted += f" and {hardest.compute_percent} % compute free"
            found += f" with {max(int(draft.card_free_compute[rows[row], card]), 0)} % compute"
        if largest <= 0:
            return f"{wanted}, all cards are taken"
        return f"{wanted}, the largest free slice is {found} on node {draft.names[rows[row]]}"

    # -- for the exact search ------------------------------------------------------------------------------------

    def possible(self, pod: PodClass, draft: Draft) -> Bools:
        # Which cards are near hangs on who comes before: with other members there it may be others.
        return self._served(pod, draft, None)

    def traits(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        if any(each.pod.shape.gpu.demands for each in classes):
            yield draft.owned.astype(np.int64)

    def stock(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        if any(each.pod.shape.gpu.demands for each in classes):
            counts = np.array([len(each.members) for each in classes])
            yield enough_of(_counted(classes), counts, self._stock(draft))
            yield from card_packing.stock(classes, draft)

    def constrain(self, model: Model) -> None:
        if any(each.pod.shape.gpu.demands for each in model.classes):
            model.ration(_counted(model.classes), self._stock(model.draft)[model.nodes])
            card_packing.pack(model)

    def _stock(self, draft: Draft) -> Ints:
        """N: whole cards by number where the kubelet counts them, as many as you like elsewhere."""
        return np.where(~draft.owned | self._advertised(draft), idle_counted(draft), UNCOUNTED)

    @staticmethod
    def _disputed(draft: Draft) -> Bools:
        return ~draft.owned & (draft.sliced > 0)

    @staticmethod
    def _advertised(draft: Draft) -> Bools:
        column = draft.column(names.NVIDIA_GPU)
        if column is None:
            return np.zeros(len(draft.names), dtype=np.bool_)
        return draft.allocatable[:, column] > 0

    @staticmethod
    def _model_counted(gpu: GpuRequest, draft: Draft) -> Bools:
        """On a device plugin's node the kubelet may give any card, so all must be of an allowed model."""
        if not gpu.models:
            return draft.exists
        allowed = of_allowed_model(gpu, draft)
        there = draft.card_memory > 0
        return np.asarray(there.any(axis=1) & (allowed | ~there).all(axis=1))


def _counted(classes: Sequence[MemberClass]) -> Ints:
    return np.array([dict(each.pod.shape.requests).get(names.NVIDIA_GPU, 0) for each in classes])


def describe(gpu: GpuRequest) -> str:
    """`1 whole GPU`, `6 GiB and 50 % compute on one card`, …: what the pod asks for, for people."""
    parts = []
    for demand in gpu.demands:
        if demand.whole:
            parts.append(count(demand.cards, "whole GPU"))
        else:
            compute = f" and {demand.compute_percent} % compute" if demand.compute_percent else ""
            where = "on one card" if demand.cards == 1 else f"on each of {demand.cards} cards"
            parts.append(f"{memory(demand.memory_mib)}{compute} {where}")
    return " plus ".join(parts)
