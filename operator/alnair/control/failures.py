"""When a member of a running gang fails: its replacement joins, the gang starts anew, or it has failed.

A pod that failed says so. A pod that was deleted may have been scaled away or taken by a drain: it counts as failed
once another one comes in its stead, which only happens to a member that is still wanted.

    Replace      its place is kept for the replacement, for a stated time
    RestartGang  all members are evicted and placed again together, after a growing while, so often and no more
    Fail         all members are evicted, and nothing of the group is placed any more until its spec changes
"""

from __future__ import annotations

import logging

from alnair.api import podgroup
from alnair.control.gangs import Gang
from alnair.control.reports import Reports
from alnair.kube.clock import Clock
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import ROLLING_BACK, Member, Record, record_key

log = logging.getLogger(__name__)

LOST_SECONDS = 300.0  # who comes later than this comes in nobody's stead
RESTART_SECONDS, LONGEST_RESTART_SECONDS = 10.0, 300.0


class Failures:
    def __init__(self, *, ledger: Ledger, reports: Reports, clock: Clock) -> None:
        self._ledger = ledger
        self._reports = reports
        self._clock = clock

    def members_gone(self, gang: Gang | None, record: Record, gone: list[Member]) -> dict[str, float]:
        """UID -> for how many seconds its place is kept for a replacement."""
        if gang is None or gang.group is None or not record.satisfied:
            return {}
        if gang.stopping or record.phase == ROLLING_BACK:
            return {}  # all of it is on its way out
        missed = self._missed(gang, record, gone)
        if not missed:
            return {}
        if gang.group.on_member_failure == podgroup.REPLACE:
            seconds = float(gang.group.keep_place_seconds)
            return {member.uid: seconds for member in missed if seconds and self._serves(member)}
        gang.lost += len(missed)
        gang.lost_at = self._clock.now()
        if any(member.failed for member in missed):
            self._stop(gang, record, f"member {next(m.name for m in missed if m.failed)} failed")
        return {}

    def _serves(self, member: Member) -> bool:
        """A place on a node that is gone serves nobody."""
        node = self._ledger.state.nodes.get(member.holding.node)
        return member.pod is not None and node is not None and node.ready

    @staticmethod
    def _missed(gang: Gang, record: Record, gone: list[Member]) -> list[Member]:
        """Those that somebody makes anew. Of an elastic gang only so many as it is to have."""
        missed = [member for member in gone if member.returns]
        if gang.elastic is None or record.size is None:
            return missed
        return missed[: max(0, record.size - record.live() - len(record.places))]

    def on_return(self, gang: Gang, record: Record) -> bool:
        """A member came to a whole gang that had lost one: whether the gang stops for that."""
        if gang.stopping:
            return True
        long_ago = self._clock.now() - gang.lost_at > LOST_SECONDS
        if gang.group is None or gang.group.on_member_failure == podgroup.REPLACE or long_ago:
            gang.lost = 0
            return False
        self._stop(gang, record, "a member was lost and made anew")
        return True

    def insist(self, gang: Gang) -> None:
        """It has failed: whoever said so may not have lived to evict its members."""
        record = self._ledger.records.get(record_key(gang.owner)) if gang.pods else None
        if record is None or record.phase == ROLLING_BACK or record.lock.locked():
            return
        if record.satisfied:
            self._ledger.spawn(self._ledger.roll_back(record, gang.failed, whole=True), f"stop {record}")

    def _stop(self, gang: Gang, record: Record, what: str) -> None:
        group = gang.group
        assert group is not None
        gang.lost = 0
        restarts = restarts_of(gang)
        if group.on_member_failure == podgroup.RESTART_GANG and restarts < group.restart_limit:
            gang.restarts = restarts + 1
            wait = min(RESTART_SECONDS * 2**restarts, LONGEST_RESTART_SECONDS)
            gang.retry_after = self._clock.now() + wait
            gang.restarted_stamp = self._clock.stamp()
            why = f"{what}; the gang starts anew for the {_nth(gang.restarts)} time of at most {group.restart_limit}"
        else:
            if group.on_member_failure == podgroup.RESTART_GANG:
                what += f", and the gang was started anew {restarts} times already"
            gang.given_up = why = f"{what}; the group has failed"
        log.warning("gang %s: %s", gang, why)
        gang.stopping = True
        self._ledger.spawn(self._take_apart(gang, record, why), f"stop {record}")

    async def _take_apart(self, gang: Gang, record: Record, why: str) -> None:
        """First it is written how often, or that it is over: a successor would not know, and count anew."""
        try:
            await self._reports.tell(gang)
            await self._ledger.roll_back(record, why, whole=True)
        finally:
            gang.stopping = False
            self._reports.gang_changed(gang)


def restarts_of(gang: Gang) -> int:
    """Ours, or what a predecessor has written."""
    written = gang.group.status.get("restarts") if gang.group is not None else 0
    return max(gang.restarts, written if isinstance(written, int) else 0)


def _nth(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
