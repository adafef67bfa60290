"""Writes of records: each is carried to a certain end, and a newer leader's word is never overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from alnair.api import names
from alnair.kube import Client, Refused
from alnair.ledger import writer
from alnair.ledger.lease import LeadershipLost, Lease, LeaseSettings
from alnair.ledger.records import BOUND, COMMITTED, ROLLING_BACK, Member, Owner, Record
from alnair.ledger.writer import RecordWriter, says_the_same
from unit.apiserver import Store
from unit.builders import HandClock, holds, part

LEASE = "/apis/coordination.k8s.io/v1/namespaces/alnair/leases/alnair"


def a_record(epoch: int = 1) -> Record:
    record = Record(Owner("PodGroup", "team", "g", "u"), "alnair", min_member=1, epoch=epoch, phase=COMMITTED)
    record.members["uid-p"] = Member("uid-p", "p", holds("n1", part("n1", 0, 6144)))
    return record


NAME = a_record().key[1]
CREATE, COMMIT = "POST team/gpuallocations", f"PUT {NAME}/status"
OPENING = f"PATCH {NAME}/status"
DELETE, READ, FINISH = (
    f"DELETE gpuallocations/{NAME}",
    f"GET gpuallocations/{NAME}",
    f"PATCH gpuallocations/{NAME}",
)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.01)


@asynccontextmanager
async def writing() -> AsyncIterator[tuple[Store, RecordWriter, Lease]]:
    async with Store() as server, Client(server.connection()) as client:
        lease = Lease(client, LeaseSettings("alnair", "alnair", "me"), HandClock())
        await lease.acquire()
        server.calls.clear()
        yield server, RecordWriter(client, lease), lease


def says(server: Store, record: Record) -> bool:
    return says_the_same(server.objects[record.path].get("status") or {}, record.status())


def ledger_calls(server: Store) -> list[str]:
    return [name for name in server.names() if "leases" not in name]


async def test_a_commit_is_a_creation_a_look_at_the_lease_and_a_write() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        assert "status" not in server.objects[record.path], "creation decides nothing"
        await write.write(record)
        assert server.names() == [CREATE, "GET leases/alnair", COMMIT]
        assert says(server, record)


async def test_a_later_write_needs_no_look() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        await write.write(record)
        server.calls.clear()
        record.phase = "Bound"
        await write.write(record)
        assert server.names() == [COMMIT]


@pytest.mark.parametrize("call", [CREATE, COMMIT])
async def test_a_write_whose_answer_got_lost_is_neither_forgotten_nor_made_twice(call: str) -> None:
    async with writing() as (server, write, _):
        record = a_record()
        server.loses_the_answer_of(call)
        await write.create(record)
        await write.write(record)
        assert says(server, record)
        assert record.version == server.objects[record.path]["metadata"]["resourceVersion"]


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("call", [CREATE, COMMIT])
async def test_a_write_that_is_put_off_is_made_later(call: str, status: int) -> None:
    async with writing() as (server, write, _):
        record = a_record()
        server.refuses(call, status, times=2)
        await write.create(record)
        await write.write(record)
        assert says(server, record)


async def test_an_edit_in_between_is_overwritten() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        server.first(
            COMMIT, lambda: server.put(record.path, {**server.objects[record.path], "status": {"epoch": 1}})
        )
        await write.write(record)
        assert says(server, record)


async def test_an_object_that_vanished_is_made_anew_and_looked_at_again() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        await write.write(record)
        del server.objects[record.path]
        server.calls.clear()
        await write.write(record)
        assert says(server, record)
        assert server.names() == [COMMIT, CREATE, "GET leases/alnair", COMMIT]


async def test_a_leftover_of_an_earlier_try_is_taken_over() -> None:
    async with writing() as (server, write, _):
        record = a_record(epoch=2)
        server.put(record.path, {**record.manifest(), "status": {"epoch": 1, "phase": "Pending"}})
        await write.create(record)
        await write.write(record)
        assert says(server, record)


OTHERS = [
    ({"schedulerName": "theirs"}, r"spec\.schedulerName is 'theirs', not 'alnair'"),
    ({"owner": {"kind": "Pod", "name": "g", "uid": "u"}}, r"spec\.owner\.kind is 'Pod', not 'PodGroup'"),
    ({"owner": {"kind": "PodGroup", "name": "h", "uid": "u"}}, r"spec\.owner\.name is 'h', not 'g'"),
    ({"owner": {"kind": "PodGroup", "name": "g", "uid": "v"}}, r"spec\.owner\.uid is 'v', not 'u'"),
    ({"owner": None}, r"spec\.owner\.kind is None, not 'PodGroup'"),
]


@pytest.mark.parametrize(("spec", "why"), OTHERS)
async def test_a_namesake_for_somebody_else_is_not_filled_and_the_refusal_says_in_what_it_differs(
    spec: dict[str, object], why: str
) -> None:
    """A spec cannot be changed, so the next leader would not find our record in it."""
    async with writing() as (server, write, _):
        record = a_record()
        server.put(record.path, {**record.manifest(), "spec": {**record.spec(), **spec}})
        with pytest.raises(Refused, match=f"GPUAllocation team/{NAME} .*{why}"):
            await write.commit(record, fresh=True)
        assert not record.exists
        assert ledger_calls(server) == [CREATE, READ]


async def test_a_namesake_for_somebody_else_that_came_instead_of_our_object_is_not_filled() -> None:
    async with writing() as (server, write, _):
        record = await settled(server, write)
        server.remove(record.path)
        theirs = server.put(
            record.path, {**record.manifest(), "spec": {**record.spec(), "schedulerName": "b"}}
        )
        with pytest.raises(Refused, match="schedulerName is 'b'"):
            await write.write(record)
        assert server.objects[record.path] == theirs


async def test_a_newer_leaders_record_is_left_alone() -> None:
    async with writing() as (server, write, lease):
        record = a_record(epoch=1)
        await write.create(record)
        await write.write(record)
        server.put(record.path, {**server.objects[record.path], "status": {"epoch": 2, "phase": "Bound"}})
        server.put(LEASE, {"spec": {"holderIdentity": "rival", "leaseTransitions": 2}})
        with pytest.raises(LeadershipLost):
            await write.write(record)
        assert server.objects[record.path]["status"] == {"epoch": 2, "phase": "Bound"}
        assert not lease.held


async def test_who_lost_the_lease_after_the_creation_commits_nothing() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        server.put(LEASE, {"spec": {"holderIdentity": "rival", "leaseTransitions": 2}})
        with pytest.raises(LeadershipLost):
            await write.write(record)
        assert COMMIT not in server.names()


async def test_who_does_not_lead_writes_nothing() -> None:
    async with writing() as (server, write, lease):
        lease.held = False
        for work in (write.create(a_record()), write.write(a_record()), write.delete(a_record())):
            with pytest.raises(LeadershipLost):
                await work
        assert server.calls == []


async def test_an_object_that_is_not_acceptable_is_refused() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        server.refuses(CREATE, 422, "Invalid")
        with pytest.raises(Refused, match="422 Invalid"):
            await write.create(record)
        assert not record.exists


async def test_a_commit_that_is_refused_is_not_given_up_while_an_earlier_try_may_land() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        lands = server.cuts_off(COMMIT)
        server.refuses(COMMIT, 422, "Invalid", times=3)
        committing = asyncio.create_task(write.write(record, commit=True))
        await server.until(lambda: server.names().count(COMMIT) > 2)
        assert not committing.done()
        assert lands() == 200
        await committing
        assert says(server, record)


async def test_a_commit_that_is_refused_is_given_up_once_none_can_land(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "LANDING_SECONDS", 0.05)
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        server.cuts_off(COMMIT)
        refusing = server.refusing(lambda call: call.name == COMMIT and server.names().count(COMMIT) > 1, 422)
        with refusing, pytest.raises(Refused):
            await write.write(record, commit=True)
        assert server.names().count(COMMIT) > 2


async def test_a_commit_that_landed_long_ago_is_no_refused_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever forbids is asked before anybody looks at the version: that it landed is in no answer."""
    monkeypatch.setattr(writer, "LANDING_SECONDS", 0.05)
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        server.loses_the_answer_of(COMMIT)
        with server.refusing(lambda call: call.name == COMMIT and server.names().count(COMMIT) > 1, 403):
            await write.write(record, commit=True)
        assert says(server, record)


