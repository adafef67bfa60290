"""NodeAffinity: the node matches one of the terms of the required node affinity, and rather those that are wished for.

A node's score is the part of all the wishes' weights that it fulfils: it hangs on the node alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.selectors import NodeTerm, Requirement
from alnair.state.shapes import PodClass, PodShape

NAME_FIELD = "metadata.name"


def matches_labels(requirement: Requirement, draft: Draft) -> Bools:
    """N: the node's label satisfies the requirement. Asked once a value, not once a node."""
    values = draft.label_column(requirement.key).values
    allowed = np.array([*(requirement.allows(value) for value in values), requirement.allows(None)])
    return np.asarray(allowed[draft.label(requirement.key)], dtype=np.bool_)  # no label is -1: the last entry


def matches_fields(requirement: Requirement, draft: Draft) -> Bools:
    """N: the only field that there is to select by is the node's name."""
    if requirement.key != NAME_FIELD:
        return np.zeros(len(draft.names), dtype=np.bool_)
    return np.array([requirement.allows(name) for name in draft.names], dtype=np.bool_)


def matches_term(term: NodeTerm, draft: Draft) -> Bools:
    mask = np.full(len(draft.names), bool(term.labels or term.fields))
    for requirement in term.labels:
        mask &= matches_labels(requirement, draft)
    for requirement in term.fields:
        mask &= matches_fields(requirement, draft)
    return mask


def matches_any(terms: Iterable[NodeTerm], draft: Draft) -> Bools:
    mask = np.zeros(len(draft.names), dtype=np.bool_)
    for term in terms:
        mask |= matches_term(term, draft)
    return mask


def wanted_nodes(shape: PodShape, draft: Draft) -> Bools:
    """N: what nodeSelector and required node affinity say together; spread rules ask this too."""
    mask = draft.exists.copy()
    for key, value in shape.node_selector:
        mask &= draft.labelled(key, value)
    if shape.node_terms is not None:
        mask &= matches_any(shape.node_terms, draft)
    return mask


class NodeAffinity:
    name = "NodeAffinity"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return pod.shape.node_terms is not None

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return matches_any(pod.shape.node_terms or (), draft)

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        wanted = " or ".join(str(term) for term in pod.shape.node_terms or ()) or "nothing"
        return [(f"does not match the node affinity {wanted}", failed)]


class PreferredNodeAffinity:
    name = "NodeAffinity"
    scope = Scope.FIXED

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.preferred_nodes)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        total = np.zeros(len(draft.names))
        wishes = [(weight, term) for weight, term in pod.shape.preferred_nodes if term.labels or term.fields]
        for weight, term in wishes:
            total += weight * matches_term(term, draft)
        return total / max(sum(weight for weight, _ in wishes), 1)
