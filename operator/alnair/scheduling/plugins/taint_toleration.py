"""TaintToleration: every taint that keeps pods away must be tolerated.

Nodes share few distinct sets of taints, so the question is asked once a set and not once a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from alnair.state import wire
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.pods import PodShape

KEEPING_AWAY = ("NoSchedule", "NoExecute")


def tolerates(tolerations: Iterable[wire.Toleration], taint: wire.Taint) -> bool:
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: wire.Toleration, taint: wire.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return (
        toleration.operator in ("", "Equal")
        and toleration.key == taint.key
        and toleration.value == taint.value
    )


class TaintToleration:
    name = "TaintToleration"
    follows_usage = False

    def passes(self, shape: PodShape, draft: Draft) -> Bools:
        passing = np.array(
            [self._first(shape, taints) is None for taints in draft.taint_sets], dtype=np.bool_
        )
        return passing[draft.taint_set]

    def reasons(self, shape: PodShape, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        counts: Counter[str] = Counter()
        for row in failed:
            taint = self._first(shape, draft.taint_sets[draft.taint_set[row]])
            if taint is not None:
                value = f"={taint.value}" if taint.value else ""
                counts[f"has the untolerated taint {taint.key}{value}:{taint.effect}"] += 1
        return counts.most_common()

    @staticmethod
    def _first(shape: PodShape, taints: Iterable[wire.Taint]) -> wire.Taint | None:
        """The first taint that keeps this shape away."""
        return next(
            (
                taint
                for taint in taints
                if taint.effect in KEEPING_AWAY and not tolerates(shape.tolerations, taint)
            ),
            None,
        )
