"""The relist that Kopf does not do.

After a gap Kopf lists again without telling what is gone. So its kinds are listed here, once before the loop
starts and then every minute, and what the list lacks is treated as deleted - but only what was known before the list
was asked for, so that news never loses against an older list.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from typing import Any

from alnair.api import names
from alnair.control.gangs import Roster
from alnair.control.horovod.reconciler import Reconciler
from alnair.handlers import horovod, memory, podgroup, topology
from alnair.handlers.topology import Topologies
from alnair.kube import Client, Refused, Unanswered
from alnair.ledger import repair
from alnair.ledger.ledger import Ledger
from alnair.ledger.writer import Pauses

log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0
COLLECT_EVERY = 60  # of these


class Resync:
    def __init__(
        self,
        client: Client,
        *,
        roster: Roster,
        topologies: Topologies,
        ledger: Ledger,
        reconciler: Reconciler | None = None,
    ) -> None:
        self._client = client
        self._roster = roster
        self._topologies = topologies
        self._ledger = ledger
        self._reconciler = reconciler

    async def run(self, calm: asyncio.Event) -> None:
        """`calm`: from then on there is time."""
        await calm.wait()
        due = self.records  # the rest was listed by `until_done`
        for turn in itertools.count(1):
            try:
                await due()
                due = self.once
            except (Refused, Unanswered) as error:
                log.warning("resync: %s; next try in %.0f s", error, PERIOD_SECONDS)
            if turn % COLLECT_EVERY == 0:
                async with self._ledger.lull.errand():
                    memory.collect()
            await asyncio.sleep(PERIOD_SECONDS)

    async def until_done(self) -> None:
        """The first one: the loop must not start before it has succeeded. Of the records, which were just listed, a
        second look is taken later: by what a hand did to them while nobody led, nobody is placed."""
        pauses = Pauses()
        while True:
            try:
                await self._all_but_records()
                return
            except (Refused, Unanswered) as error:
                log.warning("resync: %s; trying again", error)
                await pauses.rest(error)

    async def once(self) -> None:
        await self._all_but_records()
        await self.records()

    async def _all_but_records(self) -> None:
        await self._groups()
        await self._node_topologies()
        if self._reconciler is not None:
            await horovod.list_jobs(self._client, self._reconciler)

    async def _groups(self) -> None:
        known, present = self._roster.groups(), set[tuple[str, str]]()
        async for manifest in self._listed(f"/apis/{names.API_PODGROUP}/{names.PLURAL_PODGROUP}"):
            podgroup.apply(self._roster, None, manifest)
            present.add(_key(manifest))
        self._roster.keep_groups(present, known)

    async def _node_topologies(self) -> None:
        known, present = self._topologies.known(), set[str]()
        path = f"/apis/{names.API_NRT}/{names.PLURAL_NRT}"
        async for manifest in self._listed(path, labels=topology.UNLABELLED):
            self._topologies.apply(None, manifest)
            present.add(manifest["metadata"]["name"])
        self._topologies.keep(present, known)

    async def records(self) -> None:
        known, present = list(self._ledger.records.values()), set[tuple[str, str]]()
        async for manifest in self._listed(f"/apis/{names.API_ALLOCATION}/{names.PLURAL_ALLOCATION}"):
            repair.observe(self._ledger, None, manifest)
            present.add(_key(manifest))
        repair.observe_missing(self._ledger, present, known)

    async def _listed(self, path: str, *, labels: str = "") -> AsyncIterator[dict[str, Any]]:
        """Page by page: all at once would be tens of megabytes every minute, and what is made meanwhile and stays would
        lie scattered among them."""
        async for page in self._client.pages(path, labels=labels):
            for manifest in page:
                yield manifest


def _key(manifest: dict[str, Any]) -> tuple[str, str]:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]
