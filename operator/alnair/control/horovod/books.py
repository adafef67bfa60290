"""What is there of ElasticHorovodJobs: the jobs as Kopf tells of them, their children and pods as our streams do.

An answer to a write of ours is entered too, so an event may come that is older than what is known, or an answer that is
older than the event that says that the object is gone: both are let pass.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from alnair.api import names
from alnair.control.horovod.discovery import JobPod
from alnair.control.horovod.job import Identity, Key, Manifest, key_of
from alnair.control.horovod.plan import DISCOVERY, GROUP, LAUNCHER, SERVICE, WORKERS, Seen

MOST_REMEMBERED = 4096


class Books:
    """`on_change` hears of every job that something happened to."""

    def __init__(self, on_change: Callable[[Key], None]) -> None:
        self.on_change = on_change
        self.jobs: dict[Key, Manifest] = {}
        self._children: dict[tuple[str, str, str], Manifest] = {}  # by kind, namespace, name
        self._pods: dict[str, JobPod] = {}  # by UID
        self._gone: OrderedDict[str, int] = OrderedDict()  # UID -> version at which it went out of sight
        self._keys: dict[str, Key] = {}  # of jobs, by UID
        self._pods_of: dict[str, set[str]] = {}  # a job's UID -> UIDs of pods that bear it

    # -- jobs ----------------------------------------------------------------------------------------------------

    def put_job(self, manifest: Manifest) -> None:
        key = key_of(manifest)
        if self._is_news(manifest, self.jobs.get(key)):
            self.jobs[key] = manifest
            self._keys[manifest["metadata"]["uid"]] = key
            self.on_change(key)

    def drop_job(self, key: Key, uid: str, *, version: int = 0) -> None:
        self._remember(uid, version)
        known = self.jobs.get(key)
        if known is not None and known["metadata"]["uid"] == uid:
            del self.jobs[key]
        self._keys.pop(uid, None)

    def keep_jobs(self, present: set[Key], known: dict[Key, str]) -> None:
        """A fresh list has only these: of those known (by UID) before it was made, the others were deleted unseen."""
        for key in known.keys() - present:
            self.drop_job(key, known[key])

    def known_jobs(self) -> dict[Key, str]:
        return {key: manifest["metadata"]["uid"] for key, manifest in self.jobs.items()}

    # -- their children and pods ---------------------------------------------------------------------------------

    def put_child(self, kind: str, manifest: Manifest) -> None:
        manifest = {**manifest, "kind": kind}  # a list's items do not say what they are
        place = (kind, *key_of(manifest))
        if self._is_news(manifest, self._children.get(place)):
            self._children[place] = manifest
            self._changed(manifest)

    def drop_child(self, kind: str, manifest: Manifest) -> None:
        place = (kind, *key_of(manifest))
        self._remember(manifest["metadata"]["uid"], version_of(manifest))
        known = self._children.get(place)
        if known is not None and known["metadata"]["uid"] == manifest["metadata"]["uid"]:
            del self._children[place]
            self._changed(manifest)

    def children(self, kind: str) -> list[Manifest]:
        return [manifest for (of_kind, _, _), manifest in self._children.items() if of_kind == kind]

    def put_pod(self, pod: JobPod) -> None:
        known = self._pods.get(pod.metadata.uid)
        if known is not None and _job_uid(known) != _job_uid(pod):
            self.drop_pod(known)  # somebody gave it to another job
        self._pods[pod.metadata.uid] = pod
        self._pods_of.setdefault(_job_uid(pod), set()).add(pod.metadata.uid)
        self._tell_uid(_job_uid(pod))

    def drop_pod(self, pod: JobPod) -> None:
        known = self._pods.pop(pod.metadata.uid, None)
        if known is not None:
            uid = _job_uid(known)
            self._pods_of[uid].discard(known.metadata.uid)
            if not self._pods_of[uid]:
                del self._pods_of[uid]
            self._tell_uid(uid)

    def pods(self) -> list[JobPod]:
        return list(self._pods.values())

    def seen(self, job: Identity) -> Seen:
        places = {
            GROUP: job.group,
            SERVICE: job.workers,
            DISCOVERY: job.discovery,
            WORKERS: job.workers,
            LAUNCHER: job.launcher,
        }
        found = {
            kind.name: self._children.get((kind.name, job.namespace, name)) for kind, name in places.items()
        }
        there = {kind: manifest for kind, manifest in found.items() if manifest is not None}
        return Seen(there, tuple(self._pods[uid] for uid in self._pods_of.get(job.uid, ())))

    # -- news ----------------------------------------------------------------------------------------------------

    def _is_news(self, manifest: Manifest, known: Manifest | None) -> bool:
        uid, version = manifest["metadata"]["uid"], version_of(manifest)
        if version < self._gone.get(uid, 0):
            return False
        return known is None or known["metadata"]["uid"] != uid or version > version_of(known)

    def _remember(self, uid: str, version: int) -> None:
        """One that only lost our label is out of sight too: as it is from then on it may be entered again."""
        self._gone[uid] = max(version, self._gone.get(uid, 0))
        while len(self._gone) > MOST_REMEMBERED:
            self._gone.popitem(last=False)

    # -- whom it concerns ----------------------------------------------------------------------------------------

    def _changed(self, child: Manifest) -> None:
        """By its owner's name, too: a job made anew waits for its predecessor's children to go."""
        namespace = child["metadata"]["namespace"]
        owners = child["metadata"].get("ownerReferences") or ()
        for name in {each["name"] for each in owners if each.get("kind") == names.KIND_HOROVOD}:
            self._tell((namespace, name))
        self._tell_uid((child["metadata"].get("labels") or {}).get(names.HOROVOD_JOB_UID, ""))

    def _tell_uid(self, uid: str) -> None:
        if (key := self._keys.get(uid)) is not None:
            self._tell(key)

    def _tell(self, key: Key) -> None:
        if key in self.jobs:
            self.on_change(key)


def _job_uid(pod: JobPod) -> str:
    return pod.metadata.labels.get(names.HOROVOD_JOB_UID, "")


def version_of(manifest: Manifest) -> int:
    """Kubernetes promises that versions of one kind can be compared."""
    return int(manifest["metadata"]["resourceVersion"])
