"""The protocol: plan taken, committed, bound, settled; released when the pods are gone; rolled back when it must be.

One lock a record, one decision at a time under it. The order of writes is the whole point, so it is kept in one place:

    assume     in memory, at once: capacity is taken before anything is written
    commit     the record says which pod gets what          (the decision)
    bind       the claims of all pods, then every pod, concurrently
    settle     the record says Bound, lost members dropped  (at once if any was lost, else when there is a lull:
               what is committed and bound needs no word of ours to stay so)
    release    the record drops a slice *before* the books do, and never while its pod may still hold it

A record also holds places for members to come (`Place`): for those that an elastic gang grows by, committed before its
replicas are raised, and for replacements of members that failed. They are held like pods' slices, until a member takes
one, or its time is over.

What must never happen: a member bound before the commit, a slice in two records, a slice free in the books that a
record still lists.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from alnair.kube import Client, Refused
from alnair.kube.clock import Clock
from alnair.kube.lull import Lull
from alnair.ledger import cards, places
from alnair.ledger.binding import Binder, Verdict
from alnair.ledger.errors import CommitRefused, RecordMoved, TooLarge
from alnair.ledger.eviction import evict, rolled_back
from alnair.ledger.lease import LeadershipLost, Lease
from alnair.ledger.records import BOUND, COMMITTED, ROLLING_BACK, Key, Member, Owner, Record
from alnair.ledger.sightings import Sightings
from alnair.ledger.together import together
from alnair.ledger.under_way import UnderWay
from alnair.ledger.volumes import SHORT, VolumeBinder
from alnair.ledger.writer import LANDING_SECONDS, Pauses, RecordWriter, may_land
from alnair.state.cluster import ClusterState
from alnair.state.holding import Holding
from alnair.state.pods import Pod

log = logging.getLogger(__name__)

BINDING_PAUSE = 5.0  # before a record whose binding failed by a mistake of ours is carried on
SETTLE_PAUSE = 2.0  # between looks at a record that somebody else is writing, or that was refused
JUDGE_PAUSE = 5.0  # before it is said again that a gang is whole with fewer members
GATHER_SECONDS = 0.05  # pods of one gang end together: wait this long and release them in one write


VETOED = "other members of its gang must not be bound"


class Listener(Protocol):
    """Who wants to know. Plain calls, made while the record's lock is held: no waiting in them."""

    def member_bound(self, record: Record, member: Member) -> None: ...
    def member_lost(self, record: Record, member: Member) -> None: ...
    def binding_refused(self, record: Record, names: list[str]) -> None: ...
    def pods_unready(self, record: Record, reasons: dict[str, str], *, reason: str) -> None: ...
    def record_settled(self, record: Record) -> None: ...
    def members_gone(self, record: Record, gone: list[Member]) -> dict[str, float]: ...
    def record_shrunk(self, record: Record) -> None: ...
    def record_short(self, record: Record) -> None: ...
    def record_rolled_back(self, record: Record, why: str) -> None: ...
    def record_closed(self, record: Record) -> None: ...
    def record_free(self, record: Record) -> None: ...
    def cards_changed(self, record: Record, condition: dict[str, Any], concerned: list[Member]) -> None: ...


