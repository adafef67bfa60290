"""The gang search: a gang and a draft of the cluster in, a whole plan or a reasoned refusal out.

Members of one shape are placed together: the rules run once over all nodes, then each member takes the best node
left, and only that node's row is looked at again. Classes go hardest first, because what fits anywhere can wait.
A gang is placed in full view of its own earlier members; nothing is kept of a gang that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alnair.scheduling.cards import pick
from alnair.scheduling.explain import ClassShortfall, why_not
from alnair.scheduling.profile import Profile
from alnair.state.draft import Draft
from alnair.state.holding import Holding
from alnair.state.pods import PodShape

NOWHERE = -np.inf


@dataclass(frozen=True, slots=True)
class Member:
    """A pod to be placed."""

    uid: str
    name: str
    shape: PodShape


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together: of `members`, at least `needed` must find a place, or none does.

    `present` members are placed already (the gang runs, and these join it); they only count in what people read.
    """

    members: tuple[Member, ...]
    needed: int
    present: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each member goes. Members that found no place beyond `needed` are left out."""

    placements: tuple[tuple[Member, Holding], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing is placed. `message` is one or more full sentences."""

    message: str


def place(gang: Gang, profile: Profile, draft: Draft) -> Plan | Refusal:
    """Plan the gang. The draft is scribbled on: give it away."""
    placements: list[tuple[Member, Holding]] = []
    short: list[ClassShortfall] = []
    for shape, members in by_shape(gang.members):
        placed = _place_class(shape, members, profile, draft)
        placements += placed
        if len(placed) < len(members):
            short.append(ClassShortfall(shape, len(members), len(members) - len(placed)))
    if len(placements) >= max(gang.needed, 1):
        return Plan(tuple(placements))
    return Refusal(
        why_not(
            short,
            fit=len(placements) + gang.present,
            gang=max(gang.needed, 1) + gang.present,
            profile=profile,
            draft=draft,
        )
    )


def by_shape(members: Iterable[Member]) -> Sequence[tuple[PodShape, list[Member]]]:
    """Classes, hardest first: whole cards, then large slices, then much cpu."""
    classes: dict[PodShape, list[Member]] = {}
    for member in members:
        classes.setdefault(member.shape, []).append(member)
    return sorted(classes.items(), key=lambda entry: _hardness(entry[0]), reverse=True)


def _hardness(shape: PodShape) -> tuple[int, int, int, int]:
    demands = shape.gpu.demands
    return (
        sum(demand.cards for demand in demands if demand.whole),
        max((demand.memory_mib for demand in demands), default=0),
        dict(shape.requests).get("cpu", 0),
        len(shape.node_selector),
    )


def _place_class(
    shape: PodShape, members: Sequence[Member], profile: Profile, draft: Draft
) -> list[tuple[Member, Holding]]:
    """As many of these equal members as fit, best node first."""
    scores = np.where(profile.passes(shape, draft), profile.score(shape, draft), NOWHERE)
    placed: list[tuple[Member, Holding]] = []
    waiting = list(reversed(members))
    while waiting and scores.size:
        row = int(scores.argmax())
        if scores[row] == NOWHERE:
            break
        containers = pick(shape, draft, row, profile.picker)
        if containers is None:
            scores[row] = NOWHERE
            continue
        draft.take(row, shape, containers)
        placed.append((waiting.pop(), Holding(draft.names[row], containers)))
        one = draft.only(row)
        scores[row] = profile.score(shape, one)[0] if profile.still_passes(shape, one) else NOWHERE
    return placed
