"""Mistakes that a ledger could make, one at a time: each has to be found by the machine (`test_machine.py`).

A mistake is a change to the real code by `monkeypatch`; nothing of it is in the product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alnair.kube import Unanswered
from alnair.ledger import binding, recovery
from alnair.ledger.binding import Binder, Verdict
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import COMMITTED, Member, Record
from alnair.ledger.sightings import Sightings
from alnair.ledger.writer import RecordWriter
from alnair.state.pods import Pod
from unit.control.world import Leader

Patch = pytest.MonkeyPatch


def bind_before_commit(patch: Patch) -> None:
    """The object is made, and what it is to say is written after the binds."""

    async def commit(self: RecordWriter, record: Record, *, fresh: bool) -> None:
        if not record.exists:
            await self.create(record)

    patch.setattr(RecordWriter, "commit", commit)


def binding_names_no_pod(patch: Patch) -> None:
    """No UID and no version in the Binding: a namesake is bound in the pod's place."""
    right = binding.binding

    def wrong(*args: Any, **fields: Any) -> dict[str, Any]:
        body = right(*args, **fields)
        del body["metadata"]["uid"], body["metadata"]["resourceVersion"]
        return body

    patch.setattr(binding, "binding", wrong)


def release_when_told_to_go(patch: Patch) -> None:
    """A terminating pod is taken for a gone one."""
    right = Sightings.pod

    def wrong(self: Sightings, pod: Pod) -> None:
        right(self, pod)
        record = self._ledger.record_of(pod.uid)
        if pod.terminating and record is not None and pod.uid in record.members:
            record.members[pod.uid].gone = True
            self._ledger.release_soon(record)

    patch.setattr(Sightings, "pod", wrong)


def take_over_without_a_stamp(patch: Patch) -> None:
    """A new leader reads the records and writes nothing into them."""

    async def wrong(ledger: Ledger, record: Record, patience: float) -> Record | None:
        record.epoch = ledger.epoch
        return record

    patch.setattr(recovery, "_stamp", wrong)


def grow_without_opening(patch: Patch) -> None:
    """More is committed in a settled record without a word before."""

    async def wrong(self: RecordWriter, record: Record) -> None:
        record.said = COMMITTED

    patch.setattr(RecordWriter, "_open", wrong)


def forget_an_ambiguous_bind(patch: Patch) -> None:
    """A Binding without an answer is taken for one that failed."""

    async def wrong(self: Binder, namespace: str, member: Member, delivered: Any, **_: Any) -> Verdict:
        body = binding.binding(member, version=member.version, delivered=delivered)
        try:
            await self._client.call(
                "POST", f"/api/v1/namespaces/{namespace}/pods/{member.name}/binding", body=body
            )
            return Verdict.BOUND
        except Unanswered:
            return Verdict.GONE
        except binding.Refused:
            return Verdict.GONE

    patch.setattr(Binder, "_bind", wrong)


def give_away_without_a_fence(patch: Patch) -> None:
    """A pod whose Binding may still be under way is not changed before its slice goes to another."""

    async def impatient(self: Binder, namespace: str, member: Member, delivered: Any, **_: Any) -> Verdict:
        body = binding.binding(member, version=member.version, delivered=delivered)
        try:
            await self._client.call(
                "POST", f"/api/v1/namespaces/{namespace}/pods/{member.name}/binding", body=body
            )
            return Verdict.BOUND
        except (Unanswered, binding.Refused):
            return Verdict.REFUSED

    async def wrong(self: Binder, namespace: str, member: Member, why: str, **_: Any) -> Verdict | None:
        return None

    patch.setattr(Binder, "_bind", impatient)
    patch.setattr(Binder, "fence", wrong)


def pods_before_records(patch: Patch) -> None:
    """A new leader looks around first, and takes the records over afterwards."""

    async def lead(self: Leader) -> None:
        await self.lease.acquire()
        await self.look_around()
        self._settled = await recovery.stamp_open(self.ledger)
        await self.carry_on()

    patch.setattr(Leader, "lead", lead)


