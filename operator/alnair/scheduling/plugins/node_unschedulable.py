"""NodeUnschedulable: no cordoned nodes, unless the pod tolerates the taint that says so."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.scheduling.plugins.interface import Scope
from alnair.scheduling.plugins.taint_toleration import tolerates
from alnair.state import wire
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

CORDON = wire.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    name = "NodeUnschedulable"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return not tolerates(pod.shape.tolerations, CORDON)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return ~draft.unschedulable

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        return [("is cordoned", failed)]
