"""Bugs that were once made, or nearly: each is put into an operator of its own, and the suite has to find it.

A mutant says what is wrong in it, which histories show it, and how it is put in: by patching the product's classes in
the operator's process before it starts (`mutation/sitecustomize.py`). `catch` runs the histories until one is judged.
A mutant that is not caught is a hole in the checker, or in the scenarios.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MUTATION: Final = Path(__file__).parent / "mutation"


@dataclass(frozen=True, slots=True)
class Mutant:
    wrong: str
    histories: tuple[str, ...]
    put_in: Callable[[], None]


def environment(name: str) -> dict[str, str]:
    """For the operator's process."""
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(MUTATION), *([inherited] if inherited else [])]
    return {"ALNAIR_MUTANT": name, "PYTHONPATH": os.pathsep.join(paths)}


# -- the bugs ----------------------------------------------------------------------------------------------------------
# Each imports what it patches itself: the tests that list mutants must not load the operator.


def _commit_after_bind() -> None:
    from alnair.ledger.ledger import Ledger
    from alnair.ledger.together import together
    from alnair.ledger.writer import RecordWriter

    commit, bind_all = RecordWriter.commit, Ledger._bind_all
    due: dict[int, bool] = {}

    async def later(self: Any, record: Any, *, fresh: bool) -> None:
        due[id(record)] = fresh

    async def bind_first(self: Any, record: Any, *, recovering: bool) -> None:
        if (fresh := due.pop(id(record), None)) is not None:
            members = [each for each in record.members.values() if not (each.bound or each.gone)]
            await together(self._bind_one(record.owner.namespace, each, {}) for each in members)
            await commit(self.writer, record, fresh=fresh)
        await bind_all(self, record, recovering=recovering)

    RecordWriter.commit = later  # type: ignore[method-assign]
    Ledger._bind_all = bind_first  # type: ignore[method-assign]


def _binding_without_identity() -> None:
    from alnair.ledger import binding as module

    whole = module.binding

    def nameless(*arguments: Any, **more: Any) -> dict[str, Any]:
        made = whole(*arguments, **more)
        del made["metadata"]["uid"], made["metadata"]["resourceVersion"]
        return made

    module.binding = nameless


def _release_on_deletion_timestamp() -> None:
    from alnair.ledger.sightings import Sightings

    seen = Sightings.pod

    def hasty(self: Any, pod: Any) -> None:
        seen(self, pod)
        record = self._ledger.record_of(pod.uid)
        if record is not None and pod.terminating and pod.uid in record.members:
            record.members[pod.uid].gone = True
            self._ledger.release_soon(record)

    Sightings.pod = hasty  # type: ignore[method-assign]


def _forget_an_ambiguous_bind() -> None:
    from alnair.kube import Unanswered
    from alnair.ledger.binding import Binder, Verdict, binding

    async def once(self: Any, namespace: str, member: Any, delivered: Any, **_: Any) -> Verdict:
        body = binding(member, version=member.version, delivered=delivered)
        path = f"/api/v1/namespaces/{namespace}/pods/{member.name}/binding"
        try:
            await self._client.call("POST", path, body=body)
        except Unanswered:
            return Verdict.GONE
        return Verdict.BOUND

    Binder._bind = once  # type: ignore[method-assign]


def _capacity_not_assumed() -> None:
    from alnair.ledger.ledger import Ledger
    from alnair.state.cluster import ClusterState

    assume = Ledger.assume

    def forgetful(self: Any, *arguments: Any, **more: Any) -> Any:
        hold, ClusterState.hold = ClusterState.hold, lambda *_: None  # type: ignore[method-assign]
        try:
            return assume(self, *arguments, **more)
        finally:
            ClusterState.hold = hold  # type: ignore[method-assign]

    Ledger.assume = forgetful  # type: ignore[method-assign]


def _no_roll_forward() -> None:
    from alnair.ledger.ledger import Ledger

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    Ledger.roll_forward = nothing  # type: ignore[method-assign]


def _never_release() -> None:
    from alnair.ledger.ledger import Ledger

    Ledger.release_soon = lambda *_: None  # type: ignore[method-assign]