# -- settled records -----------------------------------------------------------------------------------------------


async def settled(server: Store, write: RecordWriter) -> Record:
    record = a_record()
    await write.create(record)
    record.phase, record.satisfied = BOUND, True
    await write.write(record)
    server.calls.clear()
    return record


async def test_what_only_gives_back_is_written_on_a_settled_record_as_it_is() -> None:
    async with writing() as (server, write, _):
        record = await settled(server, write)
        gone = record.members.pop("uid-p")
        place = record.new_place(gone.holding, reason="Replacement", until="2026-01-01T00:00:00Z", pod=None)
        record.places[place.key] = place
        await write.write(record)
        assert server.names() == [COMMIT], "that its place is kept gives nobody more"
        del record.places[place.key]
        await write.write(record)
        assert server.names() == [COMMIT, COMMIT]


@pytest.mark.parametrize("how", ["a member", "as much again", "a roll-back"])
async def test_what_gives_more_or_takes_all_back_opens_a_settled_record_and_looks_at_the_lease(
    how: str,
) -> None:
    async with writing() as (server, write, _):
        record = await settled(server, write)
        if how == "a roll-back":
            record.phase = ROLLING_BACK
        else:
            part_of = part("n1", 0, 6144) if how == "as much again" else part("n1", 1, 100)
            record.members["uid-q"] = Member("uid-q", "q", holds("n1", part_of))
        await write.write(record)
        assert server.names() == [OPENING, "GET leases/alnair", COMMIT]
        assert says(server, record)


