"""Looking after each elastic gang by itself: what its target says, what a hand has done, what is overdue.

What is left when all that is right can be decided on together with the others: a `Sized`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alnair.api.allocation import GROWTH
from alnair.api.config import Elastic as Settings
from alnair.api.podgroup import Elastic
from alnair.control.asking import Asker, is_whole, sample
from alnair.control.elastic import sizing as words
from alnair.control.elastic.carrying import Carrier, Change
from alnair.control.elastic.extent import Extent, extent_of
from alnair.control.elastic.members import Sized, curve_of
from alnair.control.elastic.sizing import Sizing
from alnair.control.gangs import Gang, Roster
from alnair.control.reports import Reports
from alnair.kube.clock import Clock
from alnair.ledger import places
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import Record
from alnair.scheduling.words import count
from alnair.state.cluster import ClusterState

UNEXPLAINED_SECONDS = 2.0  # pods other than the replicas that we know of: the target is read again after this
REREAD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Running:
    """A whole gang whose target was read."""

    gang: Gang
    elastic: Elastic
    sizing: Sizing
    record: Record
    replicas: int

    def within(self, number: int) -> int:
        return min(max(number, self.elastic.min), self.elastic.max)


class Overseer:
    def __init__(
        self,
        carrier: Carrier,
        *,
        state: ClusterState,
        ledger: Ledger,
        roster: Roster,
        asker: Asker,
        reports: Reports,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._carrier = carrier
        self._state = state
        self._ledger = ledger
        self._roster = roster
        self._asker = asker
        self._reports = reports
        self._clock = clock
        self.settings = settings
        self._extent = Extent()
        self._measured_at = words.LONG_AGO  # the extent

    def gangs(self) -> list[Sized]:
        """Those whose size can be decided on now. What is overdue for others is started."""
        if self._clock.now() - self._measured_at > REREAD_SECONDS:
            self._measured_at = self._clock.now()
            rack = next((level.label for level in self._asker.levels if level.name == "rack"), None)
            self._extent = extent_of(self._state, rack)
        found = [self._look_at(gang, elastic, sizing) for gang, elastic, sizing in self._elastic()]
        return [each for each in found if each is not None]

    def report(self) -> None:
        """Whatever is news of any of them."""
        for gang, _, sizing in self._elastic():
            if (told := sizing.told()) != sizing.reported:
                sizing.reported = told
                self._reports.gang_changed(gang)

    def _elastic(self) -> Iterable[tuple[Gang, Elastic, Sizing]]:
        for group in self._roster.groups():
            gang = None if group.elastic is None else self._roster.of_group(group)
            if gang is None or not gang.pods or gang.failed or (elastic := gang.elastic) is None:
                continue
            if gang.sizing is None:
                gang.sizing = Sizing()
                status = group.status.get("elastic")
                gang.sizing.recall(status if isinstance(status, dict) else {}, self._clock, self.settings)
            yield gang, elastic, gang.sizing

    def _look_at(self, gang: Gang, elastic: Elastic, sizing: Sizing) -> Sized | None:
        record = self._asker.record(gang)
        whole = record is not None and is_whole(record)
        if sizing.record is not record:
            sizing.record, sizing.landed = record, False
        try:
            if self._must_read(gang, sizing):
                sizing.reading = True
                self._ledger.spawn(self._carrier.read(gang, elastic, sizing), f"read the target of {gang}")
            if sizing.reading or sizing.changing or gang.busy or sizing.replicas is None:
                return None
            if record is None or not whole or record.lock.locked():
                sizing.say(words.NOT_STARTED, gang.refusal or "its members wait for their place")
                self._bring_within_bounds(gang, elastic, sizing, sizing.replicas)
                return None
            places.furnish(self._ledger, record, sample(gang))
            return self._judge(_Running(gang, elastic, sizing, record, sizing.replicas))
        finally:
            sizing.wants = record.size if record is not None and whole else sizing.replicas
            sizing.reserved = len(record.places) if record is not None else 0

    def _must_read(self, gang: Gang, sizing: Sizing) -> bool:
        now = self._clock.now()
        if sizing.reading or sizing.changing or now < sizing.retry_after:
            return False
        there = len(gang.present())
        if there == sizing.replicas:
            sizing.unexplained = 0
            return now - sizing.read_at > REREAD_SECONDS
        # A quota may keep pods away for days: who has asked a few times asks less often.
        wait = min(UNEXPLAINED_SECONDS * 2 ** max(0, min(sizing.unexplained, 10) - 5), REREAD_SECONDS)
        if now - sizing.read_at <= wait:
            return False
        sizing.unexplained += 1
        return True

    # -- hands ---------------------------------------------------------------------------------------------------

    def _bring_within_bounds(self, gang: Gang, elastic: Elastic, sizing: Sizing, replicas: int) -> None:
        """Before it starts its author may have any number of replicas, within bounds. 0 is none of our business."""
        within = min(max(replicas, elastic.min), elastic.max)
        if replicas not in (0, within) and self._clock.now() >= sizing.retry_after:
            self._tell_bounds(gang, elastic, replicas, within)
            sizing.changing = True
            self._ledger.spawn(
                self._carrier.push(gang, elastic, sizing, within), f"scale the target of {gang}"
            )

    def _tell_bounds(self, gang: Gang, elastic: Elastic, number: int, within: int) -> None:
        bounds = f"elastic.min is {elastic.min} and elastic.max {elastic.max}"
        note = f"{count(number, 'replica')} set by hand, but {bounds}: set to {within}"
        self._reports.gang_told(gang, "OutOfBounds", note)

    def _judge(self, case: _Running) -> Sized | None:
        """Is what the target says what the record says? If not, whose doing is it?"""
        sizing, record, replicas = case.sizing, case.record, case.replicas
        if self._clock.now() < sizing.retry_after and sizing.reason == words.TARGET_REFUSED:
            return None
        if record.size is None:
            self._change(case, case.within(replicas), "it is elastic now")
        elif replicas == record.size:
            sizing.landed = True
            return self._put_right(case, record.size)
        elif not sizing.landed and record.size_before in (None, replicas):
            # The record says so, and whoever was to write it did not come to it; or the gang has just started.
            sizing.changed(grown=record.size > replicas, clock=self._clock, settings=self.settings)
            sizing.changing = True
            work = self._carrier.push(case.gang, case.elastic, sizing, record.size)
            self._ledger.spawn(work, f"scale the target of {case.gang}")
        elif replicas == 0:
            sizing.say(words.BY_HAND, "it was scaled to 0 by hand, and ends")
            note = "scaled to 0 by hand: it ends, and starts again when it is scaled up"
            self._reports.gang_told(case.gang, "Stopped", note)
        else:
            self._respect(case)
        return None

    def _respect(self, case: _Running) -> None:
        """Somebody has set the replicas by hand."""
        within = case.within(case.replicas)
        if within != case.replicas:
            self._tell_bounds(case.gang, case.elastic, case.replicas, within)
        case.sizing.set_by_hand(within, clock=self._clock, settings=self.settings)
        case.sizing.say_by_hand()
        self._change(case, within, "set by hand")

    # -- what is overdue -----------------------------------------------------------------------------------------

    def _put_right(self, case: _Running, size: int) -> Sized | None:
        gang, record = case.gang, case.record
        growth = [place for place in record.places.values() if place.reason == GROWTH]
        surplus = record.live() + len(record.places) - size
        over = [place.key for place in growth if (self._clock.since(place.until) or 0.0) >= 0]
        homeless = self._homeless(gang, size)
        if record.places and surplus > 0:
            # Their pods have come, and were placed elsewhere; or a hand has set fewer.
            spare = sorted(record.places.values(), key=lambda place: place.reason != GROWTH)
            keys = [place.key for place in spare[:surplus]]
            self._ledger.spawn(places.release(self._ledger, record, keys), f"release places of {gang}")
        elif over:
            self._give_up(case, size, over)
        elif case.within(size) != size:
            self._change(case, case.within(size), "spec.elastic has other bounds now")
        elif (
            homeless
            and gang.refusal
            and self._clock.now() - gang.refused_since > self.settings.grow_after_seconds
        ):
            self._send_home(case, size, homeless)
        elif growth or homeless:
            case.sizing.say(words.GROWING, f"{count(len(growth) + homeless, 'member')} on the way")
        else:
            if case.sizing.reason == words.GROWING:
                case.sizing.failures = 0
            curve = curve_of(gang, case.elastic, case.sizing, self._extent)
            return Sized(gang, record, case.elastic, case.sizing, size, curve)
        return None

    def _homeless(self, gang: Gang, size: int) -> int:
        """Members without a place. Who is one too many goes as soon as the target's owner comes to it."""
        without = sum(pod.waiting and self._ledger.record_of(pod.uid) is None for pod in gang.pods.values())
        return max(0, without - max(0, len(gang.present()) - size))

    def _give_up(self, case: _Running, size: int, over: list[str]) -> None:
        """Pods do not come to these places."""
        case.sizing.changing = True
        fewer = max(case.elastic.min, size - len(over))
        work = self._carrier.give_up(case.gang, case.elastic, case.sizing, case.record, fewer, over)
        self._ledger.spawn(work, f"give up places of {case.gang}")

    def _send_home(self, case: _Running, size: int, homeless: int) -> None:
        """Members that find no place are given up, not less than the least."""
        sizing, now = case.sizing, self._clock.now()
        sizing.say(words.NO_ROOM, f"{count(homeless, 'member')} without a place: {case.gang.refusal}")
        fewer = max(case.elastic.min, size - homeless)
        if fewer < size and not sizing.held_by_hand(now) and sizing.may_shrink(now, self.settings):
            self._change(case, fewer, f"{count(size - fewer, 'member')} found no place", ours=True)

    def _change(self, case: _Running, size: int, why: str, *, ours: bool = False) -> None:
        change = Change(size, why, ours=ours)
        self.start(case.gang, case.elastic, case.sizing, case.record, change)

    def start(self, gang: Gang, elastic: Elastic, sizing: Sizing, record: Record, change: Change) -> None:
        sizing.changing = True
        work = self._carrier.change(gang, elastic, sizing, record, change)
        self._ledger.spawn(work, f"resize {gang}")
