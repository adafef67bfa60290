"""Which cards could serve a demand: what the filter, the picker and the exact search all ask."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from alnair.api.gpurequest import CardDemand, GpuRequest
from alnair.scheduling.plugins.cards_by_numa import kept_by_numa
from alnair.state.alignment import Alignment
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.holding import CardUse, Slice


def of_allowed_model(gpu: GpuRequest, draft: Draft) -> Bools:
    """N x C: the card is of a model that the pod allows."""
    if not gpu.choice.by_model:
        return draft.card_memory > 0
    allowed = np.array([gpu.choice.likes_model(model) for model in draft.models], dtype=np.bool_)
    return np.asarray(allowed[draft.card_model], dtype=np.bool_) & (draft.card_memory > 0)


def chosen(gpu: GpuRequest, draft: Draft) -> Bools:
    """N x C: the card is one that the pod allows, by model and by name."""
    allowed = of_allowed_model(gpu, draft)
    if gpu.choice.by_name:
        likes = gpu.choice.likes_card
        places = {entry.rpartition("/")[0] for entry in (*gpu.choice.cards, *gpu.choice.cards_not)}
        by_name = np.zeros(allowed.shape, dtype=np.bool_)
        for row, cards in enumerate(draft.card_ids):
            node = draft.names[row]
            index = draft.card_index[row] if node in places else None
            for column, card in enumerate(cards):
                by_name[row, column] = likes(card, "" if index is None else f"{node}/{index[column]}")
        allowed &= by_name
    return allowed


def memory_wanted(demand: CardDemand, draft: Draft) -> Ints | int:
    """N x C, or one for all: MiB that a slice of this demand takes of the card."""
    if demand.memory_percent:
        return -(-draft.card_memory * demand.memory_percent // 100)
    return demand.memory_mib


def candidates(
    demand: CardDemand, gpu: GpuRequest, draft: Draft, alignment: Alignment | None = None
) -> Bools:
    """N x C: the card could serve this demand as things stand in the draft. `alignment`: the pod's, if its cards are
    to be near the CPUs and memory that the kubelet will give it."""
    fitting = _fitting(demand, gpu, draft)
    if alignment is not None and draft.zones.nodes:
        return kept_by_numa(fitting, demand, alignment, draft)
    return fitting


def _fitting(demand: CardDemand, gpu: GpuRequest, draft: Draft) -> Bools:
    usable = draft.card_usable & chosen(gpu, draft)
    if demand.whole:
        return np.asarray(usable & (draft.card_users == 0) & (draft.card_memory >= demand.memory_mib))
    return np.asarray(
        usable
        & (draft.card_exclusive == 0)
        & (draft.card_free_memory >= memory_wanted(demand, draft))
        & (draft.card_free_compute >= demand.compute_percent)
        & (draft.card_free_slots >= 1)
    )


def piece_of(demand: CardDemand, card: str, card_mib: int) -> Slice:
    """What the demand takes of this card."""
    if demand.whole:
        return Slice(card, card_mib, 100, whole=True)
    return Slice(card, demand.memory_on(card_mib), demand.compute_percent)


def room_for(uses: Iterable[CardUse], gpu: GpuRequest, one: Draft) -> bool:
    """Whether all that a pod would take fits on these very cards, as things stand in this draft of its node."""
    usable = (one.card_usable & chosen(gpu, one))[0]
    positions = {card: index for index, card in enumerate(one.card_ids[0])}
    for use in uses:
        card = positions.get(use.card)
        if card is None or not usable[card] or use.clash:
            return False
        if one.card_users[0, card] if use.whole else one.card_exclusive[0, card]:
            return False
        free = (one.card_free_memory, one.card_free_compute, one.card_free_slots)
        asked = (use.memory_mib, use.compute_percent, use.slots)
        if any(left[0, card] < amount for left, amount in zip(free, asked, strict=True)):
            return False
    return True
