"""NodeSelector: the node carries every label that `spec.nodeSelector` names."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.scheduling.plugins.interface import Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


class NodeSelector:
    name = "NodeSelector"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.node_selector)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for key, value in pod.shape.node_selector:
            mask &= draft.labelled(key, value)
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        wanted = ",".join(f"{key}={value}" for key, value in pod.shape.node_selector)
        return [(f"does not match the node selector {wanted}", failed)]
