"""The gang search: a gang and a draft of the cluster in; a whole plan, a reasoned refusal, or "not sure" out.

Members of one class are placed together: the rules run once over all nodes, then each member takes the best node
left, and only that node is looked at again (all of them, where a rule speaks of other pods). Classes go hardest first.
A gang is placed in full view of its own earlier members; nothing is kept of a gang that does not fit.

A gang that wants to be together is placed in one domain after another, best fit first (see domains).

A plan is good if every member, taken out and put back as the last one, passes every rule beside all the others. Greedy
placement finds most good plans, in no time. Where it fails and cannot prove that nothing would do, it says `Unsure`
and leaves the word to the exact search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from alnair.scheduling.board import Boards
from alnair.scheduling.cards import pick
from alnair.scheduling.classes import Member, MemberClass, classes_of
from alnair.scheduling.domains import Domains, Together, domains_of, in_no_domain, sampled, where_it_fails
from alnair.scheduling.explain import ClassShortfall, shortened, why_not
from alnair.scheduling.plugins.interface import Filter, Floats
from alnair.scheduling.profile import NOWHERE, Profile
from alnair.state.draft import Bools, Draft
from alnair.state.holding import Holding
from alnair.state.shapes import PodClass, ghost


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together: of `members`, at least `needed` must find a place, or none does.

    `present` members are placed already (the gang runs, and these join it); they only count in what people read.
    `expected` are pods of others that a preemption made room for: (row, pod). `together`: near each other, by a label
    of the nodes.
    """

    members: tuple[Member, ...]
    needed: int
    present: int = 0
    expected: tuple[tuple[int, PodClass], ...] = ()
    together: Together | None = None

    @property
    def least(self) -> int:
        return max(self.needed, 1)


# Domains are tried one after another on the event loop: so many members are placed for one gang, no matter how many
# domains there are. Beyond that it is left to the exact search.
MOST_LOOKS, FEWEST_TRIES = 1000, 3

Seat = tuple[Member, int, Holding]  # member, row, what it holds there


@dataclass(frozen=True, slots=True)
class PlacedClass:
    """Equal members and where they stand in the draft."""

    pod: PodClass
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each member goes. Members that found no place beyond `needed` are left out."""

    placements: tuple[tuple[Member, Holding], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing is placed. `message` is one or more full sentences, spoken beside the `most` members that would fit."""

    message: str
    most: tuple[tuple[Member, Holding], ...] = ()


@dataclass(frozen=True, slots=True)
class Unsure:
    """No place was found, and there might be one. `message` says how far it came."""

    message: str


