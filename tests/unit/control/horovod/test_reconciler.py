"""Jobs against an apiserver that loses answers, is slow, and has other people's hands in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from alnair.api import names
from alnair.control.events import Events
from alnair.control.horovod import reconciler, rounds
from alnair.control.horovod.plan import KINDS
from alnair.control.horovod.reconciler import Reconciler
from alnair.control.metrics import Metrics
from alnair.handlers import horovod
from alnair.kube import Client
from alnair.kube.clock import Clock
from alnair.kube.lull import Lull
from harness.horovod import horovod_job, listed_hosts
from unit.apiserver import Manifest, Store
from unit.control.horovod.jobs import job, worker

JOB = f"/apis/{names.API_HOROVOD}/namespaces/ns/{names.PLURAL_HOROVOD}/train"
PLACES = {
    "PodGroup": KINDS["PodGroup"].path("ns", "train"),
    "Service": KINDS["Service"].path("ns", "train-workers"),
    "ConfigMap": KINDS["ConfigMap"].path("ns", "train-discovery"),
    "StatefulSet": KINDS["StatefulSet"].path("ns", "train-workers"),
    "Job": KINDS["Job"].path("ns", "train-launcher"),
}
_PLURALS = {kind.plural: kind.name for kind in KINDS.values()}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "FIRST_RETRY", 0.001)
    monkeypatch.setattr(rounds, "LONGEST_RETRY", 0.01)


@dataclass
class Office:
    """An apiserver and one who reconciles; events of the store reach it in order, children by their label."""

    store: Store
    at_work: Reconciler

    def put_job(self, **workers: Any) -> Manifest:
        manifest = horovod_job("train", low=2, high=5).manifest()
        manifest["spec"]["workersSpec"] |= workers
        before = self.store.objects.get(JOB, {})
        status = {"status": before["status"]} if "status" in before else {}
        return self.store.put(JOB, {**manifest, **status})

    def run_workers(self, number: int) -> None:
        of = job(uid=self.store.objects[JOB]["metadata"]["uid"])
        for pod in self.at_work.books.pods():
            self.at_work.books.drop_pod(pod)
        for ordinal in range(number):
            self.at_work.books.put_pod(worker(of, ordinal))

    def writes(self) -> list[str]:
        return [call.name for call in self.store.calls if call.method != "GET" and "/events" not in call.path]

    async def until(self, so: Callable[[], Any]) -> None:
        async with asyncio.timeout(5):
            while not so():  # noqa: ASYNC110 (of the store and the books together: there is no one event)
                await asyncio.sleep(0.001)

    async def until_quiet(self) -> None:
        """Nothing is asked for a while."""
        async with asyncio.timeout(5):
            calls = -1
            while calls != len(self.store.calls):
                calls = len(self.store.calls)
                await asyncio.sleep(0.06)

    def there(self, kind: str) -> Manifest:
        return self.store.objects[PLACES[kind]]

    def told(self, condition: str = "Ready") -> str:
        status = self.store.objects[JOB].get("status") or {}
        return next(
            (each["reason"] for each in status.get("conditions", []) if each["type"] == condition), ""
        )


@asynccontextmanager
async def office(*, serves: str = "alnair") -> AsyncIterator[Office]:
    async with Store() as store, Client(store.connection()) as client:
        clock, metrics = Clock(), Metrics()
        events = Events(client, clock=clock, metrics=metrics, identity="test", lull=Lull(clock))
        made = Reconciler(client, events=events, clock=clock, serves=lambda name: name == serves)

        def heard(kind: str, path: str, manifest: Manifest) -> None:
            plural = path.split("/")[-2]
            if plural == names.PLURAL_HOROVOD:
                horovod.apply(made, kind, manifest)
            elif plural in _PLURALS:
                ours = names.HOROVOD_JOB_UID in manifest["metadata"].get("labels", {})
                known = kind != "DELETED" and ours
                (made.books.put_child if known else made.books.drop_child)(_PLURALS[plural], manifest)

        store.listeners.append(heard)
        task = asyncio.create_task(made.run())
        try:
            yield Office(store, made)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def trained() -> AsyncIterator[Office]:
    """A job with all its children and two workers, at rest."""
    async with office() as desk:
        desk.put_job()
        desk.run_workers(2)
        await desk.until(lambda: PLACES["Job"] in desk.store.objects)
        await desk.until_quiet()
        yield desk


async def test_the_finalizer_is_there_before_the_first_child() -> None:
    async with office() as desk:
        desk.put_job()
        await desk.until(lambda: PLACES["StatefulSet"] in desk.store.objects)
        assert desk.writes()[0] == f"PATCH {names.PLURAL_HOROVOD}/train"
        assert desk.store.objects[JOB]["metadata"]["finalizers"] == [names.HOROVOD_FINALIZER]


async def test_nothing_is_written_at_rest_however_often_it_is_looked_at() -> None:
    async with trained() as desk:
        before = desk.writes()
        desk.at_work.mark_all()
        await desk.until_quiet()
        assert desk.writes() == before


async def test_a_job_of_another_scheduler_is_let_alone() -> None:
    async with office(serves="other") as desk:
        desk.put_job()
        await desk.until_quiet()
        assert desk.writes() == []


async def test_a_scaling_that_comes_first_is_not_undone_by_a_new_template() -> None:
    async with trained() as desk:
        place = PLACES["StatefulSet"]
        scaled = {**desk.there("StatefulSet"), "spec": {**desk.there("StatefulSet")["spec"], "replicas": 4}}
        desk.store.first("PUT statefulsets/train-workers", lambda: desk.store.put(place, scaled))
        desk.put_job(image="newer")
        await desk.until_quiet()
        spec = desk.there("StatefulSet")["spec"]
        assert spec["template"]["spec"]["containers"][0]["image"] == "newer"
        assert spec["replicas"] == 4


@pytest.mark.parametrize("kind", KINDS)
async def test_a_creation_whose_answer_is_lost_is_found_and_not_repeated(kind: str) -> None:
    async with office() as desk:
        plural = KINDS[kind].plural
        desk.store.loses_the_answer_of(f"POST ns/{plural}")
        desk.put_job()
        desk.run_workers(2)
        await desk.until(lambda: PLACES["Job"] in desk.store.objects)
        await desk.until_quiet()
        assert desk.told() == "Starting"


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_comes_after_the_objects_end_does_not_bring_it_back_to_life(kind: str) -> None:
    async with trained() as desk:
        stripped = desk.there(kind)
        gate = desk.store.holds_back(f"PUT {PLACES[kind].rsplit('/', 2)[1]}/{stripped['metadata']['name']}")
        desk.store.put(
            PLACES[kind], {**stripped, "metadata": {**stripped["metadata"], "ownerReferences": []}}
        )
        await desk.until(lambda: desk.there(kind)["metadata"]["ownerReferences"])
        old = desk.there(kind)["metadata"]["uid"]
        desk.store.remove(PLACES[kind])
        gate.set()
        await desk.until(lambda: PLACES[kind] in desk.store.objects)
        assert desk.there(kind)["metadata"]["uid"] != old


@pytest.mark.parametrize("kind", KINDS)
async def test_an_object_of_somebody_else_is_never_written(kind: str) -> None:
    async with office() as desk:
        theirs = desk.store.put(PLACES[kind], {"kind": kind, "metadata": {"labels": {"app": "theirs"}}})
        desk.put_job()
        desk.run_workers(2)
        await desk.until(lambda: desk.told() == "NameTaken")
        assert desk.there(kind) == theirs
        desk.store.remove(PLACES[kind])
        await desk.until(lambda: desk.told() == "Starting")
        assert desk.there(kind)["metadata"]["labels"][names.HOROVOD_JOB]


async def test_a_fight_over_a_child_is_not_fought_at_full_speed() -> None:
    async with trained() as desk:
        place = PLACES["Service"]

        def undo(kind: str, path: str, manifest: Manifest) -> None:
            if path == place and manifest["spec"]["selector"].get("app") is None:
                asyncio.get_running_loop().call_soon(desk.store.put, place, wrong)

        there = desk.there("Service")
        wrong = {**there, "spec": {**there["spec"], "selector": {"app": "theirs"}}}
        desk.store.listeners.append(undo)
        desk.store.put(place, wrong)
        await desk.until(lambda: desk.told() == "Contested")
        await asyncio.sleep(0.1)
        assert desk.writes().count("PUT services/train-workers") == reconciler.REPAIRS


async def test_the_script_follows_the_workers() -> None:
    async with trained() as desk:
        for number in (5, 1, 0, 3):
            desk.run_workers(number)
            wanted = [f"train-workers-{ordinal}.train-workers:1" for ordinal in range(number)]
            await desk.until(lambda wanted=wanted: listed_hosts(desk.there("ConfigMap")) == wanted)


async def test_what_the_apiserver_refuses_is_said_and_tried_again() -> None:
    async with office() as desk:
        with desk.store.refusing(lambda call: call.method == "POST" and "statefulsets" in call.path, 403):
            desk.put_job()
            await desk.until(lambda: desk.told() == "Refused")
        await desk.until(lambda: PLACES["StatefulSet"] in desk.store.objects)
        await desk.until(lambda: desk.told() == "WaitingForWorkers")


async def test_a_spec_that_cannot_be_read_makes_nothing_and_leaves_what_there_is() -> None:
    async with trained() as desk:
        before = {kind: desk.there(kind) for kind in KINDS}
        desk.put_job(minReplicas=9)
        await desk.until(lambda: desk.told("Invalid") == "Invalid")
        assert {kind: desk.there(kind) for kind in KINDS} == before
        assert "minReplicas" in str(desk.store.objects[JOB]["status"]["conditions"])
        desk.put_job()
        await desk.until(lambda: desk.told("Invalid") == "Valid")


async def test_a_deleted_job_takes_its_children_along_and_goes_last() -> None:
    async with trained() as desk:
        going = desk.store.objects[JOB]
        meta = {**going["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        desk.store.put(JOB, {**going, "metadata": meta})
        await desk.until(lambda: PLACES["StatefulSet"] not in desk.store.objects)
        await desk.until_quiet()
        assert JOB in desk.store.objects, "its pods are still there"
        desk.run_workers(0)
        await desk.until(lambda: JOB not in desk.store.objects)
        assert not [place for place in PLACES.values() if place in desk.store.objects]
        await desk.until_quiet()
        assert desk.at_work.books.jobs == {}


async def test_a_deleted_job_whose_profile_is_gone_from_the_config_can_go_too() -> None:
    async with office(serves="other") as desk:
        desk.put_job()
        held = desk.store.objects[JOB]
        meta = {
            **held["metadata"],
            "finalizers": [names.HOROVOD_FINALIZER],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }
        desk.store.put(JOB, {**held, "metadata": meta})
        await desk.until(lambda: JOB not in desk.store.objects)


async def test_who_deletes_a_job_and_wants_to_keep_its_children_may() -> None:
    async with trained() as desk:
        going = desk.store.objects[JOB]
        finalizers = [*going["metadata"]["finalizers"], "orphan"]
        meta = {**going["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}
        desk.store.put(JOB, {**going, "metadata": meta})
        await desk.until(lambda: desk.store.objects[JOB]["metadata"]["finalizers"] == ["orphan"])
        assert all(place in desk.store.objects for place in PLACES.values())
