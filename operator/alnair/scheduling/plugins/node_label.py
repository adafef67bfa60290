"""NodeLabel: only nodes that have certain labels, or have them not, whatever their values.

For all pods of a profile: a pool of nodes that the profile is for, or one that it keeps out of. What one pod wants is
for its node selector to say. Was kube-scheduler's CheckNodeLabelPresence.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from alnair.api.config import LabelKey
from alnair.api.profiles import Part
from alnair.scheduling.plugins.interface import Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


class NodeLabel:
    name = "NodeLabel"
    scope = Scope.FIXED

    class Options(Part):
        present: list[LabelKey] = Field(default_factory=list)
        absent: list[LabelKey] = Field(default_factory=list)

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or self.Options()

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(self._options.present or self._options.absent)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for label in self._options.present:
            mask &= draft.label(label) >= 0
        for label in self._options.absent:
            mask &= draft.label(label) < 0
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        wanted = [*self._options.present, *(f"no {label}" for label in self._options.absent)]
        return [(f"does not have the labels that this profile is for ({', '.join(wanted)})", failed)]
