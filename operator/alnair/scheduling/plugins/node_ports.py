"""NodePorts: no pod on the node has the host ports that the pod asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import Model, stacked
from alnair.scheduling.plugins.interface import Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import HostPort, PodClass


class NodePorts:
    name = "NodePorts"
    scope = Scope.ROW

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.ports)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        taken: set[int] = set()
        for own in pod.shape.ports:
            for port, rows in draft.company.brought(own.kind).items():
                if isinstance(port, HostPort) and port.conflicts(own):
                    taken.update(rows)
        return ~draft.among(taken) & draft.exists

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        ports = ", ".join(str(port) for port in pod.shape.ports)
        return [(f"has a pod with host port {ports} already", failed)]

    # -- for the exact search ------------------------------------------------------------------------------------

    def possible(self, pod: PodClass, draft: Draft) -> Bools:
        return self.passes(pod, draft)

    def traits(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        return ()

    def stock(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        return ()

    def constrain(self, model: Model) -> None:
        """One of a class on a node, since equal pods have equal ports; and one of two classes that conflict."""
        asking = [number for number, each in enumerate(model.classes) if each.pod.shape.ports]
        nodes = np.arange(len(model.nodes))
        for number in asking:
            model.cap(model.seats[number], 1)
        for one, other in combinations(asking, 2):
            theirs = model.pod(other).shape.ports
            if any(port.conflicts(own) for port in model.pod(one).shape.ports for own in theirs):
                pair = stacked((nodes, model.seats[one], 1), (nodes, model.seats[other], 1))
                model.add(*pair, most=np.ones(len(nodes)))
