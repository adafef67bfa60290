"""The policies by name: each a profile of the scheduling core, made anew for a run.

A policy is told of every pod that comes before it is placed, and of nothing else: who learns, learns from arrivals. FGD
alone knows the whole trace beforehand, as in its paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from alnair.scheduling.mix import Mix
from alnair.scheduling.plugins import FILTERS
from alnair.scheduling.plugins.baselines import (
    Clustering,
    DotProduct,
    Packing,
    Random,
    RandomCards,
    TightestNode,
)
from alnair.scheduling.plugins.card_fractions import requested
from alnair.scheduling.plugins.card_order import BestFit
from alnair.scheduling.plugins.fragmentation import FGD, FGDCards, typical
from alnair.scheduling.plugins.interface import Picker, Scorer
from alnair.scheduling.plugins.potential import Potential, PotentialCards, Supply
from alnair.scheduling.profile import Profile
from alnair.simulate.trace import CARD, Trace
from alnair.state.shapes import PodShape


class Policy(Protocol):
    @property
    def profile(self) -> Profile:
        """As it stands now; another object when what is remembered of the old one no longer holds."""

    def arrived(self, shape: PodShape) -> None:
        """A pod came."""

    def placing(self, shape: PodShape) -> None:
        """A place for such a pod is asked for next."""


class Fixed:
    """A profile that nothing changes."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def arrived(self, shape: PodShape) -> None:
        pass

    def placing(self, shape: PodShape) -> None:
        pass


class FragmentationGradient:
    """FGD: its picker has to know the pod's cpu."""

    def __init__(self, trace: Trace) -> None:
        scorer = FGD(typical(job.shape for job in trace.jobs for _ in range(job.pods)))
        self._cards = FGDCards(scorer)
        self.profile = _profile("fgd", scorer, self._cards)

    def arrived(self, shape: PodShape) -> None:
        pass

    def placing(self, shape: PodShape) -> None:
        self._cards.cpu = requested(shape, "cpu")


class Learning:
    """Potential by the habits learned so far."""

    def __init__(self, trace: Trace) -> None:
        self._mix = Mix()
        self._supply = Supply(
            cpu=sum(machine.cpu for machine in trace.machines),
            cards=sum(machine.cards for machine in trace.machines),
            card_mib=CARD,
        )
        self.profile = self._made()

    def arrived(self, shape: PodShape) -> None:
        if self._mix.note(shape):
            self.profile = self._made()

    def placing(self, shape: PodShape) -> None:
        pass

    def _made(self) -> Profile:
        scorer = Potential(self._mix.habits(), self._supply)
        return _profile("alnair", scorer, PotentialCards(scorer))


def _profile(name: str, scorer: Scorer, picker: Picker) -> Profile:
    return Profile(name, tuple(FILTERS.values()), ((scorer, 1.0),), picker)


def _random(seed: int) -> Policy:
    chance = np.random.default_rng(seed)
    return Fixed(_profile("random", Random(chance), RandomCards(chance)))


POLICIES: Mapping[str, Callable[[Trace, int], Policy]] = {
    "random": lambda trace, seed: _random(seed),
    "dot-product": lambda trace, seed: Fixed(_profile("dot-product", DotProduct(), BestFit())),
    "clustering": lambda trace, seed: Fixed(_profile("clustering", Clustering(), BestFit())),
    "packing": lambda trace, seed: Fixed(_profile("packing", Packing(), BestFit())),
    "best-fit": lambda trace, seed: Fixed(_profile("best-fit", TightestNode(), BestFit())),
    "alnair": lambda trace, seed: Learning(trace),
    "fgd": lambda trace, seed: FragmentationGradient(trace),
}
