"""ElasticHorovodJobs: the jobs through Kopf, their children and pods through streams that select our label.

Only `on.event`, as for the other kinds: it writes nothing to the objects, so a replica that does not lead writes
nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any

import kopf

from alnair.api import names
from alnair.control.horovod.books import Books, version_of
from alnair.control.horovod.discovery import JobPod
from alnair.control.horovod.job import Manifest, key_of
from alnair.control.horovod.plan import KINDS, Kind
from alnair.control.horovod.reconciler import Reconciler
from alnair.handlers.handover import Handover
from alnair.kube import Client, Stream

LABELLED = {"labelSelector": names.HOROVOD_JOB_UID}
COLLECTION = f"/apis/{names.API_HOROVOD}/{names.PLURAL_HOROVOD}"


def register(registry: kopf.OperatorRegistry, handover: Handover[Reconciler]) -> None:
    @kopf.on.event(names.GROUP_HOROVOD, names.VERSION_HOROVOD, names.PLURAL_HOROVOD, registry=registry)
    async def job_changed(event: kopf.RawEvent, **_: Any) -> None:
        handover.call(apply, event["type"], dict(event["object"]))


def apply(reconciler: Reconciler, kind: str | None, manifest: Manifest) -> None:
    if kind == "DELETED":
        uid, version = manifest["metadata"]["uid"], version_of(manifest)
        reconciler.books.drop_job(key_of(manifest), uid, version=version)
    else:
        reconciler.books.put_job(manifest)


async def list_jobs(client: Client, reconciler: Reconciler) -> None:
    """What Kopf may have missed; and every job gets another look, for the profiles may be others."""
    known = reconciler.books.known_jobs()
    listed = await client.items(COLLECTION)
    for manifest in listed:
        apply(reconciler, None, manifest)
    reconciler.books.keep_jobs({key_of(manifest) for manifest in listed}, known)
    reconciler.mark_all()


class ChildFeed:
    """The children of one kind."""

    def __init__(self, kind: Kind, books: Books) -> None:
        self._kind = kind
        self._books = books
        self.synced = asyncio.Event()

    def stream(self, client: Client) -> Stream[Manifest]:
        return Stream(
            client, self._kind.path(), dict, self, params=LABELLED, name=f"{self._kind.name} of jobs"
        )

    def replace(self, objects: list[Manifest]) -> None:
        listed = {manifest["metadata"]["uid"] for manifest in objects}
        for known in self._books.children(self._kind.name):
            if known["metadata"]["uid"] not in listed:
                self._books.drop_child(self._kind.name, known)
        for manifest in objects:
            self.put(manifest)
        self.synced.set()

    def put(self, thing: Manifest) -> None:
        self._books.put_child(self._kind.name, thing)

    def drop(self, thing: Manifest) -> None:
        self._books.drop_child(self._kind.name, thing)


class PodFeed:
    """The workers and launchers."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.synced = asyncio.Event()

    def stream(self, client: Client) -> Stream[JobPod]:
        return Stream(client, "/api/v1/pods", JobPod, self, params=LABELLED, name="Pod of jobs")

    def replace(self, objects: list[JobPod]) -> None:
        listed = {pod.metadata.uid for pod in objects}
        for known in self._books.pods():
            if known.metadata.uid not in listed:
                self._books.drop_pod(known)
        for pod in objects:
            self.put(pod)
        self.synced.set()

    def put(self, thing: JobPod) -> None:
        self._books.put_pod(thing)

    def drop(self, thing: JobPod) -> None:
        self._books.drop_pod(thing)


def feeds(books: Books) -> list[ChildFeed | PodFeed]:
    return [*(ChildFeed(kind, books) for kind in KINDS.values()), PodFeed(books)]
