"""PodTopologySpread: after the pod no domain has more of the counted pods than the emptiest one plus `maxSkew`.

`DoNotSchedule` constraints are for the filter. Nodes that lack the label of any of them fail, and are not counted;
neither are nodes that the constraint's policies leave out, though pods may still go there. `ScheduleAnyway` ones are
for the scorer: the fewer counted pods a node's domains have, the better; a node without the labels is the worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import KeptDomains, Model, domain_trait, stacked
from alnair.scheduling.plugins.interface import Floats, Scope, without
from alnair.scheduling.plugins.node_affinity import wanted_nodes
from alnair.scheduling.plugins.taint_toleration import untainted
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass, SpreadRule

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Domains:
    """Of one constraint: how many counted pods each domain has, and which domains there are to compare with."""

    counts: Ints
    eligible: Bools

    def least(self, min_domains: int) -> int:
        return int(self.counts[self.eligible].min()) if self.enough(min_domains) else 0

    def enough(self, min_domains: int) -> bool:
        """With fewer domains the emptiest counts as empty, whatever is in it."""
        return bool(self.eligible.any()) and int(self.eligible.sum()) >= min_domains


class PodTopologySpread:
    name = "PodTopologySpread"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return any(rule.hard for rule in pod.shape.spread)

    def awaits(self, pod: PodClass, draft: Draft) -> bool:
        """One more in the emptiest domain."""
        return self.concerns(pod, draft)

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

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        reasons = []
        rules = [rule for rule in pod.shape.spread if rule.hard]
        for rule in rules:
            unlabelled = failed[draft.label(rule.topology_key)[failed] < 0]
            if len(unlabelled):
                reasons.append((f"has no label {rule.topology_key} to spread by", unlabelled))
                failed = without(failed, unlabelled)
            full = failed[~self._allows(rule, rules, pod, draft)[failed]]
            if len(full):
                told = f"has too many such pods in its {rule.topology_key} already (maxSkew {rule.max_skew})"
                reasons.append((told, full))
                failed = without(failed, full)
        return reasons

    # -- for the exact search ------------------------------------------------------------------------------------

    def possible(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for rule in pod.shape.spread:
            if rule.hard:
                mask &= draft.label(rule.topology_key) >= 0
        return mask

    def traits(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        for each in classes:
            rules = [rule for rule in each.pod.shape.spread if rule.hard]
            for rule in rules:
                yield counted_nodes(rule, rules, each.pod, draft).astype(np.int64)
                counts = count_domains(rule, rules, each.pod, draft).counts
                yield domain_trait(draft.label(rule.topology_key), counts)

    def stock(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        return ()

    def constrain(self, model: Model) -> None:
        for number, each in enumerate(model.classes):
            rules = [rule for rule in each.pod.shape.spread if rule.hard]
            for rule in rules:
                _keep_even(model, number, rule, rules)


def _keep_even(model: Model, number: int, rule: SpreadRule, rules: Sequence[SpreadRule]) -> None:
    """Where one of the class is, its domain has no more than the emptiest one plus maxSkew, itself counted."""
    pod = model.pod(number)
    domains = count_domains(rule, rules, pod, model.draft)
    kept = model.domains(rule.topology_key)
    counted = counted_nodes(rule, rules, pod, model.draft)[model.nodes]
    meant = model.members_in(rule.pods)
    counting = [] if takes_everything(rule) else meant
    # The members that count, by domain: those on nodes that count.
    inside = np.where(counted, kept.of_node, -1)
    members = [(inside, model.seats[each], 1) for each in counting]
    newcomers = sum(model.count(each) for each in counting)
    size = len(kept.codes)
    least = model.variables(np.zeros(1))
    if domains.enough(rule.min_domains):
        least = _emptiest(model, domains, kept, members, newcomers)
    # A member that does not count where it stands comes on top of those that do.
    on_top = ~counted if number in counting else np.full(len(counted), number in meant)
    for extra in (False, True):
        rows = np.where(on_top == extra, kept.of_node, -1)
        if not (model.seats[number][rows >= 0] >= 0).any():
            continue
        somebody = model.variables(np.ones(size))
        model.add(
            *stacked((rows, model.seats[number], 1), (np.arange(size), somebody, -model.count(number))),
            most=np.zeros(size),
        )
        room = rule.max_skew - int(extra) - domains.counts[kept.codes]
        slack = np.maximum(newcomers - room, 0)
        emptiest = (np.arange(size), np.full(size, least[0]), -1)
        flag = (np.arange(size), somebody, slack)
        model.add(*stacked(*members, emptiest, flag), most=room + slack)


def _emptiest(
    model: Model,
    domains: Domains,
    kept: KeptDomains,
    members: Sequence[tuple[Ints, Ints, int]],
    newcomers: int,
) -> Ints:
    """A variable that is at most the count of every domain to compare with."""
    elsewhere = domains.eligible.copy()
    elsewhere[kept.codes] = False
    most = domains.counts[elsewhere].min() if elsewhere.any() else domains.counts.max() + newcomers
    least = model.variables([most], integer=False)
    size = len(kept.codes)
    compared = np.where(domains.eligible[kept.codes], np.arange(size), -1)
    below = [
        (np.where(rows >= 0, np.append(compared, -1)[rows], -1), seats, -1) for rows, seats, _ in members
    ]
    model.add(
        *stacked(*below, (compared, np.full(size, least[0]), 1)),
        most=domains.counts[kept.codes],
    )
    return least


def takes_everything(rule: SpreadRule) -> bool:
    """Kubernetes counts nothing for a selector that takes everything."""
    return rule.pods.selector is not None and not rule.pods.selector.requirements


def counted_nodes(rule: SpreadRule, rules: Sequence[SpreadRule], pod: PodClass, draft: Draft) -> Bools:
    """N: with the labels of all the constraints, and let in by this one's policies."""
    counted = draft.exists.copy()
    for each in rules:
        counted &= draft.label(each.topology_key) >= 0
    if rule.honor_affinity:
        counted &= wanted_nodes(pod.shape, draft)
    if rule.honor_taints:
        counted &= untainted(pod.shape.tolerations, draft)
    return counted


