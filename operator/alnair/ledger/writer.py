"""The compare-and-swap writes of records, each carried through to a certain end.

A write whose answer got lost is neither forgotten nor believed: the same write, naming the same version, is sent again
until the apiserver says yes, or says conflict and shows what stands there. Deletions name the version too. Two ways to
end badly, and both are exceptions: `LeadershipLost` (somebody else leads) and `Refused` (the object itself is not
acceptable, and nothing of it can still be under way).

Why one look at the lease suffices, and when: a new leader lists all records after it took the lease, and stamps its
epoch into each that is not settled before it plans anything, so that our next write on any of these conflicts. A record
that was created after that list is not stamped, and neither is one that was settled. Hence a look *after* every
creation, after every take-over of an object that we did not write, and after the write that opens a settled record for
more (`_open`), before the commit (or, where the creation itself decides, before the first Binding). If the lease is
still ours then, any successor lists later, and stamps what it sees. Whatever gives more than stands in a settled
record, and whatever takes its gang back, goes this way, a repair no less than a commit; what is written on it without
that only gives back, and is as true under a successor as under us.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Any

from alnair.api import names
from alnair.api.allocation import LAST_EPOCH
from alnair.kube import Client, Refused, Unanswered
from alnair.ledger.lease import LeadershipLost, Lease
from alnair.ledger.records import BOUND, COMMITTED, ROLLING_BACK, Record, decided

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
REFUSALS = 5  # a "forbidden" this often in a row is meant, and not an apiserver that is still starting
MOST_CLOSED = 4096
LANDING_SECONDS = 75.0  # the apiserver gives up on a request after 60
LEAVING_SECONDS = 30.0  # a predecessor goes in two calls, unless somebody's finalizer or policy keeps it


class Pauses:
    """Growing pauses between repeated calls; the apiserver's own wish (Retry-After) goes first."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE

    async def rest(self, error: Exception | None = None) -> None:
        wish = error.retry_after if isinstance(error, Unanswered) else None
        await asyncio.sleep(min(wish, LONGEST_PAUSE) if wish is not None else self._next)
        self._next = min(self._next * 2, LONGEST_PAUSE)


def not_now(refused: Refused) -> bool:
    """An apiserver whose caches are still filling refuses everybody: that says nothing about the call."""
    return refused.status in (401, 403)