async def test_what_a_hand_took_out_is_put_back_only_by_who_still_leads() -> None:
    async with writing() as (server, write, _):
        record = await settled(server, write)
        there = server.objects[record.path]
        server.put(record.path, {**there, "status": {**there["status"], "pods": []}})
        record.found(server.objects[record.path])
        server.first("GET leases/alnair", lambda: server.put(LEASE, {"spec": {"holderIdentity": "rival"}}))
        with pytest.raises(LeadershipLost):
            await write.write(record)
        assert server.objects[record.path]["status"]["pods"] == []


# -- deletions -----------------------------------------------------------------------------------------------------


async def test_a_deletion_that_met_another_write_is_carried_on_only_by_who_still_leads() -> None:
    """The epoch alone does not tell: a successor's may be no higher, where the Lease was deleted."""
    async with writing() as (server, write, _):
        record = await settled(server, write)

        def taken_over() -> None:
            there = server.objects[record.path]
            server.put(record.path, {**there, "status": {**there["status"], "phase": COMMITTED}})
            server.put(LEASE, {"spec": {"holderIdentity": "rival"}})

        server.first(DELETE, taken_over)
        with pytest.raises(LeadershipLost):
            await write.delete(record)
        assert "deletionTimestamp" not in server.objects[record.path]["metadata"]


async def test_a_record_goes_by_deletion_and_then_its_finalizer() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        await write.write(record)
        server.calls.clear()
        await write.delete(record)
        assert record.path not in server.objects
        assert server.names() == [DELETE, FINISH]
        assert write.closed(record.uid)


@pytest.mark.parametrize("call", [DELETE, FINISH])
async def test_a_deletion_whose_answer_got_lost_is_carried_through(call: str) -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        await write.write(record)
        server.loses_the_answer_of(call)
        await write.delete(record)
        assert record.path not in server.objects


@pytest.mark.parametrize("status", [403, 410, 422])
@pytest.mark.parametrize("call", [DELETE, FINISH])
async def test_a_deletion_that_is_refused_is_insisted_on(call: str, status: int) -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        await write.write(record)
        server.refuses(call, status, times=2)
        await write.delete(record)
        assert record.path not in server.objects


async def test_a_namesake_made_since_is_not_deleted() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        del server.objects[record.path]
        server.put(record.path, {"metadata": {"uid": "another"}})
        await write.delete(record)
        assert record.path in server.objects


async def test_a_successor_of_a_record_on_its_way_out_waits_for_it() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        gone = {**record.manifest()["metadata"], "deletionTimestamp": "now"}
        server.put(record.path, {**record.manifest(), "metadata": gone})
        server.first(READ, lambda: None)
        server.first(READ, lambda: server.objects.pop(record.path))
        await write.create(record)
        assert "deletionTimestamp" not in server.objects[record.path]["metadata"]
        assert ledger_calls(server).count(CREATE) >= 2


async def test_a_record_that_does_not_go_its_way_out_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that the plan takes is held meanwhile, and nobody is told why."""
    monkeypatch.setattr(writer, "LEAVING_SECONDS", 0.02)
    async with writing() as (server, write, _):
        record = a_record()
        stuck = {**record.manifest()["metadata"], "deletionTimestamp": "now", "finalizers": ["theirs"]}
        server.put(record.path, {**record.manifest(), "metadata": stuck})
        with pytest.raises(Refused, match=f"GPUAllocation team/{NAME} is still on its way out"):
            await asyncio.wait_for(write.commit(record, fresh=True), 2)
        assert not record.exists


async def test_a_record_whose_removal_takes_long_is_not_forgotten_for_all_that_go_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a new commit would take the dying object over, and the removal would then delete a live record."""
    monkeypatch.setattr(writer, "MOST_CLOSED", 2)
    async with writing() as (server, write, _):
        record = await settled(server, write)
        goes_on = server.delays(DELETE)
        removing = asyncio.create_task(write.delete(record))
        await server.until(lambda: DELETE in server.names())
        for number in range(5):
            await write.remove(f"{record.collection}/other-{number}", uid=f"other-{number}", version="1")
        successor = a_record()
        committing = asyncio.create_task(write.commit(successor, fresh=True))
        await server.until(lambda: server.names().count(READ) > 1 or COMMIT in server.names())
        goes_on.set()
        await asyncio.gather(removing, committing)
        assert successor.path in server.objects
        assert says(server, successor)


async def test_of_records_that_are_gone_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_CLOSED", 2)
    async with writing() as (_, write, _lease):
        for number in range(5):
            path = f"{a_record().collection}/other-{number}"
            await write.remove(path, uid=f"other-{number}", version="1")
        assert [write.closed(f"other-{number}") for number in range(5)] == [False] * 3 + [True] * 2


async def test_labels_and_finalizer_are_put_back() -> None:
    async with writing() as (server, write, _):
        record = a_record()
        await write.create(record)
        server.objects[record.path]["metadata"].update(labels={}, finalizers=[])
        await write.restore_metadata(record)
        meta = server.objects[record.path]["metadata"]
        assert (meta["labels"], meta["finalizers"]) == (record.labels(), [names.FINALIZER])
