"""The judge of sizes: how many members each gang has, and who changed the number, revision by revision.

Pure, as the witness's checker is: it is told changes in the order of their revisions and has no clock of its own.

below_min
    the operator sets the replicas of a gang's target to fewer than its least. (At rest: see `rest`.)
above_max
    the operator sets them to more than its most; or more members than that are bound, neither terminating nor ended.
uncommitted
    the operator raises the replicas of a gang that runs before its record holds a place for each.
flaps
    the operator grows a gang and shrinks it, or shrinks it and grows it, within `stabilization` seconds. A hand in
    between starts anew; so does the one change by which the operator answers a number beyond the bounds.

It keeps the picture that `rest` judges when nothing is written any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, TypeVar

from elastic.findings import ABOVE_MAX, BELOW_MIN, FLAP, UNCOMMITTED
from elastic.seen import Group, Shape, Target, read_group, read_shape, read_target
from witness.findings import Finding
from witness.history import told_time
from witness.meanwhile import CLOCK
from witness.seen import Pod, Record, read_pod, read_record
from witness.words import DEPLOYMENTS, GROUPS, LEASES, NODES, PODS, RECORDS, STATEFUL_SETS, Change, Object

T = TypeVar("T")

SLACK: Final = 1.0
"""Seconds by which the history's clock may be late: it ticks a few times a second, on a machine with much to do."""


@dataclass(slots=True)
class Picture:
    """How things stand now."""

    groups: dict[str, Group] = field(default_factory=dict)  # by key
    targets: dict[str, Target] = field(default_factory=dict)  # `plural/namespace/name`
    pods: dict[str, Pod] = field(default_factory=dict)  # by key
    shapes: dict[str, Shape] = field(default_factory=dict)  # of pods, by key
    records: dict[str, Record] = field(default_factory=dict)
    nodes: dict[str, Object] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    """UID of a group -> most members that it ever had at once, bound or succeeded."""
    hands: dict[str, float] = field(default_factory=dict)
    """UID of a target -> when somebody last scaled it by hand."""
    at: float = 0.0
    revision: int = 0

    def members(self, group: str) -> list[Pod]:
        """Bound, and neither terminating nor ended."""
        return [pod for pod in self.of(group) if pod.node and pod.living and not pod.terminating]

    def of(self, group: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.group == group]


@dataclass(frozen=True, slots=True)
class _Turn:
    grown: bool
    at: float
    heard: float
    """What the clock's Lease said last by then: it was not earlier."""
    what: str


@dataclass(slots=True)
class _Suspect:
    """A change that looks too hasty."""

    finding: Finding
    since: float
    """When the change before was made, or a little earlier, by the clock's Lease."""
    ticks: int = 0