def place(
    gang: Gang, profile: Profile, draft: Draft, boards: Boards | None = None
) -> Plan | Refusal | Unsure:
    """Plan the gang by greedy placement. After a plan its members stand in the draft, else it is as it was."""
    if boards is None or draft.journal:
        boards = Boards()  # what is scribbled must not be remembered
    classes = classes_of(gang.members, draft, gang.expected)
    ratings = [boards.rated(each.pod, profile, draft) for each in classes]
    if gang.expected:
        closed = [closed_by_expected(each.pod, gang, profile, draft) for each in classes]
        ratings = [np.where(rows, NOWHERE, rating) for rows, rating in zip(closed, ratings, strict=True)]
    if gang.together is not None:
        return _place_together(gang, gang.together, classes, ratings, profile, draft)
    return _attempt(gang, classes, ratings, profile, draft).verdict


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What came of it, and how many members found a place."""

    verdict: Plan | Refusal | Unsure
    fit: int


def _attempt(
    gang: Gang,
    classes: Sequence[MemberClass],
    ratings: Sequence[Floats],
    profile: Profile,
    draft: Draft,
    *,
    among: Bools | None = None,
    hopeless: bool = False,
) -> _Attempt:
    """On these nodes, or on all. After a plan its members stand in the draft, else it is as it was. `hopeless`: it is
    known not to fit, and tried only to say how far it comes."""
    mark = len(draft.journal)
    if among is not None:
        ratings = [np.where(among, rating, NOWHERE) for rating in ratings]
    placed, short = _fill_all(gang, classes, ratings, profile, draft)
    fit = sum(len(each.seats) for each in placed)
    good = holds(placed, profile.wide_filters, draft)
    if good and fit >= gang.least:
        return _Attempt(plan(placed), fit)
    message = "Every member finds a place, but some in breach of a rule about the others."
    if fit < gang.least:
        spoken_of = draft if among is None else draft.at(np.flatnonzero(among))
        message = told(gang, short, fit=fit, profile=profile, draft=spoken_of)
    if good and (hopeless or fit == _at_most(gang, classes, ratings, profile, draft, mark)):
        draft.wipe(keep=mark)
        return _Attempt(Refusal(message, plan(placed).placements), fit)
    draft.wipe(keep=mark)
    return _Attempt(Unsure(message), fit)


def _fill_all(
    gang: Gang,
    classes: Sequence[MemberClass],
    ratings: Sequence[Floats],
    profile: Profile,
    draft: Draft,
) -> tuple[list[PlacedClass], list[ClassShortfall]]:
    expect(gang, draft)
    placed: list[PlacedClass] = []
    short: list[ClassShortfall] = []
    for each, rating in zip(classes, ratings, strict=True):
        seats = _fill(each, rating, profile, draft)
        placed.append(PlacedClass(each.pod, seats))
        if missing := len(each.members) - len(seats):
            short.append(ClassShortfall(each.pod, len(each.members), missing))
    return placed, short


# -- together ----------------------------------------------------------------------------------------------------


def _place_together(
    gang: Gang,
    together: Together,
    classes: Sequence[MemberClass],
    ratings: Sequence[Floats],
    profile: Profile,
    draft: Draft,
) -> Plan | Refusal | Unsure:
    domains = domains_of(together, classes, [rating != NOWHERE for rating in ratings], draft)
    tries = max(FEWEST_TRIES, MOST_LOOKS // len(gang.members))
    if together.required:
        return _place_in_one(gang, together, domains, tries, classes, ratings, profile, draft)
    for numbers in islice(domains.few(), tries):
        mark = len(draft.journal)
        within = [np.where(domains.rows(numbers), rating, NOWHERE) for rating in ratings]
        placed, short = _fill_all(gang, classes, within, profile, draft)
        if not short and holds(placed, profile.wide_filters, draft):
            return plan(placed)
        draft.wipe(keep=mark)
    return _attempt(gang, classes, ratings, profile, draft).verdict


def _place_in_one(
    gang: Gang,
    together: Together,
    domains: Domains,
    tries: int,
    classes: Sequence[MemberClass],
    ratings: Sequence[Floats],
    profile: Profile,
    draft: Draft,
) -> Plan | Refusal | Unsure:
    """In the first domain that holds it. It is refused if each is known not to: by counting, or by greedy placement
    where that can prove it."""
    if not len(domains.names):
        return Refusal(in_no_domain(together))
    holding = domains.holding(gang.least)
    sure = len(holding) <= tries
    looked_at = sampled(holding, tries) or [number for number in (domains.fullest(),) if number is not None]
    best: tuple[int, int, Refusal | Unsure] | None = None
    for number in looked_at:
        attempt = _attempt(
            gang, classes, ratings, profile, draft, among=domains.rows([number]), hopeless=not holding
        )
        if isinstance(attempt.verdict, Plan):
            return attempt.verdict
        sure = sure and (not holding or isinstance(attempt.verdict, Refusal))
        if best is None or attempt.fit > best[1]:
            best = number, attempt.fit, attempt.verdict
    where: int | None = None
    most: tuple[tuple[Member, Holding], ...] = ()
    if best is None or (best[1] == 0 and not domains.home.any()):
        message = _nothing_fits(gang, classes, profile, draft, domains)
    else:
        where, _, verdict = best
        message = verdict.message
        most = verdict.most if isinstance(verdict, Refusal) else ()
    message = told_where(gang, together, domains, where, message)
    return Refusal(message, most) if sure else Unsure(message)


def told_where(gang: Gang, together: Together, domains: Domains, where: int | None, message: str) -> str:
    lone = gang.least + gang.present == 1
    return shortened(where_it_fails(together, domains, where, lone=lone) + message)


def _nothing_fits(
    gang: Gang, classes: Sequence[MemberClass], profile: Profile, draft: Draft, domains: Domains
) -> str:
    """No domain is better than another: what is wrong is told of all their nodes."""
    mark = len(draft.journal)
    expect(gang, draft)
    short = [ClassShortfall(each.pod, len(each.members), len(each.members)) for each in classes]
    rows = np.flatnonzero(domains.of_node >= 0)
    message = told(gang, short, fit=0, profile=profile, draft=draft.at(rows))
    draft.wipe(keep=mark)
    return message


def plan(placed: Iterable[PlacedClass]) -> Plan:
    return Plan(tuple((member, holding) for each in placed for member, _, holding in each.seats))


def told(gang: Gang, short: Sequence[ClassShortfall], *, fit: int, profile: Profile, draft: Draft) -> str:
    """Why it does not fit, with what did find a place still standing in the draft."""
    return why_not(
        short, fit=fit + gang.present, gang=gang.least + gang.present, profile=profile, draft=draft
    )


def expect(gang: Gang, draft: Draft) -> None:
    """Keep the room of the pods of others that are to come. Rules about other pods do not see them: they may never
    come, and nobody may be let in somewhere for their sake."""
    for row, pod in gang.expected:
        draft.take(row, ghost(pod), ())


def closed_by_expected(pod: PodClass, gang: Gang, profile: Profile, draft: Draft) -> Bools:
    """N: nodes where a rule about other pods says no if those expected on that very node are there."""
    closed = np.zeros(len(draft.names), dtype=np.bool_)
    for row in {row for row, _ in gang.expected}:
        coming = [other for at, other in gang.expected if at == row]
        closed[row] = not minds_nobody(pod, row, coming, profile, draft)
    return closed


def minds_nobody(pod: PodClass, row: int, coming: Sequence[PodClass], profile: Profile, draft: Draft) -> bool:
    """No rule about other pods says no to the pod on this node if those who are expected there are."""
    for other in coming:
        draft.company.visit(row, other)
    try:
        return bool(Profile.pass_all(profile.wide_filters, pod, draft.only(row))[0])
    finally:
        for other in reversed(coming):
            draft.company.end_visit(row, other)


def feasible(pod: PodClass, gang: Gang, profile: Profile, draft: Draft) -> Bools:
    """N: where one pod could go, beside whatever else the gang expects. The draft is left as it was. This is what
    `make conformance` asks."""
    mark = len(draft.journal)
    closed = closed_by_expected(pod, gang, profile, draft)
    expect(gang, draft)
    passes = profile.passes(pod, draft) & ~closed
    draft.wipe(keep=mark)
    return passes


def _fill(
    each: MemberClass, rating: Floats, profile: Profile, draft: Draft, *, alone: bool = False
) -> tuple[Seat, ...]:
    """As many of these equal members as fit, best node first. `alone`: whatever rules say of other pods."""
    local = rating.copy()
    if touched := {row for row, *_ in draft.journal}:
        rows = np.array(sorted(touched))
        local[rows] = np.where(
            local[rows] == NOWHERE, NOWHERE, profile.rated_locally(each.pod, draft.glance(rows))
        )
    seats: list[Seat] = []
    for member in sorted(each.members, key=lambda member: not member.nominated):
        if seats:
            row = seats[-1][1]
            local[row] = profile.rated_locally(each.pod, draft.only(row))[0]
        found = _best(member, local, profile, draft, alone=alone)
        if found is None:
            break
        row, holding = found
        draft.take(row, each.pod, holding.containers)
        seats.append((member, row, holding))
    return tuple(seats)


def _best(
    member: Member, local: Floats, profile: Profile, draft: Draft, *, alone: bool
) -> tuple[int, Holding] | None:
    """The best node for the next member. Nodes whose cards turn out not to do are crossed out in `local`."""
    company = None if alone else profile.rated_by_company(member.pod, draft)
    while local.size:
        total = local if company is None else local + company
        row = profile.chosen(member.pod, draft, total)
        if member.nominated and member.nominated in draft.names:
            wished = draft.names.index(member.nominated)
            row = wished if total[wished] != NOWHERE else row
        if total[row] == NOWHERE:
            return None
        containers = pick(member.pod, draft, row, profile.picker)
        if containers is not None:
            return row, Holding(draft.names[row], containers)
        local[row] = NOWHERE
    return None


def holds(placed: Iterable[PlacedClass], filters: Iterable[Filter], draft: Draft) -> bool:
    """Whether every member that stands in the draft, taken out and put back, passes these rules beside all the others.

    Pods only ever use more of a node, so what greedy placement has checked one by one about the node alone still
    holds; rules about other pods may not. Equal members on one node are asked once.
    """
    filters = tuple(filters)
    for each in placed:
        if not any(rule.concerns(each.pod, draft) for rule in filters):
            continue
        for row, containers in {row: holding.containers for _, row, holding in each.seats}.items():
            draft.put_back(row, each.pod, containers)
            good = bool(Profile.pass_all(filters, each.pod, draft.only(row))[0])
            draft.take(row, each.pod, containers)
            if not good:
                return False
    return True


def _at_most(
    gang: Gang,
    classes: Sequence[MemberClass],
    ratings: Sequence[Floats],
    profile: Profile,
    draft: Draft,
    mark: int,
) -> int:
    """How many members would fit if each class had the cluster to itself and nobody minded company. Wipes the draft.

    A class alone is packed node by node, which greedy placement does perfectly for pods that need one kind of card.
    """
    most = 0
    for each, rating in zip(classes, ratings, strict=True):
        draft.wipe(keep=mark)
        expect(gang, draft)
        perfect = _packs_perfectly(each.pod)
        most += len(_fill(each, rating, profile, draft, alone=True)) if perfect else len(each.members)
    draft.wipe(keep=mark)
    return most


def _packs_perfectly(pod: PodClass) -> bool:
    demands = pod.shape.gpu.demands
    return not demands or (len(demands) == 1 and (demands[0].whole or demands[0].cards == 1))
