"""Two replicas of one release: who leads, what befalls the leader, and that there are two again afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Final, Literal

from harness.api import Api, at
from harness.operator import Operator, Release

Fault = Literal["kill", "pause", "end"]
"""`end`: a clean one (SIGTERM)."""

FLAGS: Final = ("--lease-duration=5",)
PATIENCE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05


class Replicas:
    def __init__(self, api: Api, release: Release, folder: Path) -> None:
        self._api = api
        self._release = release
        self._folder = folder
        self._replicas: list[Operator] = []
        self._starting: set[asyncio.Task[None]] = set()
        self.paused: Operator | None = None

    async def start(self) -> None:
        """The first leads when this returns, the second stands by, or is about to."""
        for name in ("one", "other"):
            self._replicas.append(Operator(self._release, self._folder, name=name, flags=FLAGS))
        await self._replicas[0].start(timeout=PATIENCE_SECONDS)
        self._stand_by(self._replicas[1])

    def _stand_by(self, replica: Operator) -> None:
        """It says that it is ready only when it leads, which may be never."""
        task = asyncio.create_task(replica.start(timeout=3600), name="a stand-by")
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def leader(self) -> Operator:
        """By the Lease, once it names one of those that run."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                holder = await self.holder()
                for replica in self._replicas:
                    pid = replica.process.pid if replica.process is not None else 0
                    if replica is not self.paused and replica.running() and f"-{pid}-" in holder:
                        return replica
                await asyncio.sleep(LOOK_SECONDS)

    async def holder(self) -> str:
        lease = await self._api.get(at("leases", self._release.namespace, "alnair"))
        return str(lease["spec"].get("holderIdentity") or "")

    async def befall(self, leader: Operator, fault: Fault) -> None:
        assert leader.process is not None
        if fault == "kill":
            await asyncio.to_thread(leader.kill)
        elif fault == "end":
            leader.ended_on_purpose = True
            leader.process.send_signal(signal.SIGTERM)
        else:
            self.paused = leader
            os.killpg(leader.process.pid, signal.SIGSTOP)

    async def mend(self) -> None:
        """A paused one goes on, finds out that it leads no more, and ends; whoever ended starts again."""
        if self.paused is not None:
            assert self.paused.process is not None
            self.paused.ended_on_purpose = True
            os.killpg(self.paused.process.pid, signal.SIGCONT)
            await asyncio.to_thread(self.paused.process.wait, PATIENCE_SECONDS)
            self.paused = None
        for replica in self._replicas:
            if replica.ended_on_purpose and replica.process is not None:
                await asyncio.to_thread(replica.process.wait, PATIENCE_SECONDS)
        for replica in self._replicas:
            if not replica.running():
                self._stand_by(replica)

    def end(self) -> None:
        for task in self._starting:
            task.cancel()
        for replica in self._replicas:
            replica.kill()
