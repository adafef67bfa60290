"""Every revision of etcd, in order, as etcd itself tells them: its JSON gateway on the sandbox's socket.

Nothing is left out: revisions are counted, and a gap is an error of the run, not a silence. The apiserver must store
JSON and never compact (see `plane`). The clock of a history is what the Leases in it tell, so that it needs no clock of
ours; a time in which no Lease could be written, because the apiserver was away, is none in which anybody could learn
anything, and counts as LONGEST_STEP.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import aiohttp
import orjson

from witness.words import (
    DEPLOYMENTS,
    GROUPS,
    LEASES,
    NODES,
    PODS,
    RECORDS,
    STATEFUL_SETS,
    TOPOLOGIES,
    Change,
    Object,
)

PREFIXES = {
    b"/registry/pods/": PODS,
    b"/registry/minions/": NODES,
    b"/registry/ai.centaurus.io/gpuallocations/": RECORDS,
    b"/registry/topology.node.k8s.io/noderesourcetopologies/": TOPOLOGIES,
    b"/registry/scheduling.x-k8s.io/podgroups/": GROUPS,
    b"/registry/statefulsets/": STATEFUL_SETS,
    b"/registry/deployments/": DEPLOYMENTS,
    b"/registry/leases/": LEASES,
}
EVERY_KEY = base64.b64encode(b"\0").decode()
RECONNECT_SECONDS = 0.2
LONGEST_STEP = 2.0
"""Seconds between two Leases: sixty nodes and the operator renew theirs, two in a second or more."""


class Gap(Exception):
    """etcd told of a revision without telling of the one before: what was checked is not the whole history."""


class History:
    """Iterate `changes()`; `revision` is the last one that was told, whatever it was about."""

    def __init__(self, socket: Path) -> None:
        self.revision = 0
        self.first = 0
        self._at = 0.0
        self._told = 0.0
        self._http = aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket)))

    async def close(self) -> None:
        await self._http.close()

    @property
    def count(self) -> int:
        return self.revision - self.first + 1 if self.first else 0

    async def current(self) -> int:
        """The revision that etcd is at."""
        body = {"key": EVERY_KEY, "limit": 1, "keys_only": True}
        async with self._http.post("http://localhost/v3/kv/range", json=body) as answer:
            return int((await answer.json(content_type=None))["header"]["revision"])

    async def changes(self) -> AsyncIterator[Change]:
        """From the first revision on, without end."""
        while True:
            try:
                async for change in self._watch():
                    yield change
            except (aiohttp.ClientError, ConnectionError):
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _watch(self) -> AsyncIterator[Change]:
        wanted = {"key": EVERY_KEY, "range_end": EVERY_KEY, "start_revision": str(self.revision + 1)}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._http.post(
            "http://localhost/v3/watch", json={"create_request": wanted}, timeout=timeout
        ) as answer:
            rest = bytearray()
            async for chunk in answer.content.iter_any():
                rest += chunk
                if b"\n" not in chunk:
                    continue
                lines, _, left = bytes(rest).rpartition(b"\n")
                rest = bytearray(left)
                for line in lines.split(b"\n"):
                    for change in self._read(orjson.loads(line)["result"]):
                        yield change

    def _read(self, result: Object) -> list[Change]:
        if result.get("canceled"):
            raise Gap(f"etcd ended the watch: {result.get('cancel_reason') or 'compacted'}")
        found = []
        for event in result.get("events", ()):
            entry = event["kv"]
            revision = int(entry["mod_revision"])
            if self.first and revision > self.revision + 1:
                raise Gap(f"revision {revision} came after {self.revision}")
            self.first = self.first or revision
            self.revision = max(self.revision, revision)
            change = self._change(revision, base64.b64decode(entry["key"]), event)
            if change is not None:
                found.append(change)
        return found

    def _change(self, revision: int, key: bytes, event: Object) -> Change | None:
        for prefix, kind in PREFIXES.items():
            if key.startswith(prefix):
                gone = event.get("type") == "DELETE"
                manifest = None if gone else orjson.loads(base64.b64decode(event["kv"]["value"]))
                if kind == LEASES:
                    self._hear(told_time(manifest))
                return Change(revision, self._at, kind, key.removeprefix(prefix).decode(), manifest)
        return None

    def _hear(self, told: float) -> None:
        if told > self._told:
            self._at += min(told - self._told, LONGEST_STEP)
            self._told = told


def told_time(lease: Object | None) -> float:
    """When it was renewed, by the word of whoever did it; 0 if it says nothing."""
    text = ((lease or {}).get("spec") or {}).get("renewTime")
    return datetime.fromisoformat(text).timestamp() if text else 0.0
