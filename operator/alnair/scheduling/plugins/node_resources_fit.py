"""NodeResourcesFit: cpu, memory, pod slots, storage and extended resources.

Whole GPUs are not counted here: who counts them depends on who owns the node's cards, see gpu_cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from alnair.api import names
from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import Model, enough_of
from alnair.scheduling.plugins.interface import Scope, without
from alnair.scheduling.words import amount
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


class NodeResourcesFit:
    name = "NodeResourcesFit"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.requests)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for resource, needed in pod.shape.requests:
            if resource != names.NVIDIA_GPU:
                mask &= self._has(draft, resource, needed)
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        reasons = []
        for resource, needed in pod.shape.requests:
            if resource == names.NVIDIA_GPU:
                continue
            lacking = failed[~self._has(draft, resource, needed)[failed]]
            if len(lacking):
                column = draft.column(resource)
                most = int(draft.free[lacking, column].max()) if column is not None else 0
                free = amount(resource, max(most, 0))
                lack = f"has too little {resource} ({amount(resource, needed)} needed, at most {free} free)"
                reasons.append((lack, lacking))
                failed = without(failed, lacking)  # each node is counted once, for its first lack
        return reasons

    # -- for the exact search ------------------------------------------------------------------------------------

    def possible(self, pod: PodClass, draft: Draft) -> Bools:
        return self.passes(pod, draft)

    def traits(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        return ()

    def stock(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        counts = np.array([len(each.members) for each in classes])
        for column, amounts in self._in_play(classes, draft):
            yield enough_of(amounts, counts, draft.free[:, column])

    def constrain(self, model: Model) -> None:
        for column, amounts in self._in_play(model.classes, model.draft):
            model.ration(amounts, model.draft.free[model.nodes, column])

    @staticmethod
    def _in_play(classes: Sequence[MemberClass], draft: Draft) -> Iterable[tuple[int, Ints]]:
        """The columns that members take from, and how much one of each class takes."""
        requests = [dict(each.pod.shape.requests) for each in classes]
        for resource in sorted({name for each in requests for name in each} - {names.NVIDIA_GPU}):
            column = draft.column(resource)
            if column is not None:
                yield column, np.array([each.get(resource, 0) for each in requests])

    @staticmethod
    def _has(draft: Draft, resource: str, needed: int) -> Bools:
        column = draft.column(resource)
        if column is None:
            return np.zeros(len(draft.names), dtype=np.bool_)
        return draft.free[:, column] >= needed
