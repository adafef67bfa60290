"""VolumeZone: the node is in the zone and region that the labels of the pod's volumes name.

Only volumes that claims have already count, and of them only those that the pod names itself. A label may name several
zones. A node without any label of that sort is in a cluster without zones, and passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from alnair.scheduling.plugins.interface import Scope, without
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.migration import BETA_REGION, BETA_ZONE, BETWEEN_ZONES, REGION, ZONE
from alnair.state.shapes import PodClass
from alnair.state.storage import Volume

SUCCESSOR = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}


class VolumeZone:
    name = "VolumeZone"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return any(True for _ in self._placed(pod, draft))

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        zoned = self._zoned(draft)
        for _, key, values in self._placed(pod, draft):
            mask &= ~zoned | self._is_in(key, values, draft)
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        reasons = []
        for volume, key, values in self._placed(pod, draft):
            outside = failed[~self._is_in(key, values, draft)[failed]]
            if len(outside):
                wanted = " or ".join(sorted(values))
                reasons.append((f"is not in {key}={wanted}, where volume {volume.key} is", outside))
                failed = without(failed, outside)
        return reasons

    @staticmethod
    def _placed(pod: PodClass, draft: Draft) -> Iterable[tuple[Volume, str, frozenset[str]]]:
        """Every volume of the pod with every zone label that it has."""
        for use in pod.shape.claims:
            claim = draft.volumes.claims.get(use.key)
            volume = draft.volumes.volumes.get(claim.volume) if claim is not None and not use.owner else None
            if volume is None:
                continue
            for key in SUCCESSOR:
                values = frozenset(each.strip() for each in volume.labels.get(key, "").split(BETWEEN_ZONES))
                if "" not in values:
                    yield volume, key, values

    @staticmethod
    def _zoned(draft: Draft) -> Bools:
        mask = np.zeros(len(draft.names), dtype=np.bool_)
        for key in SUCCESSOR:
            mask |= draft.label(key) >= 0
        return mask

    @staticmethod
    def _is_in(key: str, values: frozenset[str], draft: Draft) -> Bools:
        """By that label, or by its newer name where the node has no such label."""
        there = _one_of(key, values, draft)
        return np.where(draft.label(key) >= 0, there, _one_of(SUCCESSOR[key], values, draft))


def _one_of(key: str, values: frozenset[str], draft: Draft) -> Bools:
    mask = np.zeros(len(draft.names), dtype=np.bool_)
    for value in values:
        mask |= draft.labelled(key, value)
    return mask
