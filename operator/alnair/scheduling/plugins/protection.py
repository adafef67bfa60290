"""Protection: keep whole nodes for those who will ask for several cards at once, but only as many as they will need.

How many such requests are still to come before the free GPU is gone is expected from arrivals; how many the cluster
could serve now is counted. A pod that makes it one fewer costs what the chance is that this one will be missed: all
of it where there are fewer places than requests, nothing where there are plenty. (Littlewood's rule of how many seats
to keep for late, dear customers.)

    to come   r * t, variance r * t * (1 + t), as of a Poisson process whose rate is known from r arrivals
              r: requests seen that need such a place or a larger one, and one more; t: pods to come for each pod seen
    missed    P(to come >= places), of the normal distribution

What must never happen here: a place refused to anybody. It is a score: who fits nowhere else, goes there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alnair.api.gpuchoice import CardChoice
from alnair.scheduling.mix import HALF_LIFE
from alnair.scheduling.plugins.card_fractions import free_gpu, idle, main_demand, requested
from alnair.scheduling.plugins.cards_that_fit import candidates
from alnair.scheduling.plugins.gpu_cards import idle_counted
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

RESOURCES = ("cpu", "memory")
MOST_KINDS = 64  # of large requests; the rarest is forgotten
EVERY = 16  # arrivals: then places are counted anew
NEGLIGIBLE = 0.01  # a chance of being missed


@dataclass(frozen=True, slots=True)
class Large:
    """A request for several whole cards on one node."""

    cards: int
    asked: tuple[int, ...]  # of RESOURCES
    choice: CardChoice


@dataclass(frozen=True, slots=True)
class Place:
    """What such a request needs, and the chance that the next place for it to go will be missed."""

    large: Large
    chance: float


class Protection:
    name = "Protection"
    scope = Scope.DOMAIN  # what a place is worth hangs on how many there are

    def __init__(self) -> None:
        self._large: dict[Large, float] = {}
        self._pods = self._cards = self._mib = 0.0  # seen; what they asked for: cards, and slices in MiB
        self._since = 0
        self._scarce: tuple[Place, ...] | None = ()

    def arrived(self, pod: PodClass) -> bool:
        """Nothing that was remembered is wrong now: these scores are asked for anew each time."""
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
        if self._since >= EVERY:
            self._since, self._scarce = 0, None
        return False

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        if self._scarce is None:
            self._scarce = self._counted(draft.all_nodes()) if self._large else ()
        return bool(self._scarce)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        """1, less the greatest chance of a place that would be gone to be missed."""
        free = _free(draft)
        unused = _unused(draft)
        after = [left - requested(pod.shape, name) for left, name in zip(free, RESOURCES, strict=True)]
        unused_after = unused - self._opened(pod, draft)
        chance = np.zeros(len(draft.names))
        for place in self._scarce or ():
            before = _places(place.large, unused, free, draft)
            gone = before > _places(place.large, unused_after, after, draft)
            chance = np.where(gone, np.maximum(chance, place.chance), chance)
        return 1.0 - chance

    @staticmethod
    def _opened(pod: PodClass, draft: Draft) -> Ints | int:
        """N: how many idle cards the pod would take, if it shares a card wherever it can."""
        demand = main_demand(pod.shape)
        if demand is None:
            return 0
        if demand.whole:
            return demand.cards
        shared = candidates(demand, pod.shape.gpu, draft) & (draft.card_users > 0)
        return np.maximum(demand.cards - shared.sum(axis=1), 0)

    def _counted(self, draft: Draft) -> tuple[Place, ...]:
        """The kinds of which there are too few places to be careless with."""
        sizes = draft.card_memory[draft.card_memory > 0]
        asked = self._cards + (self._mib / float(np.median(sizes)) if len(sizes) else 0.0)
        ahead = float(np.maximum(free_gpu(draft), 0).sum()) / asked if asked else 0.0
        free, unused = _free(draft), _unused(draft)
        allowed = {each.choice: _models(each.choice, draft) for each in self._large}
        places = []
        for large in self._large:
            seen = 1.0 + sum(
                count * (other.cards // large.cards)
                for other, count in self._large.items()
                if _covers(other, large) and allowed[other.choice] <= allowed[large.choice]
            )
            there = int(_places(large, unused, free, draft)[draft.exists].sum())
            chance = _exceeds(seen * ahead, seen * ahead * (1 + ahead), there)
            if chance > NEGLIGIBLE:
                places.append(Place(large, chance))
        return tuple(places)


def _covers(other: Large, large: Large) -> bool:
    """Whoever asks for `other` needs such a place, too."""
    return other.cards >= large.cards and all(
        more >= less for more, less in zip(other.asked, large.asked, strict=True)
    )


def _exceeds(mean: float, variance: float, places: int) -> float:
    """The chance that at least so many come, and one is one too many where there is none."""
    if not variance:
        return 0.0
    return 0.5 * math.erfc((places - 0.5 - mean) / math.sqrt(2 * variance))


def _free(draft: Draft) -> list[Ints]:
    return [draft.free[:, draft.columns[resource]] for resource in RESOURCES]


def _unused(draft: Draft) -> Ints:
    """N: idle cards."""
    return np.where(draft.owned, idle(draft).sum(axis=1), idle_counted(draft))


def _places(large: Large, unused: Ints, free: list[Ints], draft: Draft) -> Ints:
    """N: how many such requests the node has room for."""
    room = unused // large.cards
    for left, asked in zip(free, large.asked, strict=True):
        if asked:
            room = np.minimum(room, left // asked)
    if large.choice.by_model:
        room = np.where(_has_model(large.choice, draft), room, 0)
    return np.maximum(room, 0)


def _models(choice: CardChoice, draft: Draft) -> frozenset[str]:
    return frozenset(model for model in draft.models if choice.likes_model(model))


def _has_model(choice: CardChoice, draft: Draft) -> Bools:
    """N: by its first card."""
    allowed = np.array([choice.likes_model(model) for model in draft.models], dtype=np.bool_)
    return np.asarray(allowed[draft.card_model[:, 0]]) if draft.card_model.shape[1] else draft.exists
