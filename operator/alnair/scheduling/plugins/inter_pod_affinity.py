"""InterPodAffinity: near the pods that it must be near, apart from those that it must be apart from, and from those
that must be apart from it. The same as wishes: its own, and those that other pods have about it.

Domains are the values of a node label. A node without the label is in no domain: nothing is near there, and nothing
is too near. A pod that must be near pods like itself may be the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from alnair.api.profiles import Part
from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import Model, domain_trait, stacked
from alnair.scheduling.plugins.interface import Floats, Scope, without
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.selectors import Pods, PodTerm, in_all_of
from alnair.state.shapes import APART, LIKES, NEAR, PodClass


class InterPodAffinity:
    name = "InterPodAffinity"
    scope = Scope.DOMAIN

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(pod.shape.near or pod.shape.apart or draft.company.meaning(APART, pod))

    def awaits(self, pod: PodClass, draft: Draft) -> bool:
        """One to be near. Those to be apart from only ever forbid more."""
        return bool(pod.shape.near)

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        return self.near(pod, draft) & self.apart(pod, draft) & self.welcome(pod, draft)

    def near(self, pod: PodClass, draft: Draft) -> Bools:
        """The pods that count are those that all terms mean; each term has its own domain."""
        mask = draft.exists.copy()
        if not pod.shape.near:
            return mask
        for term in pod.shape.near:
            mask &= draft.label(term.topology_key) >= 0
        if self._first_of_its_kind(pod, draft):
            return mask
        meant = meant_by_all(pod)
        for term in pod.shape.near:
            mask &= _in_domain(draft.count_by_domain(meant, term.topology_key) > 0, term, draft)
        return mask

    def _first_of_its_kind(self, pod: PodClass, draft: Draft) -> bool:
        """No pod that counts is in any domain, and the pod means itself."""
        meant = meant_by_all(pod)
        if not draft.company.is_in(meant, pod):
            return False
        return not any(draft.count_by_domain(meant, term.topology_key).any() for term in pod.shape.near)

    def apart(self, pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for term in pod.shape.apart:
            mask &= ~_in_domain(draft.count_by_domain(term.pods, term.topology_key) > 0, term, draft)
        return mask

    def welcome(self, pod: PodClass, draft: Draft) -> Bools:
        """Nobody is there who must be apart from it."""
        mask = draft.exists.copy()
        for term, rows in draft.company.meaning(APART, pod):
            if isinstance(term, PodTerm):
                codes = draft.label_column(term.topology_key).codes
                closed = np.unique(codes[np.fromiter(rows, dtype=np.int64, count=len(rows))])
                mask &= ~np.isin(draft.label(term.topology_key), closed[closed >= 0])
        return mask

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        reasons = []
        for told, mask in (
            (f"has no pods near that match {_listed(pod.shape.near)}", self.near(pod, draft)),
            (f"has pods near that match {_listed(pod.shape.apart)}", self.apart(pod, draft)),
            ("has pods near whose anti-affinity keeps the pod away", self.welcome(pod, draft)),
        ):
            lacking = failed[~mask[failed]]
            if len(lacking):
                reasons.append((told, lacking))
                failed = without(failed, lacking)
        return reasons

    # -- for the exact search ------------------------------------------------------------------------------------

    def possible(self, pod: PodClass, draft: Draft) -> Bools:
        """Pods that are there already stay there: those to be apart from count for good."""
        mask = self.apart(pod, draft) & self.welcome(pod, draft)
        for term in pod.shape.near:
            mask &= draft.label(term.topology_key) >= 0
        return mask

    def traits(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        for each in classes:
            for term in each.pod.shape.near:
                met = draft.count_by_domain(meant_by_all(each.pod), term.topology_key) > 0
                yield domain_trait(draft.label(term.topology_key), met.astype(np.int64))
            for term in each.pod.shape.apart:
                values = draft.label_column(term.topology_key).values
                yield domain_trait(draft.label(term.topology_key), np.zeros(len(values), dtype=np.int64))

    def stock(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        return ()

    def constrain(self, model: Model) -> None:
        for number, each in enumerate(model.classes):
            for term in each.pod.shape.apart:
                _keep_apart(model, number, term)
            if each.pod.shape.near:
                _keep_near(model, number)


def _keep_apart(model: Model, number: int, term: PodTerm) -> None:
    """Where one of the class is, nobody else of the set is in its domain; which is the others' rule about it too."""
    kept = model.domains(term.topology_key)
    size = len(kept.codes)
    meant = model.members_in(term.pods)
    others = [each for each in meant if each != number]
    own, flag = model.seats[number], stacked((kept.of_node, model.seats[number], 1))
    if number in meant:
        model.add(*flag, most=np.ones(size))
    elif others and model.count(number) > 1:
        somebody = model.variables(np.ones(size))
        rows = stacked((kept.of_node, own, 1), (np.arange(size), somebody, -model.count(number)))
        model.add(*rows, most=np.zeros(size))
        flag = stacked((np.arange(size), somebody, 1))
    if others:
        most = sum(model.count(each) for each in others)
        theirs = [(kept.of_node, model.seats[each], 1) for each in others]
        model.add(*stacked(*theirs, (flag[0], flag[1], most)), most=np.full(size, most))


