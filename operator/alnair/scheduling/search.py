"""The gang search: a gang and a draft of the cluster in; a whole plan, a reasoned refusal, or "not sure" out.

Members of one class are placed together: the rules run once over all nodes, then each member takes the best node
left, and only that node is looked at again (all of them, where a rule speaks of other pods). Classes go hardest first.
A gang is placed in full view of its own earlier members; nothing is kept of a gang that does not fit.

A plan is good if every member, taken out and put back as the last one, passes every rule beside all the others. Greedy
placement finds most good plans, in no time. Where it fails and cannot prove that nothing would do, it says `Unsure`
and leaves the word to the exact search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alnair.scheduling.board import Boards
from alnair.scheduling.cards import pick
from alnair.scheduling.classes import Member, MemberClass, classes_of
from alnair.scheduling.explain import ClassShortfall, why_not
from alnair.scheduling.plugins.interface import Filter, Floats
from alnair.scheduling.profile import NOWHERE, Profile
from alnair.state.draft import Draft
from alnair.state.holding import Holding
from alnair.state.shapes import PodClass


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together: of `members`, at least `needed` must find a place, or none does.

    `present` members are placed already (the gang runs, and these join it); they only count in what people read.
    `expected` are pods of others that a preemption made room for: (row, pod).
    """

    members: tuple[Member, ...]
    needed: int
    present: int = 0
    expected: tuple[tuple[int, PodClass], ...] = ()

    @property
    def least(self) -> int:
        return max(self.needed, 1)


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
    """Nothing is placed. `message` is one or more full sentences."""

    message: str


@dataclass(frozen=True, slots=True)
class Unsure:
    """No place was found, and there might be one. `message` says how far it came."""

    message: str


def place(
    gang: Gang, profile: Profile, draft: Draft, boards: Boards | None = None
) -> Plan | Refusal | Unsure:
    """Plan the gang by greedy placement. The draft is scribbled on: give it away, or wipe it."""
    if boards is None or draft.journal:
        boards = Boards()  # what is scribbled must not be remembered
    classes = classes_of(gang.members, draft)
    ratings = [boards.rated(each.pod, profile, draft) for each in classes]
    if gang.expected and len(gang.members) == 1:
        # A lone pod must fit with and without the pods that are only expected: they may never come.
        company = profile.rated_by_company(classes[0].pod, draft)
        ratings = ratings if company is None else [np.where(company == NOWHERE, NOWHERE, ratings[0])]
    _expect(gang, draft)
    placed: list[PlacedClass] = []
    short: list[ClassShortfall] = []
    for each, rating in zip(classes, ratings, strict=True):
        seats = _fill(each, rating, profile, draft)
        placed.append(PlacedClass(each.pod, seats))
        if missing := len(each.members) - len(seats):
            short.append(ClassShortfall(each.pod, len(each.members), missing))
    fit = sum(len(each.seats) for each in placed)
    if fit >= gang.least and holds(placed, profile.wide_filters, draft):
        return plan(placed)
    message = told(gang, short, fit=fit, profile=profile, draft=draft)
    if fit < gang.least and _proven(gang, classes, ratings, profile, draft):
        return Refusal(message)
    return Unsure(message)


def plan(placed: Iterable[PlacedClass]) -> Plan:
    return Plan(tuple((member, holding) for each in placed for member, _, holding in each.seats))


def told(gang: Gang, short: Sequence[ClassShortfall], *, fit: int, profile: Profile, draft: Draft) -> str:
    """Why it does not fit, with what did find a place still standing in the draft."""
    return why_not(
        short, fit=fit + gang.present, gang=gang.least + gang.present, profile=profile, draft=draft
    )


def _expect(gang: Gang, draft: Draft) -> None:
    for row, pod in gang.expected:
        draft.take(row, pod, ())


def _fill(
    each: MemberClass, rating: Floats, profile: Profile, draft: Draft, *, alone: bool = False
) -> tuple[Seat, ...]:
    """As many of these equal members as fit, best node first. `alone`: whatever rules say of other pods."""
    local = rating.copy()
    if touched := {row for row, *_ in draft.journal}:
        rows = np.array(sorted(touched))
        local[rows] = np.where(
            local[rows] == NOWHERE, NOWHERE, profile.rated_locally(each.pod, draft.at(rows))
        )
    seats: list[Seat] = []
    for member in sorted(each.members, key=lambda member: not member.nominated):
        found = _best(member, local, profile, draft, alone=alone)
        if found is None:
            break
        row, holding = found
        draft.take(row, each.pod, holding.containers)
        seats.append((member, row, holding))
        local[row] = profile.rated_locally(each.pod, draft.only(row))[0]
    return tuple(seats)


def _best(
    member: Member, local: Floats, profile: Profile, draft: Draft, *, alone: bool
) -> tuple[int, Holding] | None:
    """The best node for the next member. Nodes whose cards turn out not to do are crossed out in `local`."""
    company = None if alone else profile.rated_by_company(member.pod, draft)
    while local.size:
        total = local if company is None else local + company
        row = int(total.argmax())
        if member.nominated and member.nominated in draft.names:
            wished = draft.names.index(member.nominated)
            row = wished if total[wished] != NOWHERE else row
        if total[row] == NOWHERE:
            return None
        containers = pick(member.shape, draft, row, profile.picker)
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
        for row, containers in {row: holding.containers for _, row, holding in each.seats}.items():
            draft.put_back(row, each.pod, containers)
            good = bool(Profile.pass_all(filters, each.pod, draft.only(row))[0])
            draft.take(row, each.pod, containers)
            if not good:
                return False
    return True


def _proven(
    gang: Gang, classes: Sequence[MemberClass], ratings: Sequence[Floats], profile: Profile, draft: Draft
) -> bool:
    """Whether too few members would fit even if each class had the cluster to itself and nobody minded company.

    A class alone is packed node by node, which greedy placement does perfectly for pods that need one kind of card.
    """
    most = 0
    for each, rating in zip(classes, ratings, strict=True):
        draft.wipe()
        _expect(gang, draft)
        perfect = _packs_perfectly(each.pod)
        most += len(_fill(each, rating, profile, draft, alone=True)) if perfect else len(each.members)
    draft.wipe()
    return most < gang.least


def _packs_perfectly(pod: PodClass) -> bool:
    demands = pod.shape.gpu.demands
    return not demands or (len(demands) == 1 and (demands[0].whole or demands[0].cards == 1))
