"""Cards in linear form: how often each demand of a class uses each card of a node, and the cards read back.

`n` cards mean `n` different ones, so no demand uses a card oftener than the class has members there; then it can
always be dealt out. Where the gang takes only whole cards, the equal cards of a node are one variable.

A pod with init containers takes of a card the most of its moments, not the sum. That is no longer the same for two
members together as for each: such members are seated one by one, each with variables of its own. Where that would be
too many (`MOST_SEATS_APART`), they are taken together all the same: then the rows ask for less than is needed, so a no
is still a no, and a plan that turns out too tight when it is dealt out ends in `Unsure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import NEVER, Floats, Model, common_step, numbered, stacked
from alnair.scheduling.plugins.cards_that_fit import candidates, memory_wanted, piece_of
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.holding import ContainerShare

MOST_SEATS_APART = 4096  # members times nodes

Wanted = Callable[[CardDemand], Ints]  # N x C: what one slice takes of a card
Term = tuple[Ints, Ints, Floats | Ints]  # cards (node * C + card), variables, amounts


@dataclass(frozen=True, slots=True)
class Uses:
    """Of one demand: an entry a variable, with its node (among the kept ones) and its group of equal cards."""

    demand: CardDemand
    nodes: Ints
    groups: Ints
    variables: Ints


@dataclass(frozen=True, slots=True)
class Party:
    """Equal members whose cards are counted together: all of a class, or one of it. `seats`: K, how many are there."""

    number: int  # of the class
    size: int
    seats: Ints
    uses: Sequence[Uses]
    moments: Sequence[Sequence[int]]  # positions in `uses`


def stock(classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
    """A node's cards, best first, and each in all that is looked at: better card by card is better altogether."""
    looked_at = _looked_at(classes, draft)
    order = np.argsort(-sum(each / max(int(each.max()), 1) for each in looked_at), axis=1, kind="stable")
    for each in looked_at:
        ranked = np.take_along_axis(each, order, axis=1)
        yield from (ranked[:, card] for card in range(ranked.shape[1]) if ranked[:, card].any())


def pack(model: Model) -> None:
    draft = model.draft.at(model.nodes)
    shared = any(
        not demand.whole or len(each.pod.shape.gpu.moments) > 1
        for each in model.classes
        for demand in each.pod.shape.gpu.demands
    )
    groups = _groups(numbered(_looked_at(model.classes, draft)), apart=shared)
    parties = []
    for number in range(len(model.classes)):
        if model.pod(number).shape.gpu.demands:
            for seats, size in _seated(model, number):
                parties.append(_party(model, number, seats, size, groups, draft))
    if shared:
        _share(model, parties, draft)
    else:
        _hand_out(model, parties, groups)
    card_ids = tuple(tuple(ids) for ids in draft.card_ids)
    model.dealer = Hand(
        model.classes, draft.owned.copy(), card_ids, draft.card_memory.copy(), groups, tuple(parties)
    )


def _seated(model: Model, number: int) -> Iterator[tuple[Ints, int]]:
    """Seats of members that are counted together, and how many there are: all of the class, or each by itself."""
    all_seats, count = model.seats[number], model.count(number)
    there = np.flatnonzero(all_seats != NEVER)
    several = len(model.pod(number).shape.gpu.moments) > 1
    if not several or count == 1 or count * len(there) > MOST_SEATS_APART:
        yield all_seats, count
        return
    one_by_one = np.full((count, len(all_seats)), NEVER)
    for member in range(count):
        one_by_one[member, there] = model.variables(np.ones(len(there)), at=there)
    row_of = np.full(len(all_seats), -1)
    row_of[there] = np.arange(len(there))
    rows = np.broadcast_to(row_of, one_by_one.shape)
    sums = stacked((rows, one_by_one, 1), (row_of, all_seats, -1))
    model.add(*sums, most=np.zeros(len(there)), least=0)
    members = np.broadcast_to(np.arange(count)[:, None], one_by_one.shape)
    model.add(members, one_by_one, 1, most=np.ones(count))
    # They are all alike: whoever has no place comes last.
    later = stacked((members[1:] - 1, one_by_one[1:], 1), (members[:-1], one_by_one[:-1], -1))
    model.add(*later, most=np.zeros(count - 1))
    for member in range(count):
        yield one_by_one[member], 1


