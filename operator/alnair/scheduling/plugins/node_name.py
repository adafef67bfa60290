"""NodeName: a pod that names its node in `spec.nodeName` goes there and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alnair.scheduling.plugins.interface import Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


class NodeName:
    name = "NodeName"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.node_name)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return np.array([name == pod.node_name for name in draft.names], dtype=np.bool_)

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        return [(f"is not the node {pod.node_name} that the pod names", failed)]
