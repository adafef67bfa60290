"""Carries out the steps of a script on the real control plane, one after the other, whatever the apiserver is doing.

An object that is gone already, or there already, is no error: controllers, kwok and the operator have hands, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from zlib import crc32

import aiohttp

from alnair.api import names
from alnair.sandbox.processes import log_tail
from churn.cluster import Station, node_manifest, topology_manifest
from churn.plane import Plane
from churn.words import OF, Object
from churn.workload import Arrive, Befall, KillOperator, Leave, LetGo, LoseOne, RestartApiserver, Step, Work
from harness.api import Refused, at, place_of

T = TypeVar("T")

TRIES = 200
PAUSE_SECONDS = 0.3


class Driver:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
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
                await self._befall(step.before, step.after)
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
            await self._befall(None, station)

    # -- work

    async def _arrive(self, step: Arrive) -> None:
        work = step.work
        await asyncio.gather(*(self._create(manifest, work.namespace) for manifest in work.manifests))
        if step.losing is not None:
            member, pause = step.losing
            path = at("pods", work.namespace, work.pods[member])
            self._beside(self._after(pause, lambda: self._delete(path)))

    async def _leave(self, step: Leave) -> None:
        work = step.work
        if step.how == "completed":
            for pod in await self._pods(work):
                await self._complete(work.namespace, pod)
        if work.controller:
            await self._delete(at(work.controller, work.namespace, work.name))
        if step.how == "group-first" and work.group:
            await self._delete(at("podgroups", work.namespace, work.group))
        grace = 0 if step.how == "forced" else None
        if step.how != "completed" or work.held:
            paths = [at("pods", work.namespace, name) for name in work.pods]
            await asyncio.gather(*(self._delete(path, grace=grace) for path in paths))
        else:
            self._beside(self._after(2.0, lambda: self._sweep(work)))
        if work.group and step.how != "group-first":
            await self._delete(at("podgroups", work.namespace, work.group))

    async def _sweep(self, work: Work) -> None:
        """Pods that have ended are objects for a while; then somebody clears them away."""
        for name in work.pods:
            await self._delete(at("pods", work.namespace, name))

    async def _complete(self, namespace: str, pod: Object) -> None:
        """Only what runs can end; by version, so that kwok does not say meanwhile that it still does."""
        if (pod.get("status") or {}).get("phase") != "Running":
            return
        body = {
            "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
            "status": {"phase": "Succeeded" if crc32(pod["metadata"]["name"].encode()) % 3 else "Failed"},
        }
        await self._call("PATCH", at("pods", namespace, pod["metadata"]["name"], "status"), body)

    async def _lose_one(self, step: LoseOne) -> None:
        work = step.work
        pods = await self._pods(work)
        if not pods:
            return
        pod = pods[int(step.draw * len(pods))]["metadata"]["name"]
        path = at("pods", work.namespace, pod)
        await self._delete(path)
        manifest = next((each for each in work.manifests if each["metadata"]["name"] == pod), None)
        if step.again and manifest is not None and manifest["kind"] == "Pod":
            if work.held:
                await self._let_go(work)
            await self._create(manifest, work.namespace, again=True)

    async def _let_go(self, work: Work) -> None:
        for pod in await self._pods(work):
            if pod["metadata"].get("deletionTimestamp"):
                path = at("pods", work.namespace, pod["metadata"]["name"])
                await self._call("PATCH", path, {"metadata": {"finalizers": None}})

    async def _pods(self, work: Work) -> list[Object]:
        path = at("pods", work.namespace)
        found = await self._persist(lambda: self.plane.api.items(path, labels=f"{OF}={work.name}"))
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    # -- nodes

    async def _befall(self, before: Station | None, after: Station) -> None:
        path = at("nodes", None, after.name)
        topology, there = topology_manifest(after), at("noderesourcetopologies", None, after.name)
        if topology is not None:
            await self._publish(topology, there)
        elif before is not None and topology_manifest(before) is not None:
            await self._delete(there)
        if after.absent:
            await self._delete(path)
        elif before is None or before.absent:
            await self._create(node_manifest(after), "", again=True)
        else:
            await self._tell(node_manifest(before), node_manifest(after), path)
            if before.ready != after.ready:
                await self._ready(path, after.ready)

    async def _publish(self, topology: Object, path: str) -> None:
        """Whoever else may have one there."""
        for _ in range(TRIES):
            if await self._create(topology, ""):
                return
            found = await self._persist(lambda: self.plane.api.find(path))
            if found is not None:
                version = {"resourceVersion": found["metadata"]["resourceVersion"]}
                ours = {**topology, "metadata": {**topology["metadata"], **version}}
                if await self._call("PUT", path, ours) is not None:
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
        await self._call("PATCH", path, body)
        cards = new["status"]["allocatable"].get(names.NVIDIA_GPU)
        if cards != old["status"]["allocatable"].get(names.NVIDIA_GPU):
            there = {"capacity": {names.NVIDIA_GPU: cards}, "allocatable": {names.NVIDIA_GPU: cards}}
            await self._call("PATCH", f"{path}/status", {"status": there})

    async def _ready(self, path: str, ready: bool) -> None:
        node = await self._persist(lambda: self.plane.api.find(path))
        conditions = ((node or {}).get("status") or {}).get("conditions") or []
        for condition in conditions:
            if condition["type"] == "Ready":
                condition["status"] = "True" if ready else "False"
        await self._call("PATCH", f"{path}/status", {"status": {"conditions": conditions}})

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

    # -- calls

    async def _create(self, manifest: Object, namespace: str, *, again: bool = False) -> bool:
        """False if one is there; `again`: a namesake that is still going away is waited for."""
        path = place_of(manifest, namespace)
        for _ in range(TRIES):
            if await self._call("POST", path, manifest) is not None:
                return True
            if not again:
                return False
            await asyncio.sleep(0.05)
        return False

    async def _delete(self, path: str, *, grace: int | None = None) -> None:
        await self._persist(lambda: self.plane.api.delete(path, grace=grace))

    async def _call(self, verb: str, path: str, body: Object) -> Any:
        """None if the object is gone, there already, or was changed by somebody else."""
        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        try:
            return await self._persist(lambda: self.plane.api.call(verb, path, body, content=kind))
        except Refused as refused:
            if refused.status in (404, 409):
                return None
            raise

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
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