def free_in_the_books_first(patch: Patch) -> None:
    """Slices are given away while the record still lists them."""
    right = RecordWriter.write
    removing = RecordWriter.delete

    def let_go(writer: RecordWriter, record: Record) -> None:
        ledger = _LEDGERS.get(id(writer))
        if ledger is not None:
            ledger.forget(
                [
                    uid
                    for uid, holder in list(ledger._record_of.items())
                    if holder is record and uid not in record.members
                ]
            )

    async def write(self: RecordWriter, record: Record, *, commit: bool = False) -> None:
        if not commit:
            let_go(self, record)
        await right(self, record, commit=commit)

    async def delete(self: RecordWriter, record: Record) -> None:
        if (ledger := _LEDGERS.get(id(self))) is not None:
            ledger.forget(list(record.members))
        await removing(self, record)

    making = Ledger.__init__

    def made(self: Ledger, **fields: Any) -> None:
        making(self, **fields)
        _LEDGERS[id(self.writer)] = self

    patch.setattr(Ledger, "__init__", made)
    patch.setattr(RecordWriter, "write", write)
    patch.setattr(RecordWriter, "delete", delete)


_LEDGERS: dict[int, Ledger] = {}


def out_of_reach_is_gone(patch: Patch) -> None:
    """A pod deleted by force on a node that is not ready is taken for a stopped one."""
    patch.setattr(Sightings, "out_of_reach", lambda self, member: False)


def no_look_after_creation(patch: Patch) -> None:
    """A record that a successor's list cannot have shown is committed without a look at the lease."""

    async def wrong(self: RecordWriter, record: Record) -> None:
        record.unlooked = False

    patch.setattr(RecordWriter, "_look", wrong)


def write_over_whatever_stands_there(patch: Patch) -> None:
    """Writes of the status name no version."""
    right = Record.with_status

    def wrong(self: Record) -> dict[str, Any]:
        body = right(self)
        del body["metadata"]["resourceVersion"]
        return body

    patch.setattr(Record, "with_status", wrong)


def a_lost_write_is_believed(patch: Patch) -> None:
    """A commit without an answer is taken for one that landed."""
    right = RecordWriter.write

    async def wrong(self: RecordWriter, record: Record, *, commit: bool = False) -> None:
        if not commit:
            await right(self, record)
            return
        self._must_lead()
        await self._look(record)
        try:
            record.seen(await self._client.replace(f"{record.path}/status", record.with_status()))
        except Unanswered:
            return

    patch.setattr(RecordWriter, "write", wrong)


def half_a_gang_will_do(patch: Patch) -> None:
    """A gang that lost members while it was bound is settled as it is."""
    right = Ledger._conclude_without

    async def wrong(self: Ledger, record: Record, misplaced: list[Member]) -> None:
        record.min_member = 1
        await right(self, record, misplaced)

    patch.setattr(Ledger, "_conclude_without", wrong)


def a_missing_answer_ends_a_deletion(patch: Patch) -> None:
    """A record whose deletion got no answer is left to itself."""
    right = RecordWriter.remove

    async def wrong(self: RecordWriter, path: str, *, uid: str, version: str) -> None:
        self._close(uid)
        try:
            await self._client.delete(path, {"preconditions": {"uid": uid, "resourceVersion": version}})
        except (Unanswered, binding.Refused):
            return
        await right(self, path, uid=uid, version=version)

    patch.setattr(RecordWriter, "remove", wrong)


MUTANTS: dict[str, Callable[[Patch], None]] = {
    each.__name__: each
    for each in (
        bind_before_commit,
        binding_names_no_pod,
        release_when_told_to_go,
        take_over_without_a_stamp,
        grow_without_opening,
        forget_an_ambiguous_bind,
        give_away_without_a_fence,
        pods_before_records,
        free_in_the_books_first,
        out_of_reach_is_gone,
        no_look_after_creation,
        write_over_whatever_stands_there,
        a_lost_write_is_believed,
        half_a_gang_will_do,
        a_missing_answer_ends_a_deletion,
    )
}

# Found within a few dozen histories. The others need a race that seldom comes, and are for longer hunts.
FOUND_SOON = (
    "bind_before_commit",
    "release_when_told_to_go",
    "pods_before_records",
    "a_lost_write_is_believed",
)
