"""Which members of a gang no rule can tell apart.

Their shapes are equal, and so are the answers to every question that some rule in play asks about them: rules of the
gang's own members, and those that pods already running brought to their nodes. Where nobody selects by labels, which
is most often so, the shape alone decides, however many indices the members carry in their labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alnair.state.draft import Draft
from alnair.state.selectors import PodSet, in_all_of
from alnair.state.shapes import APART, LIKES, NEAR, PodClass, PodShape


@dataclass(frozen=True, slots=True)
class Member:
    """A pod to be placed. `nominated`: the node that a preemption made room on for it."""

    uid: str
    name: str
    pod: PodClass
    nominated: str = ""

    @property
    def shape(self) -> PodShape:
        return self.pod.shape


@dataclass(frozen=True, slots=True)
class MemberClass:
    """Members of one class. `pod` is one of them, and speaks for all."""

    pod: PodClass
    members: tuple[Member, ...]


def classes_of(
    members: Iterable[Member], draft: Draft, expected: Iterable[tuple[int, PodClass]] = ()
) -> Sequence[MemberClass]:
    """Hardest first: whole cards, then large slices, then choosy claims, then many rules, then much cpu; what fits
    anywhere can wait.

    But those that must be near other members come after them. `expected`: pods that others were promised room for,
    who may mind some of the members.
    """
    members = tuple(members)
    if len(members) == 1:
        return [MemberClass(members[0].pod, members)]
    asked = _sets_in_play(members, draft)
    asked += [term.pods for _, pod in expected for term in pod.shape.apart]
    classes: dict[tuple[object, ...], list[Member]] = {}
    for member in members:
        answers = tuple(draft.company.is_in(pods, member.pod) for pods in asked)
        meant = tuple(draft.company.meaning(kind, member.pod) for kind in (APART, NEAR, LIKES))
        by = tuple(thing for terms in meant for thing, _ in terms)
        classes.setdefault((member.shape, member.pod.node_name, answers, by), []).append(member)
    found = [MemberClass(equal[0].pod, tuple(equal)) for equal in classes.values()]
    return _after_whom_they_follow(
        sorted(found, key=lambda each: _hardness(each.pod.shape, draft), reverse=True), draft
    )


def _after_whom_they_follow(classes: list[MemberClass], draft: Draft) -> list[MemberClass]:
    if len(classes) == 1 or not any(each.pod.shape.near for each in classes):
        return classes
    ordered: list[MemberClass] = []
    while classes:
        free = (each for each in classes if not any(_follows(each, other, draft) for other in classes))
        chosen = next(free, classes[0])  # in a circle the hardest goes first
        ordered.append(chosen)
        classes = [each for each in classes if each is not chosen]
    return ordered


def _follows(one: MemberClass, other: MemberClass, draft: Draft) -> bool:
    near = one.pod.shape.near
    return (
        one is not other
        and bool(near)
        and draft.company.is_in(in_all_of(term.pods for term in near), other.pod)
    )


def _sets_in_play(members: Sequence[Member], draft: Draft) -> list[PodSet]:
    """Of the gang's own rules, and of Services; those of others' rules are asked by whom they mean."""
    sets: dict[PodSet, None] = {}
    for namespace in {member.pod.namespace for member in members}:
        sets |= dict.fromkeys(draft.services.sets(namespace))
    for shape in {member.shape for member in members}:
        if shape.selecting:
            terms = (*shape.near, *shape.apart, *(term for _, term in shape.preferred_pods))
            sets |= dict.fromkeys(term.pods for term in terms)
            sets |= dict.fromkeys(rule.pods for rule in shape.spread)
    return list(sets)


def _hardness(shape: PodShape, draft: Draft) -> tuple[int, int, tuple[int, int], int, int]:
    demands = shape.gpu.demands
    rules = (
        *shape.node_selector,
        *(shape.node_terms or ()),
        *shape.near,
        *shape.apart,
        *shape.spread,
        *shape.ports,
    )
    return (
        sum(demand.cards for demand in demands if demand.whole),
        max((demand.size for demand in demands), default=0),
        draft.volumes.choosiness(shape.claims),
        len(rules),
        dict(shape.requests).get("cpu", 0),
    )
