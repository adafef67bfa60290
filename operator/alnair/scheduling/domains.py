"""Parts of the cluster that a gang wants to be in together: racks, blocks, zones, NVLink domains.

A domain is all nodes with one value of a node label; a node without the label is in none. A gang may require one domain
for all of it, or prefer as few as possible. This module says in which domains to look, and in which order:

- those that cannot hold the gang are left out by counting: on each node, how many members of a class would fit if it
  had the node to itself. That is never less than do fit, so nothing is left out wrongly;
- of those that may hold all of it, the one with the fewest idle cards first, so that large domains stay whole;
- a gang that has members already goes on where they are.

What must never happen here: a domain called too small that is not. Whether a gang really fits is for the search to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from alnair.api import names
from alnair.scheduling.classes import MemberClass
from alnair.scheduling.plugins.cards_that_fit import candidates
from alnair.scheduling.plugins.gpu_cards import idle_counted
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

LOOKED_AT = 500  # sets of domains whose room is reckoned for a gang that prefers few
MORE_DOMAINS = 3  # beyond the fewest that counting allows, before it is placed without looking at domains


@dataclass(frozen=True, slots=True)
class Together:
    """What a gang asks for. `level` is what people call such a domain. `home`: where it has members already."""

    label: str
    level: str
    required: bool
    home: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains (D) of one label, and what a gang's classes find there."""

    names: Sequence[str]
    of_node: Ints  # N: number of the node's domain, -1 = none
    counts: Ints  # members of each class
    room: Ints  # classes x D: at most so many of the class fit
    idle: Ints  # D: cards that nobody uses
    home: Bools  # D

    @property
    def most(self) -> Ints:
        """D: no more members than this fit."""
        return np.asarray(np.minimum(self.room, self.counts[:, None]).sum(axis=0))

    def rows(self, numbers: Sequence[int]) -> Bools:
        """N: nodes in these domains."""
        wanted = np.zeros(len(self.names) + 1, dtype=np.bool_)
        wanted[list(numbers)] = True
        return np.asarray(wanted[self.of_node])  # -1 is the last, which is never wanted

    def holding(self, least: int) -> list[int]:
        """Domains that may hold so many members, best first. A gang that has a home looks nowhere else."""
        most = self.most
        open_ = (most >= least) & (self.home if self.home.any() else True)
        found = [int(number) for number in np.flatnonzero(open_)]
        return sorted(found, key=lambda number: (-int(most[number]), *self._snug(number)))

    def fullest(self) -> int | None:
        """Where most would fit, for whoever wants to know why the gang does not."""
        open_ = np.flatnonzero(self.home if self.home.any() else self.most > 0)
        return max((int(number) for number in open_), key=lambda number: int(self.most[number]), default=None)

    def few(self) -> Iterator[tuple[int, ...]]:
        """Sets of domains that may hold all members, fewest domains first, then best fit. Where there are too many
        sets to look at, those of the roomiest domains, with the snuggest that does as the last one."""
        at_home = tuple(np.flatnonzero(self.home).tolist())
        if at_home and self._may_hold(at_home):
            yield at_home
        others = [number for number in np.argsort(-self.most, kind="stable").tolist() if self.most[number]]
        others = [number for number in others if number not in at_home]
        beyond = 0
        for size in range(1, len(others) + 1):
            if not self._may_hold_at_best(at_home, others, size):
                continue
            if comb(len(others), size) <= LOOKED_AT:
                sets = [(*at_home, *more) for more in combinations(others, size)]
            else:
                sets = [(*at_home, *others[: size - 1], last) for last in others[size - 1 :]]
            holding = [numbers for numbers in sets if self._may_hold(numbers)]
            yield from sorted(holding, key=lambda numbers: self._snug(*numbers))
            beyond += 1
            if beyond > MORE_DOMAINS:
                return

    def _snug(self, *numbers: int) -> tuple[int, int, list[str]]:
        """Smaller is better: idle cards, then room, then the name."""
        some = list(numbers)
        return (
            int(self.idle[some].sum()),
            int(self.room[:, some].sum()),
            [self.names[number] for number in some],
        )

    def _may_hold(self, numbers: Sequence[int]) -> bool:
        return bool((self.room[:, list(numbers)].sum(axis=1) >= self.counts).all())

    def _may_hold_at_best(self, base: Sequence[int], others: Sequence[int], size: int) -> bool:
        """Whether any `size` of the others could do beside those: each class with the ones that are roomiest to it."""
        room = np.sort(self.room[:, list(others)], axis=1)[:, -size:].sum(axis=1)
        return bool((room + self.room[:, list(base)].sum(axis=1) >= self.counts).all())


