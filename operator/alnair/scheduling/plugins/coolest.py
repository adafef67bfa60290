"""The picker coolest: of the cards that would do, the one with the least real load.

Load is what Allocated expects of a card before the pod comes: as it was measured, and where it was not, as it is given
out. Nearer than a hundredth is equal, so that links and the lower index decide between cards that are both idle.
"""

from __future__ import annotations

import numpy as np

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins.allocated import TRUST
from alnair.scheduling.plugins.measured import expected
from alnair.state.draft import Draft, Ints
from alnair.state.shapes import PodClass


class Coolest:
    name = "coolest"

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        load = expected(draft.only(row), TRUST)[0].mean(axis=1)
        return np.asarray(np.rint(load[candidates] * 100), dtype=np.int64)