def _half_a_gang() -> None:
    from alnair.ledger.ledger import Ledger

    bind_all = Ledger._bind_all

    async def half(self: Any, record: Any, *, recovering: bool) -> None:
        for uid in list(record.members)[len(record.members) // 2 :]:
            self.forget([uid])
            del record.members[uid]
        record.min_member = min(record.min_member, len(record.members))
        await bind_all(self, record, recovering=recovering)

    Ledger._bind_all = half  # type: ignore[method-assign]


def _never_silent() -> None:
    import asyncio

    from alnair.ledger.ledger import Ledger

    resumed = Ledger.resumed

    async def chatter(ledger: Any) -> None:
        number = 0
        while True:
            await asyncio.sleep(0.5)
            for record in list(ledger.records.values()):
                if not (record.lock.locked() or record.closing) and record.exists and record.said:
                    number += 1
                    news = {"type": "Seen", "status": "True", "reason": "Again", "message": str(number)}
                    async with ledger.writing(record):
                        record.set_condition(news, now=ledger.clock.stamp())
                        await ledger.writer.write(record)

    def restless(self: Any) -> None:
        resumed(self)
        self.spawn(chatter(self), "chatter")

    Ledger.resumed = restless  # type: ignore[method-assign]


def _holdings_lost_at_a_restart() -> None:
    from alnair.ledger.ledger import Ledger
    from alnair.state.cluster import ClusterState

    load = Ledger.load

    def amnesiac(self: Any, record: Any) -> None:
        hold, ClusterState.hold = ClusterState.hold, lambda *_: None  # type: ignore[method-assign]
        try:
            load(self, record)
        finally:
            ClusterState.hold = hold  # type: ignore[method-assign]

    Ledger.load = amnesiac  # type: ignore[method-assign]


def _pods_listed_before_the_records() -> None:
    from alnair.kube.stream import Stream
    from alnair.ledger.lease import Lease

    acquire, list_now = Lease.acquire, Stream._list
    listed: list[bytes] = []

    async def look_first(self: Any) -> None:
        listed.append(await self._client.call("GET", "/api/v1/pods"))
        await acquire(self)

    async def what_was_seen(self: Any) -> str:
        if self.name != "Pod" or not listed:
            return await list_now(self)
        page = self._page.decode(listed.pop())
        self._sink.replace([thing for raw in page.items if (thing := self._decode(raw)) is not None])
        newest = self._page.decode(await self._client.call("GET", self._path, params={"limit": "1"}))
        return str(newest.metadata.resource_version)

    Lease.acquire = look_first  # type: ignore[method-assign]
    Stream._list = what_was_seen  # type: ignore[method-assign]


def _take_over_without_stamps() -> None:
    from alnair.ledger import recovery

    async def unwritten(ledger: Any, record: Any, patience: float) -> Any:
        return record

    recovery._stamp = unwritten


def _grow_without_opening() -> None:
    from alnair.ledger.records import COMMITTED
    from alnair.ledger.writer import RecordWriter

    async def unannounced(self: Any, record: Any) -> None:
        record.said = COMMITTED

    RecordWriter._open = unannounced  # type: ignore[method-assign]


def _retarget_without_touching_the_pod() -> None:
    from alnair.kube import Refused
    from alnair.ledger.binding import Binder, Verdict, judge

    async def look_only(self: Any, namespace: str, member: Any, why: str, **_: Any) -> Verdict | None:
        try:
            pod = await self._client.get(f"/api/v1/namespaces/{namespace}/pods/{member.name}")
        except Refused:
            return Verdict.GONE
        return judge(pod, member)

    Binder.fence = look_only  # type: ignore[method-assign]


def _books_before_the_record() -> None:
    from alnair.ledger.ledger import Ledger

    discard = Ledger.discard

    async def free_first(self: Any, record: Any) -> None:
        self.forget([*record.members, *record.places])
        await discard(self, record)

    Ledger.discard = free_first  # type: ignore[method-assign]


def _lone_pods_unfenced() -> None:
    from alnair.ledger import recovery

    async def nothing(ledger: Any) -> None: ...

    recovery.fence_alone = nothing


MUTANTS: Final = {
    "commit-after-bind": Mutant(
        "members are bound before the record says so", ("gang-4",), _commit_after_bind
    ),
    "binding-without-identity": Mutant(
        "a Binding names neither UID nor version: a namesake is bound by the old decision",
        ("namesake",),
        _binding_without_identity,
    ),
    "release-on-deletion-timestamp": Mutant(
        "a slice is free as soon as its pod is asked to go", ("slow-end",), _release_on_deletion_timestamp
    ),
    "forget-an-ambiguous-bind": Mutant(
        "a Binding without an answer is taken for none",
        ("gang-4 3:drop-answer", "gang-4 2:drop-answer"),
        _forget_an_ambiguous_bind,
    ),
    "capacity-not-assumed": Mutant(
        "what is planned is free until the pods are seen bound", ("rivals",), _capacity_not_assumed
    ),
    "no-roll-forward": Mutant(
        "what a predecessor committed is left as it is",
        ("gang-4 3:kill-after", "gang-4 2:kill-after"),
        _no_roll_forward,
    ),
    "never-release": Mutant("records outlive their pods", ("single",), _never_release),
    "half-a-gang": Mutant(
        "half of the members are bound, and that is called whole", ("gang-4",), _half_a_gang
    ),
    "never-silent": Mutant("records are written again and again at rest", ("gang-1",), _never_silent),
    "holdings-lost-at-a-restart": Mutant(
        "a new leader does not know what its predecessor gave",
        ("rivals 2:kill-after 4:slow=4 5:slow=4", "rivals 3:kill-before 4:slow=4 5:slow=4"),
        _holdings_lost_at_a_restart,
    ),
    "pods-listed-before-the-records": Mutant(
        "a new leader knows the pods as they were when it began to stand by",
        ("gang-4 1:kill-before", "grown 8:kill-before", "grown 9:kill-before"),
        _pods_listed_before_the_records,
    ),
    "take-over-without-stamps": Mutant(
        "a new leader does not write its epoch into records that are not settled",
        tuple(f"overtaken {at}:kill-late=2 {at + 1}:slow=4 {at + 2}:slow=4" for at in (9, 8, 10, 7, 11)),
        _take_over_without_stamps,
    ),
    "grow-without-opening": Mutant(
        "more is committed in a settled record without a word before",
        tuple(f"overtaken {at}:kill-late=2 {at + 1}:slow=4 {at + 2}:slow=4" for at in (8, 7, 9, 6, 10)),
        _grow_without_opening,
    ),
    "retarget-without-touching-the-pod": Mutant(
        "a member is planned anew while its Binding may still land",
        ("moved 3:late=4 11:slow=4", "moved 3:late=4 10:slow=4", "moved 3:late=4 9:slow=4"),
        _retarget_without_touching_the_pod,
    ),
    "lone-pods-unfenced": Mutant(
        "a new leader plans while its predecessor's Binding of a lone pod may still land",
        ("strayed 1:kill-late=2 2:slow=4", "strayed 1:kill-late=0 2:slow=4"),
        _lone_pods_unfenced,
    ),
    "books-before-the-record": Mutant(
        "what a record gives up is free before the record says so",
        ("crowd 21:slow=4", "crowd 20:slow=4", "crowd 19:slow=4"),
        _books_before_the_record,
    ),
}
