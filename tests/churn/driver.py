"""Carries out the steps of a script on the real control plane, one after the other, whatever the apiserver is doing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from zlib import crc32

from alnair.sandbox.processes import log_tail
from churn.workload import Arrive, Befall, KillOperator, Leave, LetGo, LoseOne, RestartApiserver, Step, Work
from harness.api import at
from witness.hands import Hands
from witness.plane import Plane
from witness.stations import Station
from witness.words import OF, Object


class Driver:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.hands = Hands(plane.api)
        self.faults: Counter[str] = Counter()
        self.departures: Counter[str] = Counter()
        self.kills = 0
        self.lost_leases = 0
        self._background: set[asyncio.Task[None]] = set()
        self._failed: list[asyncio.Task[None]] = []
        self._restarting = asyncio.Lock()

    async def do(self, step: Step) -> None:
        for task in self._failed:
            task.result()
        self._watch_over_the_operator()
        match step:
            case Arrive():
                await self._arrive(step)
            case Leave():
                self.departures[step.how] += 1
                await self._leave(step)
            case LoseOne():
                self.departures["recreated" if step.again else "one lost"] += 1
                await self._lose_one(step)
            case LetGo():
                await self._let_go(step.work)
            case Befall():
                self.faults[step.name] += 1
                await self.hands.befall(step.before, step.after)
            case KillOperator():
                self._beside(self._kill_operator(step.pause))
            case RestartApiserver():
                self.faults["apiserver restarted"] += 1
                await asyncio.to_thread(self.plane.kept.restart, "kube-apiserver")

    async def caught_up(self) -> None:
        """What was started beside the script has ended, and the operator runs."""
        self._watch_over_the_operator()
        while self._background:
            await asyncio.gather(*self._background)
        for task in self._failed:
            task.result()

    async def furnish(self, stations: list[Station]) -> None:
        for station in stations:
            await self.hands.befall(None, station)

    # -- work

    async def _arrive(self, step: Arrive) -> None:
        work = step.work
        await asyncio.gather(*(self.hands.create(manifest, work.namespace) for manifest in work.manifests))
        if step.losing is not None:
            member, pause = step.losing
            path = at("pods", work.namespace, work.pods[member])
            self._beside(self._after(pause, lambda: self.hands.delete(path)))

    async def _leave(self, step: Leave) -> None:
        work = step.work
        if step.how == "completed":
            for pod in await self._pods(work):
                await self._complete(work.namespace, pod)
        if work.controller:
            await self.hands.delete(at(work.controller, work.namespace, work.name))
        if step.how == "group-first" and work.group:
            await self.hands.delete(at("podgroups", work.namespace, work.group))
        grace = 0 if step.how == "forced" else None
        if step.how != "completed" or work.held:
            paths = [at("pods", work.namespace, name) for name in work.pods]
            await asyncio.gather(*(self.hands.delete(path, grace=grace) for path in paths))
        else:
            self._beside(self._after(2.0, lambda: self._sweep(work)))
        if work.group and step.how != "group-first":
            await self.hands.delete(at("podgroups", work.namespace, work.group))

    async def _sweep(self, work: Work) -> None:
        """Pods that have ended are objects for a while; then somebody clears them away."""
        for name in work.pods:
            await self.hands.delete(at("pods", work.namespace, name))

    async def _complete(self, namespace: str, pod: Object) -> None:
        """Only what runs can end; by version, so that kwok does not say meanwhile that it still does."""
        if (pod.get("status") or {}).get("phase") != "Running":
            return
        body = {
            "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
            "status": {"phase": "Succeeded" if crc32(pod["metadata"]["name"].encode()) % 3 else "Failed"},
        }
        await self.hands.call("PATCH", at("pods", namespace, pod["metadata"]["name"], "status"), body)

    async def _lose_one(self, step: LoseOne) -> None:
        work = step.work
        pods = await self._pods(work)
        if not pods:
            return
        pod = pods[int(step.draw * len(pods))]["metadata"]["name"]
        path = at("pods", work.namespace, pod)
        await self.hands.delete(path)
        manifest = next((each for each in work.manifests if each["metadata"]["name"] == pod), None)
        if step.again and manifest is not None and manifest["kind"] == "Pod":
            if work.held:
                await self._let_go(work)
            await self.hands.create(manifest, work.namespace, again=True)

    async def _let_go(self, work: Work) -> None:
        for pod in await self._pods(work):
            if pod["metadata"].get("deletionTimestamp"):
                path = at("pods", work.namespace, pod["metadata"]["name"])
                await self.hands.call("PATCH", path, {"metadata": {"finalizers": None}})

    async def _pods(self, work: Work) -> list[Object]:
        path = at("pods", work.namespace)
        found = await self.hands.persist(lambda: self.plane.api.items(path, labels=f"{OF}={work.name}"))
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    # -- the operator

    def _watch_over_the_operator(self) -> None:
        """While the apiserver was away it may have lost its Lease, which ends it; a kubelet would start it again."""
        operator = self.plane.operator
        if operator.running() or operator.ended_on_purpose or self._restarting.locked():
            return
        if not self.faults["apiserver restarted"]:
            raise RuntimeError(f"the operator ended by itself{log_tail(operator.log)}")
        self.lost_leases += 1
        self._beside(self._start_operator())

    async def _start_operator(self) -> None:
        async with self._restarting:
            if not self.plane.operator.running():
                await self.plane.operator.start(timeout=90)

    async def _kill_operator(self, pause: float) -> None:
        async with self._restarting:
            self.plane.operator.kill()
            self.kills += 1
            await asyncio.sleep(pause)
            await self.plane.operator.start(timeout=90)

    # -- beside the script

    async def _after(self, pause: float, call: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(pause)
        await call()

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failed.append(task)