class RecordWriter:
    """Every mutating call on GPUAllocations is in this class."""

    def __init__(self, client: Client, lease: Lease) -> None:
        self._client = client
        self._lease = lease
        # UIDs of objects that we are deleting, none of which may be forgotten before its end; and of objects that we
        # have deleted, for events that come late.
        self._closing: set[str] = set()
        self._closed: OrderedDict[str, None] = OrderedDict()

    def closed(self, uid: str) -> bool:
        return uid in self._closing or uid in self._closed

    async def create(self, record: Record) -> None:
        """Make the object, empty. An object of that name is this owner's, unless its spec says otherwise: a leftover of
        an earlier try, taken over."""
        await self._create(record)

    async def commit(self, record: Record, *, fresh: bool) -> None:
        """Make the object say what is decided, in as few writes as that takes. Refused: nothing is decided.

        `fresh`: all of it is news. Only then may the creation decide; see `Record.plan`.
        """
        plan = record.plan() if fresh and not record.exists else ""
        if not record.exists and await self._create(record, plan=plan) and plan:
            await self._look(record)
        else:
            await self.write(record, commit=True)

    async def _create(self, record: Record, *, plan: str = "") -> bool:
        """Whether the object is as we sent it; if not, another stood there and was taken over."""
        pauses, created, patience = Pauses(), False, 0.0
        while True:
            self._must_lead()
            try:
                record.seen(await self._client.create(record.collection, record.manifest(plan=plan)))
                created = True
                break
            except Refused as refused:
                if refused.reason == "AlreadyExists":
                    if await self._take_over(record):
                        break
                    patience = patience or time.monotonic() + LEAVING_SECONDS
                    if time.monotonic() > patience and not may_land(record):
                        raise occupied(record, "is still on its way out; look who keeps it") from refused
                    await pauses.rest()  # a predecessor is on its way out
                elif may_land(record):
                    await pauses.rest()  # what an earlier try decided may still come to stand there
                elif await self._take_over(record):
                    break  # it stands, and whoever refuses (a quota that it has used up) is asked before the name is
                else:
                    raise
            except Unanswered as error:
                log.warning("record %s: %s; trying again", record, error)
                if plan:
                    record.landing = time.monotonic() + LANDING_SECONDS
                await pauses.rest(error)
        record.unlooked = True
        return created

    async def write(self, record: Record, *, commit: bool = False) -> None:
        """Make the object's status say what the record says. Returns only when it does.

        What is refused raises Refused, once no earlier try of it can still land: then nothing of it is decided.
        """
        pauses, forbidden, landing = Pauses(), 0, 0.0
        while True:
            self._must_lead()
            try:
                if record.said == BOUND and (commit or record.phase == ROLLING_BACK or record.takes_more()):
                    await self._open(record)
                    continue
                await self._look(record)
                body = record.with_status()
                record.seen(await self._client.replace(f"{record.path}/status", body))
                return
            except Refused as refused:
                if refused.status == 404:
                    record.version = ""
                    await self.create(record)
                elif refused.status == 409:
                    if await self._landed(record):
                        return
                elif not_now(refused) and forbidden < REFUSALS:
                    forbidden += 1
                    await pauses.rest()
                elif time.monotonic() < landing:
                    await pauses.rest()
                elif landing and await self._landed(record):
                    return  # long ago; whoever refuses is asked before the version is
                else:
                    raise
            except Unanswered as error:
                landing = time.monotonic() + LANDING_SECONDS
                log.warning("record %s: %s; trying again", record, error)
                await pauses.rest(error)

    async def amend(self, record: Record, **status: Any) -> None:
        """Change these fields of the status and no others, in one try."""
        body = {"metadata": {"resourceVersion": record.version, "uid": record.uid}, "status": status}
        record.seen(await self._client.patch(f"{record.path}/status", body))

    async def mark(self, record: Record, mark: str) -> None:
        """Change the object's version and nothing that anybody reads, in one try."""
        marked = {names.FENCED: mark}
        body = {"metadata": {"resourceVersion": record.version, "uid": record.uid, "annotations": marked}}
        record.seen(await self._client.patch(record.path, body))

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
        """Take the object away. A crash half-way is finished by the next leader, which finds the pods gone."""
        await self.remove(record.path, uid=record.uid, version=record.version)

    async def remove(self, path: str, *, uid: str, version: str) -> None:
        """First the deletion, then the finalizer, each naming the version that it means. No refusal ends it: half
        deleted, it would hold its places for ever."""
        self._closing.add(uid)
        try:
            await self._remove(path, uid=uid, version=version)
        finally:
            self._closing.discard(uid)
            self._close(uid)

    async def _remove(self, path: str, *, uid: str, version: str) -> None:
        deleted = False
        pauses = Pauses()
        while True:
            self._must_lead()
            try:
                if not deleted:
                    left = await self._client.delete(
                        path, {"preconditions": {"uid": uid, "resourceVersion": version}}
                    )
                    if left.get("kind") == "Status":
                        return  # it had no finalizer
                    deleted, version = True, left["metadata"]["resourceVersion"]
                patch = {"metadata": {"uid": uid, "resourceVersion": version, "finalizers": None}}
                await self._client.patch(path, patch)
                return
            except Refused as refused:
                if refused.status == 404:
                    return
                if refused.status != 409 and not not_now(refused):
                    log.error("%s could not be deleted, trying again: %s", path, refused)
            except Unanswered as error:
                log.warning("%s: %s; trying again", path, error)
                await pauses.rest(error)
                continue
            there = await self.read(path)
            if there is None or there["metadata"]["uid"] != uid:
                return
            await self._lease.confirm()  # or it is a successor's by now
            version = there["metadata"]["resourceVersion"]
            deleted = "deletionTimestamp" in there["metadata"]
            await pauses.rest()

    async def read(self, path: str) -> dict[str, Any] | None:
        """What stands there now; None if nothing does."""
        pauses = Pauses()
        while True:
            try:
                return await self._client.get(path)
            except Refused as refused:
                if refused.status == 404:
                    return None
                if not not_now(refused):
                    log.error("%s could not be read, trying again: %s", path, refused)
                await pauses.rest()
            except Unanswered as error:
                await pauses.rest(error)

    # -- inside --------------------------------------------------------------------------------------------------

    async def _take_over(self, record: Record) -> bool:
        there = await self.read(record.path)
        if (
            there is None
            or there["metadata"].get("deletionTimestamp")
            or self.closed(there["metadata"]["uid"])
        ):
            return False
        must_be_for(record, there)
        record.epoch = await self._must_be_ours(there, record.epoch)
        record.found(there)
        return True

    async def _landed(self, record: Record) -> bool:
        """After a conflict: is what stands there our own write, whose answer got lost?"""
        there = await self.read(record.path)
        if there is None or self.closed(there["metadata"]["uid"]):
            record.version = ""
            await self.create(record)
            return False
        must_be_for(record, there)
        record.epoch = await self._must_be_ours(there, record.epoch)
        if there["metadata"]["uid"] != record.uid:
            log.warning("record %s: another object of that name stands there; taking it over", record)
        landed = says_the_same(there.get("status") or {}, record.status())
        if landed and record.is_marked(there["metadata"]):
            record.seen(there)
        else:
            record.found(there)
        record.unlooked = True
        return landed

    async def _open(self, record: Record) -> None:
        """Say on a settled record that more is about to be decided; then look at the lease."""
        await self.amend(record, phase=COMMITTED, epoch=record.epoch)
        record.unlooked = True

    async def _look(self, record: Record) -> None:
        """At the lease, once after each creation and opening."""
        if record.unlooked:
            await self._lease.confirm()
            record.unlooked = False

    def _must_lead(self) -> None:
        if not self._lease.held:
            raise LeadershipLost("this process no longer holds the lease")

    async def _must_be_ours(self, there: dict[str, Any], epoch: int) -> int:
        """A newer epoch is a newer leader's, unless the lease still says that we lead: then somebody wrote it by
        hand, and ours has to be higher."""
        found = epoch_of(there)
        if found <= epoch:
            return epoch
        await self._lease.confirm()
        return min(found + 1, LAST_EPOCH)

    def _close(self, uid: str) -> None:
        self._closed[uid] = None
        while len(self._closed) > MOST_CLOSED:
            self._closed.popitem(last=False)


def epoch_of(manifest: dict[str, Any]) -> int:
    """Of the last write that decided anything; 0 if none did, or none that can be read."""
    try:
        epoch = decided(manifest).get("epoch")
    except (ValueError, TypeError, AttributeError):
        return 0
    return epoch if type(epoch) is int and 0 <= epoch <= LAST_EPOCH else 0


def may_land(record: Record) -> float:
    """For how many seconds more a creation that decides, and that got no answer, may still land."""
    return max(0.0, record.landing - time.monotonic())


def must_be_for(record: Record, there: dict[str, Any]) -> None:
    """Raises Refused if the object of that name is for somebody else. Its spec can never be changed: filled by us, it
    would be no record of ours to the next leader."""
    if why := record.differs_from(there):
        raise occupied(record, f"is for somebody else: {why}; delete it")


def occupied(record: Record, why: str) -> Refused:
    """As the apiserver would say it, had it known."""
    message = f"GPUAllocation {record} {why}"
    return Refused(call=f"POST {record.collection}", status=409, reason="AlreadyExists", message=message)


def says_the_same(there: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether a status read back means what we wrote. Lists and numbers come back as they went, empty ones may not."""
    return all((there.get(key) or None) == (value or None) for key, value in ours.items())
