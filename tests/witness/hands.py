"""Hands on a real control plane, whatever the apiserver is doing: objects and nodes come, change and go.

An object that is gone already, or there already, is no error: controllers, kwok and the operator have hands, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp

from alnair.api import names
from harness.api import Api, Refused, at, place_of
from witness.stations import Station, node_manifest, topology_manifest
from witness.words import Object

T = TypeVar("T")

TRIES = 200
PAUSE_SECONDS = 0.3


class Hands:
    def __init__(self, api: Api) -> None:
        self._api = api

    # -- nodes

    async def befall(self, before: Station | None, after: Station) -> None:
        path = at("nodes", None, after.name)
        topology, there = topology_manifest(after), at("noderesourcetopologies", None, after.name)
        if topology is not None:
            await self._publish(topology, there)
        elif before is not None and topology_manifest(before) is not None:
            await self.delete(there)
        if after.absent:
            await self.delete(path)
        elif before is None or before.absent:
            await self.create(node_manifest(after), "", again=True)
        else:
            await self._tell(node_manifest(before), node_manifest(after), path)
            if before.ready != after.ready:
                await self._ready(path, after.ready)

    async def _publish(self, topology: Object, path: str) -> None:
        """Whoever else may have one there."""
        for _ in range(TRIES):
            if await self.create(topology, ""):
                return
            found = await self.persist(lambda: self._api.find(path))
            if found is not None:
                version = {"resourceVersion": found["metadata"]["resourceVersion"]}
                ours = {**topology, "metadata": {**topology["metadata"], **version}}
                if await self.call("PUT", path, ours) is not None:
                    return
        raise TimeoutError(f"{path} could not be published")

    async def _tell(self, old: Object, new: Object, path: str) -> None:
        changed = {
            key: {**dict.fromkeys(old["metadata"][key]), **new["metadata"][key]}
            for key in ("labels", "annotations")
        }
        body = {
            "metadata": changed,
            "spec": {"unschedulable": new["spec"].get("unschedulable")},
        }
        await self.call("PATCH", path, body)
        cards = new["status"]["allocatable"].get(names.NVIDIA_GPU)
        if cards != old["status"]["allocatable"].get(names.NVIDIA_GPU):
            there = {"capacity": {names.NVIDIA_GPU: cards}, "allocatable": {names.NVIDIA_GPU: cards}}
            await self.call("PATCH", f"{path}/status", {"status": there})

    async def _ready(self, path: str, ready: bool) -> None:
        node = await self.persist(lambda: self._api.find(path))
        conditions = ((node or {}).get("status") or {}).get("conditions") or []
        for condition in conditions:
            if condition["type"] == "Ready":
                condition["status"] = "True" if ready else "False"
        await self.call("PATCH", f"{path}/status", {"status": {"conditions": conditions}})

    # -- calls

    async def create(self, manifest: Object, namespace: str, *, again: bool = False) -> bool:
        """False if one is there; `again`: a namesake that is still going away is waited for."""
        path = place_of(manifest, namespace)
        for _ in range(TRIES):
            if await self.call("POST", path, manifest) is not None:
                return True
            if not again:
                return False
            await asyncio.sleep(0.05)
        return False

    async def delete(self, path: str, *, grace: int | None = None) -> None:
        await self.persist(lambda: self._api.delete(path, grace=grace))

    async def call(self, verb: str, path: str, body: Object, *, params: dict[str, str] | None = None) -> Any:
        """None if the object is gone, there already, or was changed by somebody else."""
        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        try:
            return await self.persist(lambda: self._api.call(verb, path, body, params=params, content=kind))
        except Refused as refused:
            if refused.status in (404, 409):
                return None
            raise

    async def persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Until the apiserver answers, for it may be away for a while."""
        for _ in range(TRIES):
            try:
                return await call()
            except Refused as refused:
                if refused.status < 500 and refused.status not in (401, 403, 429):
                    raise
                problem: Exception = refused
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                problem = error
            await asyncio.sleep(PAUSE_SECONDS)
        raise problem
