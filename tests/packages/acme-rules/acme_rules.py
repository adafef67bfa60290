"""Rules of a third party, installed for the tests from a package of their own: one that works, and some that do not."""

from __future__ import annotations

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins.interface import Floats
from alnair.state.draft import Draft, Ints
from alnair.state.shapes import PodClass


class LastNamed:
    """The node whose name comes last, and its last card, whatever the scores say."""

    name = "acme.com/LastNamed"

    def choose(self, pod: PodClass, draft: Draft, rows: Ints, scores: Floats) -> int:
        return max(range(len(rows)), key=lambda place: draft.names[int(rows[place])])

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        return -candidates


class Raising:
    name = "acme.com/Raising"

    def choose(self, pod: PodClass, draft: Draft, rows: Ints, scores: Floats) -> int:
        raise RuntimeError("the model was not found")


class Endless:
    name = "acme.com/Endless"

    def choose(self, pod: PodClass, draft: Draft, rows: Ints, scores: Floats) -> int:
        while True:
            pass
