"""Pickers: which cards of a node, tightest first (best-fit) or roomiest first (worst-fit).

Best fit keeps whole cards whole for those who need them; worst fit gives every tenant the most air. Ties go to the
lower index, so that equal clusters get equal plans.
"""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.state.draft import Draft, Ints


class BestFit:
    name = "best-fit"

    def order(self, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        return candidates[np.argsort(draft.card_free_memory[row, candidates], kind="stable")]


class WorstFit:
    name = "worst-fit"

    def order(self, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        return candidates[np.argsort(-draft.card_free_memory[row, candidates], kind="stable")]
