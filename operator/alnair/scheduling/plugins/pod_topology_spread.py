"""PodTopologySpread: after the pod no domain has more of the counted pods than the emptiest one plus `maxSkew`.

Only `DoNotSchedule` constraints are looked at here. Nodes that lack the label of any of them fail, and are not
counted; neither are nodes that the constraint's policies leave out, though pods may still go there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alnair.scheduling.plugins.interface import Scope
from alnair.scheduling.plugins.node_affinity import wanted_nodes
from alnair.scheduling.plugins.taint_toleration import untainted
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass, SpreadRule


@dataclass(frozen=True, slots=True)
class Domains:
    """Of one constraint: how many counted pods each domain has, and which domains there are to compare with."""

    counts: Ints
    eligible: Bools

    def least(self, min_domains: int) -> int:
        if not self.eligible.any() or int(self.eligible.sum()) < min_domains:
            return 0
        return int(self.counts[self.eligible].min())


class PodTopologySpread:
    name = "PodTopologySpread"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return any(rule.hard for rule in pod.shape.spread)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        rules = [rule for rule in pod.shape.spread if rule.hard]
        for rule in rules:
            mask &= self._allows(rule, rules, pod, draft)
        return mask

    def _allows(self, rule: SpreadRule, rules: Sequence[SpreadRule], pod: PodClass, draft: Draft) -> Bools:
        domains = count_domains(rule, rules, pod, draft)
        own = int(draft.company.is_in(rule.pods, pod))
        skew = domains.counts + own - domains.least(rule.min_domains)
        return np.append(skew <= rule.max_skew, False)[draft.label(rule.topology_key)]

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        reasons = []
        rules = [rule for rule in pod.shape.spread if rule.hard]
        for rule in rules:
            unlabelled = failed[draft.label(rule.topology_key)[failed] < 0]
            if len(unlabelled):
                reasons.append((f"has no label {rule.topology_key} to spread by", len(unlabelled)))
                failed = np.setdiff1d(failed, unlabelled)
            full = failed[~self._allows(rule, rules, pod, draft)[failed]]
            if len(full):
                told = f"has too many such pods in its {rule.topology_key} already (maxSkew {rule.max_skew})"
                reasons.append((told, len(full)))
                failed = np.setdiff1d(failed, full)
        return reasons


def count_domains(rule: SpreadRule, rules: Sequence[SpreadRule], pod: PodClass, draft: Draft) -> Domains:
    """Over the nodes that count: with the labels of all the constraints, and let in by this one's policies."""
    draft = draft.all_nodes()
    counted = draft.exists.copy()
    for each in rules:
        counted &= draft.label(each.topology_key) >= 0
    if rule.honor_affinity:
        counted &= wanted_nodes(pod.shape, draft)
    if rule.honor_taints:
        counted &= untainted(pod.shape.tolerations, draft)
    codes = draft.label(rule.topology_key)[counted]
    size = len(draft.label_column(rule.topology_key).values)
    # Kubernetes counts nothing for a selector that takes everything.
    empty = rule.pods.selector is not None and not rule.pods.selector.requirements
    weights = np.zeros(len(codes)) if empty else draft.count(rule.pods)[counted]
    counts = np.bincount(codes, weights=weights, minlength=size).astype(np.int64)
    eligible = np.zeros(size, dtype=np.bool_)
    eligible[codes] = True
    return Domains(counts, eligible)
