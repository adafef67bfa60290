"""Pickers: which cards of a node, tightest first (best-fit) or roomiest first (worst-fit).

Best fit keeps whole cards whole for those who need them; worst fit gives every tenant the most air. What cards are
linked to decides between equal ones, and for several cards at once before the picker: see scheduling/links.
"""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.state.draft import Draft, Ints
from alnair.state.shapes import PodClass


class BestFit:
    """The card with least left over."""

    name = "best-fit"

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        return np.asarray(draft.card_free_memory[row, candidates])


class WorstFit:
    """The card with most left over."""

    name = "worst-fit"

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        return np.asarray(-draft.card_free_memory[row, candidates])
