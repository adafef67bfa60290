"""What a new leader does before it plans anything.

1. List all records by a consistent read and stamp the new epoch into each that is not settled: from then on every write
   of the old leader on these conflicts. On a settled one it can only give back, until it has opened it again, for which
   it needs the lease (see ledger.writer). There may be thousands of these, and they are stamped when there is time
   (`stamp_settled`).
2. List the pods after the records, so that a pod which is bound by the old leader's last Bindings is seen with its
   record known by the time of step 4.
3. Change every pod that the old leader may be binding without a record (`fence_alone`), so that its Binding, however
   late, is refused and its place can be somebody else's.
4. Roll forward what was committed, drop what never was, release what is gone, adopt bound pods that lost their record.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from alnair.api import names
from alnair.api.allocation import LAST_EPOCH
from alnair.kube import Refused, Unanswered
from alnair.ledger import places
from alnair.ledger.binding import Verdict
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import BOUND, PATH, ROLLING_BACK, Member, Owner, Record, Unparsable, parse
from alnair.ledger.together import together
from alnair.ledger.writer import LANDING_SECONDS, Pauses
from alnair.state.charges import guest
from alnair.state.holding import Holding, parse_annotation
from alnair.state.pods import Pod

log = logging.getLogger(__name__)

AT_ONCE = 32
REFUSALS = 10  # of a settled record's stamp: nothing hangs on it
HEARING_SECONDS = 0.02  # between two looks whether the stream has told what became of a pod


Settled = list[tuple[Record, str]]
"""Records that were settled when we took over, each with the version that it had."""


async def stamp_open(ledger: Ledger, *, listed: Callable[[], object] = lambda: None) -> Settled:
    """Step 1: every live record of ours is known, and those that are not settled carry our epoch. `listed` is called as
    soon as the records are: whatever is listed from then on was there after them."""
    objects = await _list(ledger)
    listed()
    await asyncio.sleep(0)  # so that it is on its way while we read
    found: list[Record] = []
    for manifest in objects:
        try:
            record = parse(manifest)
        except Unparsable as error:
            log.error("GPUAllocation %s is ignored: %s", _name(manifest), error)
            continue
        if record.scheduler in ledger.schedulers or _of_a_profile_that_is_gone(ledger, record):
            found.append(record)
    # The Lease counts holders, but it can be deleted; the records remember.
    await ledger.lease.count_from(max((min(record.epoch + 1, LAST_EPOCH) for record in found), default=1))
    ledger.epoch = ledger.lease.term
    gate, patience = asyncio.Semaphore(AT_ONCE), time.monotonic() + LANDING_SECONDS

    async def stamp(record: Record) -> None:
        async with gate:
            if _came_late(ledger, record) and await _withdraw(ledger, record):
                return
            stamped = await _stamp(ledger, record, patience)
        if stamped is not None:
            ledger.load(stamped)

    settled = [record for record in found if record.said == BOUND]
    await asyncio.gather(*(stamp(record) for record in found if record.said != BOUND))
    for record in settled:
        record.epoch = ledger.epoch
        ledger.load(record)
    log.info("epoch %d: %d records taken over", ledger.epoch, len(ledger.records))
    return [(record, record.version) for record in settled]


async def stamp_settled(ledger: Ledger, settled: Settled) -> None:
    """Nothing hangs on when, but in the end a predecessor loses every write that it has still under way."""
    pauses, refusals = Pauses(), Counter[Record]()
    while settled:
        left: Settled = []
        for record, version in settled:
            try:
                done = await _stamp_settled(ledger, record, version)
            except Refused as refused:
                refusals[record] += 1
                if done := refusals[record] >= REFUSALS:
                    log.error("record %s could not be stamped: %s", record, refused)
            left += [] if done else [(record, version)]
        if settled := left:
            await pauses.rest()


async def _stamp_settled(ledger: Ledger, record: Record, version: str) -> bool:
    """Whether that is done, or was done by another write. One try: others are not to wait for a record that somebody
    else writes, or that somebody's policy refuses."""
    if record.lock.locked():
        return False
    async with ledger.lull.errand(), ledger.writing(record):
        if record.version != version or record.closing:
            return True
        try:
            await ledger.writer.amend(record, epoch=record.epoch)
        except Refused as refused:
            if refused.status not in (404, 409):  # of these its event tells the ledger
                raise
        except Unanswered as error:
            log.info("record %s could not be stamped: %s", record, error)
            return False
        return True


def _of_a_profile_that_is_gone(ledger: Ledger, record: Record) -> bool:
    """We wrote it, for a scheduler name that was taken out of the config since. Its pods may run on for days."""
    return bool(record.instance) and record.instance == ledger.instance


