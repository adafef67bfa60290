"""What the ledger tells, and what happens because time passes.

The ledger calls these while it holds a record's lock: each only notes what is so now, marks the gang for a report and
wakes the loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from alnair.api.allocation import GROWTH
from alnair.control.failures import Failures
from alnair.control.gangs import Gang, Roster
from alnair.control.loop import Loop
from alnair.control.metrics import Metrics
from alnair.control.reports import Reports
from alnair.kube.clock import Clock
from alnair.ledger import places
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import COMMITTED, Member, Record

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
STRAYS_SECONDS = 60.0  # between looks for bound pods that no record knows
OVERDUE_SECONDS = 600.0  # a place that even a gang's sizing has not given up is given up
KEEP_SECONDS = 60.0  # how long lost members' places are kept where the group names no timeout


class Outcomes:
    """The ledger's listener."""

    def __init__(
        self,
        *,
        roster: Roster,
        loop: Loop,
        failures: Failures,
        reports: Reports,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._roster = roster
        self._loop = loop
        self._failures = failures
        loop.on_return = failures.on_return
        self._reports = reports
        self._metrics = metrics
        self._clock = clock

    def member_bound(self, record: Record, member: Member) -> None:
        self._loop.now_bound(member.uid, member.holding, record.scheduler)

    def member_lost(self, record: Record, member: Member) -> None:
        self._loop.now_lost(member.uid)

    def binding_refused(self, record: Record, names: list[str]) -> None:
        if (gang := self._gang_of(record)) is not None:
            pods = ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            self._loop.retry_later(
                gang, f"the apiserver refuses the Binding of {pods}", reason="BindingRefused"
            )

    def pods_unready(self, record: Record, reasons: dict[str, str], *, reason: str) -> None:
        if (gang := self._gang_of(record)) is not None:
            told = "; ".join(f"pod {name}: {why}" for name, why in sorted(reasons.items())[:3])
            self._loop.retry_later(gang, told, reason=reason)

    def record_settled(self, record: Record) -> None:
        if (gang := self._owner_of(record)) is not None:
            gang.short_since, gang.timed_out = None, False
            if gang.ready_since is not None:
                gang.observe_bind_time(self._clock.now(), self._metrics.bind_seconds.observe)
                self._reports.gang_scheduled(gang, record)
            self._reports.gang_changed(gang)

    def members_gone(self, record: Record, gone: list[Member]) -> dict[str, float]:
        """UID -> for how many seconds its place is kept for a replacement."""
        return self._failures.members_gone(self._owner_of(record), record, gone)

    def record_shrunk(self, record: Record) -> None:
        if (gang := self._gang_of(record)) is not None:
            self._reports.gang_changed(gang)

    def record_short(self, record: Record) -> None:
        if (gang := self._owner_of(record)) is not None:
            gang.short_since = record.short_since
            self._reports.gang_changed(gang)

    def record_rolled_back(self, record: Record, why: str) -> None:
        if (gang := self._owner_of(record)) is not None:
            gang.short_since = None
            self._reports.gang_rolled_back(gang, why)

    def record_closed(self, record: Record) -> None:
        if (gang := self._owner_of(record)) is not None:
            gang.lost = 0
        if (gang := self._gang_of(record)) is not None:
            gang.short_since = None  # it may have been this record's when the group was another, or none
            self._reports.gang_changed(gang)
            self._loop.touch(gang)

    def record_free(self, record: Record) -> None:
        """Nobody writes the record any more: a plan for its gang may go ahead."""
        if (gang := self._gang_of(record)) is not None:
            self._loop.touch(gang)

    def cards_changed(self, record: Record, condition: dict[str, Any], concerned: list[Member]) -> None:
        self._reports.cards_changed(record, condition, concerned)

    def _gang_of(self, record: Record) -> Gang | None:
        """Whom its pods belong to, be it by the name of its group only."""
        owner = record.owner
        name = owner.uid if owner.kind == "Pod" else owner.name
        return self._roster.gangs.get((owner.namespace, owner.kind, name))

    def _owner_of(self, record: Record) -> Gang | None:
        """Whom it was made for. A group that was made anew answers for nothing of its predecessor's."""
        gang = self._gang_of(record)
        if gang is not None and gang.group is not None and gang.group.uid != record.owner.uid:
            return None
        return gang

    # -- time ----------------------------------------------------------------------------------------------------

    async def keep_time(self, ledger: Ledger) -> None:
        looked = self._clock.now()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = self._clock.now()
            if now - looked > STRAYS_SECONDS:
                looked = now
                self._loop.adopt_strays()
            ledger.state.refusals.pass_time(now)
            self._loop.promises.pass_time()
            self._loop.notice_who_stands_in()
            ledger.state.loads.pass_time(now)
            for record in list(ledger.records.values()):
                self._check_kept_places(ledger, record, now)
                if record.places:
                    self._check_places(ledger, record)
            for gang in list(self._roster.gangs.values()):
                self._check_waiting(gang, now)
                if gang.failed:
                    self._failures.insist(gang)

    def _check_kept_places(self, ledger: Ledger, record: Record, now: float) -> None:
        """Replacements did not come in time."""
        if record.short_since is None or record.phase != COMMITTED or record.lock.locked():
            return
        gang = self._gang_of(record)
        group = gang.group if gang is not None else None
        limit = group.timeout_seconds if group is not None else 0
        if group is not None and group.min_member <= len(record.bound()) < record.min_member:
            ledger.spawn(ledger.judge_again(record, group.min_member), f"judge {record} again")
            return
        if now - record.short_since > (limit or KEEP_SECONDS):
            why = f"members were lost while binding and not replaced within {limit or KEEP_SECONDS:g} s"
            ledger.spawn(ledger.roll_back(record, why), f"roll back {record}")

    def _check_places(self, ledger: Ledger, record: Record) -> None:
        """Members that do not come any more. Those that an elastic gang grows by are looked after by its sizing, as
        long as that can read its target, and the gang's record is this one: its group may have been made anew."""
        gang = self._owner_of(record)
        sized = gang is not None and gang.elastic is not None
        patience = {GROWTH: OVERDUE_SECONDS if sized else 0.0}
        over = [
            place.key
            for place in record.places.values()
            if (self._clock.since(place.until) or 0.0) >= patience.get(place.reason, 0.0)
        ]
        if over and not record.lock.locked():
            ledger.spawn(places.release(ledger, record, over), f"release places of {record}")

    def _check_waiting(self, gang: Gang, now: float) -> None:
        if gang.retry_after and now >= gang.retry_after:
            gang.retry_after = 0.0
            self._loop.touch(gang)
        limit = gang.group.timeout_seconds if gang.group is not None else 0
        if not limit or gang.timed_out or gang.busy or gang.ready_since is None:
            return
        if now - gang.ready_since > limit and any(pod.waiting for pod in gang.pods.values()):
            gang.timed_out = True
            self._reports.gang_timed_out(gang, limit)
