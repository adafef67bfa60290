"""NodeUnschedulable: no cordoned nodes, unless the pod tolerates the taint that says so."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.scheduling.plugins.taint_toleration import tolerates
from alnair.state import wire
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.pods import PodShape

CORDON = wire.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    name = "NodeUnschedulable"
    follows_usage = False

    def passes(self, shape: PodShape, draft: Draft) -> Bools:
        if tolerates(shape.tolerations, CORDON):
            return draft.exists
        return ~draft.unschedulable

    def reasons(self, shape: PodShape, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        return [("is cordoned", len(failed))]