def _keep_near(model: Model, number: int) -> None:
    """Another pod that counts is in the domain, one that was there before or a member; or the pod is the only one."""
    pod, count = model.pod(number), model.count(number)
    pods = meant_by_all(pod)
    meant = model.members_in(pods)
    before = [model.draft.count_by_domain(pods, term.topology_key) for term in pod.shape.near]
    alone = model.variables(np.zeros(1))
    if number in meant and not any(counts.any() for counts in before):
        alone = model.variables(np.ones(1))
        most = sum(model.count(each) for each in meant)
        anywhere = np.full(len(model.nodes), -1)
        for term in pod.shape.near:
            anywhere[model.draft.label(term.topology_key)[model.nodes] >= 0] = 0
        rows = stacked(*((anywhere, model.seats[each], 1) for each in meant), (0, alone, most - 1))
        model.add(*rows, most=[most])
    for term, counts in zip(pod.shape.near, before, strict=True):
        kept = model.domains(term.topology_key)
        size = len(kept.codes)
        lacking = np.where(np.append(counts[kept.codes] > 0, True)[kept.of_node], -1, kept.of_node)
        company = [(lacking, model.seats[each], -1) for each in meant]
        own = (lacking, model.seats[number], 1)
        if number not in meant:
            company = [(rows, seats, -count) for rows, seats, _ in company]
            model.add(*stacked(own, *company), most=np.zeros(size))
            continue
        somebody = model.variables(np.ones(size))
        model.add(*stacked(own, (np.arange(size), somebody, -count)), most=np.zeros(size))
        lone = (np.arange(size), np.full(size, alone[0]), -1)
        # Two there at least: it, and one more. Domains that have company without it ask nothing.
        wanted = (np.where(counts[kept.codes] > 0, -1, np.arange(size)), somebody, 2)
        model.add(*stacked(*company, wanted, lone), most=np.zeros(size))


def meant_by_all(pod: PodClass) -> Pods:
    """The pods that count for the affinity terms: those that every one of them means."""
    return in_all_of(term.pods for term in pod.shape.near)


def _in_domain(of_domain: Bools, term: PodTerm, draft: Draft) -> Bools:
    """N: what holds for the node's domain; False where it has none."""
    return np.append(of_domain, False)[draft.label(term.topology_key)]


def _listed(terms: Sequence[PodTerm]) -> str:
    return " and ".join(str(term) for term in terms)


class PreferredCompany:
    """Where most wishes are fulfilled, the pod's own and others' about it.

    Their weights are added up in each domain, then from 0 for the worst node to 1 for the best.
    """

    name = "InterPodAffinity"
    scope = Scope.DOMAIN

    class Options(Part):
        # Of others' required affinity, as a wish about the pod
        hard_pod_affinity_weight: Annotated[int, Field(ge=0, le=100)] = 1

    def __init__(self, options: Options | None = None) -> None:
        self._required_weight = (options or self.Options()).hard_pod_affinity_weight

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return bool(
            pod.shape.preferred_pods or any(draft.company.meaning(kind, pod) for kind in (LIKES, NEAR))
        )

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        whole = draft.all_nodes()
        total = np.zeros(len(whole.names))
        for weight, term in pod.shape.preferred_pods:
            there = whole.count_by_domain(term.pods, term.topology_key)
            total += weight * np.append(there, 0)[whole.label(term.topology_key)]
        for weight, term, bearers in self._others_wishes(pod, draft):
            column = whole.label_column(term.topology_key)
            rows = np.fromiter(bearers, dtype=np.int64, count=len(bearers))
            number = np.fromiter(bearers.values(), dtype=np.float64, count=len(bearers))
            in_domain = column.codes[rows] >= 0
            there = np.bincount(
                column.codes[rows[in_domain]], weights=number[in_domain], minlength=len(column.values)
            )
            total += weight * np.append(there, 0)[column.codes]
        return _from_worst_to_best(total, whole)[draft.rows]

    def _others_wishes(self, pod: PodClass, draft: Draft) -> Iterator[tuple[int, PodTerm, Mapping[int, int]]]:
        """(weight, term, row -> how many have that wish there) of what other pods say about this one."""
        for wish, rows in draft.company.meaning(LIKES, pod):
            if isinstance(wish, tuple):
                yield wish[0], wish[1], rows
        for term, rows in draft.company.meaning(NEAR, pod):
            if isinstance(term, PodTerm):
                yield self._required_weight, term, rows


def _from_worst_to_best(total: Floats, draft: Draft) -> Floats:
    there = total[draft.exists]
    if not there.size or there.min() == there.max():
        return np.zeros(len(total))
    return np.asarray(((total - there.min()) / (there.max() - there.min())).clip(0, 1))