async def _list(ledger: Ledger) -> list[dict[str, Any]]:
    pauses = Pauses()
    while True:
        try:
            return await ledger.client.items(f"{PATH}/{names.PLURAL_ALLOCATION}")
        except Refused as refused:
            log.warning("the records could not be listed: %s", refused)  # 410: the pages took too long
            await pauses.rest()
        except Unanswered as error:
            await pauses.rest(error)


def _came_late(ledger: Ledger, record: Record) -> bool:
    """Whether it is a plan of a leader before the last one. That one stamped all that it knew of before it planned: so
    either it planned nothing, or it did not know of this, and may have given the places away."""
    return bool(record.members) and not record.said and record.epoch < ledger.epoch - 1


async def _withdraw(ledger: Ledger, record: Record) -> bool:
    """Take a plan back that nobody was bound by. False: somebody was, and it is to be carried to its end.

    The pods are changed first, so that no Binding of those days can land. One that nobody may change is waited for as
    long as a request can be under way.
    """
    patience = time.monotonic() + LANDING_SECONDS

    async def fence(member: Member) -> Verdict | None:
        why = "the plan for this pod came too late"
        return await ledger.binder.fence(record.owner.namespace, member, why, patience=patience)

    if Verdict.BOUND in await together(map(fence, record.members.values())):
        return False
    log.warning("record %s: its plan came too late; removed", record)
    removal = ledger.writer.remove(record.path, uid=record.uid, version=record.version)
    ledger.spawn(removal, f"remove {record}")  # nobody can be bound by it any more
    return True


async def _stamp(ledger: Ledger, record: Record, patience: float) -> Record | None:
    """The record as it stands with our epoch in it; None if it is gone.

    Where the status cannot be written (the schema, or somebody's policy, has changed since), or says the same already,
    anything else that moves the object's version fences it as well. One that nobody can write at all stops us until
    `patience` is over: no longer than a write of our predecessor's can be under way.
    """
    pauses, beside = Pauses(), False
    while True:
        before, trouble = record.version, ""
        try:
            if beside:
                await ledger.writer.mark(record, f"{ledger.epoch}-{uuid.uuid4().hex}")
            else:
                stamp = {"epoch": ledger.epoch, "phase": record.phase}
                await ledger.writer.amend(record, **(stamp if record.said else {**record.status(), **stamp}))
            record.epoch = ledger.epoch
            if record.version != before:
                return record
            beside = True
            continue
        except Refused as refused:
            if refused.status == 404:
                return None
            trouble = str(refused) if refused.status != 409 else ""
            await pauses.rest()
        except Unanswered as error:
            trouble = str(error) if error.status == 500 else ""  # a webhook that does not work
            await pauses.rest(error)
        if trouble:
            log.warning("record %s could not be stamped: %s", record, trouble)
            beside = not beside
            if time.monotonic() > patience:
                log.error("record %s could not be stamped at all; going on without", record)
                return record
        there = await ledger.writer.read(record.path)
        if there is None:
            return None
        try:
            record = parse(there)
        except Unparsable as error:
            log.error("GPUAllocation %s is ignored: %s", _name(there), error)
            return None
        if record.epoch >= ledger.epoch:
            # A rival's that counted as we did, a newer leader's, a hand's, or our own stamp whose answer got lost.
            await ledger.lease.confirm()
            ledger.epoch = min(record.epoch + 1, LAST_EPOCH)


async def fence_alone(ledger: Ledger) -> None:
    """Step 3, once all pods are listed. A lone pod that asks for whole cards is bound without a commit where a device
    plugin picks them (decision 6): only of a scheduler that the Lease names, after a look at the Lease, and at the
    version that the plan saw. So whom a predecessor may still be binding was there before we led, is as it was then,
    and is found here; those that come later need no fence.

    Returns when the books know of each that it waits and cannot be bound by anybody else, or where it went. Who may
    not be changed at all is waited for as long as a Binding can be under way.
    """
    patience = time.monotonic() + LANDING_SECONDS

    async def fence(pod: Pod) -> None:
        member, why = Member(pod.uid, pod.name, Holding("")), "a new leader plans this pod anew"
        verdict = await ledger.binder.fence(
            pod.namespace, member, why, version=pod.version, patience=patience
        )
        if verdict is not None:
            await _heard(ledger, pod)

    served = ledger.schedulers | ledger.lease.served
    alone = [
        pod
        for pod in ledger.state.pods.values()
        if pod.scheduler in served and bound_without_commit(pod) and ledger.record_of(pod.uid) is None
    ]
    await together(map(fence, alone))
    ledger.lease.forget_predecessors()


async def _heard(ledger: Ledger, pod: Pod) -> None:
    """Until the stream has told what became of a pod that does not wait any more."""
    while (live := ledger.state.pods.get(pod.uid)) is not None and live.waiting:  # noqa: ASYNC110
        await asyncio.sleep(HEARING_SECONDS)


def bound_without_commit(pod: Pod) -> bool:
    """Whether its Binding may need no record before it, wherever it lands."""
    demands = pod.shape.gpu.demands
    whole = bool(demands) and all(demand.whole and not demand.named for demand in demands)
    return pod.waiting and not pod.group and whole


