"""Publishes a NodeResourceTopology for each node with cards of which nobody else publishes one.

A node whose cards changed, or whose object somebody touched, is marked; later, in a lull and one at a time, what should
stand there is compared with what does. Nodes without cards cost nothing, and at rest nothing is written.

What must never happen:
- a write into another publisher's object. Every write names the version that was seen to be ours, and an object is ours
  only while its zones say so (`api.topology.is_ours`): whoever replaces them has it from then on;
- an object of ours taken for a source of cards: `handlers.topology` keeps them apart.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from alnair.api import names
from alnair.api.topology import is_ours
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.lull import Lull
from alnair.state.cluster import ClusterState
from alnair.state.inventory.publication import fingerprint, publication

log = logging.getLogger(__name__)

GATHER_SECONDS = 1.0  # a node and its publisher's object come one after the other
FIRST_RETRY, LONGEST_RETRY = 2.0, 300.0  # after a failure, or when somebody edits an object again and again
COLLECTION = f"/apis/{names.API_NRT}/{names.PLURAL_NRT}"


@dataclass(frozen=True, slots=True)
class _Standing:
    """An object of ours as it was last seen."""

    uid: str
    version: str
    says: bytes  # its fingerprint


class Publisher:
    """Told from anywhere; `run` writes while leading."""

    def __init__(self, client: Client, *, state: ClusterState, lull: Lull) -> None:
        self._client = client
        self._state = state
        self._lull = lull
        self._ours: dict[str, _Standing] = {}
        self._others: set[str] = set()  # nodes of which somebody else publishes
        self._marked: dict[str, None] = {}
        self._troubles: dict[str, int] = {}  # since the node's cards last changed
        self._looking_at = ""  # the object that is being read
        self._overtaken = False  # by an event of that object
        self._wake = asyncio.Event()

    # -- what happens --------------------------------------------------------------------------------------------

    def cards_changed(self, name: str) -> None:
        self._troubles.pop(name, None)
        self._mark(name)

    def observe_ours(self, name: str, manifest: dict[str, Any]) -> None:
        """An object of ours stands there, as we wrote it or edited."""
        self._hear(name)
        self._others.discard(name)
        meta, known = manifest["metadata"], self._ours.get(name)
        if known is not None and known.version == meta["resourceVersion"]:
            return
        self._seen(name, manifest)
        if self._is_due(name):
            (self._mark if known is None else self._mark_later)(name)

    def observe_others(self, name: str) -> None:
        """Somebody else's object stands there: it is theirs."""
        self._hear(name)
        self._ours.pop(name, None)
        self._others.add(name)

    def observe_gone(self, name: str) -> None:
        self._hear(name)
        if self._ours.pop(name, None) is not None or name in self._others:
            self._others.discard(name)
            self._mark(name)

    def _hear(self, name: str) -> None:
        self._overtaken = self._overtaken or name == self._looking_at

    def known(self) -> set[str]:
        """The nodes that an object stands there of, anybody's."""
        return self._others | self._ours.keys()

    def _mark(self, name: str) -> None:
        self._marked[name] = None
        self._wake.set()

    def _mark_later(self, name: str) -> None:
        """At once the first time; the more trouble there is with this object, the later."""
        troubles = self._troubles[name] = self._troubles.get(name, 0) + 1
        wait = 0.0 if troubles == 1 else min(FIRST_RETRY * 2.0 ** min(troubles, 10), LONGEST_RETRY)
        asyncio.get_running_loop().call_later(wait, self._mark, name)

    # -- writing -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            marked, self._marked = self._marked, {}
            for name in marked:
                if not self._is_due(name):
                    self._forget_if_gone(name)
                else:
                    async with self._lull.errand():
                        await self._publish_or_retry(name)

    async def _publish_or_retry(self, name: str) -> None:
        try:
            await self._publish(name)
        except (Refused, Unanswered) as error:
            log.warning("NodeResourceTopology %s: not published, trying again: %s", name, error)
            self._mark_later(name)
        except Exception:
            log.exception(
                "NodeResourceTopology %s: publishing failed", name
            )  # one node's trouble stops nobody

    def _forget_if_gone(self, name: str) -> None:
        if name not in self._state.nodes:
            self._troubles.pop(name, None)

    def _wanted(self, name: str) -> dict[str, Any] | None:
        node, inventory = self._state.nodes.get(name), self._state.inventories.get(name)
        if node is None or inventory is None or not inventory.cards:
            return None
        return publication(node, inventory)

    def _is_due(self, name: str) -> bool:
        if name in self._others:
            return False
        standing, wanted = self._ours.get(name), self._wanted(name)
        if standing is None or wanted is None:
            return standing is not None or wanted is not None
        return standing.says != fingerprint(wanted)

    async def _publish(self, name: str) -> None:
        """Make what stands there what should; looked at anew, for there was a wait."""
        if not self._is_due(name):
            return
        standing, wanted = self._ours.get(name), self._wanted(name)
        written: dict[str, Any] | None = None
        try:
            if standing is None:
                written = await self._client.create(COLLECTION, wanted)
            elif wanted is None:
                conditions = {"uid": standing.uid, "resourceVersion": standing.version}
                await self._client.delete(f"{COLLECTION}/{name}", {"preconditions": conditions})
            else:
                wanted["metadata"] |= {"uid": standing.uid, "resourceVersion": standing.version}
                written = await self._client.replace(f"{COLLECTION}/{name}", wanted)
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            await self._look(name)
            return
        if self._ours.get(name) is not standing or name in self._others:
            await self._look(name)  # an event overtook the answer: of this write, or of a hand's after it
        elif written is not None:
            self._seen(name, written)
        else:
            del self._ours[name]
            self._forget_if_gone(name)

    async def _look(self, name: str) -> None:
        """Another object may stand there than was thought, or none: its event may come late, or be what misled."""
        self._looking_at, self._overtaken = name, False
        try:
            there = await self._client.get(f"{COLLECTION}/{name}")
            if self._overtaken:
                self._mark_later(name)  # an event overtook the answer: what it says is newer
                return
        except Refused as refused:
            if refused.status != 404:
                raise
            self._ours.pop(name, None)
            self._others.discard(name)
            if self._is_due(name):
                self._mark_later(name)
            return
        if is_ours(there):
            self.observe_ours(name, there)
        else:
            self.observe_others(name)

    def _seen(self, name: str, there: dict[str, Any]) -> None:
        meta = there["metadata"]
        self._ours[name] = _Standing(meta["uid"], meta["resourceVersion"], fingerprint(there))
