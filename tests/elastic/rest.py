"""The judge of a cluster at rest: nothing is written any more, so what is wrong now stays so.

A gang whose target was scaled to 0 has been stopped by somebody; it is only asked to say so.

idle
    capacity is idle though a job would fit there: one more member of an elastic gang below its most that is not held by
    a hand, or all that a gang which waits needs. `idle_fraction` is the share of all cards that they would take.
starved
    a gang that waits would fit if elastic gangs of StatefulSets gave back what they have beyond their least. (Who
    leaves a Deployment is not for the judge to say.)
below_min
    a gang that has started has fewer members than its least, and there is room for one, or nobody asks for one.
half_gangs
    a gang has members, fewer than it needs, and never had enough.
unexplained
    what an elastic gang's status says of its size is not so, or it has fewer members than it may have and does not
    say why, or says what is not so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from elastic.findings import BELOW_MIN, IDLE, STARVED, UNEXPLAINED
from elastic.room import Room
from elastic.seen import Group, Shape, Target
from elastic.sizes import Picture
from witness.findings import HALF_GANG, Finding
from witness.seen import Pod
from witness.words import STATEFUL_SETS

CARD_MIB = 24 * 1024
"""What slices are reckoned by as parts of a card."""


@dataclass(slots=True)
class Judgement:
    findings: list[Finding] = field(default_factory=list)
    idle_fraction: float = 0.0
    elastic: int = 0
    """Elastic gangs that were there."""
    over: int = 0
    """Those of them that have failed for good."""
    started: int = 0
    short: int = 0
    """Those below their least for which there was no room: they lost members."""
    at_most: int = 0
    waiting: int = 0
    """Gangs of any kind, and lone pods, that have no place."""


def judge(picture: Picture, *, hand_seconds: float) -> Judgement:
    return _Judge(picture, hand_seconds).done


class _Judge:
    def __init__(self, picture: Picture, hand_seconds: float) -> None:
        self.done = Judgement()
        self._picture = picture
        self._hand_seconds = hand_seconds
        self._room = Room(picture)
        """As it is, for questions; `_rest` is filled with whatever would fit."""
        self._rest = Room(picture)
        self._at_least = Room(picture, without=self._beyond_least())
        self._idle = 0.0
        for group in sorted(picture.groups.values(), key=lambda each: each.key):
            self.done.elastic += group.elastic
            if group.over:
                self.done.over += group.elastic
            else:
                self._judge(group)
        for key, pod in sorted(picture.pods.items()):
            if not pod.group and pod.ours and not pod.node and pod.living and not pod.terminating:
                self.done.waiting += 1
                self._wait(key, picture.shapes[key], 1)
        self.done.idle_fraction = self._idle / max(1, self._rest.cards)

    def _judge(self, group: Group) -> None:
        members = self._picture.members(group.key)
        done = sum(pod.succeeded for pod in self._picture.of(group.key))
        if 0 < len(members) + done < group.least and self._picture.peaks.get(group.uid, 0) < group.least:
            what = f"{group.key} has {len(members)} members, never had more, and needs {group.least}"
            self._say(HALF_GANG, what, group)
        if group.elastic:
            target = self._picture.targets.get(group.target)
            if target is not None:
                self._judge_elastic(group, target, members)
        elif not members and not done:
            self._judge_waiting(group)

    def _judge_waiting(self, group: Group) -> None:
        pods = [
            key
            for key, pod in self._picture.pods.items()
            if pod.group == group.key and pod.living and not pod.terminating
        ]
        if len(pods) >= group.least:
            self.done.waiting += 1
            self._wait(group.key, self._picture.shapes[min(pods)], group.least)

    def _judge_elastic(self, group: Group, target: Target, members: list[Pod]) -> None:
        number, most = len(members), group.most or 0
        self.done.started += number > 0
        self.done.waiting += not number
        self.done.at_most += number >= most
        fits = self._room.fits(target.shape, 1 if number else group.least)
        self._judge_words(group, target, number, fits=fits)
        if not number and not target.replicas:
            return  # somebody has stopped it
        if 0 < number < group.least:
            if fits or target.replicas < group.least:
                what = f"{group.key} has {number} members and {target.replicas} replicas, its least is {group.least}"
                self._say(BELOW_MIN, what, group)
            else:
                self.done.short += 1
        if not number:
            self._wait(group.key, target.shape, group.least)
        elif number < most and not self._held_by_hand(target):
            what = f"{group.key} has {number} of {most} and says {_words(group)}"
            self._would_fit(what, target.shape, 1, most - number, group.key)

    def _wait(self, key: str, shape: Shape, members: int) -> None:
        """It has nothing, and needs so many places."""
        if not self._room.fits(shape, members) and self._at_least.fits(shape, members):
            what = f"{key} waits for {members} of {shape.ask}, which elastic gangs have beyond their least"
            self.done.findings.append(Finding(STARVED, self._picture.revision, (key,), what))
        self._would_fit(f"{key} waits", shape, members, members, key)

    def _beyond_least(self) -> set[str]:
        """UIDs of members that would leave if every elastic gang of a StatefulSet had its least."""
        leaving = set()
        for group in self._picture.groups.values():
            target = self._picture.targets.get(group.target)
            if (
                target is not None
                and group.target.startswith(STATEFUL_SETS)
                and not self._held_by_hand(target)
            ):
                for pod in self._picture.members(group.key):
                    if int(pod.name.rpartition("-")[2]) >= group.least:
                        leaving.add(pod.uid)
        return leaving

    def _would_fit(self, what: str, shape: Shape, least: int, most: int, key: str) -> None:
        """At least so many or none; what they would take is idle."""
        if shape.ask is None or not self._rest.fits(shape, least):
            return
        placed = self._rest.place(shape, most)
        self._idle += placed * _cards(shape)
        where = f"there is room for {placed} of {shape.ask}"
        self.done.findings.append(Finding(IDLE, self._picture.revision, (key,), f"{what}, and {where}"))

    def _judge_words(self, group: Group, target: Target, number: int, *, fits: bool) -> None:
        told, wrong = group.told, []
        truth = {"size": number, "wants": target.replicas, "min": group.least, "max": group.most}
        for field_, value in truth.items():
            if (told.get(field_) or 0) != value:
                wrong.append(f"{field_} is {value}, it says {told.get(field_)}")
        if number < (group.most or 0):
            reason = told.get("reason")
            if not reason or not told.get("message"):
                wrong.append(f"it does not say why it has {number} of {group.most}: {reason!r}")
            elif reason == "AtMax":
                wrong.append(f"it has {number} of {group.most} and says {reason}")
            elif reason == "NoRoom" and fits:
                wrong.append(f"there is room, and it says {reason}: {told.get('message')}")
            elif reason == "ByHand" and target.replicas and not self._held_by_hand(target):
                wrong.append(f"nobody holds it, and it says {reason}: {told.get('message')}")
        for what in wrong:
            self._say(UNEXPLAINED, f"{group.key}: {what}", group)

    def _held_by_hand(self, target: Target) -> bool:
        by_hand = self._picture.hands.get(target.uid)
        return by_hand is not None and self._picture.at - by_hand < self._hand_seconds

    def _say(self, kind: str, what: str, group: Group) -> None:
        self.done.findings.append(Finding(kind, self._picture.revision, (group.key,), what))


def _words(group: Group) -> str:
    return f"{group.told.get('reason')}: {group.told.get('message')}"


def _cards(shape: Shape) -> float:
    ask = shape.ask
    assert ask is not None
    if ask.whole:
        return float(ask.cards)
    return max((ask.memory_mib or 0) / CARD_MIB, ask.compute / 100)
