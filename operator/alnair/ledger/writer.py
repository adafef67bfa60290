"""The compare-and-swap writes of records, each carried through to a certain end.

A write whose answer got lost is neither forgotten nor believed: the same write, naming the same version, is sent again
until the apiserver says yes, or says conflict and shows what stands there. Two ways to end badly, and both are
exceptions: `LeadershipLost` (a newer epoch stands there) and `Refused` (the object itself is not acceptable).

Why one look at the lease suffices, and when: a new leader lists all records after it took the lease and stamps its
epoch into each, so that our next write on any of them conflicts. Only a record that was created after that list is not
stamped. Hence a look *after* every creation and before the commit; if the lease is still ours then, any successor
lists later and sees the record.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from alnair.api import names
from alnair.kube import Client, Refused, Unanswered
from alnair.ledger.lease import LeadershipLost, Lease
from alnair.ledger.records import Record

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Pauses:
    """Growing pauses between repeated calls; the apiserver's own wish (Retry-After) goes first."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE

    async def rest(self, error: Unanswered | None = None) -> None:
        wish = error.retry_after if error is not None else None
        await asyncio.sleep(min(wish, LONGEST_PAUSE) if wish is not None else self._next)
        self._next = min(self._next * 2, LONGEST_PAUSE)


class RecordWriter:
    """Every mutating call on GPUAllocations is in this class."""

    def __init__(self, client: Client, lease: Lease) -> None:
        self._client = client
        self._lease = lease

    async def create(self, record: Record) -> None:
        """Make the object, empty. An object of that name is this owner's: a leftover of an earlier try, taken over."""
        pauses = Pauses()
        while True:
            self._must_lead()
            try:
                record.seen(await self._client.create(record.collection, record.manifest()))
                break
            except Refused as refused:
                if refused.reason != "AlreadyExists":
                    raise
                if await self._take_over(record):
                    break
                await pauses.rest()  # a predecessor is on its way out
            except Unanswered as error:
                log.warning("record %s: %s; trying again", record, error)
                await pauses.rest(error)
        record.unlooked = True

    async def write(self, record: Record) -> None:
        """Make the object's status say what the record says. Returns only when it does."""
        pauses = Pauses()
        while True:
            self._must_lead()
            if record.unlooked:
                await self._lease.confirm()
                record.unlooked = False
            body = {
                "metadata": {"resourceVersion": record.version, "uid": record.uid},
                "status": record.status(),
            }
            try:
                record.seen(await self._client.patch(f"{record.path}/status", body))
                return
            except Refused as refused:
                if refused.status == 404:
                    await self.create(record)
                elif refused.status == 409:
                    if await self._landed(record):
                        return
                else:
                    raise
            except Unanswered as error:
                log.warning("record %s: %s; trying again", record, error)
                await pauses.rest(error)

    async def restore_metadata(self, record: Record) -> None:
        """Put labels and finalizer back that somebody took away."""
        body = {
            "metadata": {
                "resourceVersion": record.version,
                "labels": record.labels(),
                "finalizers": [names.FINALIZER],
            }
        }
        record.seen(await self._client.patch(record.path, body))

    async def delete(self, record: Record) -> None:
        """Take the object away: first the deletion, then the finalizer. A crash between the two is finished by the
        next leader, which finds a record without pods."""
        self._must_lead()
        await self.remove(record.path, record.uid)

    async def remove(self, path: str, uid: str) -> None:
        await self._insist(lambda: self._client.delete(path, {"preconditions": {"uid": uid}}))
        body = {"metadata": {"uid": uid, "finalizers": None}}
        await self._insist(lambda: self._client.patch(path, body))

    async def read(self, record: Record) -> dict[str, Any] | None:
        """What stands there now; None if nothing does."""
        pauses = Pauses()
        while True:
            try:
                return await self._client.get(record.path)
            except Refused as refused:
                if refused.status == 404:
                    return None
                raise
            except Unanswered as error:
                await pauses.rest(error)

    # -- inside --------------------------------------------------------------------------------------------------

    async def _take_over(self, record: Record) -> bool:
        there = await self.read(record)
        if there is None or there["metadata"].get("deletionTimestamp"):
            return False
        self._must_be_older(record, there)
        record.seen(there)
        return True

    async def _landed(self, record: Record) -> bool:
        """After a conflict: is what stands there our own write, whose answer got lost?"""
        there = await self.read(record)
        if there is None:
            record.version = ""
            await self.create(record)
            return False
        if there["metadata"]["uid"] != record.uid:
            log.warning("record %s: another object of that name stands there; taking it over", record)
        self._must_be_older(record, there)
        record.seen(there)
        return bool(says_the_same(there.get("status") or {}, record.status()))

    def _must_lead(self) -> None:
        if not self._lease.held:
            raise LeadershipLost("this process no longer holds the lease")

    @staticmethod
    def _must_be_older(record: Record, there: dict[str, Any]) -> None:
        epoch = int((there.get("status") or {}).get("epoch") or 0)
        if epoch > record.epoch:
            raise LeadershipLost(f"record {record} carries epoch {epoch}, ours is {record.epoch}")

    @staticmethod
    async def _insist(call: Any) -> None:
        """Until it is done; not being there any more is done too."""
        pauses = Pauses()
        while True:
            try:
                await call()
                return
            except Refused as refused:
                if refused.status in (404, 409):
                    return
                raise
            except Unanswered as error:
                await pauses.rest(error)


def says_the_same(there: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether a status read back means what we wrote. Lists and numbers come back as they went, empty ones may not."""
    return all((there.get(key) or None) == (value or None) for key, value in ours.items())
