"""ServiceAffinity and ServiceAntiAffinity: pods of a Service in one group of nodes, or rather in many.

A group is all nodes with one value of a label. ServiceAffinity wants every pod of a Service where one is already, by
all of its labels at once; what the pod's own node selector says of a label goes before, and the first pod of a Service
may go anywhere. ServiceAntiAffinity likes a group the less the larger a part of the Service's pods is in it, and nodes
without the label least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from alnair.api.config import LabelKey
from alnair.api.profiles import Part
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass


def on_each_node(pod: PodClass, whole: Draft) -> Ints:
    """N: how many pods of the pod's Services are there."""
    there = np.zeros(len(whole.names), dtype=np.int64)
    for pods in whole.services.of(pod.namespace, pod.labels):
        there += whole.count(pods)
    return there


class ServiceAffinity:
    """Pods of a Service in one group of nodes."""

    name = "ServiceAffinity"
    scope = Scope.DOMAIN

    class Options(Part):
        labels: list[LabelKey] = Field(default_factory=list)

    def __init__(self, options: Options | None = None) -> None:
        self._labels = (options or self.Options()).labels

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(self._labels and draft.services.of(pod.namespace, pod.labels))

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        whole = draft.all_nodes()
        chosen = dict(pod.shape.node_selector)
        codes = np.array([whole.label(label) for label in self._labels if label not in chosen])
        homes = codes[:, on_each_node(pod, whole) > 0] if codes.size else codes
        if not homes.size:
            return draft.exists.copy()
        near = np.zeros(len(whole.names), dtype=np.bool_)
        for home in np.unique(homes, axis=1).T:  # a label that the home lacks binds nobody
            near |= ((codes == home[:, None]) | (home < 0)[:, None]).all(axis=0)
        return draft.exists & near[draft.rows]

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        groups = ", ".join(self._labels)
        return [(f"is not in the group of nodes ({groups}) where other pods of its Service are", failed)]


class Group(Part):
    label: LabelKey
    weight: Annotated[int, Field(ge=1)] = 1


class ServiceAntiAffinity:
    """Rather in groups of nodes that have few pods of the Service."""

    name = "ServiceAntiAffinity"
    scope = Scope.DOMAIN

    class Options(Part):
        labels: list[Group] = Field(default_factory=list)

    def __init__(self, options: Options | None = None) -> None:
        self._groups = (options or self.Options()).labels

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(self._groups and draft.services.of(pod.namespace, pod.labels))

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        whole = draft.all_nodes()
        there = on_each_node(pod, whole)
        total = np.zeros(len(whole.names))
        for group in self._groups:
            total += float(group.weight) * _elsewhere(there, whole.label(group.label))
        weights = sum(float(group.weight) for group in self._groups)
        return np.asarray(total / max(weights, 1.0))[draft.rows]


def _elsewhere(there: Ints, groups: Ints) -> Floats:
    """N: the part of all pods that is outside the node's group; 0 for nodes in none."""
    grouped = groups >= 0
    score = np.zeros(len(groups))
    if grouped.any():
        inside = np.bincount(groups[grouped], weights=there[grouped])
        all_of_them = max(int(there.sum()), 1)
        score[grouped] = 1 - inside[groups[grouped]] / all_of_them
    return score
