"""What the streams of pods and nodes say of a record's members, and when that is the end of one.

A member is gone only when nothing of it can run any more: an end that the kubelet reports, a deletion that was never
bound, or the object's disappearance while the kubelet is within reach. A deletion timestamp alone is none of these.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alnair.ledger import places
from alnair.ledger.binding import is_gone
from alnair.ledger.records import Member, Record
from alnair.state.pods import Pod

if TYPE_CHECKING:
    from alnair.ledger.ledger import Ledger

LOOK_PAUSE = 5.0  # between looks for a pod of which nobody can say whether it is there


class Sightings:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # Node that is not ready -> UIDs of pods that were deleted there by force.
        self._parked: dict[str, set[str]] = {}

    def pod(self, pod: Pod) -> None:
        """The pod stream shows a pod; the books have it already."""
        record = self._ledger.record_of(pod.uid)
        member = record.members.get(pod.uid) if record is not None else None
        if record is None or member is None:
            return
        member.uncertain = False
        if pod.terminal or pod.terminating:
            places.note_leaving(member, pod)
        if pod.node and pod.node == member.holding.node:
            member.bound = True
        elsewhere = bool(pod.node) and pod.node != member.holding.node
        never_to_be_bound = pod.terminating and not pod.node
        if pod.terminal or elsewhere or never_to_be_bound:
            self._is_gone(record, member)

    def pod_deleted(self, uid: str) -> None:
        """The apiserver says that the pod is gone for good."""
        record = self._ledger.record_of(uid)
        member = record.members.get(uid) if record is not None else None
        if record is None or member is None:
            return
        member.uncertain = False
        if (pod := self._ledger.state.pods.get(uid)) is not None:
            places.note_leaving(member, pod)
        if member.bound and self.out_of_reach(member):
            self.park(member)
            self._ledger.listener.record_free(record)  # a plan may have waited for this word
            return
        self._is_gone(record, member)

    def pod_missing(self, uid: str) -> None:
        """A new list lacks a pod that we knew. A list may be stale: ask before anything is released."""
        if self._ledger.record_of(uid) is not None:
            self._ledger.spawn(self._look_for(uid), f"look for pod {uid}")

    def node(self, name: str) -> None:
        """The node is back, or gone for good: what was deleted there by force is released now."""
        node = self._ledger.state.nodes.get(name)
        if name in self._parked and (node is None or node.ready):
            for uid in self._parked.pop(name):
                self.pod_deleted(uid)

    def out_of_reach(self, member: Member) -> bool:
        """A pod deleted by force while its kubelet is out of reach may still be running on the card."""
        node = self._ledger.state.nodes.get(member.holding.node)
        return node is not None and not node.ready

    def park(self, member: Member) -> None:
        """Its slice stays held until its node is back, or gone for good."""
        self._parked.setdefault(member.holding.node, set()).add(member.uid)

    def _is_gone(self, record: Record, member: Member) -> None:
        """Its slice is to be released. Whether a lost member's place is kept is decided when the record is written.
        Until then nobody else is given any of it: not its cards, which the books hold anyway, and not the rest of its
        room."""
        member.gone = True
        if record.satisfied and member.bound and member.returns:
            self._ledger.state.reserve(member.uid, member.holding, member.pod)
        self._ledger.release_soon(record)

    async def _look_for(self, uid: str) -> None:
        ledger = self._ledger
        while (record := ledger.record_of(uid)) is not None and uid not in ledger.state.pods:
            member = record.members.get(uid) or record.planned.get(uid)
            if member is None or await is_gone(ledger.client, record.owner.namespace, member):
                self.pod_deleted(uid)
                return
            await asyncio.sleep(LOOK_PAUSE)