class Ledger:
    """All live records of this instance, and every write to them."""

    def __init__(
        self,
        *,
        client: Client,
        state: ClusterState,
        lease: Lease,
        clock: Clock,
        schedulers: frozenset[str],
        lull: Lull | None = None,
        instance: str = "",
    ) -> None:
        self.client = client
        self.state = state
        self.clock = clock
        self.schedulers = schedulers
        self.instance = instance
        self.lull = lull or Lull(clock)
        self.epoch = 0
        self.records: dict[Key, Record] = {}
        self.lease = lease
        self.writer = RecordWriter(client, lease)
        self.binder = Binder(client, lease)
        self.volumes = VolumeBinder(client, state, lease, clock)
        self.sightings = Sightings(self)
        self.listener: Listener
        # What must be done for pods before their Binding (schedulerName, namespace): UID -> why it must not be bound.
        self.before_bind: Callable[[str, str, Sequence[Member]], Awaitable[dict[str, str]]] | None = None
        self.under_way = UnderWay()
        self.spawn, self.failure = self.under_way.spawn, self.under_way.failure
        self._record_of: dict[str, Record] = {}
        self._releasing: set[Record] = set()
        self._judging: set[Record] = set()
        self._settling: set[Record] = set()
        self._writing_anew: set[Record] = set()
        self.recording: set[str] = set()  # UIDs of bound pods whose record is due
        self.recovered = False  # all pods are known: what is gone may be released
        self.troubled: set[str] = set()  # nodes on whose failed cards something is held
        self.telling: set[Record] = set()  # records that are about to say what became of their cards

    def record_of(self, uid: str) -> Record | None:
        """The record that this pod is in, or is about to be."""
        return self._record_of.get(uid)

    def new_record(self, owner: Owner, *, scheduler: str, min_member: int) -> Record:
        return Record(
            owner=owner,
            scheduler=scheduler,
            min_member=min_member,
            epoch=self.epoch,
            instance=self.instance,
        )

    @asynccontextmanager
    async def writing(self, record: Record) -> AsyncIterator[None]:
        """The record is ours alone; afterwards the listener knows that it may be planned for again."""
        try:
            async with record.lock:
                yield
        finally:
            self.listener.record_free(record)

    # -- plan and commit -----------------------------------------------------------------------------------------

    def assume(
        self,
        owner: Owner,
        *,
        scheduler: str,
        min_member: int,
        placements: Iterable[tuple[Pod, Holding]],
        replaces: Mapping[str, str] | None = None,
    ) -> Record:
        """Take in memory what a plan gives. `carry_out` must follow."""
        fresh = self.new_record(owner, scheduler=scheduler, min_member=min_member)
        record = self.records.get(fresh.key)
        if record is None or record.closing:
            record = self.records[fresh.key] = fresh
        record.min_member = min_member
        for pod, holding in placements:
            replaced = (replaces or {}).get(pod.uid, "")
            record.planned[pod.uid] = Member(
                pod.uid, pod.name, holding, version=pod.version, replaces=replaced
            )
            self._record_of[pod.uid] = record
            if replaced in record.places:
                self.state.release(replaced)  # from here on it is the pod that holds it
            self.state.hold(pod.uid, holding)
        return record

    async def carry_out(self, record: Record, *, least: Callable[[], int] | None = None) -> None:
        """Commit, bind and settle what was assumed. Raises CommitRefused or RecordMoved when nothing was decided.

        `least`: how many members the record needs by now. Whoever counted outside it when the plan was made may have
        gone while it waited.
        """
        async with self.writing(record):
            added, record.planned = record.planned, {}
            if record.closing or record.phase == ROLLING_BACK:
                self.forget(added)
                raise RecordMoved(str(record))
            before = record.phase, record.satisfied, record.members
            places = record.places
            taken = {member.replaces for member in added.values()}
            left = self._remaining(record, taken)
            # Whole once and empty since is a new gang: it has to become whole by itself.
            record.satisfied = record.satisfied and any(member.bound for member in left.values())
            if least is not None:
                record.min_member = least()
            if not record.satisfied and len(left) + len(added) < record.min_member:
                # Those whom the plan counted on have gone meanwhile.
                self._give_back(record, added)
                if before[1] or not before[2]:
                    await self.discard(record)
                raise RecordMoved(str(record))
            record.phase, record.members = COMMITTED, {**left, **added}
            record.places = {key: place for key, place in places.items() if key not in taken}
            record.decide_places()
            try:
                record.must_fit()
                await self.writer.commit(record, fresh=not before[2])
            except (Refused, TooLarge) as refused:
                if before[2]:
                    record.phase, record.satisfied, record.members = before
                    record.places = places
                    self._give_back(record, added)
                    self.settle_soon(record)
                else:
                    await self.discard(record)
                raise CommitRefused(str(refused)) from refused
            self.forget(before[2].keys() - left.keys())
            await self._bind(record)

    def _give_back(self, record: Record, added: Mapping[str, Member]) -> None:
        """Who was to join does not: the places that they were to take are kept for others."""
        self.forget(added)
        for place in record.places.values():
            if place.key not in self.state.holdings:
                self.state.reserve(place.key, place.holding, place.pod)

    @staticmethod
    def _remaining(record: Record, replaced: set[str]) -> dict[str, Member]:
        """The members that stay when others join: a whole gang drops those that are gone in the same write, one that
        is short keeps their places, except those that replacements take."""
        return {
            uid: member
            for uid, member in record.members.items()
            if uid not in replaced and not (record.satisfied and member.gone)
        }

    async def roll_forward(self, record: Record, *, recovering: bool = False) -> None:
        """Finish what another leader, or we before a crash, committed: the same pods to the same targets."""
        async with self.writing(record):
            if not record.closing and record.phase != ROLLING_BACK:
                await self._bind(record, recovering=recovering)

    async def _bind(self, record: Record, *, recovering: bool = False) -> None:
        """The decision stands in the record: whatever happens here, it is carried to an end."""
        try:
            await self._bind_all(record, recovering=recovering)
        except LeadershipLost:
            raise
        except Exception:
            log.exception("record %s: binding failed; trying again in %g s", record, BINDING_PAUSE)
            self.spawn(self._roll_forward_later(record), f"roll forward {record}")

    async def _roll_forward_later(self, record: Record) -> None:
        await asyncio.sleep(BINDING_PAUSE)
        await self.roll_forward(record)

    async def _bind_all(self, record: Record, *, recovering: bool) -> None:
        namespace = record.owner.namespace
        unbound = [member for member in record.members.values() if not (member.bound or member.gone)]
        spare = self._spare(record, unbound)
        unready = await self.volumes.prepare(namespace, unbound, spare=spare)
        volumes_failed = bool(unready)
        unready |= await self._vetoes(record, unbound, unready, spare)
        verdicts = await together(self._bind_one(namespace, member, unready) for member in unbound)
        refused = [m.name for m, verdict in zip(unbound, verdicts, strict=True) if verdict is Verdict.REFUSED]
        patience = time.monotonic() + LANDING_SECONDS  # for all of them together: others wait for this record
        verdicts = await together(
            self._fenced(namespace, member, verdict, unready, patience)
            for member, verdict in zip(unbound, verdicts, strict=True)
        )
        misplaced: list[Member] = []
        for member, verdict in zip(unbound, verdicts, strict=True):
            if verdict is Verdict.BOUND:
                member.bound = True
                self.listener.member_bound(record, member)
            elif verdict is Verdict.GONE and recovering and self.sightings.out_of_reach(member):
                member.bound = True  # bound by our predecessor, as far as anybody can tell
                self.sightings.park(member)
            elif verdict is Verdict.GONE:
                member.gone = True
                self.listener.member_lost(record, member)
            else:
                log.warning("pod %s/%s: %s", namespace, member.name, unready.get(member.uid, verdict.value))
                misplaced.append(member)
                if verdict is Verdict.ELSEWHERE:
                    self.listener.member_lost(record, member)
        if refused:
            self.listener.binding_refused(record, refused)
        if unready:
            self.listener.pods_unready(
                record,
                {m.name: why for m in unbound if (why := unready.get(m.uid, SHORT)) not in (SHORT, VETOED)},
                reason="VolumesFailed" if volumes_failed else "PreBindRefused",
            )
        await self._conclude(record, misplaced)

    async def _vetoes(
        self, record: Record, unbound: list[Member], unready: Mapping[str, str], spare: int
    ) -> dict[str, str]:
        """UID -> why it must not be bound. All are asked before any is bound, and where too few are left of the gang
        none is: what is not begun need not be taken back."""
        members = [member for member in unbound if member.uid not in unready]
        if self.before_bind is None or not members:
            return {}
        vetoes = await self.before_bind(record.scheduler, record.owner.namespace, members)
        if vetoes and len(unready) + len(vetoes) > spare:
            return {member.uid: vetoes.get(member.uid, VETOED) for member in members}
        return vetoes

    async def _bind_one(self, namespace: str, member: Member, unready: Mapping[str, str]) -> Verdict:
        if member.uid in unready:
            return Verdict.UNREADY
        if why := self._untold(member):
            log.error("pod %s/%s is not bound to its cards: %s", namespace, member.name, why)
            return Verdict.REFUSED
        return await self.binder.bind(namespace, member)

    async def _fenced(
        self, namespace: str, member: Member, verdict: Verdict, unready: Mapping[str, str], patience: float
    ) -> Verdict:
        """Only once the pod was changed can no older Binding land, and only then is the slice free to go."""
        if verdict not in (Verdict.REFUSED, Verdict.UNREADY):
            return verdict
        why = unready.get(member.uid, "the Binding was refused")
        return await self.binder.fence(namespace, member, why, patience=patience) or verdict

    def _untold(self, member: Member) -> str:
        """Why the pod would not be told the cards that its record gives it. A plan of ours has asked for that; one of
        a predecessor's, or of a time without delivery, has not."""
        pod = self.state.pods.get(member.uid)
        if pod is None or pod.shape.told is None or not any(member.holding.slices()):
            return ""
        return pod.problem if pod.shape.told else "it does not read them from its environment"

    @staticmethod
    def _spare(record: Record, unbound: list[Member]) -> int:
        """How many members may lack something before it is no use to bind the others."""
        if record.satisfied:
            return len(unbound)
        return max(0, len(record.bound()) + len(unbound) - record.min_member)

    async def _conclude(self, record: Record, misplaced: list[Member]) -> None:
        """All binds are known: settle, wait for replacements, or take everything back."""
        members, before = dict(record.members), (record.phase, record.satisfied, record.short_since)
        try:
            await self._conclude_without(record, misplaced)
        except Refused:  # it is still what the object says, and whoever asked tries again
            record.members = members
            record.phase, record.satisfied, record.short_since = before
            raise

    async def _conclude_without(self, record: Record, misplaced: list[Member]) -> None:
        for member in misplaced:
            record.members.pop(member.uid, None)
        if record.satisfied or len(record.bound()) >= record.min_member:
            lost = misplaced + [member for member in record.members.values() if not member.bound]
            for member in lost:
                record.members.pop(member.uid, None)
            record.phase, record.satisfied, record.short_since = BOUND, True, None
            if not lost and record.members:
                self.settle_soon(record)
                self.listener.record_settled(record)
            elif record.members or record.planned:
                await self.writer.write(record)
                self.forget(member.uid for member in lost)
                self.listener.record_settled(record)
            else:
                await self.discard(record)
                self.forget(member.uid for member in lost)
        elif not any(member.bound and not member.gone for member in record.members.values()):
            await self.discard(record)
            self.forget(member.uid for member in misplaced)
            self.listener.record_rolled_back(record, "no member could be bound")
        else:
            if misplaced or not record.said:  # it may stay so for a while: people should see it
                await self.writer.write(record)
                self.forget(member.uid for member in misplaced)
            if record.short_since is None:
                record.short_since = self.clock.now()
            self.listener.record_short(record)
        if any(member.gone for member in record.members.values()):
            self.release_soon(record)

    def settle_soon(self, record: Record) -> None:
        if _is_unsaid(record) and record not in self._settling:
            self._settling.add(record)
            self.spawn(self._settle(record), f"settle {record}")

    async def _settle(self, record: Record) -> None:
        """Say that all are bound, unless another write has said it by then."""
        try:
            while _is_unsaid(record):
                await self._try_to_settle(record)
        finally:
            self._settling.discard(record)

    async def _try_to_settle(self, record: Record) -> None:
        async with self.lull.errand():
            # Whoever has the lock may wait for minutes: not in an errand's place.
            if _is_unsaid(record) and not record.lock.locked():
                try:
                    async with self.writing(record):
                        await self.writer.write(record)
                    if not _is_unsaid(record):
                        return
                except Refused as refused:
                    log.error("record %s could not be settled, trying again: %s", record, refused)
        await asyncio.sleep(SETTLE_PAUSE)

    async def write_anew(self, record: Record) -> None:
        """Its members hold their cards whether it stands or not: so whoever refuses it (a quota, an object for somebody
        else that has its name) is asked again, until nobody is left to write of. Between two tries the record is free:
        who ends meanwhile is released."""
        if record in self._writing_anew:
            return
        self._writing_anew.add(record)
        try:
            pauses = Pauses()
            while not await self._is_written(record):
                await pauses.rest()
        finally:
            self._writing_anew.discard(record)

    async def _is_written(self, record: Record) -> bool:
        async with self.writing(record):
            if record.closing or not record.members:
                return True
            try:
                if not record.exists:
                    await self.writer.create(record)
                await self.writer.write(record)
            except Refused as refused:
                log.error("record %s could not be written, trying again: %s", record, refused)
                return False
            return True

    # -- release -------------------------------------------------------------------------------------------------

    def release_soon(self, record: Record) -> None:
        if self.recovered and record not in self._releasing and not record.closing:
            self._releasing.add(record)
            self.spawn(self._release(record), f"release {record}")

    async def _release(self, record: Record) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        async with self.writing(record):
            self._releasing.discard(record)
            gone = [member for member in record.members.values() if member.gone]
            if record.closing or not gone:
                return
            if len(gone) == len(record.members) and not record.planned:
                await self.discard(record)
                return
            if record.phase == COMMITTED and not record.satisfied:
                # Lost members' places are kept for replacements until the roll-back, and a member that was bound
                # and has ended since counts as bound.
                return
            kept = self.listener.members_gone(record, gone)
            record.members = {uid: member for uid, member in record.members.items() if not member.gone}
            stay = [
                places.keep(self, record, member, kept[member.uid]) for member in gone if member.uid in kept
            ]
            some_are = await self._say_who_is_left(record)
            self.forget(member.uid for member in gone)
            if not some_are:
                return
            for place in stay:
                self.state.reserve(place.key, place.holding, place.pod)
            self.listener.record_shrunk(record)

    async def _say_who_is_left(self, record: Record) -> bool:
        """Whether anybody is by then; else the object is gone, too.

        An object that lists who is gone is written before anything is free. Where none stands, or an empty one that
        was made in the same write, nobody is listed: for those that are left it is written by and by."""
        pauses = Pauses()
        while True:
            try:
                await self.writer.write(record)
                return True
            except Refused as refused:
                log.error("record %s could not be written: %s", record, refused)
                if not (record.exists and record.lists):
                    self.spawn(self.write_anew(record), f"write {record} anew", can_wait=True)
                    return True
                if not record.planned and all(member.gone for member in record.members.values()):
                    await self.discard(record)
                    return False
            await pauses.rest()

    async def discard(self, record: Record) -> None:
        """Nothing of the gang is left: the object goes, then the books."""
        record.closing = True
        if self.records.get(record.key) is record:
            del self.records[record.key]
        if record.exists:
            await self.writer.delete(record)
        # A second creation may still come to stand there, with these places in it.
        await asyncio.sleep(may_land(record))
        self.forget([*record.members, *record.places])
        record.members, record.places = {}, {}
        self.listener.record_closed(record)

    # -- roll back -----------------------------------------------------------------------------------------------

    async def judge_again(self, record: Record, min_member: int) -> None:
        """The group needs fewer members than it did: it may be whole as it is."""
        if record in self._judging:
            return
        self._judging.add(record)
        try:
            async with self.writing(record):
                if record.short_since is None or record.closing:
                    return
                before, record.min_member = record.min_member, min_member
                try:
                    await self._conclude(record, [])
                    return
                except Refused as refused:
                    record.min_member = before
                    log.error("record %s: that fewer members do cannot be written: %s", record, refused)
            await asyncio.sleep(JUDGE_PAUSE)
        finally:
            self._judging.discard(record)

    async def roll_back(self, record: Record, why: str, *, whole: bool = False) -> None:
        """The gang cannot become whole, or (`whole`) is to start anew: free the kept places and evict the members that
        were bound."""
        async with self.writing(record):
            if record.satisfied is not whole or record.closing or record.phase == ROLLING_BACK:
                return
            vacant = [member for member in record.members.values() if member.gone or not member.bound]
            for member in vacant:
                del record.members[member.uid]
            places, record.places = record.places, {}
            if not record.members:
                await self.discard(record)
                self.forget([*(member.uid for member in vacant), *places])
                self.listener.record_rolled_back(record, why)
                return
            record.phase, record.short_since = ROLLING_BACK, None
            lone = [member.name for member in record.members.values() if not self._would_come_back(member)]
            record.set_condition(rolled_back(why, lone), now=self.clock.stamp())
            await self._say_who_is_left(record)
            self.forget([*(member.uid for member in vacant), *places])
            self.listener.record_rolled_back(record, why)
        await self.lease.confirm()
        self.resume_roll_back(record)

    def resume_roll_back(self, record: Record) -> None:
        for member in list(record.members.values()):
            if self._would_come_back(member):
                name = f"evict {record.owner.namespace}/{member.name}"
                self.spawn(evict(self.client, record, member), name, can_wait=True)  # for its budget

    def _would_come_back(self, member: Member) -> bool:
        """Never evict a pod that nothing would make anew."""
        pod = self.state.pods.get(member.uid)
        return pod is not None and pod.controlled

    # -- take-over by recovery and repair ------------------------------------------------------------------------

    def resumed(self) -> None:
        """All pods are known: from now on what is gone is released."""
        self.recovered = True
        for record in list(self.records.values()):
            if any(member.gone for member in record.members.values()):
                self.release_soon(record)
        cards.observe_all(self)

    def load(self, record: Record) -> None:
        """Take a record that stands in the apiserver into the books."""
        self.records[record.key] = record
        for member in record.members.values():
            self._record_of[member.uid] = record
            self.state.hold(member.uid, member.holding)
        for place in record.places.values():
            self.state.reserve(place.key, place.holding, place.pod)

    def forget(self, uids: Iterable[str]) -> None:
        """These pods and places are in no record any more: their slices are free."""
        for uid in list(uids):
            record, holding = self._record_of.pop(uid, None), self.state.holdings.get(uid)
            self.state.release(uid)
            if holding is not None and holding.node in self.troubled:
                cards.released(self, holding.node, record)


def _is_unsaid(record: Record) -> bool:
    """All its members are bound, and the object does not say so yet."""
    return record.phase == BOUND and record.said != BOUND and not record.closing
