"""Before a pod is bound its claims must be: what kube-scheduler does between its decision and its Binding.

A claim that waits for its first consumer is told where that is. Where a volume is there for it, the volume is made to
name the claim, and the controller binds the two; where one has to be made, the claim is made to name the node, and its
provisioner makes one. Then the pod waits until all its claims are bound.

Nothing of this is written into the record: a volume that names the claim, and a claim that names the node, say it
themselves, and what was not written yet is chosen anew by the books, from the same pods on the same nodes. So it can be
begun again at any point, by us or by a successor. Nothing is undone either: a volume that is bound stays bound, and the
next plan goes where it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from alnair.kube import Client, Refused, Unanswered
from alnair.kube.clock import Clock
from alnair.ledger.binding import as_it_is, judge
from alnair.ledger.lease import Lease
from alnair.ledger.records import Member
from alnair.ledger.together import together
from alnair.ledger.writer import Pauses
from alnair.state.cluster import ClusterState
from alnair.state.shapes import ClaimUse
from alnair.state.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, Claim, Volume

log = logging.getLogger(__name__)

LIMIT_SECONDS = 600.0  # as long as kube-scheduler waits
LOOK_SECONDS = 1.0  # at the pod and the clock; news of claims and volumes wake us at once
REFUSALS = 5
SHORT = "other members of its gang cannot get their volumes"


class Unready(Exception):
    """The pod cannot get its volumes on that node. The message says why."""


@dataclass(frozen=True, slots=True)
class Write:
    """A patch of one object, and the version that it was looked at in."""

    path: str
    version: str
    body: dict[str, Any]


@dataclass(slots=True)
class Round:
    """One try to get the volumes of several pods. More than `spare` failures, and the others need not go on."""

    spare: int
    failed: int = 0
    seen: dict[str, str] = field(default_factory=dict)  # path -> version that is known to be out of date
    written: set[str] = field(default_factory=set)  # paths


class VolumeBinder:
    """`changed` is to be called after every change of the books of storage."""

    def __init__(self, client: Client, state: ClusterState, lease: Lease, clock: Clock) -> None:
        self._client = client
        self._state = state
        self._lease = lease
        self._clock = clock
        self._news = asyncio.Event()

    def changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def prepare(self, namespace: str, members: Sequence[Member], *, spare: int) -> dict[str, str]:
        """Until every member's claims are bound, or cannot be: UID -> why not. At once where there are no claims.

        Where more than `spare` fail all do: a gang is not begun that cannot be whole.
        """
        wanting = [member for member in members if self._claims_of(member) != ()]
        if not wanting:
            return {}
        round_ = Round(spare)
        reasons = await together(self._prepare(namespace, member, round_) for member in wanting)
        unready = {member.uid: why for member, why in zip(wanting, reasons, strict=True) if why}
        if round_.failed > round_.spare:
            unready = {member.uid: unready.get(member.uid, SHORT) for member in members}
        return unready

    def _claims_of(self, member: Member) -> tuple[ClaimUse, ...] | None:
        """None where the books do not know the pod: a list may have lacked it, so its claims are anybody's guess."""
        pod = self._state.pods.get(member.uid)
        if pod is None:
            return None
        if pod.node or pod.terminating or pod.terminal:
            return ()  # whoever binds it finds out
        return pod.shape.claims

    async def _prepare(self, namespace: str, member: Member, round_: Round) -> str:
        end = self._clock.now() + LIMIT_SECONDS
        try:
            while True:
                claims = self._claims_of(member)
                writes: list[Write] = []
                if claims is None:
                    if await self._needs_no_volumes(namespace, member):
                        return ""
                    lacking = f"pod {member.name} was not seen again"
                else:
                    waiting, writes = self._look(claims, member.holding.node, round_)
                    if not waiting:
                        return ""
                    lacking = f"claim {waiting[0]} was not bound"
                for write in writes:
                    await self._write(write, round_)
                if self._clock.now() >= end:
                    raise Unready(f"{lacking} within {LIMIT_SECONDS:g} s")
                if round_.failed > round_.spare:
                    return SHORT
                if not writes:
                    await self._hear()
        except Unready as unready:
            log.warning("pod %s on node %s: %s", member.name, member.holding.node, unready)
            round_.failed += 1
            self.changed()
            return str(unready)

    async def _needs_no_volumes(self, namespace: str, member: Member) -> bool:
        """The apiserver says of a pod that the books lack that it is gone or bound: whoever binds it finds that out."""
        pod = await as_it_is(self._client, namespace, member)
        return pod is not None and (not pod or judge(pod, member) is not None)

    async def _hear(self) -> None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass  # a pod that is gone sends no news of its claims

    # -- what is to be done --------------------------------------------------------------------------------------

    def _look(self, uses: Iterable[ClaimUse], node: str, round_: Round) -> tuple[list[ClaimUse], list[Write]]:
        """The claims that are not bound yet, and what can be written for them now."""
        waiting: list[ClaimUse] = []
        writes: list[Write] = []
        for use in uses:
            claim = self._state.volumes.claims.get(use.key)
            if claim is None:
                raise Unready(f"claim {use} does not exist")
            if claim.lost or claim.deleted:
                raise Unready(f"claim {use} is {'lost' if claim.lost else 'being deleted'}")
            if claim.volume and not self._is_reached(claim, node):
                raise Unready(f"volume {claim.volume} of claim {use} is out of reach of node {node}")
            if not claim.bound:
                waiting.append(use)
                if not claim.volume and (write := self._next_write(claim, node, round_)) is not None:
                    writes.append(write)
        return waiting, writes

    def _is_reached(self, claim: Claim, node: str) -> bool:
        """A volume that is not known yet may come; one that is must be where the pod goes."""
        volume, row = self._state.volumes.volumes.get(claim.volume), self._row(node)
        return volume is None or bool(self._state.volumes.reached(volume)[row])

    def _row(self, node: str) -> int:
        row = self._state.row(node)
        if row is None:
            raise Unready(f"node {node} does not exist any more")
        return row

    def _next_write(self, claim: Claim, node: str, round_: Round) -> Write | None:
        volumes = self._state.volumes
        if not volumes.waits(claim):
            raise Unready(f"claim {claim} is not bound, and its class does not wait for pods")
        if claim.selected_node is not None:
            if claim.selected_node != node:
                raise Unready(
                    f"the volume of claim {claim} is made for node {claim.selected_node}, not {node}"
                )
            return None
        promise = volumes.promised(claim.key)
        kept = volumes.kept_for(claim)
        if kept is not None and volumes.reach.of_terms(kept.terms)[self._row(node)]:
            if kept.claim_uid == claim.uid:
                return None  # the controller's turn
            return self._once(bind_volume(kept, claim), round_, f"volume {kept.key} was taken back")
        if promise is not None and promise.volume:
            raise Unready(f"volume {promise.volume}, which claim {claim} was to get, is gone or taken")
        if not volumes.classes[claim.storage_class].provisions:
            raise Unready(f"there is no available volume for claim {claim} on node {node}")
        return self._once(select_node(claim, node), round_, f"no volume could be made for claim {claim}")

    @staticmethod
    def _once(write: Write, round_: Round, undone: str) -> Write | None:
        """Not before our own last write is seen; and if it is seen to be undone, not again."""
        if round_.seen.get(write.path) == write.version:
            return None
        if write.path in round_.written:
            raise Unready(undone)
        return write

    # -- writing -------------------------------------------------------------------------------------------------

    async def _write(self, write: Write, round_: Round) -> None:
        """A conflict says only that there is news: it is looked at when the stream brings it."""
        pauses, refusals = Pauses(), 0
        while True:
            await self._lease.confirm()
            try:
                await self._client.patch(write.path, write.body)
                round_.written.add(write.path)
                break
            except Refused as refused:
                if refused.status == 409:
                    break
                refusals += 1
                if refusals >= REFUSALS or refused.status == 404:
                    raise Unready(str(refused)) from refused
                await pauses.rest()
            except Unanswered as error:
                log.warning("%s; trying again", error)
                await pauses.rest(error)
        round_.seen[write.path] = write.version


def bind_volume(volume: Volume, claim: Claim) -> Write:
    """Make the volume name the claim, as the controller would."""
    namespace, _, name = claim.key.partition("/")
    metadata: dict[str, Any] = {"resourceVersion": volume.version}
    if not volume.is_for(claim):
        metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": name,
        "uid": claim.uid,
        "resourceVersion": claim.version,
    }
    body = {"metadata": metadata, "spec": {"claimRef": reference}}
    return Write(f"/api/v1/persistentvolumes/{volume.key}", volume.version, body)


def select_node(claim: Claim, node: str) -> Write:
    """Tell the claim's provisioner where the volume is needed."""
    namespace, _, name = claim.key.partition("/")
    body = {"metadata": {"resourceVersion": claim.version, "annotations": {SELECTED_NODE: node}}}
    return Write(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}", claim.version, body)
