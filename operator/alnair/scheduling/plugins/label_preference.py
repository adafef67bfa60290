"""LabelPreference: rather nodes that have certain labels, or have them not, whatever their values.

A node's score is the part of all weights that it fulfils: it hangs on the node alone.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from alnair.api.config import LabelKey
from alnair.api.profiles import Part
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass


class Preference(Part):
    label: LabelKey
    presence: bool = True  # False: rather without it
    weight: Annotated[int, Field(ge=1)] = 1


class LabelPreference:
    name = "LabelPreference"
    scope = Scope.FIXED

    class Options(Part):
        labels: list[Preference] = Field(default_factory=list)

    def __init__(self, options: Options | None = None) -> None:
        self._preferences = (options or self.Options()).labels

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(self._preferences)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        fulfilled = np.zeros(len(draft.names))
        for preference in self._preferences:
            has = draft.label(preference.label) >= 0
            fulfilled += float(preference.weight) * (has == preference.presence)
        weights = sum(float(preference.weight) for preference in self._preferences)
        return np.asarray(fulfilled / max(weights, 1.0))