class Sizes:
    """Tell it every change; `findings` is what is wrong so far."""

    def __init__(self, schedulers: frozenset[str], *, stabilization: float) -> None:
        self.findings: list[Finding] = []
        self.picture = Picture()
        self.counts: Counter[str] = Counter()
        """grown, shrunk, replaced, by hand."""
        self._schedulers = schedulers
        self._stabilization = stabilization
        self._heard = 0.0  # what the clock's Lease said last
        self._suspects: list[_Suspect] = []
        self._turns: dict[str, _Turn] = {}  # UID of a target -> the operator's last change
        self._forced: set[str] = set()  # UIDs of targets whose number is beyond the bounds, by a hand
        self._lost: Counter[str] = Counter()  # group -> members that ended and were not taken back
        self._leaving: Counter[str] = Counter()  # group -> members that a smaller number takes back

    def see(self, change: Change) -> None:
        self.picture.at, self.picture.revision = change.at, change.revision
        if change.kind == GROUPS:
            self._see_group(change)
        elif change.kind in (STATEFUL_SETS, DEPLOYMENTS):
            self._see_target(f"{change.kind}/{change.key}", change)
        elif change.kind == PODS:
            self._see_pod(change)
        elif change.kind == RECORDS:
            record = None if change.object is None else read_record(change.object)
            _keep(self.picture.records, change.key, record)
        elif change.kind == NODES:
            _keep(self.picture.nodes, change.key, change.object)
        elif change.kind == LEASES and change.key.endswith(f"/{CLOCK}") and change.object is not None:
            self._tick(change.object)

    def _tick(self, lease: Object) -> None:
        """The first of these after a change may have been on its way before it; the second was sent after it."""
        self._heard = told_time(lease) or self._heard
        for suspect in list(self._suspects):
            suspect.ticks += 1
            if suspect.ticks == 2:
                self._suspects.remove(suspect)
                if self._heard - suspect.since < self._stabilization - SLACK:
                    self.findings.append(suspect.finding)

    def _see_group(self, change: Change) -> None:
        before = self.picture.groups.get(change.key)
        after = None if change.object is None else read_group(change.key, change.object)
        _keep(self.picture.groups, change.key, after)
        if after is not None and (before is None or before.uid != after.uid):
            target = self.picture.targets.get(after.target)
            if target is not None:
                self._look_beyond(after, target)

    # -- replicas ------------------------------------------------------------------------------------------------

    def _see_target(self, key: str, change: Change) -> None:
        before = self.picture.targets.get(key)
        after = None if change.object is None else read_target(change.object)
        _keep(self.picture.targets, key, after)
        group = next((each for each in self.picture.groups.values() if each.target == key), None)
        if after is None or group is None or group.most is None:
            return
        if before is None or before.uid != after.uid:
            self._look_beyond(group, after)
        elif before.replicas != after.replicas:
            if after.by_hand:
                self._by_hand(group, after)
            else:
                self._by_operator(group, before, after, change)
            self._leaving[group.key] += max(0, before.replicas - after.replicas)

    def _by_hand(self, group: Group, after: Target) -> None:
        self.counts["by hand"] += 1
        self.picture.hands[after.uid] = self.picture.at
        self._turns.pop(after.uid, None)
        self._look_beyond(group, after)

    def _look_beyond(self, group: Group, target: Target) -> None:
        """Somebody has set this number: is it beyond the bounds, so that the operator has to answer?"""
        if group.least <= target.replicas <= (group.most or 0):
            self._forced.discard(target.uid)
        else:
            self._forced.add(target.uid)

    def _by_operator(self, group: Group, before: Target, after: Target, change: Change) -> None:
        what = f"{group.key} from {before.replicas} to {after.replicas} members"
        bounds = f"it may have {group.least} to {group.most}"
        if after.replicas < group.least:
            self._say(BELOW_MIN, change, f"the operator takes {what}, {bounds}", group.key)
        if after.replicas > (group.most or 0):
            self._say(ABOVE_MAX, change, f"the operator takes {what}, {bounds}", group.key)
        if after.uid in self._forced:
            self._forced.discard(after.uid)
            self.counts["corrected"] += 1
            return
        turn = _Turn(after.replicas > before.replicas, change.at, self._heard, what)
        if turn.grown and (held := self._held(group)) is not None and held < after.replicas:
            self._say(
                UNCOMMITTED, change, f"the operator takes {what}, places are there for {held}", group.key
            )
        last = self._turns.get(after.uid)
        if last is not None and last.grown != turn.grown:
            since = turn.at - last.at
            if since < self._stabilization - SLACK:
                undone = f"the operator takes {what}, {since:.1f} s after {last.what}"
                why = f"{undone}; a change lasts {self._stabilization:g} s"
                self._suspects.append(_Suspect(Finding(FLAP, change.revision, (group.key,), why), last.heard))
        self._turns[after.uid] = turn
        self.counts["grown" if turn.grown else "shrunk"] += 1

    def _held(self, group: Group) -> int | None:
        """Members and places for members to come that the records of a gang hold; None if it does not run."""
        if not self.picture.members(group.key):
            return None
        leaving = {pod.uid for pod in self.picture.of(group.key) if pod.terminating or not pod.living}
        return sum(
            len(record.held.keys() - leaving)
            for record in self.picture.records.values()
            if record.group == group.key
        )

    # -- members -------------------------------------------------------------------------------------------------

    def _see_pod(self, change: Change) -> None:
        before = self.picture.pods.get(change.key)
        after = read_pod(change.object, self._schedulers)
        _keep(self.picture.pods, change.key, after)
        _keep(self.picture.shapes, change.key, None if change.object is None else read_shape(change.object))
        if (
            before is not None
            and _member(before)
            and (after is None or after.uid != before.uid or not _member(after))
        ):
            self._left(before, after)
        if (
            after is None
            or not _member(after)
            or (before is not None and before.uid == after.uid and _member(before))
        ):
            return
        group = self.picture.groups.get(after.group)
        if group is None:
            return
        members = len(self.picture.members(group.key))
        done = sum(pod.succeeded for pod in self.picture.of(group.key))
        peaks = self.picture.peaks
        peaks[group.uid] = max(peaks.get(group.uid, 0), members + done)
        if group.elastic and self._lost[group.key] and members <= peaks[group.uid]:
            self._lost[group.key] -= 1
            self.counts["replaced"] += 1
        if group.most is not None and members > group.most:
            what = f"{after} is bound, the {members}th member of {group.key}, which may have {group.most}"
            self._say(ABOVE_MAX, change, what, group.key, str(after))

    def _left(self, pod: Pod, now: Pod | None) -> None:
        if self._leaving[pod.group]:
            self._leaving[pod.group] -= 1
        elif not (now and now.uid == pod.uid and now.succeeded):
            self._lost[pod.group] += 1

    def _say(self, kind: str, change: Change, what: str, *objects: str) -> None:
        self.findings.append(Finding(kind, change.revision, tuple(dict.fromkeys(objects)), what))


def _member(pod: Pod) -> bool:
    return bool(pod.group) and bool(pod.node) and pod.living and not pod.terminating


def _keep(things: dict[str, T], key: str, thing: T | None) -> None:
    if thing is None:
        things.pop(key, None)
    else:
        things[key] = thing
