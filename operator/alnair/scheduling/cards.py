"""Which cards of the chosen node a pod gets.

Containers are served largest demand first, each from the cards that fit in every moment in which it runs, as links
and picker have it (see scheduling/links). Containers that never run at the same time share: where a pod has init
containers, each is served from what the pod holds anyway, as far as that goes. On a device plugin's node there is
nothing to choose: the number is recorded and the kubelet picks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from alnair.api.gpurequest import CardDemand, GpuRequest
from alnair.api.stages import INIT
from alnair.scheduling.links import chosen_cards
from alnair.scheduling.plugins import Picker
from alnair.scheduling.plugins.cards_that_fit import candidates, piece_of
from alnair.state.draft import Draft, Ints
from alnair.state.holding import CardUse, ContainerShare, footprint
from alnair.state.shapes import PodClass


def pick(pod: PodClass, draft: Draft, row: int, picker: Picker) -> tuple[ContainerShare, ...] | None:
    """The pod's part of each card, in running order; None if it does not fit after all."""
    gpu = pod.shape.gpu
    if not gpu.demands:
        return ()
    if not draft.owned[row]:
        return tuple(counted_share(demand) for demand in gpu.demands)
    one = draft.only(row)
    if len(gpu.demands) == 1:
        fitting = np.flatnonzero(candidates(gpu.demands[0], gpu, one, pod.shape.alignment)[0])
        cards = _chosen(pod, gpu.demands[0], one, [fitting], picker)
        return None if cards is None else (share_of(gpu.demands[0], one, cards),)
    return _together(pod, one, picker)


def counted_share(demand: CardDemand) -> ContainerShare:
    return ContainerShare(demand.container, counted=demand.cards, stage=demand.stage)


def share_of(demand: CardDemand, one: Draft, cards: Sequence[int]) -> ContainerShare:
    ids, sizes = one.card_ids[0], one.card_memory[0]
    pieces = tuple(piece_of(demand, ids[card], int(sizes[card])) for card in cards)
    return ContainerShare(demand.container, pieces, stage=demand.stage)


def _together(pod: PodClass, one: Draft, picker: Picker) -> tuple[ContainerShare, ...] | None:
    """Several containers: each moment has a scratch of its own, in which later ones see what earlier ones took."""
    gpu, alignment = pod.shape.gpu, pod.shape.alignment
    scratches = [(moment, _scratch(one)) for moment in gpu.moments]
    shares: dict[str, ContainerShare] = {}
    for demand in sorted(gpu.demands, key=_hardest_first):
        running = [scratch for moment, scratch in scratches if demand in moment]
        fits = np.logical_and.reduce([candidates(demand, gpu, scratch, alignment)[0] for scratch in running])
        tiers = [np.flatnonzero(fits)]
        if len(scratches) > 1:
            tiers = _cheapest_first(demand, tiers[0], gpu, shares, one)
        cards = _chosen(pod, demand, running[-1], tiers, picker)
        if cards is None:
            return None
        shares[demand.container] = share_of(demand, one, cards)
        for scratch in running:
            scratch.hand_out(0, [shares[demand.container]])
    return tuple(shares[demand.container] for demand in gpu.demands)


def _chosen(
    pod: PodClass, demand: CardDemand, one: Draft, tiers: Sequence[Ints], picker: Picker
) -> list[int] | None:
    """As many cards as are asked for, from the first tier that has some left; None if there are not enough."""
    cards: list[int] = []
    for tier in tiers:
        left = demand.cards - len(cards)
        if len(tier) and left:
            part = demand if left == demand.cards else replace(demand, cards=left)
            cards += chosen_cards(pod, part, one, 0, tier, picker).tolist()
    return cards if len(cards) == demand.cards else None


def _cheapest_first(
    demand: CardDemand, fitting: Ints, gpu: GpuRequest, shares: dict[str, ContainerShare], one: Draft
) -> list[Ints]:
    """The cards on which the pod then takes nothing more than it does already; for an init container, those that it
    has a part of; the rest."""
    had = {use.card: use for use in _footprint(gpu, shares)}
    nothing_more, in_part, rest = [], [], []
    for card in fitting.tolist():
        name = one.card_ids[0][card]
        more = shares | {demand.container: share_of(demand, one, [card])}
        if name not in had:
            rest.append(card)
        elif had[name] in _footprint(gpu, more):
            nothing_more.append(card)
        elif demand.stage == INIT:
            in_part.append(card)
        else:
            rest.append(card)
    return [np.array(tier, dtype=np.int64) for tier in (nothing_more, in_part, rest)]


def _footprint(gpu: GpuRequest, shares: dict[str, ContainerShare]) -> tuple[CardUse, ...]:
    """Of what is dealt out so far."""
    return footprint([shares[demand.container] for demand in gpu.demands if demand.container in shares])


def _hardest_first(demand: CardDemand) -> tuple[bool, int, int]:
    return (not demand.whole, -demand.size, -demand.cards)


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
