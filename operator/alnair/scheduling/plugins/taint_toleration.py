"""TaintToleration: every taint that keeps pods away must be tolerated, and rather go where none discourages them.

Nodes share few distinct sets of taints, so the question is asked once a set and not once a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from alnair.scheduling.plugins.interface import Floats, Scope, by_phrase
from alnair.state import wire
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

KEEPING_AWAY = ("NoSchedule", "NoExecute")
DISCOURAGING = "PreferNoSchedule"
DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates(tolerations: Iterable[wire.Toleration], taint: wire.Taint) -> bool:
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: wire.Toleration, taint: wire.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Gt" | "Lt":
            there, bound = _decimal(taint.value), _decimal(toleration.value)
            if there is None or bound is None:
                return False
            return there > bound if toleration.operator == "Gt" else there < bound
    return False


def _decimal(text: str) -> int | None:
    return int(text) if DECIMAL.fullmatch(text) and -(1 << 63) <= int(text) < 1 << 63 else None


def untainted(tolerations: Iterable[wire.Toleration], draft: Draft) -> Bools:
    """N: the node has no taint that keeps a pod with these tolerations away."""
    passing = np.ones(len(draft.taint_sets), dtype=np.bool_)
    for number in set(draft.taint_set.tolist()):  # sets of nodes long gone have numbers, too
        passing[number] = all(
            taint.effect not in KEEPING_AWAY or tolerates(tolerations, taint)
            for taint in draft.taint_sets[number]
        )
    return passing[draft.taint_set]


class TaintToleration:
    name = "TaintToleration"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return len(draft.taint_sets) > 1

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return untainted(pod.shape.tolerations, draft)

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        return by_phrase(failed, lambda row: self._told(pod, draft.taint_sets[draft.taint_set[row]]))

    def _told(self, pod: PodClass, taints: Iterable[wire.Taint]) -> str:
        taint = self._first(pod, taints)
        if taint is None:
            return ""
        value = f"={taint.value}" if taint.value else ""
        return f"has the untolerated taint {taint.key}{value}:{taint.effect}"

    @staticmethod
    def _first(pod: PodClass, taints: Iterable[wire.Taint]) -> wire.Taint | None:
        """The first taint that keeps the pod away."""
        return next(
            (
                taint
                for taint in taints
                if taint.effect in KEEPING_AWAY and not tolerates(pod.shape.tolerations, taint)
            ),
            None,
        )


class PreferUntainted:
    """1 without untolerated PreferNoSchedule taints, a half with one, a third with two, …"""

    name = "TaintToleration"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True  # whether there are such taints is for `score` to say: remembered scores must stay comparable

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        discouraging = np.zeros(len(draft.taint_sets))
        for number in set(draft.taint_set.tolist()):
            discouraging[number] = sum(
                taint.effect == DISCOURAGING and not tolerates(pod.shape.tolerations, taint)
                for taint in draft.taint_sets[number]
            )
        return 1 / (1 + discouraging[draft.taint_set])
