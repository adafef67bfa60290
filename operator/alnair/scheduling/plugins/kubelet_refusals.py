"""KubeletRefusals: nodes whose kubelet refused such a pod a short while ago are left alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alnair.scheduling.plugins.interface import Scope, by_phrase
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


class KubeletRefusals:
    name = "KubeletRefusals"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(draft.refusals.of(pod.shape))

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        refused = draft.refusals.of(pod.shape)
        return np.array([name not in refused for name in draft.names], dtype=np.bool_)

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        refused = draft.refusals.of(pod.shape)
        return by_phrase(
            failed,
            lambda row: (
                f"has a kubelet that refused such a pod ({refused[draft.names[row]].reason}) "
                "and is left alone for a while"
            ),
        )