def count_domains(rule: SpreadRule, rules: Sequence[SpreadRule], pod: PodClass, draft: Draft) -> Domains:
    """Over the nodes that count."""
    draft = draft.all_nodes()
    counted = counted_nodes(rule, rules, pod, draft)
    codes = draft.label(rule.topology_key)[counted]
    size = len(draft.label_column(rule.topology_key).values)
    counts = np.bincount(codes, weights=count_on_nodes(rule, draft)[counted], minlength=size).astype(np.int64)
    eligible = np.zeros(size, dtype=np.bool_)
    eligible[codes] = True
    return Domains(counts, eligible)


def count_on_nodes(rule: SpreadRule, draft: Draft) -> Ints:
    """N: how many pods that count are on the node."""
    return np.zeros(len(draft.names), dtype=np.int64) if takes_everything(rule) else draft.count(rule.pods)


class SoftSpread:
    """Pods count for more where there are many domains, and less the larger maxSkew is beside them."""

    name = "PodTopologySpread"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return any(not rule.hard for rule in pod.shape.spread)

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        whole = draft.all_nodes()
        rules = [rule for rule in pod.shape.spread if not rule.hard]
        labelled = whole.exists.copy()
        for rule in rules:
            labelled &= whole.label(rule.topology_key) >= 0
        if not labelled.any():
            return np.zeros(len(draft.names))
        crowd = np.zeros(len(whole.names))
        for rule in rules:
            codes = whole.label(rule.topology_key)
            if rule.topology_key == HOSTNAME:  # every node is its own domain, whatever its policies say
                counts, domains = count_on_nodes(rule, whole), int(labelled.sum())
            else:
                counts = np.append(count_domains(rule, rules, pod, whole).counts, 0)[codes]
                domains = len(np.unique(codes[labelled]))
            crowd += counts * np.log(domains + 2) + rule.max_skew - 1
        most, least = crowd[labelled].max(), crowd[labelled].min()
        good = ((most + least - crowd) / most).clip(0, 1) if most else np.ones(len(crowd))
        return np.where(labelled, good, 0.0)[draft.rows]
