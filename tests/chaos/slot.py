"""A place for runs, one after the other: one release of the chart, a leader and a stand-by, node pools that stay.

Starting an operator is most of what a run costs. So the leader of a run is whoever was left leading by the one before,
and the next stand-by is started while nothing is waited for. Nodes stay from run to run, a pool for each scenario; what
a run did to them it has mended. After a run that failed everything of the slot is thrown away and made anew, so that
one failure is not counted twice.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final, Protocol

from alnair.sandbox.kept import KeptControlPlane
from chaos.calls import Call
from chaos.proxy import Door, Forward
from chaos.replica import Gate, Replica
from chaos.scenario import Scenario
from chaos.wire import Answer
from harness.api import Api, Object, at
from harness.fixtures import is_ready
from harness.operator import Release
from witness.hands import Hands
from witness.stations import RACK, Station

REPLICAS: Final = 2
START_SECONDS: Final = 120.0
END_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.02
NODE_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Guest(Protocol):
    """Who has the slot: it is shown every call."""

    async def meet(self, replica: Replica, call: Call, forward: Forward) -> Answer | None: ...


class Slot:
    def __init__(
        self, name: str, kept: KeptControlPlane, api: Api, release: Release, gate: Gate, folder: Path
    ) -> None:
        self.name = name
        self._kept = kept
        self.api = api
        self.hands = Hands(api)
        self.release = release
        self.guest: Guest | None = None
        self.environment: dict[str, str] = {}
        """Of the operators that are started from now on."""
        self.lost_leases = 0
        self.replicas: list[Replica] = []
        self._gate = gate
        self._folder = folder
        self._started = 0
        self._runs = 0
        self._age = 0
        self._pools: dict[str, tuple[Station, ...]] = {}

    @property
    def scheduler(self) -> str:
        return self.release.scheduler

    def namespace(self) -> str:
        """For the next run."""
        self._runs += 1
        return f"{self.name}-{self._runs}"

    # -- the control plane, which is everybody's

    async def end(self, program: str) -> str:
        await asyncio.to_thread(self._kept.kill, program)
        return program

    async def start_again(self, program: str) -> None:
        """And kwok, which does not try again what failed meanwhile as a kubelet would: a new one looks at every pod. It
        would wait two minutes for the old one's Leases of the nodes to expire."""
        await asyncio.to_thread(self._kept.start_again, program)
        await asyncio.to_thread(self._kept.kill, "kwok")
        await self.hands.delete(NODE_LEASES)
        await asyncio.to_thread(self._kept.start_again, "kwok")

    # -- operators

    async def ready(self) -> list[str]:
        """Until one leads and another stands by. Returns what is wrong with those that ended since, or do not."""
        wrong = await self._see_off()
        wrong += await self.bury()
        while len(self.replicas) < REPLICAS:
            await self.start_one()
        async with asyncio.timeout(START_SECONDS):
            while not self.leader() or any(
                not (each.leads or each.standing_by.is_set()) for each in self.replicas
            ):
                await asyncio.sleep(LOOK_SECONDS)
                if any(not each.running for each in self.replicas):
                    wrong += await self.bury()
                    await self.start_one()
        return wrong

    async def _see_off(self) -> list[str]:
        """Who lost the Lease while it was stopped has to end by itself."""
        wrong = []
        deadline = time.monotonic() + END_SECONDS
        for each in [one for one in self.replicas if one.may_end]:
            while each.running and time.monotonic() < deadline:  # noqa: ASYNC110 (a process has no event)
                await asyncio.sleep(LOOK_SECONDS)
            if each.running:
                wrong.append(f"{each.name} goes on for {END_SECONDS:g} s after it has lost its Lease")
                each.kill()
        return wrong

    def has_another(self, than: Replica) -> bool:
        return any(each is not than and each.running and not each.may_end for each in self.replicas)

    async def start_one(self) -> None:
        self._started += 1
        name = f"{self.name}-replica-{self._started}"
        made = Replica(self._gate, self.release, self._folder, name, self._meet, environment=self.environment)
        await made.start()
        self.replicas.append(made)

    async def bury(self) -> list[str]:
        """Those that have ended are no replicas any more."""
        wrong = []
        for each in list(self.replicas):
            if each.running:
                continue
            if each.lost_its_lease() and not each.may_end:
                self.lost_leases += 1  # a machine with too much to do: its stand-by was quicker
            elif why := each.why_it_ended():
                wrong.append(why)
            self.replicas.remove(each)
            await each.close()
        return wrong

    def leader(self) -> Replica | None:
        return next((each for each in self.replicas if each.leads and not each.may_end), None)

    async def successor(self, of: Replica) -> Replica:
        """Once another leads: none that was stopped before, and has yet to notice that its time is over."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                for each in self.replicas:
                    if each is not of and each.leads and each.led_at and not each.may_end:
                        return each
                await asyncio.sleep(LOOK_SECONDS)

    async def _meet(self, door: Door, call: Call, forward: Forward) -> Answer | None:
        replica = next((each for each in self.replicas if each.door is door), None)
        if replica is None:
            return await forward()  # of one that is buried
        if call.resource == "leases":
            replica.standing_by.set()
        if replica.doomed:
            # Bindings are sent all at once; with those that come after the fatal one, every kill would be the same.
            await replica.dead.wait()
            return None
        if self.guest is None:
            return await forward()
        return await self.guest.meet(replica, call, forward)

    # -- nodes

    def pool(self, scenario: Scenario) -> str:
        return f"{scenario.name}.{self.name}-{self._age}"

    async def furnish(self, scenario: Scenario) -> None:
        """Until the scenario's nodes are there, as it wants them."""
        pool = self.pool(scenario)
        if pool in self._pools:
            return
        stations = scenario.settled(pool)
        for station in stations:
            await self.hands.befall(None, station)
        self._pools[pool] = stations

        def ready(nodes: list[Object]) -> bool:
            return sum(map(is_ready, nodes)) == len(stations)

        await self.api.until_all(
            at("nodes"), ready, labels=f"{RACK}={pool}", timeout=90, what=f"nodes of {pool}"
        )

    # -- ends

    async def start_anew(self) -> None:
        """Nothing of what is here is used again."""
        await self.close()
        self._age += 1
        pools, self._pools = self._pools, {}
        for stations in pools.values():
            for station in stations:
                await self.hands.delete(at("nodes", None, station.name))

    async def close(self) -> None:
        replicas, self.replicas = self.replicas, []
        for each in replicas:
            await each.close()
