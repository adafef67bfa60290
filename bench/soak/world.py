"""The cluster that is soaked: the operator as a process, and the hands that let crowds come and go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from alnair.sandbox import installation
from alnair.sandbox.processes import Child
from bench import manifests
from bench.api import Api, Refused
from bench.cluster import Cluster
from bench.soak.population import Crowd, Population
from bench.throughput import READY_SECONDS
from bench.watcher import BindWatcher

GROUPS = manifests.GROUPS["alnair"]
AT_ONCE = 24
STALL_SECONDS = 120.0
STARTING_SECONDS = 2.0


class World:
    """`created` and `watcher.at` are by pod, on time.monotonic()."""

    def __init__(self, cluster: Cluster, api: Api, watcher: BindWatcher, *, seed: int) -> None:
        self.cluster = cluster
        self.api = api
        self.watcher = watcher
        self.population = Population(seed)
        self.created: dict[str, float] = {}
        self._starts = 0
        self._operator: Child | None = None
        self._gate = asyncio.Semaphore(AT_ONCE)

    # -- the operator --------------------------------------------------------------------------------------------

    @property
    def operator(self) -> Child:
        assert self._operator is not None, "the operator was never started"
        return self._operator

    def start(self, *flags: str) -> None:
        """Each start has a log of its own: what an earlier one said counts no more."""
        self._starts += 1
        log = self.cluster.control_plane.logs / f"operator-{self._starts}.log"
        self._operator = installation.operator(self.cluster.installed, *flags, log=log)
        self._operator.start()

    async def until_ready(self) -> None:
        log = self.operator.log
        await asyncio.to_thread(
            self.operator.wait_ready, lambda: installation.says_ready(log), timeout=READY_SECONDS
        )

    def memory_mib(self) -> float:
        """What the operator's process holds of real memory now."""
        status = Path(f"/proc/{self.operator.pid}/status").read_text("ascii", "replace")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024

    # -- crowds --------------------------------------------------------------------------------------------------

    async def bring(self, crowds: Iterable[Crowd]) -> None:
        await asyncio.gather(*map(self._bring, crowds))

    async def send_away(self, crowds: Iterable[Crowd]) -> None:
        await asyncio.gather(*map(self._send_away, crowds))

    async def _bring(self, crowd: Crowd) -> None:
        if crowd.is_gang:
            await self._call("POST", GROUPS, crowd.group())
        await asyncio.gather(*map(self._create, crowd.pod_names, crowd.pods()))

    async def _create(self, name: str, pod: manifests.Manifest) -> None:
        await self._call("POST", manifests.PODS, pod)
        self.created[name] = time.monotonic()

    async def _send_away(self, crowd: Crowd) -> None:
        await asyncio.gather(*(self._delete(f"{manifests.PODS}/{name}") for name in crowd.pod_names))
        for name in crowd.pod_names:
            self.created.pop(name, None)
        if crowd.is_gang:
            await self._delete(f"{GROUPS}/{crowd.name}")

    async def _delete(self, path: str) -> None:
        try:
            await self._call("DELETE", path, {"gracePeriodSeconds": 0})
        except Refused as refused:
            if refused.status != 404:
                raise

    async def _call(self, verb: str, path: str, body: object) -> None:
        async with self._gate:
            await self.api.call(verb, path, body)

    async def all_bound(self, crowds: Sequence[Crowd]) -> None:
        """All of those that fit."""
        self.watcher.expect(name for crowd in crowds if crowd.kind.fits for name in crowd.pod_names)
        await self.watcher.done(stall_seconds=STALL_SECONDS)

    async def fill(self, pods: int) -> None:
        """Until that many pods are there, and all that fit run: kwok takes longer to say so than they took to be bound,
        and the apiserver has no time for anybody else until then."""
        new = []
        while self.population.pods < pods:
            new.append(self.population.comes())
        await self.bring(new)
        await self.all_bound(new)
        starting = {"fieldSelector": "spec.nodeName!=,status.phase=Pending", "limit": "1"}
        while True:
            if not (await self.api.get(manifests.PODS, **starting))["items"]:
                return
            await asyncio.sleep(STARTING_SECONDS)

    def waiting(self) -> list[float]:
        """For how long each pod that fits and is not bound has been waiting, in seconds."""
        now = time.monotonic()
        return [
            now - self.created[name]
            for crowd in self.population.there
            if crowd.kind.fits
            for name in crowd.pod_names
            if name in self.created and name not in self.watcher.at
        ]
