"""NodeSelector: the node carries every label that `spec.nodeSelector` names."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.state.draft import Bools, Draft, Ints
from alnair.state.pods import PodShape


class NodeSelector:
    name = "NodeSelector"
    follows_usage = False

    def passes(self, shape: PodShape, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for key, value in shape.node_selector:
            mask &= draft.labelled(key, value)
        return mask

    def reasons(self, shape: PodShape, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        wanted = ",".join(f"{key}={value}" for key, value in shape.node_selector)
        return [(f"does not match the node selector {wanted}", len(failed))]
