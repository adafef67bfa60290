"""What others do to records is put right: edits, deletions, forgeries.

Fed by Kopf's events of GPUAllocations. Our own writes come back here too and are told by their version. While the
leader lives its memory is the truth; an object that says otherwise is written again.
"""

from __future__ import annotations

import logging
from typing import Any

from alnair.api import names
from alnair.api.allocation import LAST_EPOCH
from alnair.kube import Refused, Unanswered
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import Record
from alnair.ledger.writer import epoch_of, says_the_same

log = logging.getLogger(__name__)


def observe(ledger: Ledger, kind: str | None, manifest: dict[str, Any]) -> None:
    """An event of a GPUAllocation: kind is ADDED, MODIFIED, DELETED or None (listed)."""
    meta = manifest["metadata"]
    if not _is_ours(ledger, manifest):
        return
    if ledger.writer.closed(meta["uid"]):
        return
    record = ledger.records.get((meta["namespace"], meta["name"]))
    if record is None:
        if kind != "DELETED":
            ledger.spawn(_remove_stranger(ledger, manifest), f"remove {meta['namespace']}/{meta['name']}")
    elif kind == "DELETED" and meta["uid"] == record.uid:
        ledger.spawn(_rewrite(ledger, record, meta["uid"]), f"rewrite {record}", can_wait=True)
    elif kind != "DELETED" and meta["resourceVersion"] not in record.own_versions:
        ledger.spawn(_repair(ledger, record, meta["resourceVersion"]), f"check {record}")
    elif kind is None and not record.is_marked(meta):
        # A write of our own on top of a hand's: it puts the status right and leaves labels and finalizer as they are.
        ledger.spawn(_repair(ledger, record), f"check {record}")


def observe_missing(ledger: Ledger, present: set[tuple[str, str]], known: list[Record]) -> None:
    """A fresh list lacks records that we had before it was made."""
    for record in known:
        if record.key not in present and record.exists and not record.closing:
            ledger.spawn(_rewrite(ledger, record, record.uid), f"rewrite {record}", can_wait=True)


def _is_ours(ledger: Ledger, manifest: dict[str, Any]) -> bool:
    """By its label; one without a label by its scheduler name. Another operator may serve a name now that was ours."""
    meta = manifest["metadata"]
    if (meta["namespace"], meta["name"]) in ledger.records:
        return True
    instance = (meta.get("labels") or {}).get(names.INSTANCE)
    if instance and ledger.instance:
        return bool(instance == ledger.instance)
    return (manifest.get("spec") or {}).get("schedulerName") in ledger.schedulers


async def _repair(ledger: Ledger, record: Record, version: str = "") -> None:
    """`version`: that of the event, if there was one."""
    async with ledger.writing(record):
        if record.closing or version in record.own_versions or not record.exists:
            return  # it was a write of ours, whose answer came after the event
        there = await ledger.writer.read(record.path)
        if there is None:
            return  # the deletion has an event of its own
        if why := record.differs_from(there):
            log.error("record %s: an object for somebody else stands there (%s); delete it", record, why)
            return  # once it is gone, the relist finds ours missing
        meta = there["metadata"]
        stripped = not record.is_marked(meta)
        # Our own last word may be behind what we know, until there is a lull.
        edited = meta["resourceVersion"] not in record.own_versions and not says_the_same(
            there.get("status") or {}, record.status()
        )
        if meta["resourceVersion"] != record.version:
            # Whose hand was it? A successor's stamp looks like an edit; adopting its version would disarm the fence.
            await ledger.lease.confirm()
            if (epoch := epoch_of(there)) > record.epoch:
                record.epoch = min(epoch + 1, LAST_EPOCH)
                ledger.epoch = max(ledger.epoch, record.epoch)
            record.found(there)
        if not (stripped or edited):
            record.seen(there)
        try:
            if stripped and not meta.get("deletionTimestamp"):
                log.warning("record %s: finalizer or labels were changed by hand; restored", record)
                await ledger.writer.restore_metadata(record)
            if edited:
                log.warning("record %s: edited by hand; restored", record)
                await ledger.writer.write(record)
        except (Refused, Unanswered) as error:
            log.error("record %s could not be restored: %s", record, error)
            ledger.settle_soon(record)


async def _rewrite(ledger: Ledger, record: Record, uid: str) -> None:
    """The object is gone while its pods live: write it anew, as it was."""
    async with ledger.writing(record):
        if record.closing or record.uid != uid or not record.members:
            return
        if await ledger.writer.read(record.path) is not None:
            return
        log.warning("record %s: deleted by hand while its pods live; written anew", record)
        record.version = record.uid = ""
    await ledger.write_anew(record)


async def _remove_stranger(ledger: Ledger, manifest: dict[str, Any]) -> None:
    """A record under one of our scheduler names that we did not write: a late POST, or a forgery. It counts nothing.

    It may also be the first sign of a successor: so it is read anew, and the lease is looked at after that.
    """
    meta = manifest["metadata"]
    path = f"/apis/{names.API_ALLOCATION}/namespaces/{meta['namespace']}/{names.PLURAL_ALLOCATION}/{meta['name']}"
    there = await ledger.writer.read(path)
    if there is None or there["metadata"]["uid"] != meta["uid"]:
        return
    await ledger.lease.confirm()
    if (meta["namespace"], meta["name"]) in ledger.records:
        return
    log.warning("GPUAllocation %s/%s is not in the ledger; removed", meta["namespace"], meta["name"])
    await ledger.writer.remove(path, uid=meta["uid"], version=there["metadata"]["resourceVersion"])
