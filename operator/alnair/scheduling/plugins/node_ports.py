"""NodePorts: no pod on the node has the host ports that the pod asks for."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.scheduling.plugins.interface import Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PORT, HostPort, PodClass


class NodePorts:
    name = "NodePorts"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.ports)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        taken: set[int] = set()
        for port, rows in draft.company.brought(PORT).items():
            if isinstance(port, HostPort) and any(port.conflicts(own) for own in pod.shape.ports):
                taken.update(rows)
        return ~draft.among(taken) & draft.exists

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        ports = ", ".join(str(port) for port in pod.shape.ports)
        return [(f"has a pod with host port {ports} already", len(failed))]
