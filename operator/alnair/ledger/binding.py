"""Binding one pod, and judging what became of it.

The Binding names the pod's UID and version, so that a recreated namesake and a stale decision are both refused by the
apiserver, and it carries the annotations, so that they appear in the same write as nodeName. The answer alone decides
nothing when it is a conflict or missing: the pod is read back and judged by what it says, and it is bound again only
after a look at the lease made later than that reading. A successor that re-plans a pod changes it first (`fence`), so
whatever we read before is refused, and whatever we read after finds the lease gone.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from alnair.api import names
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.client import STRATEGIC_PATCH
from alnair.ledger.delivery import Delivery, Undeliverable, delivery_of
from alnair.ledger.lease import Lease
from alnair.ledger.records import Member
from alnair.ledger.writer import Pauses
from alnair.state.holding import containers_to_json

log = logging.getLogger(__name__)

REFUSALS = 5  # an admission that says no this often means it


class Verdict(enum.Enum):
    BOUND = "bound where it was planned"
    GONE = "deleted, going away, finished or another pod of that name"
    ELSEWHERE = "bound to another node by somebody else"
    REFUSED = "the apiserver refuses the Binding for good"
    CHANGED = "there and unbound, and another than it was planned for"
    UNREADY = "its volumes cannot be had on that node, or a rule says no before the Binding"


def binding(member: Member, *, version: str, delivered: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The Binding itself. All keys are always written: what the pod's author put there must not survive."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": member.name,
            "uid": member.uid,
            "resourceVersion": version,
            "annotations": {
                names.NODE: member.holding.node,
                names.GPU_ID: ",".join(member.holding.cards),
                names.GPU_SLICES: orjson.dumps(containers_to_json(member.holding.containers)).decode(),
                **(delivered or {}),
            },
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": member.holding.node},
    }


class Binder:
    """Binds pods one at a time; callers run many at once."""

    def __init__(
        self, client: Client, lease: Lease, *, choose: Callable[[Member], Delivery] = delivery_of
    ) -> None:
        self._client = client
        self._lease = lease
        self._choose = choose

    async def bind(self, namespace: str, member: Member, *, as_planned: bool = False) -> Verdict:
        """Until it is known what became of the pod, with the steps of its delivery around it. `as_planned`: only at the
        version that the plan saw."""
        delivery = self._choose(member)
        try:
            await delivery.prepare(namespace, member)
        except Undeliverable as error:
            log.error("pod %s/%s: %s", namespace, member.name, error)
            return Verdict.REFUSED
        verdict = await self._bind(namespace, member, delivery.annotations(member), as_planned=as_planned)
        await (delivery.confirm if verdict is Verdict.BOUND else delivery.undo)(namespace, member)
        return verdict

    async def _bind(
        self, namespace: str, member: Member, delivered: Mapping[str, str], *, as_planned: bool
    ) -> Verdict:
        """The first try names the version that the plan saw."""
        path = f"/api/v1/namespaces/{namespace}/pods/{member.name}"
        version, refusals, pauses = member.version, 0, Pauses()
        while True:
            try:
                if not version:
                    pod = await self._client.get(path)
                    if (verdict := judge(pod, member)) is not None:
                        return verdict
                    version = pod["metadata"]["resourceVersion"]
                    if as_planned and version != member.version:
                        return Verdict.CHANGED
                    await self._lease.confirm()
                body = binding(member, version=version, delivered=delivered)
                await self._client.call("POST", f"{path}/binding", body=body)
                return Verdict.BOUND
            except Refused as refused:
                if refused.status == 404:
                    return Verdict.GONE
                if refused.status != 409:
                    refusals += 1
                    if refusals >= REFUSALS:
                        log.error("pod %s/%s: %s", namespace, member.name, refused)
                        return Verdict.REFUSED
                if not version or refused.status != 409:
                    await pauses.rest()
            except Unanswered as error:
                log.warning("pod %s/%s: %s; looking what became of it", namespace, member.name, error)
                await pauses.rest(error)
            version = ""  # look before the next try

    async def fence(
        self, namespace: str, member: Member, why: str, *, patience: float, version: str = ""
    ) -> Verdict | None:
        """Change the unbound pod, so that every Binding still under way meets another version and is refused.

        Returns what became of the pod if it is not simply unbound; only on None may its slices be given away. A pod
        that cannot be changed, for somebody's policy says no or somebody's webhook hangs, is waited for until
        `patience` (monotonic; callers allow for as long as a Binding can be under way), and then until a look sees it
        unbound: nothing older can land after that. `version`: one at which it was seen unbound, which saves a look.
        """
        path = f"/api/v1/namespaces/{namespace}/pods/{member.name}"
        pauses, tries = Pauses(), 1
        while True:
            trouble: Refused | Unanswered | None = None
            unbound_at_last = False
            try:
                if not version:
                    at_last = time.monotonic() > patience
                    pod = await self._client.get(path)
                    if (verdict := judge(pod, member)) is not None:
                        return verdict
                    version, unbound_at_last = pod["metadata"]["resourceVersion"], at_last
                # A status that says the same already would not be changed: each try says it in other words.
                said = why if tries == 1 else f"{why} (try {tries})"
                body = _no_longer_planned(member, version, said)
                after = await self._client.patch(f"{path}/status", body, kind=STRATEGIC_PATCH)
                if after["metadata"]["resourceVersion"] != version:
                    return None
            except Refused as refused:
                if refused.status == 404:
                    return Verdict.GONE
                trouble = refused
            except Unanswered as error:
                trouble = error
            if unbound_at_last:
                log.error("pod %s/%s: %s; it cannot be changed: %s", namespace, member.name, why, trouble)
                return None
            await pauses.rest(trouble)
            version, tries = "", tries + 1


def _no_longer_planned(member: Member, version: str, why: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Replanned", "message": why}
    return {
        "metadata": {"uid": member.uid, "resourceVersion": version},
        "status": {"conditions": [condition]},
    }


async def as_it_is(client: Client, namespace: str, member: Member) -> dict[str, Any] | None:
    """The member's pod now, for whoever has lost sight of it: empty if there is none, None if nobody says."""
    try:
        return await client.get(f"/api/v1/namespaces/{namespace}/pods/{member.name}")
    except Refused as refused:
        return {} if refused.status == 404 else None
    except Unanswered:
        return None


async def is_gone(client: Client, namespace: str, member: Member) -> bool:
    """Whether the apiserver says so: there is none of its name, or another."""
    pod = await as_it_is(client, namespace, member)
    return pod is not None and (not pod or pod["metadata"]["uid"] != member.uid)


def judge(pod: dict[str, Any], member: Member) -> Verdict | None:
    """What a pod read back says of the member; None = it is there and unbound."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    if meta["uid"] != member.uid:
        return Verdict.GONE
    node = spec.get("nodeName")
    if node:
        return Verdict.BOUND if node == member.holding.node else Verdict.ELSEWHERE
    if meta.get("deletionTimestamp") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return Verdict.GONE
    return None
