"""Cards in linear form: how often each demand of a class uses each card of a node, and the cards read back.

`n` cards mean `n` different ones, so no demand uses a card oftener than the class has members there; then it can
always be dealt out. Where the gang takes only whole cards, the equal cards of a node are one variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import NEVER, Model, common_step, enough_of, numbered, stacked
from alnair.scheduling.plugins.cards_that_fit import candidates
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.holding import ContainerShare, Slice


@dataclass(frozen=True, slots=True)
class Uses:
    """Of one demand: an entry a variable, with its node (among the kept ones) and its group of equal cards."""

    number: int  # of the class
    demand: CardDemand
    nodes: Ints
    groups: Ints
    variables: Ints


def stock(classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
    """A node's cards, best first, and each in all that is looked at: better card by card is better altogether."""
    looked_at = _looked_at(classes, draft)
    order = np.argsort(-sum(each / max(int(each.max()), 1) for each in looked_at), axis=1, kind="stable")
    for each in looked_at:
        ranked = np.take_along_axis(each, order, axis=1)
        yield from (ranked[:, card] for card in range(ranked.shape[1]) if ranked[:, card].any())


def pack(model: Model) -> None:
    draft = model.draft.at(model.nodes)
    shared = any(not demand.whole for _, demand in _demands(model.classes))
    groups = _groups(numbered(_looked_at(model.classes, draft)), apart=shared)
    uses = []
    for number, demand in _demands(model.classes):
        seats = model.seats[number]
        there = (
            candidates(demand, model.pod(number).shape.gpu, draft) & (draft.owned & (seats != NEVER))[:, None]
        )
        nodes, heads = np.nonzero(there & (groups == np.arange(groups.shape[1])))
        sizes = (groups[nodes] == heads[:, None]).sum(axis=1)
        bound = sizes if demand.whole else np.full(len(nodes), model.count(number))
        each = Uses(number, demand, nodes, heads, model.variables(bound, at=nodes))
        _as_many_as_asked(model, each, draft.owned)
        uses.append(each)
    if shared:
        _share(model, uses, draft)
    else:
        _hand_out(model, uses, groups)
    card_ids = tuple(tuple(ids) for ids in draft.card_ids)
    model.dealer = Hand(
        model.classes, draft.owned.copy(), card_ids, draft.card_memory.copy(), groups, tuple(uses)
    )


def _demands(classes: Sequence[MemberClass]) -> Iterator[tuple[int, CardDemand]]:
    for number, each in enumerate(classes):
        for demand in each.pod.shape.gpu.demands:
            yield number, demand


def _looked_at(classes: Sequence[MemberClass], draft: Draft) -> list[Ints]:
    """N x C each: which demands a card serves, and how much is free for slices; 0 for one that serves nobody."""
    demands = list(_demands(classes))
    serves = [candidates(demand, classes[number].pod.shape.gpu, draft) for number, demand in demands]
    anybody: Bools = np.logical_or.reduce(serves)
    looked_at: list[Ints] = [each.astype(np.int64) for each in serves]
    slices = [(number, demand) for number, demand in demands if not demand.whole]
    times = np.array([len(classes[number].members) * demand.cards for number, demand in slices])
    for free, amounts in _measures(slices, draft):
        looked_at.append(np.where(anybody, enough_of(np.array(amounts), times, free), 0))
    return looked_at


def _measures(slices: Sequence[tuple[int, CardDemand]], draft: Draft) -> Iterable[tuple[Ints, list[int]]]:
    """What slices take of a card: how much is free of it, and how much each takes."""
    if not slices:
        return
    yield draft.card_free_memory, [demand.memory_mib for _, demand in slices]
    yield draft.card_free_slots, [1] * len(slices)
    if any(demand.compute_percent for _, demand in slices):
        yield draft.card_free_compute, [demand.compute_percent for _, demand in slices]


def _groups(kinds: Ints, *, apart: bool) -> Ints:
    """N x C: the first card of the node that is equal to this one; with `apart`, each card is its own."""
    if apart:
        return np.broadcast_to(np.arange(kinds.shape[1]), kinds.shape)
    return np.asarray((kinds[:, :, None] == kinds[:, None, :]).argmax(axis=2))


def _as_many_as_asked(model: Model, uses: Uses, owned: Bools) -> None:
    seats = model.seats[uses.number]
    nodes = np.flatnonzero((seats != NEVER) & owned)
    row_of = np.full(len(seats), -1)
    row_of[nodes] = np.arange(len(nodes))
    asked = stacked((row_of[uses.nodes], uses.variables, 1), (row_of, seats, -uses.demand.cards))
    model.add(*asked, most=np.zeros(len(nodes)), least=0)
    if uses.demand.cards > 1 and not uses.demand.whole:
        each = np.arange(len(uses.variables))
        model.add(
            *stacked((each, uses.variables, 1), (each, seats[uses.nodes], -1)), most=np.zeros(len(each))
        )