def resume(ledger: Ledger) -> None:
    """Step 4, for the records: called once the pod stream has listed all pods, and cards are told."""
    ledger.state.judge_names_anew()
    for record in list(ledger.records.values()):
        for member in list(record.members.values()):
            if (pod := ledger.state.pods.get(member.uid)) is not None:
                ledger.sightings.pod(pod)
            elif record.satisfied or record.phase == ROLLING_BACK:
                # It was bound; whether it is gone is asked before anything is released.
                member.bound = member.uncertain = True
                ledger.sightings.pod_missing(member.uid)
        _furnish(ledger, record)
        if record.phase == ROLLING_BACK:
            ledger.resume_roll_back(record)
        elif not record.members:
            ledger.spawn(_drop_empty(ledger, record), f"drop {record}")
        elif record.phase != BOUND or any(not member.bound for member in record.members.values()):
            ledger.spawn(ledger.roll_forward(record, recovering=True), f"roll forward {record}")
    ledger.resumed()


def _furnish(ledger: Ledger, record: Record) -> None:
    """Who comes to its places is like its members: numbers of cards, too, are kept only as what a pod asks for."""
    known = (ledger.state.pods.get(uid) for uid in record.members)
    one = next((pod for pod in known if pod is not None), None) if record.places else None
    if one is not None:
        like = guest(one)
        shape = replace(like.shape, claims=())  # volumes are each pod's own
        places.furnish(ledger, record, replace(like, shape=shape, terminating=False))


async def _drop_empty(ledger: Ledger, record: Record) -> None:
    """A record without pods was created and never committed, or not quite deleted."""
    async with ledger.writing(record):
        if not record.members and not record.planned and not record.closing:
            await ledger.discard(record)


def adoptable(pod: Pod) -> Holding | None:
    """What a bound pod of ours says it holds, for a record that was lost; None if it says nothing of use."""
    if not pod.node or pod.annotated_node != pod.node or pod.terminal:
        return None
    try:
        return Holding(pod.node, parse_annotation(pod.slices) if pod.slices else ())
    except ValueError as error:
        log.error("pod %s: annotation %s cannot be read: %s", pod, names.GPU_SLICES, error)
        return None


async def adopt(ledger: Ledger, owner: Owner, *, scheduler: str, min_member: int, pods: list[Pod]) -> None:
    """Write a record anew for bound pods that have none, from what their Bindings left on them."""
    fresh = ledger.new_record(owner, scheduler=scheduler, min_member=min_member)
    record = ledger.records.get(fresh.key, fresh)
    async with ledger.writing(record):
        members = {
            pod.uid: Member(pod.uid, pod.name, holding, bound=True)
            for pod in pods
            if pod.uid in ledger.state.pods
            and ledger.record_of(pod.uid) is None
            and (holding := adoptable(pod)) is not None
        }
        if record.closing or not members:
            return
        record.members.update(members)
        if not record.exists:
            record.phase, record.satisfied = BOUND, True
        adopted = {
            "type": "Adopted",
            "status": "True",
            "reason": "RecordWasLost",
            "message": "written anew from the annotations of the bound pods",
        }
        record.set_condition(adopted, now=ledger.clock.stamp())
        ledger.load(record)
    await ledger.write_anew(record)
    log.warning("record %s: its %d pods were bound without a record; adopted", record, len(record.members))


async def record_later(ledger: Ledger, owner: Owner, *, scheduler: str, pod: Pod, holding: Holding) -> None:
    """Write down a lone pod that was bound without a commit: its cards are the device plugin's to choose, so there
    is nothing to take twice, and its Binding was atomic by itself. A restart before this adopts it."""
    ledger.recording.add(pod.uid)
    try:
        await _record_late(ledger, owner, scheduler, pod, holding)
    finally:
        ledger.recording.discard(pod.uid)


async def _record_late(ledger: Ledger, owner: Owner, scheduler: str, pod: Pod, holding: Holding) -> None:
    async with ledger.lull.errand():
        live = ledger.state.pods.get(pod.uid)
        if live is None or live.terminal or ledger.record_of(pod.uid) is not None:
            return
        record = ledger.new_record(owner, scheduler=scheduler, min_member=1)
        record.phase, record.satisfied = BOUND, True
        record.members[pod.uid] = Member(pod.uid, pod.name, holding, bound=True)
        ledger.load(record)
        async with ledger.writing(record):
            try:
                await ledger.writer.create(record)
                await ledger.writer.write(record)
            except Refused as refused:
                log.error("pod %s runs without a record: %s", pod, refused)
                await ledger.discard(record)


def _name(manifest: dict[str, Any]) -> str:
    meta = manifest.get("metadata") or {}
    return f"{meta.get('namespace')}/{meta.get('name')}"
