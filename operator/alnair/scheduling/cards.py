"""Which cards of the chosen node a pod gets.

Containers are served largest demand first, each from the cards that still fit, as links and picker have it (see
scheduling/links). On a device plugin's node there is nothing to choose: the number is recorded and the kubelet picks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.links import chosen_cards
from alnair.scheduling.plugins import Picker
from alnair.scheduling.plugins.cards_that_fit import candidates
from alnair.state.draft import Draft
from alnair.state.holding import ContainerShare, Slice
from alnair.state.shapes import PodShape


def pick(shape: PodShape, draft: Draft, row: int, picker: Picker) -> tuple[ContainerShare, ...] | None:
    """The pod's part of each card, in container order; None if it does not fit after all."""
    gpu = shape.gpu
    if not gpu.demands:
        return ()
    if not draft.owned[row]:
        return tuple(ContainerShare(demand.container, counted=demand.cards) for demand in gpu.demands)
    one = draft.only(row)
    if len(gpu.demands) > 1:
        one = _scratch(one)  # later containers must see what earlier ones took
    shares: dict[str, ContainerShare] = {}
    for demand in sorted(gpu.demands, key=_hardest_first):
        fitting = np.flatnonzero(candidates(demand, gpu, one)[0])
        if len(fitting) < demand.cards:
            return None
        chosen = chosen_cards(demand, one, 0, fitting, picker)
        share = ContainerShare(demand.container, tuple(_slice(demand, one, int(card)) for card in chosen))
        shares[demand.container] = share
        if len(gpu.demands) > 1:
            one.hand_out(0, [share])
    return tuple(shares[demand.container] for demand in gpu.demands)


def _hardest_first(demand: CardDemand) -> tuple[bool, int, int]:
    return (not demand.whole, -demand.memory_mib, -demand.cards)


def _slice(demand: CardDemand, one: Draft, card: int) -> Slice:
    name = one.card_ids[0][card]
    if demand.whole:
        return Slice(name, int(one.card_memory[0, card]), 100, whole=True)
    return Slice(name, demand.memory_mib, demand.compute_percent)


def _scratch(one: Draft) -> Draft:
    return replace(
        one,
        journal=[],
        card_free_memory=one.card_free_memory.copy(),
        card_free_compute=one.card_free_compute.copy(),
        card_free_slots=one.card_free_slots.copy(),
        card_users=one.card_users.copy(),
        card_exclusive=one.card_exclusive.copy(),
    )
