"""Carries out what is planned for ElasticHorovodJobs, one job at a time each, while this process leads.

    mark -> what is there -> plan -> steps, each by uid and version -> status, if it says something new

A job is looked at when something happened to it, a child or a pod of it, and once a minute. Nothing is written when
nothing changes. One job's trouble is its condition, and stops nobody else's.

What must never happen: a write on an object that was not seen to be the job's own. Changes name the version that was
seen, deletions the UID, and what is created bears the owner's UID: after a change of leader the rest of an old one's
writes are refused by the apiserver or swept up by the garbage collector.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from alnair.api import names
from alnair.control.events import Events, Regarding
from alnair.control.horovod import plan, status
from alnair.control.horovod.books import Books
from alnair.control.horovod.drift import belongs
from alnair.control.horovod.job import Identity, Job, Key, Manifest, finished, read, scheduler_of
from alnair.control.horovod.plan import DISCOVERY, KINDS, LAUNCHER, Create, NameTaken, Replace, Step
from alnair.control.horovod.rounds import Moved, Rounds
from alnair.control.horovod.status import Trouble
from alnair.kube import Client, Refused
from alnair.kube.clock import Clock

log = logging.getLogger(__name__)

REPAIRS = 6  # of one child within a minute: more is a fight with somebody who does not give in
FIGHT_SECONDS = 60.0
MOST_REMEMBERED = 4096
COLLECTION = f"/apis/{names.API_HOROVOD}"


class Reconciler:
    """Marked from anywhere on the loop; `run` works while leading."""

    def __init__(
        self, client: Client, *, events: Events, clock: Clock, serves: Callable[[str], bool]
    ) -> None:
        """`serves`: whether a schedulerName is one of ours. Jobs of others are others' to reconcile."""
        self._client = client
        self._events = events
        self._clock = clock
        self._serves = serves
        self._rounds = Rounds(self._reconcile)
        self.books = Books(self._rounds.mark)
        self._repaired: dict[str, deque[float]] = {}  # UID of a child -> when it was put right

    def mark_all(self) -> None:
        for key in self.books.jobs:
            self._rounds.mark(key)

    async def run(self) -> None:
        await self._rounds.run()

    # -- one job ---------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> bool:
        """Whether all is well."""
        manifest = self.books.jobs.get(key)
        if manifest is None:
            return True
        identity = Identity(manifest)
        if identity.going:
            # Anybody's: whose profile it was may be gone from the config, and two who do this do no harm.
            return await self._take_apart(identity) is None
        if not self._serves(scheduler_of(manifest)):
            return True
        job = read(manifest)
        if isinstance(job, str):
            self._say(identity, "Invalid", job, warning=True)
            await self._write_status(
                identity, status.status_of_invalid(manifest, job, now=self._clock.stamp())
            )
            return True
        job = await self._hold(job)
        seen = self.books.seen(job)
        trouble = None
        if finished(job.manifest):
            trouble = await self._carry_out(job, plan.wind_down(job, seen))
        elif status.ending(seen) is None:
            trouble = await self._set_up(job)
        await self._tell_launchers(job)
        await self._report(job, trouble)
        return trouble is None

    async def _set_up(self, job: Job) -> Trouble | None:
        try:
            return await self._carry_out(job, plan.set_up(job, self.books.seen(job)))
        except NameTaken as taken:
            self._say(job, "NameTaken", str(taken), warning=True)
            return Trouble("NameTaken", str(taken))

    async def _take_apart(self, job: Identity) -> Trouble | None:
        """Whoever deletes a job with `--cascade=orphan` wants to keep what it consists of."""
        if names.HOROVOD_FINALIZER not in job.finalizers:
            return None
        seen = self.books.seen(job)
        if "orphan" not in job.finalizers and not plan.is_gone(job, seen):
            return await self._carry_out(job, plan.take_apart(job, seen))
        left = [each for each in job.finalizers if each != names.HOROVOD_FINALIZER]
        await self._patch(job, {"metadata": {"finalizers": left}})
        return None

    async def _hold(self, job: Job) -> Job:
        """Our finalizer, before anything is made: a namesake must not be possible while old children are there."""
        if names.HOROVOD_FINALIZER in job.finalizers:
            return job
        held = await self._patch(
            job, {"metadata": {"finalizers": [*job.finalizers, names.HOROVOD_FINALIZER]}}
        )
        return Job(held, job.spec)

    async def _patch(self, job: Identity, body: Manifest, *, subresource: str = "") -> Manifest:
        """Only the object that was read, as it was read: a conflict brings the newer one into the books."""
        meta = job.manifest["metadata"]
        versioned = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {**body, "metadata": {**body.get("metadata", {}), **versioned}}
        try:
            answer = await self._client.patch(f"{_path(job)}{subresource}", body)
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            there = await self._find(_path(job))
            if there is None or there["metadata"]["uid"] != job.uid:
                self.books.drop_job((job.namespace, job.name), job.uid)
            if there is not None:
                self.books.put_job(there)
            raise Moved from refused
        self.books.put_job(answer)
        return answer

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _carry_out(self, job: Identity, steps: list[Step]) -> Trouble | None:
        """In order. What the apiserver refuses for good is the job's trouble, and tried again later."""
        for step in steps:
            what = f"{step.manifest['kind']} {step.manifest['metadata']['name']}"
            if isinstance(step, Replace) and not _changed_by_its_author(job) and self._fights(step.manifest):
                return Trouble("Contested", f"somebody changes {what} again and again; it is put right later")
            try:
                await self._do(job, step)
            except Refused as refused:
                log.info("ElasticHorovodJob %s/%s: %s", job.namespace, job.name, refused)
                self._say(job, "Refused", f"{what}: {refused.message}", warning=True)
                return Trouble("Refused", f"the apiserver refused {what}: {refused.message}")
        self._tell_of(job, steps)
        return None

    async def _do(self, job: Identity, step: Step) -> None:
        manifest = step.manifest
        kind, name = KINDS[manifest["kind"]], manifest["metadata"]["name"]
        path = kind.path(job.namespace, name)
        try:
            if isinstance(step, Create):
                self.books.put_child(kind.name, await self._client.create(kind.path(job.namespace), manifest))
            elif isinstance(step, Replace):
                self.books.put_child(kind.name, await self._client.replace(path, manifest))
            else:
                options = {
                    "preconditions": {"uid": manifest["metadata"]["uid"]},
                    "propagationPolicy": "Foreground" if step.after_pods else "Background",
                }
                await self._client.delete(path, options)
        except Refused as refused:
            if refused.status not in (404, 409) or (refused.status == 404 and isinstance(step, Create)):
                raise
            await self._look(job, manifest, path)

    async def _look(self, job: Identity, manifest: Manifest, path: str) -> None:
        """Another object may stand there than was thought, or none: its event is late, or lacks our label."""
        there = await self._find(path)
        if "uid" not in manifest["metadata"]:
            plan.check(job, there and {**there, "kind": manifest["kind"]})
        elif there is None or there["metadata"]["uid"] != manifest["metadata"]["uid"]:
            self.books.drop_child(manifest["kind"], manifest)
        if there is not None and belongs(job, there):
            self.books.put_child(manifest["kind"], there)
        raise Moved

    async def _find(self, path: str) -> Manifest | None:
        try:
            return await self._client.get(path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    async def _tell_launchers(self, job: Job) -> None:
        digits, launchers = plan.to_be_told(self.books.seen(job))
        for pod in launchers:
            body = {"metadata": {"uid": pod.metadata.uid, "annotations": {names.HOROVOD_HOSTS: digits}}}
            try:
                await self._client.patch(f"/api/v1/namespaces/{job.namespace}/pods/{pod.metadata.name}", body)
            except Refused as refused:
                if refused.status not in (404, 409):  # it is gone
                    raise

    def _fights(self, manifest: Manifest) -> bool:
        """Whether somebody undoes our repairs of it again and again. The script changes with the workers."""
        if manifest["kind"] == DISCOVERY.name:
            return False
        if len(self._repaired) > MOST_REMEMBERED:
            self._repaired.clear()
        times = self._repaired.setdefault(manifest["metadata"]["uid"], deque(maxlen=REPAIRS))
        now = self._clock.now()
        if len(times) == REPAIRS and now - times[0] < FIGHT_SECONDS:
            return True
        times.append(now)
        return False

    # -- words -----------------------------------------------------------------------------------------------------

    async def _report(self, job: Job, trouble: Trouble | None) -> None:
        now = self._clock.stamp()
        wanted = status.status_of(job, self.books.seen(job), trouble, now=now)
        before = job.manifest.get("status") or {}
        if await self._write_status(job, wanted):
            was, is_now = before.get("wantedReplicas"), wanted.get("wantedReplicas")
            if was and is_now and was != is_now:
                why = wanted.get("whyNotMore") or ""
                self._say(job, "Scaled", f"from {was} to {is_now} workers. {why}".rstrip())
            how = finished({"status": wanted})
            if how and not finished(job.manifest):
                told = next(each for each in wanted["conditions"] if each["type"] == how)
                self._say(job, how, f"{told['reason']}: {told['message']}", warning=how == "Failed")

    async def _write_status(self, job: Identity, wanted: Manifest) -> bool:
        before = job.manifest.get("status") or {}
        if wanted == before:
            return False
        # A merge patch takes a field away by saying null.
        fields = {key: wanted.get(key) for key in before.keys() | wanted.keys()}
        await self._patch(job, {"status": fields}, subresource="/status")
        return True

    def _tell_of(self, job: Identity, steps: list[Step]) -> None:
        """Created or Launched, Updated after its author's change, Repaired after somebody else's."""
        if job.going or finished(job.manifest):
            return
        told: dict[str, list[Step]] = {}
        for step in steps:
            kind = step.manifest["kind"]
            if isinstance(step, Create) and kind == LAUNCHER.name:
                told.setdefault("Launched", []).append(step)
            elif isinstance(step, Create):
                new = _observed(job) is None
                told.setdefault("Created" if new else "Repaired", []).append(step)
            elif kind != DISCOVERY.name:
                told.setdefault("Updated" if _changed_by_its_author(job) else "Repaired", []).append(step)
        for reason, those in told.items():
            self._say(job, reason, _listed(those))

    def _say(self, job: Identity, reason: str, note: str, *, warning: bool = False) -> None:
        about = Regarding(names.API_HOROVOD, names.KIND_HOROVOD, job.name, job.uid, job.namespace)
        self._events.say(about, reason=reason, note=note, action="Reconciling", warning=warning)


def _path(job: Identity) -> str:
    return f"{COLLECTION}/namespaces/{job.namespace}/{names.PLURAL_HOROVOD}/{job.name}"


def _observed(job: Identity) -> int | None:
    """The generation that the status speaks of."""
    return (job.manifest.get("status") or {}).get("observedGeneration")


def _changed_by_its_author(job: Identity) -> bool:
    """Since the status was written last."""
    return bool(_observed(job) != job.manifest["metadata"].get("generation"))


def _listed(steps: Sequence[Step]) -> str:
    return ", ".join(f"{step.manifest['kind']} {step.manifest['metadata']['name']}" for step in steps)
