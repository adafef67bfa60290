"""Delivery: the node's way of handing out cards is the one that the pod is made for.

Alnair's own nodes tell a container its cards through its environment, which it has from its creation or never; a device
plugin tells it by itself, and a variable of ours would override what it says. Pods that nobody asks about (delivery is
off, or no GPU is wanted) pass everywhere. Those that fit neither way have a problem of their own and never come here.
"""

from __future__ import annotations

from collections.abc import Sequence

from alnair.api import names
from alnair.scheduling.plugins.interface import Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


class Delivery:
    name = "Delivery"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return pod.shape.told is not None

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return draft.owned if pod.shape.told else ~draft.owned

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        if any(not demand.whole for demand in pod.shape.gpu.demands):
            return [("has its GPUs owned by a device plugin, which gives no slices", failed)]
        if pod.shape.told:
            why = "has its GPUs owned by a device plugin, and the pod is made to be told its cards by Alnair"
            return [(why, failed)]
        remedy = f"create it again with nodeSelector {names.GPU_OWNER}: {names.OWNED_BY_ALNAIR}"
        with_cards = (draft.card_memory[failed] > 0).any(axis=1)
        reasons = [
            (
                f"has GPUs that a pod is told through its environment, and this one is not ({remedy})",
                with_cards,
            ),
            ("has no GPUs", ~with_cards),
        ]
        return [(phrase, failed[where]) for phrase, where in reasons if where.any()]
