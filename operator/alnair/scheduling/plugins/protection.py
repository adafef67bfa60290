"""Protection: keep whole nodes for those who will ask for several cards at once, but only as many as they will need.

How many such requests are still to come before the free GPU is gone is expected from arrivals; how many the cluster
has a place for is counted. A pod that makes it one fewer costs the chance that this place will be missed: all where
there are fewer places than requests, nothing where there are plenty. (Littlewood's rule of how many seats to keep for
late, dear customers.)

    to come   r * t, variance r * t * (1 + t), as of a Poisson process whose rate is known from r arrivals
              t: pods to come for each pod seen; r: one, and the requests seen for as many cards or more, each as
              far as it will take such a place: where it has twice as many to choose from, half
    missed    P(to come >= places), of the normal distribution

What must never happen here: a place refused to anybody. It is a score: who fits nowhere else, goes there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alnair.api.gpuchoice import CardChoice
from alnair.scheduling.mix import HALF_LIFE
from alnair.scheduling.plugins.card_fractions import (
    CARD,
    free_gpu,
    idle,
    in_thousandths,
    main_demand,
    requested,
)
from alnair.scheduling.plugins.gpu_cards import idle_counted
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

RESOURCES = ("cpu", "memory")
MOST_KINDS = 64  # of large requests; the rarest is forgotten
EVERY = 32  # arrivals: then it is reckoned anew what is scarce
NEGLIGIBLE = 0.01  # a chance of being missed
PLENTY = 1 << 60  # more than any pod asks for


@dataclass(frozen=True, slots=True)
class Large:
    """A request for several whole cards on one node."""

    cards: int
    asked: tuple[int, ...]  # of RESOURCES
    choice: CardChoice


class Protection:
    name = "Protection"
    scope = Scope.DOMAIN  # what a place is worth hangs on how many there are

    def __init__(self) -> None:
        self._large: dict[Large, float] = {}
        self._pods = self._cards = self._mib = 0.0  # seen; what they asked for: cards, and slices in MiB
        self._since = 0
        self._scarce: Scarce | None = None

    def arrived(self, pod: PodClass) -> bool:
        """False: nobody remembers these scores, they are asked for anew each time."""
        self._pods += 1
        demand = main_demand(pod.shape)
        if demand is not None and demand.whole:
            self._cards += demand.cards
        elif demand is not None:
            self._cards += demand.cards * demand.memory_percent / 100
            self._mib += demand.cards * demand.memory_mib
        if demand is not None and demand.whole and demand.cards > 1:
            asked = tuple(requested(pod.shape, resource) for resource in RESOURCES)
            large = Large(demand.cards, asked, pod.shape.gpu.choice)
            self._large[large] = self._large.get(large, 0.0) + 1
            if len(self._large) > MOST_KINDS:
                del self._large[min(self._large, key=lambda each: self._large[each])]
        if self._pods >= 2 * HALF_LIFE:
            self._pods, self._cards, self._mib = self._pods / 2, self._cards / 2, self._mib / 2
            self._large = {each: count / 2 for each, count in self._large.items()}
        self._since += 1
        return False

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        if not self._large:
            return False
        if self._scarce is None or self._since >= EVERY:
            self._since, self._scarce = 0, self._reckoned(draft.all_nodes())
        return bool(len(self._scarce.chances))

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        """1, less the greatest chance that a place which would be gone will be missed."""
        whole = draft.all_nodes()
        scores = np.ones(len(whole.names))
        if self._scarce is not None and len(self._scarce.chances):
            rows, missed = self._scarce.missed(pod, whole)
            scores[rows] -= missed
        return scores if draft.whole is None else scores[draft.rows]

    def _reckoned(self, draft: Draft) -> Scarce:
        sizes = draft.card_memory[draft.card_memory > 0]
        asked = self._cards + (self._mib / float(np.median(sizes)) if len(sizes) else 0.0)
        ahead = float(np.maximum(free_gpu(draft), 0).sum()) / asked if asked else 0.0
        kinds = tuple(self._large)
        cards, counts = np.array([large.cards for large in kinds]), np.array(list(self._large.values()))
        nodes = Nodes.of(kinds, draft, np.flatnonzero(draft.exists & (unused(draft) >= cards.min())))
        there = nodes.places.sum(axis=1)
        # kinds x kinds: how many places of the first a request of the second will take
        takes = np.minimum(cards // cards[:, None], (1 + there[:, None]) / (1 + there))
        means = ahead * (1.0 + (takes * counts).sum(axis=1))
        chances = np.array([exceeded(*each, ahead) for each in zip(there.tolist(), means, strict=True)])
        kept = np.flatnonzero((chances > NEGLIGIBLE) & (there > 0))
        return Scarce(
            tuple(kinds[number] for number in kept), chances[kept], nodes.of_use_to(kept), draft.version
        )


class Scarce:
    """Kinds of large requests whose places are worth something, and the nodes that have some.

    Kept from one question to the next: of those nodes, the ones that changed since are looked at again.
    """

    def __init__(self, kinds: tuple[Large, ...], chances: Floats, nodes: Nodes, version: int) -> None:
        self.chances = chances  # for each kind
        self._kinds = kinds
        self._nodes = nodes
        self._version = version  # of the books when they were looked at

    def missed(self, pod: PodClass, draft: Draft) -> tuple[Ints, Floats]:
        """Rows, and of the places that the pod would take there the greatest chance to be missed."""
        nodes = self._now(draft)
        gone = nodes.opened(pod) > nodes.spare[0]
        for number, resource in enumerate(RESOURCES, start=1):
            gone |= requested(pod.shape, resource) > nodes.spare[number]
        return nodes.rows, np.asarray((gone * self.chances[:, None]).max(axis=0))

    def _now(self, draft: Draft) -> Nodes:
        """As the books are, and what is scribbled on the draft; that is not kept."""
        nodes = self._nodes
        if draft.version != self._version:
            nodes.look_again(self._kinds, draft, draft.changed_at[nodes.rows] > self._version)
            self._version = draft.version
        if draft.journal:
            touched = np.isin(nodes.rows, [row for row, *_ in draft.journal])
            nodes = nodes.copy()
            nodes.look_again(self._kinds, draft, touched)
        return nodes


@dataclass(frozen=True, slots=True)
class Nodes:
    """What some nodes (N) are to kinds (K) of large requests. `spare`: cards, then RESOURCES, that may go before there
    is a place fewer; PLENTY where there is none to lose. `shared`: the most that is free of a card in use."""

    rows: Ints  # N
    places: Ints  # K x N: how many such requests it has room for
    spare: Ints  # 1 + RESOURCES x K x N
    shared_mib: Ints  # N
    shared_part: Ints  # N, in thousandths

    @classmethod
    def of(cls, kinds: Sequence[Large], draft: Draft, rows: Ints) -> Nodes:
        one = draft.glance(rows)
        free = np.stack([unused(one), *(one.free[:, one.columns[name]] for name in RESOURCES)])
        places = np.zeros((len(kinds), len(rows)), dtype=np.int64)
        spare = np.full((len(free), *places.shape), PLENTY)
        for number, large in enumerate(kinds):
            needs = np.array([[large.cards], *([asked] for asked in large.asked)])
            room = np.min(
                [left // need for left, [need] in zip(free, needs.tolist(), strict=True) if need], axis=0
            )
            if large.choice.by_model:
                liked = np.array([large.choice.likes_model(model) for model in one.models], dtype=np.bool_)
                room = room * liked[one.card_model[:, 0]]  # a node's cards are mostly alike
            places[number] = np.maximum(room, 0)
            spare[:, number] = np.where(room > 0, free - room * needs, PLENTY)
        shared = one.card_usable & (one.card_users > 0) & (one.card_exclusive == 0)
        return cls(
            rows,
            places,
            spare,
            np.where(shared, one.card_free_memory, 0).max(axis=1, initial=0),
            in_thousandths(one.card_free_memory, one.card_memory, shared).max(axis=1, initial=0),
        )

    def look_again(self, kinds: Sequence[Large], draft: Draft, which: Bools) -> None:
        if which.any():
            now = Nodes.of(kinds, draft, self.rows[which])
            self.places[:, which], self.spare[:, :, which] = now.places, now.spare
            self.shared_mib[which], self.shared_part[which] = now.shared_mib, now.shared_part

    def of_use_to(self, kinds: Ints) -> Nodes:
        """Only these kinds, and the nodes that have places for some."""
        some = (self.places[kinds] > 0).any(axis=0)
        return Nodes(
            self.rows[some],
            self.places[kinds][:, some],
            self.spare[:, kinds][:, :, some],
            self.shared_mib[some],
            self.shared_part[some],
        )

    def copy(self) -> Nodes:
        return Nodes(
            self.rows,
            self.places.copy(),
            self.spare.copy(),
            self.shared_mib.copy(),
            self.shared_part.copy(),
        )

    def opened(self, pod: PodClass) -> Ints | int:
        """N: how many idle cards the pod would take, if it shares one where it can."""
        demand = main_demand(pod.shape)
        if demand is None:
            return 0
        if demand.whole:
            return demand.cards
        if demand.memory_percent:
            shares = self.shared_part * 100 >= demand.memory_percent * CARD
        else:
            shares = self.shared_mib >= demand.memory_mib
        return demand.cards - shares


def unused(draft: Draft) -> Ints:
    """N: cards that nobody uses; a device plugin's are counted."""
    return np.where(draft.owned, idle(draft).sum(axis=1), idle_counted(draft))


def exceeded(places: int, mean: float, ahead: float) -> float:
    """The chance that at least so many come."""
    variance = mean * (1 + ahead)
    return 0.5 * math.erfc((places - 0.5 - mean) / math.sqrt(2 * variance)) if variance else 0.0
