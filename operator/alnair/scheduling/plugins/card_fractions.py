"""Cards in thousandths: what is free of each, and what would be free of it with one more pod.

What the research baselines and the potential count in. A slice is so many MiB, so its share of a card hangs on the
card; a whole card is all of it.
"""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins.cards_that_fit import candidates
from alnair.scheduling.plugins.gpu_cards import advertised, idle_counted
from alnair.scheduling.plugins.interface import Floats
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass, PodShape

CARD = 1000


def free_parts(draft: Draft) -> Ints:
    """N x C: thousandths of the card that are free; 0 where there is none, or it is ill or taken as a whole."""
    open_cards = draft.card_usable & (draft.card_exclusive == 0)
    return in_thousandths(draft.card_free_memory, draft.card_memory, open_cards)


def free_gpu(draft: Draft, parts: Ints | None = None) -> Floats:
    """N: free GPU of the node, in cards; a device plugin's are counted. `parts`: its `free_parts`, if at hand."""
    if parts is None:
        parts = free_parts(draft)
    return np.where(draft.owned, parts.sum(axis=1) / CARD, idle_counted(draft))


def asked_gpu(demand: CardDemand, draft: Draft) -> Floats:
    """N: what the demand takes of the node, in cards of the largest that it has."""
    if demand.whole:
        return np.full(len(draft.names), float(demand.cards))
    largest = np.maximum(draft.card_memory.max(axis=1), 1)
    part = demand.memory_percent
    wanted = -(-largest * part // 100) if part else demand.memory_mib
    return np.asarray(demand.cards * wanted / largest)


def has_cards(draft: Draft) -> Bools:
    """N: the node has cards, whoever hands them out."""
    return np.asarray((draft.card_memory > 0).any(axis=1) | (advertised(draft) > 0))


def in_thousandths(free_mib: Ints, memory: Ints, open_cards: Bools) -> Ints:
    parts = CARD * free_mib // np.maximum(memory, 1)
    return np.where(open_cards, np.maximum(parts, 0), 0)


def idle(draft: Draft) -> Bools:
    """N x C: a card that nobody uses."""
    return np.asarray(draft.card_usable & (draft.card_users == 0))


def main_demand(shape: PodShape) -> CardDemand | None:
    """The demand that a score speaks of; of several containers, the one that is hardest to serve."""
    demands = shape.gpu.demands
    if len(demands) <= 1:
        return demands[0] if demands else None
    return max(demands, key=lambda each: (each.whole, each.size, each.cards))


def chosen_cards(order: Ints, fits: Bools, cards: int) -> Bools:
    """N x C: the first `cards` that fit, by ascending `order`; ties to the lower index."""
    ranked = np.argsort(np.where(fits, order, np.iinfo(np.int64).max), axis=1, kind="stable")
    taken = np.zeros(fits.shape, dtype=np.bool_)
    np.put_along_axis(taken, ranked[:, :cards], True, axis=1)
    return taken & fits


def only(draft: Draft, row: int) -> Draft:
    """One node; pickers are mostly given just that one already."""
    return draft if len(draft.names) == 1 else draft.only(row)


def requested(shape: PodShape, resource: str) -> int:
    return next((amount for name, amount in shape.requests if name == resource), 0)


def fitting(pod: PodClass, demand: CardDemand, draft: Draft) -> Bools:
    return candidates(demand, pod.shape.gpu, draft, pod.shape.alignment)
