"""GPUCards: the node has the cards, whole or in slices, that the pod asks for.

On nodes whose cards are Alnair's, each card is looked at: a slice must fit on one card, a whole card must be idle, and
n cards mean n different ones. On a device plugin's nodes the kubelet picks, so whole cards are counted, and slices and
cards by name cannot be had; and while pods are there with cards that Alnair picked for them, before the node became the
plugin's, nothing can, for the plugin knows nothing of those and may give them again. For a pod with one GPU container
the answer is exact; with several it is necessary, and the picker has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from alnair.api import names
from alnair.api.gpurequest import CardDemand, GpuRequest
from alnair.api.stages import INIT, MAIN, SIDECAR
from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import Model, enough_of
from alnair.scheduling.plugins import card_packing
from alnair.scheduling.plugins.cards_that_fit import candidates, chosen, of_allowed_model
from alnair.scheduling.plugins.interface import Scope, without
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


def advertised(draft: Draft) -> Ints:
    """N: whole cards that the node's kubelet counts."""
    column = draft.column(names.NVIDIA_GPU)
    if column is None:
        return np.zeros(len(draft.names), dtype=np.int64)
    return draft.allocatable[:, column]


class GPUCards:
    name = "GPUCards"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.gpu.demands)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return self._served(pod, draft, pod.shape.alignment)

    def _served(self, pod: PodClass, draft: Draft, alignment: Alignment | None) -> Bools:
        gpu = pod.shape.gpu
        own = draft.owned & self._enough(gpu, draft, alignment)
        # Where the node advertises whole GPUs as well, the kubelet counts them, for slices in HAMi's dialect too.
        if counted := dict(pod.shape.requests).get(names.NVIDIA_GPU, 0):
            own &= (idle_counted(draft) >= counted) | ~self._advertised(draft)
        if not gpu.from_plugin:
            return own
        plugin = ~draft.owned & (idle_counted(draft) >= _whole_at_once(gpu)) & self._any_would_do(gpu, draft)
        return own | (plugin & ~self._disputed(draft))

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        far = self._served(pod, draft, None)[failed]
        if far.any():
            phrase = "has such cards, but on other NUMA nodes than the kubelet would align the pod with"
            return [(phrase, failed[far]), *self._why_not(pod, draft, failed[~far])]
        return self._why_not(pod, draft, failed)

    def _why_not(self, pod: PodClass, draft: Draft, failed: Ints) -> list[tuple[str, Ints]]:
        gpu = pod.shape.gpu
        with_cards = failed[(draft.card_memory[failed] > 0).any(axis=1) | self._advertised(draft)[failed]]
        reasons = []
        if len(others := without(failed, with_cards)):
            reasons.append(("has no GPUs", others))
        rows = with_cards[of_allowed_model(gpu, draft)[with_cards].any(axis=1) | (not gpu.choice.by_model)]
        if len(others := without(with_cards, rows)):
            reasons.append((f"has no GPU of model {gpu.choice}", others))
        if not gpu.from_plugin:
            mine = rows[draft.owned[rows]]
            if len(others := without(rows, mine)):
                reasons.append((f"has its GPUs owned by a device plugin, which {_never_gives(gpu)}", others))
            rows = mine
        named = rows[chosen(gpu, draft)[rows].any(axis=1) | (not gpu.choice.by_name)]
        if len(others := without(rows, named)):
            reasons.append(("has none of the GPUs that the pod names", others))
        if any(not demand.whole for demand in gpu.demands):
            return reasons + self._why_no_slice(pod, draft, named)
        return reasons + self._why_no_whole_card(gpu, draft, named)

    def _why_no_slice(self, pod: PodClass, draft: Draft, rows: Ints) -> list[tuple[str, Ints]]:
        reasons = []
        counted = dict(pod.shape.requests).get(names.NVIDIA_GPU, 0)
        fitting = rows[~(self._advertised(draft) & (idle_counted(draft) < counted))[rows]]
        if len(others := without(rows, fitting)):
            reasons.append((f"has too few {names.NVIDIA_GPU} left ({counted} needed)", others))
        if whole := tuple(demand for demand in pod.shape.gpu.demands if demand.whole):
            beside = replace(pod.shape.gpu, demands=whole)
            lacking = fitting[~self._enough(beside, draft)[fitting]]
            reasons += self._why_no_whole_card(beside, draft, lacking)
            fitting = without(fitting, lacking)
        if len(fitting):
            reasons.append((self._largest_slice(pod.shape.gpu, draft, fitting), fitting))
        return reasons

    def _why_no_whole_card(self, gpu: GpuRequest, draft: Draft, rows: Ints) -> list[tuple[str, Ints]]:
        reasons = []
        undisputed = rows[~self._disputed(draft)[rows]]
        if len(others := without(rows, undisputed)):
            reasons.append(
                ("has GPUs owned by a device plugin, which may give some that pods have from Alnair", others)
            )
        rows = undisputed
        certain = rows[(draft.owned | self._any_would_do(gpu, draft))[rows]]
        if len(others := without(rows, certain)):
            what = "of several models" if gpu.choice.by_model else "of unknown or too small size"
            reasons.append((f"has GPUs {what} owned by a device plugin, which may give any", others))
        if len(certain):
            needed = _whole_at_once(gpu)
            least = max((demand.memory_mib for demand in gpu.demands), default=0)
            idle = self._idle(gpu, draft)[certain]
            best = int(idle.argmax())
            most = max(int(idle[best]), 0)
            where = f", {draft.names[certain[best]]} has {most}" if most else ""
            size = f" of {memory(least)} or more" if least else ""
            reasons.append(
                (f"has too few free whole GPUs{size} ({needed} needed on one node{where})", certain)
            )
        return reasons

    @staticmethod
    def _enough(gpu: GpuRequest, draft: Draft, alignment: Alignment | None = None) -> Bools:
        """N: there are cards for all demands, each by itself, but for the whole cards of one moment all together."""
        enough = draft.exists.copy()
        for demand in gpu.demands:
            needed = max(_needed(demand, moment) for moment in gpu.moments if demand in moment)
            enough &= candidates(demand, gpu, draft).sum(axis=1) >= needed
            if alignment is not None:
                # Each container has NUMA nodes of its own, so here only its own cards count.
                enough &= candidates(demand, gpu, draft, alignment).sum(axis=1) >= demand.cards
        return enough

    def _idle(self, gpu: GpuRequest, draft: Draft) -> Ints:
        """N: whole cards that the pod allows, large enough for the most demanding, that are free."""
        counted = idle_counted(draft)
        hardest = max(gpu.demands, key=lambda demand: demand.memory_mib)
        cards = candidates(hardest, gpu, draft).sum(axis=1)
        own = np.where(self._advertised(draft), np.minimum(cards, counted), cards)
        return np.where(draft.owned, own, counted)

    @staticmethod
    def _largest_slice(gpu: GpuRequest, draft: Draft, rows: Ints) -> str:
        """What is wanted of the cards, and the best that there is."""
        slices = [demand for demand in gpu.demands if not demand.whole]
        hardest = max(slices, key=lambda demand: (demand.size, demand.compute_percent))
        open_cards = (draft.card_usable & chosen(gpu, draft) & (draft.card_exclusive == 0))[rows]
        open_cards &= draft.card_free_slots[rows] >= 1
        free = np.where(open_cards, draft.card_free_memory[rows], 0)
        row, card = np.unravel_index(int(free.argmax()), free.shape)
        largest = int(free[row, card])
        wanted = "has no card" if hardest.cards == 1 else f"has fewer than {hardest.cards} cards"
        wanted += f" with {_of_memory(hardest)} free"
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
    def _any_would_do(gpu: GpuRequest, draft: Draft) -> Bools:
        """On a device plugin's node the kubelet may give any card: all must be of an allowed model and large enough."""
        least = max((demand.memory_mib for demand in gpu.demands), default=0)
        if not gpu.choice.by_model and not least:
            return draft.exists
        good = of_allowed_model(gpu, draft) & (draft.card_memory >= least)
        there = draft.card_memory > 0
        return np.asarray(there.any(axis=1) & (good | ~there).all(axis=1))


