"""Equal: one node is as good as another. For profiles that want no preference at all."""

from __future__ import annotations

import numpy as np

from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass


class Equal:
    name = "Equal"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return False

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        return np.ones(len(draft.names))