def _hand_out(model: Model, uses: Sequence[Uses], groups: Ints) -> None:
    """Only whole cards: no more of a group than there are in it."""
    width = groups.shape[1]
    sizes = np.zeros(groups.size, dtype=np.int64)
    np.add.at(sizes, (np.arange(len(groups))[:, None] * width + groups).ravel(), 1)
    model.add(*stacked(*((each.nodes * width + each.groups, each.variables, 1) for each in uses)), most=sizes)


def _share(model: Model, uses: Sequence[Uses], draft: Draft) -> None:
    """Slices fit beside each other; a whole card leaves nothing."""
    width = draft.card_memory.shape[1]
    slices = [each for each in uses if not each.demand.whole]
    for free, amounts in _measures([(each.number, each.demand) for each in slices], draft):
        step = common_step(np.array(amounts))
        room = np.maximum(free.ravel(), 0) // step
        rows = [
            (each.nodes * width + each.groups, each.variables, amount // step)
            for each, amount in zip(slices, amounts, strict=True)
        ]
        for each in uses:
            if each.demand.whole:
                cards = each.nodes * width + each.groups
                rows.append((cards, each.variables, room[cards]))
        model.add(*stacked(*rows), most=room)
    alone = [(each.nodes * width + each.groups, each.variables, 1) for each in uses if each.demand.whole]
    if alone:
        model.add(*stacked(*alone), most=np.ones(draft.card_memory.size))


@dataclass(frozen=True, slots=True)
class Hand:
    """The cards of the kept nodes, dealt out as a solution says."""

    classes: Sequence[MemberClass]
    owned: Bools
    card_ids: Sequence[Sequence[str]]
    card_memory: Ints
    groups: Ints
    uses: Sequence[Uses]

    def deal(
        self, values: Ints, seated: Ints
    ) -> Mapping[tuple[int, int], Sequence[tuple[ContainerShare, ...]]]:
        dealt: dict[tuple[int, int], list[list[ContainerShare]]] = {}
        given: set[tuple[int, int]] = set()  # whole cards: (node, card)
        position = iter(self.uses)
        for number, each in enumerate(self.classes):
            uses = [next(position) for _ in each.pod.shape.gpu.demands]
            for node in np.flatnonzero(seated[number]):
                count = int(seated[number, node])
                members: list[list[ContainerShare]] = [[] for _ in range(count)]
                for use in uses:
                    shares = self._shares(use, int(node), count, values, given)
                    for member, share in zip(members, shares, strict=True):
                        member.append(share)
                dealt[number, int(node)] = members
        return {where: [tuple(shares) for shares in members] for where, members in dealt.items()}

    def _shares(
        self, use: Uses, node: int, count: int, values: Ints, given: set[tuple[int, int]]
    ) -> list[ContainerShare]:
        """One demand of `count` equal members on one node."""
        demand = use.demand
        if not self.owned[node]:
            return [ContainerShare(demand.container, counted=demand.cards)] * count
        here = use.nodes == node
        left = {
            int(group): int(values[variable])
            for group, variable in zip(use.groups[here], use.variables[here], strict=True)
            if values[variable]
        }
        shares = []
        for _ in range(count):
            if demand.whole:
                cards = [self._whole_card(node, left, given) for _ in range(demand.cards)]
                slices = [
                    Slice(self.card_ids[node][card], int(self.card_memory[node, card]), 100, whole=True)
                    for card in cards
                ]
            else:
                # The cards with the most uses left first: what remains can then always be dealt out.
                cards = sorted(left, key=lambda card: (-left[card], card))[: demand.cards]
                for card in cards:
                    left[card] -= 1
                slices = [
                    Slice(self.card_ids[node][card], demand.memory_mib, demand.compute_percent)
                    for card in sorted(cards)
                ]
            shares.append(ContainerShare(demand.container, tuple(slices)))
        return shares

    def _whole_card(self, node: int, left: dict[int, int], given: set[tuple[int, int]]) -> int:
        group = next(group for group in sorted(left) if left[group])
        left[group] -= 1
        free = (int(card) for card in np.flatnonzero(self.groups[node] == group))
        card = next(card for card in free if (node, card) not in given)
        given.add((node, card))
        return card
