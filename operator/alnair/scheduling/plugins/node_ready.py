"""NodeReady: nodes that exist and whose kubelet says Ready, unless the pod tolerates the taint that says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.scheduling.plugins.interface import Scope
from alnair.scheduling.plugins.taint_toleration import tolerates
from alnair.state import wire
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

NOT_READY = wire.Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
UNREACHABLE = wire.Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule")


class NodeReady:
    name = "NodeReady"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return not all(tolerates(pod.shape.tolerations, taint) for taint in (NOT_READY, UNREACHABLE))

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return draft.exists & draft.ready

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        return [("is not Ready", failed)]