def _party(model: Model, number: int, seats: Ints, size: int, groups: Ints, draft: Draft) -> Party:
    gpu = model.pod(number).shape.gpu
    uses = []
    for demand in gpu.demands:
        there = candidates(demand, gpu, draft) & (draft.owned & (seats != NEVER))[:, None]
        nodes, heads = np.nonzero(there & (groups == np.arange(groups.shape[1])))
        alike = (groups[nodes] == heads[:, None]).sum(axis=1)
        bound = alike if demand.whole else np.full(len(nodes), size)
        each = Uses(demand, nodes, heads, model.variables(bound, at=nodes))
        _as_many_as_asked(model, each, seats, draft.owned)
        uses.append(each)
    moments = [[gpu.demands.index(demand) for demand in moment] for moment in gpu.moments]
    return Party(number, size, seats, uses, moments)


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
    if any(demand.memory_percent for _, demand in slices):
        # Of a larger card it takes more: only cards of one size can stand in for one another.
        size = np.where(anybody, draft.card_memory, 0)
        looked_at += [size, np.where(anybody, int(size.max(initial=0)) + 1 - size, 0)]
    for free, wanted in _measures([demand for _, demand in slices], draft):
        amounts = [wanted(demand) for _, demand in slices]
        step = _step(amounts)
        most = sum(
            int(each.max(initial=0)) * often for each, often in zip(amounts, times.tolist(), strict=True)
        )
        looked_at.append(np.where(anybody, np.clip(free, 0, most) // step, 0))
    return looked_at


def _step(amounts: Sequence[Ints]) -> int:
    return common_step(np.unique(np.concatenate([np.unique(each) for each in amounts])))


def _measures(slices: Sequence[CardDemand], draft: Draft) -> Iterable[tuple[Ints, Wanted]]:
    """What slices take of a card: how much is free of it, and how much each takes."""
    if not slices:
        return

    def of_each(amount: Ints | int) -> Ints:
        return np.broadcast_to(np.asarray(amount, dtype=np.int64), draft.card_memory.shape)

    yield draft.card_free_memory, lambda demand: of_each(memory_wanted(demand, draft))
    yield draft.card_free_slots, lambda demand: of_each(1)
    if any(demand.compute_percent for demand in slices):
        yield draft.card_free_compute, lambda demand: of_each(demand.compute_percent)


def _groups(kinds: Ints, *, apart: bool) -> Ints:
    """N x C: the first card of the node that is equal to this one; with `apart`, each card is its own."""
    if apart:
        return np.broadcast_to(np.arange(kinds.shape[1]), kinds.shape)
    return np.asarray((kinds[:, :, None] == kinds[:, None, :]).argmax(axis=2))


def _as_many_as_asked(model: Model, uses: Uses, seats: Ints, owned: Bools) -> None:
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


def _hand_out(model: Model, parties: Sequence[Party], groups: Ints) -> None:
    """Only whole cards: no more of a group than there are in it."""
    width = groups.shape[1]
    sizes = np.zeros(groups.size, dtype=np.int64)
    np.add.at(sizes, (np.arange(len(groups))[:, None] * width + groups).ravel(), 1)
    uses = [each for party in parties for each in party.uses]
    model.add(*stacked(*((each.nodes * width + each.groups, each.variables, 1) for each in uses)), most=sizes)


def _share(model: Model, parties: Sequence[Party], draft: Draft) -> None:
    """Slices fit beside each other; a whole card leaves nothing."""
    width = draft.card_memory.shape[1]
    slices = [each.demand for party in parties for each in party.uses if not each.demand.whole]
    for free, wanted in _measures(slices, draft):
        amounts = {demand: wanted(demand) for demand in slices}
        step = _step(list(amounts.values()))
        room = np.maximum(free.ravel(), 0) // step
        rows: list[Term] = []
        for party in parties:
            terms: list[Term] = []
            for each in party.uses:
                cards = each.nodes * width + each.groups
                taken = room if each.demand.whole else amounts[each.demand].ravel() // step
                terms.append((cards, each.variables, taken[cards]))
            rows += _at_most_at_once(model, party, terms, room)
        model.add(*stacked(*rows), most=room)
    one = np.ones(draft.card_memory.size, dtype=np.int64)
    alone: list[Term] = []
    for party in parties:
        if any(each.demand.whole for each in party.uses):
            terms = [
                (
                    each.nodes * width + each.groups,
                    each.variables,
                    np.full(len(each.nodes), each.demand.whole),
                )
                for each in party.uses
            ]
            alone += _at_most_at_once(model, party, terms, one)
    if alone:
        model.add(*stacked(*alone), most=one)


def _at_most_at_once(model: Model, party: Party, terms: Sequence[Term], room: Ints) -> Sequence[Term]:
    """What the party takes of each card: in its one moment, or at most in any of them, which is a variable a card."""
    if len(party.moments) == 1:
        return terms
    cards = np.unique(np.concatenate([each[0] for each in terms]))
    most = model.variables(room[cards], integer=False)
    row_of = np.full(len(room), -1)
    row_of[cards] = np.arange(len(cards))
    for moment in party.moments:
        now = [(row_of[of], variables, amounts) for of, variables, amounts in (terms[use] for use in moment)]
        model.add(*stacked(*now, (np.arange(len(cards)), most, -1)), most=np.zeros(len(cards)))
    return [(cards, most, np.ones(len(cards)))]


@dataclass(frozen=True, slots=True)
class Hand:
    """The cards of the kept nodes, dealt out as a solution says."""

    classes: Sequence[MemberClass]
    owned: Bools
    card_ids: Sequence[Sequence[str]]
    card_memory: Ints
    groups: Ints
    parties: Sequence[Party]

    def deal(
        self, values: Ints, seated: Ints
    ) -> Mapping[tuple[int, int], Sequence[tuple[ContainerShare, ...]]]:
        dealt: dict[tuple[int, int], list[tuple[ContainerShare, ...]]] = {}
        given: set[tuple[int, int]] = set()  # whole cards, where equal ones are one variable: (node, card)
        for party in self.parties:
            there = np.where(party.seats >= 0, np.append(values, 0)[party.seats], 0)
            for node in np.flatnonzero(there):
                count = int(there[node])
                shares = [self._shares(use, int(node), count, values, given) for use in party.uses]
                dealt.setdefault((party.number, int(node)), []).extend(zip(*shares, strict=True))
        return dealt

    def _shares(
        self, use: Uses, node: int, count: int, values: Ints, given: set[tuple[int, int]]
    ) -> list[ContainerShare]:
        """One demand of `count` equal members on one node."""
        demand = use.demand
        if not self.owned[node]:
            return [ContainerShare(demand.container, counted=demand.cards, stage=demand.stage)] * count
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
            else:
                # The cards with the most uses left first: what remains can then always be dealt out.
                cards = sorted(left, key=lambda card: (-left[card], card))[: demand.cards]
                for card in cards:
                    left[card] -= 1
            ids, sizes = self.card_ids[node], self.card_memory[node]
            slices = tuple(piece_of(demand, ids[card], int(sizes[card])) for card in sorted(cards))
            shares.append(ContainerShare(demand.container, slices, stage=demand.stage))
        return shares

    def _whole_card(self, node: int, left: dict[int, int], given: set[tuple[int, int]]) -> int:
        group = next(group for group in sorted(left) if left[group])
        left[group] -= 1
        free = [int(card) for card in np.flatnonzero(self.groups[node] == group)]
        if len(free) == 1:
            return free[0]  # each card is its own group, and may be another container's at another time
        card = next(card for card in free if (node, card) not in given)
        given.add((node, card))
        return card
