"""What is known of one elastic gang's number of members. Lost at a restart and found again: the record has the size,
the target the replicas, the PodGroup's status when it last changed and what a hand has set.

A change may be undone only after the stabilisation time: what was shrunk does not grow before, and what was grown does
not shrink. A number that somebody set by hand is left alone until its time is over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from alnair.api.config import Elastic as Settings
from alnair.api.podgroup import Elastic
from alnair.kube.clock import Clock
from alnair.scheduling.elastic.curves import Curve
from alnair.scheduling.words import count

LONG_AGO = -math.inf

# Why it does not have more.
AT_MAX = "AtMax"
NO_ROOM = "NoRoom"
NO_GAIN = "NoGain"
BY_HAND = "ByHand"
TOO_SOON = "TooSoon"
GROWING = "Growing"
SHRINKING = "Shrinking"
OTHERS_WAIT = "OthersWait"
NOT_STARTED = "NotStarted"
TARGET_REFUSED = "TargetRefused"
PODS_DO_NOT_COME = "PodsDoNotCome"


@dataclass(slots=True, eq=False)
class Sizing:
    replicas: int | None = None  # of the target, as last read or set
    wants: int | None = None  # what its record says it is to have
    reserved: int = 0  # places that wait for their pods
    landed: bool = False  # the target was seen with the size of the record
    under_way: bool | None = None  # a change of ours that the target does not say yet: whether it is a growth
    record: object = None  # the one that this is about: a gang that starts anew has another
    read_at: float = LONG_AGO
    reading: bool = False
    unexplained: int = 0  # reads in a row that did not explain how many pods there are
    changing: bool = False  # a change is being carried out
    grown_at: float = LONG_AGO
    shrunk_at: float = LONG_AGO
    changed_stamp: str = ""
    may_change_stamp: str = ""
    by_hand: int | None = None
    by_hand_until: float = LONG_AGO
    by_hand_stamp: str = ""
    failures: int = 0  # in a row, of scaling the target or of its pods to come
    retry_after: float = LONG_AGO
    reported: tuple[object, ...] = ()
    reason: str = NOT_STARTED
    message: str = ""
    curve: tuple[object, Curve] | None = None  # what it was made of, and the gang's speed-up

    def recall(self, status: dict[str, Any], clock: Clock, settings: Settings) -> None:
        """What a predecessor has written. Its words, too, hold until we know better: a new leader has nothing new to
        tell, and must not write for a moment that a gang that runs has not started."""
        if isinstance(status.get("reason"), str) and status["reason"]:
            self.say(status["reason"], str(status.get("message") or ""))
        if (since := clock.since(str(status.get("changedAt") or ""))) is not None:
            self.changed_stamp = str(status["changedAt"])
            self.may_change_stamp = str(status.get("mayChangeAt") or "")
            # Which way it was is not written: neither is undone.
            self.grown_at = self.shrunk_at = clock.now() - max(since, 0.0)
        until = clock.since(str(status.get("byHandUntil") or ""))
        if until is not None and until < 0 and isinstance(status.get("byHand"), int):
            self.by_hand, self.by_hand_stamp = status["byHand"], str(status["byHandUntil"])
            self.by_hand_until = clock.now() + min(-until, settings.hand_seconds)

    # -- what may change -----------------------------------------------------------------------------------------

    def held_by_hand(self, now: float) -> bool:
        if self.by_hand is not None and now >= self.by_hand_until:
            self.by_hand, self.by_hand_stamp = None, ""
        return self.by_hand is not None

    def may_grow(self, now: float, settings: Settings) -> bool:
        return now - self.shrunk_at > settings.stabilization_seconds

    def may_shrink(self, now: float, settings: Settings) -> bool:
        return now - self.grown_at > settings.stabilization_seconds

    # -- what happened -------------------------------------------------------------------------------------------

    def changed(self, *, grown: bool, clock: Clock, settings: Settings) -> None:
        self.under_way = grown
        if grown:
            self.grown_at = clock.now()
        else:
            self.shrunk_at = clock.now()
        self.changed_stamp = clock.stamp()
        self.may_change_stamp = clock.stamp(after=settings.stabilization_seconds)

    def took_effect(self, *, clock: Clock, settings: Settings) -> None:
        """The target says so now: the time in which it is not undone counts from here."""
        if self.under_way is not None:
            self.changed(grown=self.under_way, clock=clock, settings=settings)
            self.under_way = None

    def set_by_hand(self, number: int, *, clock: Clock, settings: Settings) -> None:
        self.by_hand, self.under_way = number, None
        self.by_hand_until = clock.now() + settings.hand_seconds
        self.by_hand_stamp = clock.stamp(after=settings.hand_seconds)

    def failed(self, reason: str, message: str, *, clock: Clock) -> None:
        """It is tried again after a growing while."""
        self.failures += 1
        self.retry_after = clock.now() + min(10.0 * 2 ** min(self.failures - 1, 6), 600.0)
        self.say(reason, message)

    def say(self, reason: str, message: str) -> None:
        self.reason, self.message = reason, message[:2000]

    def has_no_pods(self) -> None:
        self.wants, self.reserved = 0, 0
        self.say(NOT_STARTED, "it has no pods")

    def say_by_hand(self) -> None:
        members = count(self.by_hand or 0, "member")
        self.say(BY_HAND, f"{members} set by hand; left alone until {self.by_hand_stamp}")

    def told(self) -> tuple[object, ...]:
        """What people read of it: if that is another, it is written again."""
        return self.wants, self.reserved, self.reason, self.message, self.by_hand, self.changed_stamp

    # -- what people read ----------------------------------------------------------------------------------------

    def status(self, elastic: Elastic, *, size: int) -> dict[str, Any]:
        """`status.elastic` of the PodGroup; None takes a field away that is there no more."""
        return {
            "size": size,
            "wants": self.wants,
            "reserved": self.reserved,
            "min": elastic.min,
            "max": elastic.max,
            "byHand": self.by_hand,
            "byHandUntil": self.by_hand_stamp or None,
            "changedAt": self.changed_stamp or None,
            "mayChangeAt": self.may_change_stamp or None,
            "reason": self.reason,
            "message": self.message,
        }