def _needed(demand: CardDemand, moment: Sequence[CardDemand]) -> int:
    """How many cards that could serve this demand there must be: those of others that are no easier to please count
    with a whole card's, for none of them is shared."""
    if not demand.whole:
        return demand.cards
    return sum(other.cards for other in moment if other.whole and other.memory_mib >= demand.memory_mib)


def _whole_at_once(gpu: GpuRequest) -> int:
    return max((sum(demand.cards for demand in moment if demand.whole) for moment in gpu.moments), default=0)


def _never_gives(gpu: GpuRequest) -> str:
    """What a device plugin does not give this pod."""
    if any(not demand.whole for demand in gpu.demands):
        return "gives no slices"
    if gpu.choice.by_name:
        return "gives cards of its own choice, none by UUID"
    return f"gives only what {names.NVIDIA_GPU} asks for"


def _counted(classes: Sequence[MemberClass]) -> Ints:
    return np.array([dict(each.pod.shape.requests).get(names.NVIDIA_GPU, 0) for each in classes])


def describe(gpu: GpuRequest) -> str:
    """`1 whole GPU`, `6 GiB and 50 % compute on one card`, …: what the pod asks for, for people."""
    parts = [part + STAGES_IN_WORDS[demand.stage] for demand in gpu.demands for part in [_in_words(demand)]]
    return " plus ".join(parts)


STAGES_IN_WORDS = {MAIN: "", INIT: " before it starts", SIDECAR: " in a sidecar"}


def _in_words(demand: CardDemand) -> str:
    if demand.whole:
        size = f" of {memory(demand.memory_mib)} or more" if demand.memory_mib else ""
        return count(demand.cards, "whole GPU") + size
    compute = f" and {demand.compute_percent} % compute" if demand.compute_percent else ""
    where = "on one card" if demand.cards == 1 else f"on each of {demand.cards} cards"
    return f"{_of_memory(demand)}{compute} {where}"


def _of_memory(demand: CardDemand) -> str:
    return f"{demand.memory_percent} % of the memory" if demand.memory_percent else memory(demand.memory_mib)


def beyond_any_card(gpu: GpuRequest, draft: Draft) -> str:
    """`larger than any card: the largest has 24 GiB on node a`, if that is so: waiting would be in vain."""
    largest_asked = max((demand.memory_mib for demand in gpu.demands), default=0)
    if not largest_asked or not len(draft.names):
        return ""
    # A whole card may be a device plugin's, a slice not.
    places = draft.exists if gpu.from_plugin else draft.owned
    sizes = np.where(chosen(gpu, draft) & places[:, None], draft.card_memory, 0)
    row = int(sizes.max(axis=1).argmax())
    largest = int(sizes[row].max())
    if not 0 < largest < largest_asked:
        return ""
    told = "card that the pod allows" if gpu.choice.by_model or gpu.choice.by_name else "card"
    return f"larger than any {told}: the largest has {memory(largest)} on node {draft.names[row]}"