def domains_of(
    together: Together, classes: Sequence[MemberClass], possible: Sequence[Bools], draft: Draft
) -> Domains:
    """`possible`: for each class, the nodes that it could go to."""
    codes = draft.label(together.label)
    values = draft.label_column(together.label).values
    there = np.flatnonzero((codes >= 0) & draft.exists)
    known, numbers = np.unique(codes[there], return_inverse=True)
    of_node = np.full(len(codes), -1, dtype=np.int64)
    of_node[there] = numbers.ravel()

    def summed(amounts: Ints) -> Ints:
        sums = np.bincount(of_node[there], weights=amounts[there], minlength=len(known))
        return np.asarray(sums.astype(np.int64))

    room = [summed(room_on_nodes(each, mask, draft)) for each, mask in zip(classes, possible, strict=True)]
    told = [values[code] for code in known]
    return Domains(
        names=told,
        of_node=of_node,
        counts=np.array([len(each.members) for each in classes], dtype=np.int64),
        room=np.array(room, dtype=np.int64).reshape(len(classes), len(told)),
        idle=summed(_idle_cards(draft)),
        home=np.array([name in together.home for name in told], dtype=np.bool_),
    )


def sampled(ordered: Sequence[int], tries: int) -> list[int]:
    """So many of them in their order: half are the first, the others stand at even distances up to the last. Where the
    snuggest are too snug after all, a roomy one is likely to do."""
    if len(ordered) <= tries:
        return list(ordered)
    first = -(-tries // 2)
    rest = np.linspace(first, len(ordered) - 1, tries - first + 1)[1:]
    return [*ordered[:first], *(ordered[int(position)] for position in rest)]


def room_on_nodes(each: MemberClass, possible: Bools, draft: Draft) -> Ints:
    """N: how many members of the class fit there beside nobody of the gang; never less than do, and never more than
    there are."""
    room = np.where(possible, len(each.members), 0)
    for resource, amount in each.pod.shape.requests:
        column = draft.column(resource)
        if column is None or not amount:
            continue
        fitting = np.maximum(draft.free[:, column], 0) // amount
        counts_here = ~draft.owned if resource == names.NVIDIA_GPU else True
        room = np.where(counts_here, np.minimum(room, fitting), room)
    if each.pod.shape.gpu.demands:
        room = np.where(draft.owned, np.minimum(room, _room_on_cards(each.pod, draft)), room)
    return room


def _room_on_cards(pod: PodClass, draft: Draft) -> Ints:
    """N: by the scarcest of its demands, each looked at alone."""
    room = np.full(len(draft.names), np.iinfo(np.int64).max)
    for demand in pod.shape.gpu.demands:
        fitting = candidates(demand, pod.shape.gpu, draft)
        if demand.whole:
            uses = fitting.astype(np.int64)
        else:
            uses = draft.card_free_slots
            if demand.memory_mib:
                uses = np.minimum(uses, draft.card_free_memory // demand.memory_mib)
            if demand.compute_percent:
                uses = np.minimum(uses, draft.card_free_compute // demand.compute_percent)
        room = np.minimum(room, np.where(fitting, uses, 0).sum(axis=1) // demand.cards)
    return room


def _idle_cards(draft: Draft) -> Ints:
    own = (draft.card_usable & (draft.card_users == 0)).sum(axis=1)
    return np.asarray(np.where(draft.owned, own, np.maximum(idle_counted(draft), 0)))


# -- in words ----------------------------------------------------------------------------------------------------


def in_no_domain(together: Together) -> str:
    return (
        f"No node has the label {together.label}, so there is no {together.level} to be in; label the nodes, or "
        "ask for another level."
    )


def where_it_fails(together: Together, domains: Domains, number: int | None, *, lone: bool) -> str:
    """Before the sentences that say why the gang does not fit into this domain (None: into none at all)."""
    whom = "the pod" if lone else "the whole gang"
    if number is not None and domains.home.any():
        return f"The gang is in {together.level} {domains.names[number]} and stays there: "
    opening = f"No {together.level} holds {whom}"
    if number is None or len(domains.names) == 1:
        return f"{opening}: " if number is None else f"{opening}; there is only {domains.names[number]}: "
    return f"{opening}; of {len(domains.names)} the best is {domains.names[number]}: "
