"""The scheduling loop: which gang next, does it fit, carry it out.

Nothing is held while a gang waits: a plan that does not come off leaves no trace, so two gangs cannot block each other
with halves. A refused gang is tried again when something that it may have lacked changes (capacity came back, a node
changed, its own pods or group changed) and not before, and not on a timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from alnair.control.gangs import Gang, Roster
from alnair.control.metrics import Metrics
from alnair.control.reports import Reports
from alnair.kube.clock import Clock
from alnair.ledger import recovery
from alnair.ledger.binding import Verdict
from alnair.ledger.ledger import CommitRefused, Ledger
from alnair.ledger.records import COMMITTED, ROLLING_BACK, Member, Record
from alnair.scheduling import search
from alnair.scheduling.profile import Profile
from alnair.scheduling.vacancy import match_vacancies
from alnair.state.cluster import ClusterState
from alnair.state.holding import Holding
from alnair.state.pods import Pod

log = logging.getLogger(__name__)

IN_FLIGHT = 64  # plans being carried out at once; the apiserver is the limit long before
RECORD_RETRY_SECONDS = 10.0
KEEP_SECONDS = 60.0  # how long a lost member's place is kept where the group names no timeout
TICK_SECONDS = 1.0


class Loop:
    """One per process, running while it leads."""

    def __init__(
        self,
        *,
        state: ClusterState,
        ledger: Ledger,
        roster: Roster,
        profiles: Mapping[str, Profile],
        reports: Reports,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._roster = roster
        self._profiles = profiles
        self._reports = reports
        self._metrics = metrics
        self._clock = clock
        self._wake = asyncio.Event()
        self._in_flight = 0

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for gang in self._queue():
                if self._in_flight >= IN_FLIGHT:
                    break  # whoever finishes wakes us
                self._try(gang)
                await asyncio.sleep(0)  # events first: the next gang is planned on what is known by then

    async def keep_time(self) -> None:
        """The few things that happen because time passes."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for gang in list(self._roster.gangs.values()):
                self._check_time(gang)

    # -- one gang ------------------------------------------------------------------------------------------------

    def _queue(self) -> list[Gang]:
        """Who may be tried now, by priority, then age."""
        now = self._clock.now()
        ready = [
            gang
            for gang in self._roster.gangs.values()
            if not gang.busy
            and gang.refused_at != (self._state.freed, gang.changed)
            and now >= gang.retry_after
            and any(pod.waiting for pod in gang.pods.values())
        ]
        return sorted(ready, key=lambda gang: (-gang.priority, gang.created, gang.key))

    def _try(self, gang: Gang) -> None:
        """Plan one gang against the books as they are, and start to carry the plan out."""
        if gang.busy or not gang.pods:
            return
        try:
            self._plan(gang)
        except Exception:
            # One gang's surprise must not stop the others; it is tried again when something changes.
            log.exception("gang %s: planning failed", gang)
            self._metrics.plan_errors.inc()
            self._refuse(gang, "Alnair failed to plan this gang; its log says why")

    def _plan(self, gang: Gang) -> None:
        if problem := gang.problem():
            self._refuse(gang, problem, reason="Invalid")
            return
        # A pod that a record lists is on its way, whatever the pod stream has shown of it so far.
        waiting = [pod for pod in gang.waiting() if self._ledger.record_of(pod.uid) is None]
        if not waiting:
            gang.refused_at = (self._state.freed, gang.changed)
            return
        record = self._ledger.records.get(self._record_key(gang)) if gang.needs_record else None
        if record is not None and record.phase == ROLLING_BACK:
            self._refuse(gang, "the gang is being rolled back; it is tried again when its old pods are gone")
            return
        placed = sum(not member.gone for member in record.members.values()) if record is not None else 0
        succeeded = sum(pod.phase == "Succeeded" for pod in gang.pods.values())
        satisfied = record is not None and record.satisfied
        missing = 1 if satisfied else max(1, gang.min_member - placed - succeeded)
        if len(waiting) < missing:
            self._refuse(
                gang,
                f"waiting for members: {placed + succeeded + len(waiting)} of at least {gang.min_member} pods exist",
                reason="WaitingForMembers",
            )
            return
        if gang.ready_since is None:
            gang.ready_since = self._clock.now()
        placements, replaces = self._fill_vacancies(record, waiting)
        filled = {pod.uid for pod, _ in placements}
        rest = [pod for pod in waiting if pod.uid not in filled]
        if rest:
            with self._metrics.plan_seconds.time():
                verdict = search.place(
                    search.Gang(
                        members=tuple(search.Member(pod.uid, pod.name, pod.shape) for pod in rest),
                        needed=max(0, missing - len(placements)),
                        present=placed + succeeded,
                    ),
                    self._profiles[gang.scheduler],
                    self._state.draft(),
                )
            if isinstance(verdict, search.Refusal):
                if len(placements) < missing:
                    self._refuse(gang, verdict.message)
                    return
            else:
                placements += [(gang.pods[member.uid], holding) for member, holding in verdict.placements]
        self._start(gang, placements, replaces)

    def _start(self, gang: Gang, placements: list[tuple[Pod, Holding]], replaces: dict[str, str]) -> None:
        gang.busy, gang.refused_at, gang.refusal = True, None, ""
        self._in_flight += 1
        if not gang.needs_record:
            pod, holding = placements[0]
            self._state.hold(pod.uid, holding)
            self._ledger.spawn(self._bind_alone(gang, pod, holding), f"bind {pod}")
            return
        record = self._ledger.assume(
            gang.owner,
            scheduler=gang.scheduler,
            min_member=gang.min_member,
            placements=placements,
            replaces=replaces,
        )
        self._reports.gang_changed(gang)
        self._ledger.spawn(self._carry_out(gang, record), f"carry out {record}")

    async def _carry_out(self, gang: Gang, record: Record) -> None:
        try:
            await self._ledger.carry_out(record)
        except CommitRefused as error:
            gang.retry_after = self._clock.now() + RECORD_RETRY_SECONDS
            self._refuse(gang, f"the record was refused: {error}", reason="RecordRefused")
        finally:
            self._finished(gang)

    async def _bind_alone(self, gang: Gang, pod: Pod, holding: Holding) -> None:
        """A lone pod without GPUs: its bind is atomic by itself and needs no record."""
        try:
            verdict = await self._ledger.binder.bind(pod.namespace, Member(pod.uid, pod.name, holding))
            if verdict is Verdict.BOUND:
                self._now_bound(pod.uid, holding)
                self._observe_bind_time(gang)
            elif verdict is Verdict.REFUSED:
                gang.retry_after = self._clock.now() + RECORD_RETRY_SECONDS
                self._refuse(gang, "the apiserver refuses the Binding", reason="BindingRefused")
        finally:
            self._state.release(pod.uid)  # from here on the pod itself says where it is
            self._finished(gang)

    def _finished(self, gang: Gang) -> None:
        gang.busy = False
        self._in_flight -= 1
        self._reports.gang_changed(gang)
        if not gang.pods:
            self._roster.gangs.pop(gang.key, None)
        self.wake()

    def _refuse(self, gang: Gang, message: str, *, reason: str = "Unschedulable") -> None:
        gang.refused_at = (self._state.freed, gang.changed)
        gang.refusal, gang.refusal_reason = message, reason
        self._metrics.refusals.labels(reason).inc()
        self._reports.gang_changed(gang)

    @staticmethod
    def _record_key(gang: Gang) -> tuple[str, str]:
        return Record(owner=gang.owner, scheduler="", min_member=1, epoch=0).key

    def _fill_vacancies(
        self, record: Record | None, waiting: list[Pod]
    ) -> tuple[list[tuple[Pod, Holding]], dict[str, str]]:
        """Replacements first take the kept places of the members that they replace."""
        if record is None or record.short_since is None:
            return [], {}
        vacant = {
            member.uid: member.holding
            for member in record.members.values()
            if member.gone and self._open(member.holding.node)
        }
        pairs = match_vacancies([(pod.uid, pod.shape) for pod in waiting], vacant)
        by_uid = {pod.uid: pod for pod in waiting}
        return [(by_uid[uid], vacant[old]) for uid, old in pairs.items()], pairs

    def _open(self, node: str) -> bool:
        there = self._state.nodes.get(node)
        return there is not None and there.ready and not there.unschedulable

    # -- what the ledger tells -----------------------------------------------------------------------------------

    def member_bound(self, record: Record, member: Member) -> None:
        self._now_bound(member.uid, member.holding)

    def _now_bound(self, uid: str, holding: Holding) -> None:
        """The apiserver accepted the Binding: know it at once, the pod stream will say the same a moment later."""
        pod = self._state.pods.get(uid)
        if pod is not None:
            pod.node = holding.node
            self._state.put_pod(pod)
            self._reports.pod_scheduled(pod, holding)

    def record_settled(self, record: Record) -> None:
        gang = self._gang_of(record)
        if gang is not None:
            gang.short_since = None
            if gang.ready_since is not None:
                self._observe_bind_time(gang)
                self._reports.gang_scheduled(gang, record)
            self._reports.gang_changed(gang)

    def record_short(self, record: Record) -> None:
        gang = self._gang_of(record)
        if gang is not None:
            gang.short_since = record.short_since
            self._reports.gang_changed(gang)

    def record_rolled_back(self, record: Record, why: str) -> None:
        gang = self._gang_of(record)
        if gang is not None:
            gang.short_since = None
            self._reports.gang_rolled_back(gang, why)

    def record_closed(self, record: Record) -> None:
        gang = self._gang_of(record)
        if gang is not None:
            gang.short_since = None
            gang.changed += 1
            self._reports.gang_changed(gang)
        self.wake()

    def _gang_of(self, record: Record) -> Gang | None:
        owner = record.owner
        name = owner.uid if owner.kind == "Pod" else owner.name
        return self._roster.gangs.get((owner.namespace, owner.kind, name))

    def _observe_bind_time(self, gang: Gang) -> None:
        if gang.ready_since is not None:
            self._metrics.bind_seconds.observe(self._clock.now() - gang.ready_since)
            gang.ready_since = None

    # -- time ----------------------------------------------------------------------------------------------------

    def _check_time(self, gang: Gang) -> None:
        now = self._clock.now()
        if gang.retry_after and now >= gang.retry_after:
            gang.retry_after = 0.0
            gang.refused_at = None
            self.wake()
        limit = gang.group.timeout_seconds if gang.group is not None else 0
        if gang.short_since is not None and now - gang.short_since > (limit or KEEP_SECONDS):
            record = self._ledger.records.get(self._record_key(gang))
            gang.short_since = None
            if record is not None and record.phase == COMMITTED:
                why = f"members were lost while binding and not replaced within {limit or KEEP_SECONDS:g} s"
                self._ledger.spawn(self._ledger.roll_back(record, why), f"roll back {record}")
        waits = (
            gang.ready_since is not None and not gang.busy and any(pod.waiting for pod in gang.pods.values())
        )
        if limit and waits and not gang.timed_out and now - (gang.ready_since or now) > limit:
            gang.timed_out = True
            self._reports.gang_timed_out(gang, limit)

    def adopt_strays(self) -> None:
        """Bound pods of ours that no record knows: their record was lost while nobody led."""
        for gang in list(self._roster.gangs.values()):
            strays = [
                pod
                for pod in gang.pods.values()
                if pod.node and not pod.terminal and self._ledger.record_of(pod.uid) is None
            ]
            if strays and gang.needs_record and (gang.group is not None or not gang.is_group):
                self._ledger.spawn(
                    recovery.adopt(
                        self._ledger,
                        gang.owner,
                        scheduler=gang.scheduler,
                        min_member=gang.min_member,
                        pods=strays,
                    ),
                    f"adopt {gang}",
                )
