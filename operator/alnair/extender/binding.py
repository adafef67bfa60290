"""The fourth verb: kube-scheduler has chosen the node; choose the cards there, write it down, bind.

A gang of one, carried out by the ledger as any other: committed before it is bound, fenced, finished by the next leader
if this one dies half-way. The record names the profile, not kube-scheduler: so it is known for ours after a restart,
even if the extender was switched off meanwhile.

What must never happen here: two plans for one pod. kube-scheduler repeats a call that took too long, so whoever comes
for a pod that is being bound waits for the same end. And nothing may wait between the look at the books and `assume`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from alnair.control.hooks import Hooks, Reservation
from alnair.extender.questions import Questions
from alnair.extender.wire import ExtenderBindingArgs
from alnair.kube import Client, Refused, Unanswered
from alnair.ledger import recovery
from alnair.ledger.binding import Verdict, as_it_is, judge
from alnair.ledger.errors import CommitRefused, RecordMoved
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import Member, Owner, Record
from alnair.state.cluster import ClusterState
from alnair.state.holding import Holding
from alnair.state.pods import Pod

BUSY = 4
MOST_UNDER_WAY, ROOM_SECONDS = 128, 1.0
SEEN_SECONDS = 5.0  # how long a pod that is there may take to come through the stream
LOOK_SECONDS = 0.01
NOT_SEEN = "Alnair has not seen the pod as it is now; ask again"
UNDER_WAY = "its Binding is still under way; ask again"


class Bindings:
    """`bind` returns what is wrong, or nothing: then the pod is bound there, and recorded."""

    def __init__(
        self,
        *,
        client: Client,
        state: ClusterState,
        ledger: Ledger,
        questions: Questions,
        hooks: Hooks,
    ) -> None:
        self._client = client
        self._state = state
        self._ledger = ledger
        self._questions = questions
        self._hooks = hooks
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._fewer = asyncio.Event()

    async def bind(self, asked: ExtenderBindingArgs) -> str:
        """Raises LeadershipLost."""
        if asked.pod_uid not in self._state.pods:
            waits, trouble = await self._look(asked)
            if not waits:
                return trouble
            await self._comes(asked.pod_uid)
        if (pod := self._state.pods.get(asked.pod_uid)) is None:
            return NOT_SEEN
        if (pod.namespace, pod.name) != (asked.pod_namespace, asked.pod_name):
            return f"UID {asked.pod_uid} is that of pod {pod}, not of {_named(asked)}"
        if self._ledger.record_of(pod.uid) is None:
            if not pod.waiting:
                waits, trouble = await self._look(asked)
                return NOT_SEEN if waits else trouble
            if why := self._questions.objection(pod):
                return why
            if not pod.shape.gpu.demands:
                return await self._bind_without_cards(asked)
            holding = self._questions.place(pod, asked.node)
            if isinstance(holding, str):
                return holding
            reservation = self._hooks.reserve(self._questions.profile_name, [(pod, holding)])
            if isinstance(reservation, str):
                return reservation
            self._start(pod, holding, reservation)
        return await self._end(asked)

    async def room(self) -> None:
        """Until not too many Bindings are under way, or for a moment. kube-scheduler decides faster than pods are
        bound, and what it has decided waits in line: longer than it waits for an answer, if the line has no end."""
        if len(self._under_way) >= MOST_UNDER_WAY:
            with suppress(TimeoutError):
                async with asyncio.timeout(ROOM_SECONDS):
                    await self._fewer.wait()

    def adopt_strays(self) -> None:
        """Bound pods with cards of ours that no record knows: their record was lost while nobody led."""
        for pod in list(self._state.pods.values()):
            if (
                self._questions.concerns(pod)
                and pod.slices
                and self._ledger.record_of(pod.uid) is None
                and recovery.adoptable(pod) is not None
            ):
                name = self._questions.profile_name
                work = recovery.adopt(self._ledger, _owner(pod), scheduler=name, min_member=1, pods=[pod])
                self._ledger.spawn(work, f"adopt {pod}", can_wait=True)

    # -- carrying it out -----------------------------------------------------------------------------------------

    async def _comes(self, uid: str) -> None:
        """Through the stream: to plan for a pod that the books do not know is to plan for one that may be gone."""
        deadline = asyncio.get_running_loop().time() + SEEN_SECONDS
        while uid not in self._state.pods and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)

    def _start(self, pod: Pod, holding: Holding, reservation: Reservation) -> None:
        record = self._ledger.assume(
            _owner(pod),
            scheduler=self._questions.profile_name,
            min_member=1,
            placements=[(pod, holding)],
        )
        work = self._carry_out(record, pod, holding, reservation)
        task = self._ledger.spawn(work, f"carry out {record}")
        self._under_way[pod.uid] = task
        self._note_how_busy()
        task.add_done_callback(lambda _: self._finished(pod.uid))

    def _finished(self, uid: str) -> None:
        self._under_way.pop(uid, None)
        self._note_how_busy()

    def _note_how_busy(self) -> None:
        """As the loop does for gangs: what can wait waits while more Bindings are under way than that."""
        self._ledger.lull.busy(len(self._under_way) > BUSY, who="extender")
        (self._fewer.set if len(self._under_way) < MOST_UNDER_WAY else self._fewer.clear)()

    async def _carry_out(self, record: Record, pod: Pod, holding: Holding, reservation: Reservation) -> None:
        try:
            await self._ledger.carry_out(record)
        finally:
            member = record.members.get(pod.uid)
            if member is None or not member.bound:
                self._hooks.unreserve(reservation, [(pod, holding)])

    async def _end(self, asked: ExtenderBindingArgs) -> str:
        """Of what is under way for this pod, whoever began it; it goes on if the caller does not."""
        record = self._ledger.record_of(asked.pod_uid)
        try:
            if (task := self._under_way.get(asked.pod_uid)) is not None:
                await asyncio.shield(task)
            elif record is not None:
                async with self._ledger.writing(record):
                    pass  # a predecessor's, which is being finished
        except CommitRefused as refused:
            return f"the record was refused: {refused}"
        except RecordMoved:
            return "its record moved meanwhile; ask again"
        record = self._ledger.record_of(asked.pod_uid)
        member = record.members.get(asked.pod_uid) if record is not None else None
        if member is not None and member.bound and member.holding.node == asked.node:
            return ""
        waits, trouble = await self._look(asked)
        if not waits:
            return trouble
        return (
            UNDER_WAY
            if record is not None
            else f"it could not be bound to {asked.node}; Alnair's log says why"
        )

    async def _bind_without_cards(self, asked: ExtenderBindingArgs) -> str:
        """A pod that asks for no GPU is kube-scheduler's alone; without `managedResources` we are sent it all the same.
        It is bound as kube-scheduler would have, and nothing is written down."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": asked.pod_name, "uid": asked.pod_uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": asked.node},
        }
        path = f"/api/v1/namespaces/{asked.pod_namespace}/pods/{asked.pod_name}/binding"
        try:
            await self._client.call("POST", path, body=body)
        except (Refused, Unanswered) as error:
            waits, trouble = await self._look(asked)
            return str(error) if waits else trouble
        return ""

    async def _look(self, asked: ExtenderBindingArgs) -> tuple[bool, str]:
        """Whether the apiserver says that the pod waits to be bound; if not, what is wrong: nothing, if it is bound
        where it was to be."""
        wanted = Member(asked.pod_uid, asked.pod_name, Holding(asked.node))
        pod = await as_it_is(self._client, asked.pod_namespace, wanted)
        if pod is None:
            return False, f"the apiserver does not say what became of pod {_named(asked)}; ask again"
        if not pod:
            return False, f"pod {_named(asked)} does not exist"
        match judge(pod, wanted):
            case None:
                return True, ""
            case Verdict.BOUND:
                return False, ""
            case Verdict.ELSEWHERE:
                return False, f"it is bound to node {pod['spec']['nodeName']}, not to {asked.node}"
            case _ if pod["metadata"]["uid"] != asked.pod_uid:
                there = pod["metadata"]["uid"]
                return False, f"pod {_named(asked)} is another one by now, with UID {there}"
            case _:
                return False, f"pod {_named(asked)} has ended or is going away"


def _owner(pod: Pod) -> Owner:
    return Owner("Pod", pod.namespace, pod.name, pod.uid)


def _named(asked: ExtenderBindingArgs) -> str:
    return f"{asked.pod_namespace}/{asked.pod_name}"
