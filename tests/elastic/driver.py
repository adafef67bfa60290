"""Carries out the events of a script on the real control plane, and remembers what it did at which revision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from alnair.sandbox.processes import log_tail
from elastic.jobs import Job
from elastic.script import Arrive, Befall, KillOperator, Leave, LoseMember, Scale, Step
from elastic.seen import HAND
from harness.api import at
from witness.hands import Hands
from witness.plane import Plane
from witness.stations import Station
from witness.words import OF, Object

SWEEP_SECONDS = 1.5
SHOWN = 6


@dataclass(frozen=True, slots=True)
class Done:
    number: int
    revision: int
    what: str
    about: str
    """The job's key, or the node's name."""

    def __str__(self) -> str:
        return f"event {self.number} after revision {self.revision}: {self.what}"


class Driver:
    def __init__(self, plane: Plane) -> None:
        self.done: list[Done] = []
        self._plane = plane
        self._hands = Hands(plane.api)
        self._background: set[asyncio.Task[None]] = set()

    async def furnish(self, stations: list[Station]) -> None:
        for station in stations:
            await self._hands.befall(None, station)

    async def do(self, step: Step) -> None:
        if not self._plane.operator.running():
            raise RuntimeError(f"the operator ended by itself{log_tail(self._plane.operator.log)}")
        match step:
            case Arrive(job):
                self._note(f"{job.how} {job.key} comes, {job.least} to {job.most}", job.key)
                for manifest in job.manifests:
                    await self._hands.create(manifest, job.namespace)
            case Leave(job):
                self._note(f"{job.how} {job.key} goes", job.key)
                await self._leave(job)
            case Scale(job, replicas):
                self._note(
                    f"somebody sets {job.key} to {replicas}, {job.least} to {job.most} are its bounds",
                    job.key,
                )
                await self._scale(step)
            case LoseMember(job):
                await self._lose(step)
            case Befall(name, before, after, sweep):
                self._note(f"node {after.name} {name}", after.name)
                await self._hands.befall(before, after)
                if sweep:
                    self._beside(SWEEP_SECONDS, lambda: self._sweep(after.name))
            case KillOperator(pause):
                self._note("the operator is killed", "")
                self._plane.operator.kill()
                await asyncio.sleep(pause)
                await self._plane.operator.start(timeout=90)

    async def caught_up(self) -> None:
        while self._background:
            await asyncio.gather(*self._background)

    def led_to(self, revision: int, objects: tuple[str, ...]) -> list[Done]:
        """The last events before that revision, and the last ones about these objects."""
        before = [each for each in self.done if each.revision <= revision]
        about = [each for each in before if any(each.about and each.about in name for name in objects)]
        chosen = {each.number: each for each in [*before[-SHOWN:], *about[-SHOWN:]]}
        return [chosen[number] for number in sorted(chosen)]

    # -- events

    async def _leave(self, job: Job) -> None:
        if job.controller:
            await self._hands.delete(at(job.controller, job.namespace, job.name))
        for name in job.pods:
            await self._hands.delete(at("pods", job.namespace, name))
        if job.how != "lone":
            await self._hands.delete(at("podgroups", job.namespace, job.name))

    async def _scale(self, step: Scale) -> None:
        rest = ["scale"] if step.through_scale else []
        path = at(step.job.controller, step.job.namespace, step.job.name, *rest)
        body = {"spec": {"replicas": step.replicas}}
        await self._hands.call("PATCH", path, body, params={"fieldManager": HAND})

    async def _lose(self, step: LoseMember) -> None:
        job = step.job
        running = [pod for pod in await self._pods(job) if _runs(pod)]
        if not running:
            self._note(f"no member of {job.key} runs that could be lost", job.key)
            return
        pod = running[int(step.draw * len(running))]["metadata"]
        self._note(f"pod {job.namespace}/{pod['name']} {'fails' if step.failing else 'is deleted'}", job.key)
        path = at("pods", job.namespace, pod["name"])
        if step.failing:
            # By version, so that kwok does not say meanwhile that it still runs.
            failed = {"metadata": {"resourceVersion": pod["resourceVersion"]}, "status": {"phase": "Failed"}}
            await self._hands.call("PATCH", f"{path}/status", failed)
        else:
            await self._hands.delete(path)

    async def _sweep(self, node: str) -> None:
        for pod in await self._hands.persist(lambda: self._plane.api.items(at("pods"))):
            if pod["spec"].get("nodeName") == node:
                meta = pod["metadata"]
                await self._hands.delete(at("pods", meta["namespace"], meta["name"]), grace=0)

    async def _pods(self, job: Job) -> list[Object]:
        path = at("pods", job.namespace)
        found = await self._hands.persist(lambda: self._plane.api.items(path, labels=f"{OF}={job.name}"))
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def _note(self, what: str, about: str) -> None:
        self.done.append(Done(len(self.done) + 1, self._plane.history.revision, what, about))

    def _beside(self, pause: float, call: Callable[[], Awaitable[None]]) -> None:
        async def later() -> None:
            await asyncio.sleep(pause)
            await call()

        task = asyncio.create_task(later())
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get(
        "deletionTimestamp"
    )
