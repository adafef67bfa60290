"""Volumes on the real control plane: its controllers bind claims to what Alnair chose, and only then it binds pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from harness.api import Api, Object, at
from harness.audit import bindings
from harness.builders import Built, group, line, node, pod
from harness.fixtures import OF_TEST, Fleet
from harness.operator import Operator
from harness.storage import VolumeBuilder, claim, csi_node, storage_class, volume
from harness.watching import bound_pods, event_about, record_of_group

PLACE = "disk-of"  # label of a test's node: what its disks go by
PROVISIONER = "disks.test.example.com"
SELECTED = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = {"pv.kubernetes.io/provisioned-by": PROVISIONER}


class Storage:
    """Classes and volumes of one test; their names carry its namespace, and they go when it ends."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.made: list[Object] = []

    def name(self, short: str) -> str:
        return f"{short}.{self.namespace}"

    async def add(self, *things: Built) -> None:
        for thing in things:
            manifest = thing.manifest()
            self.made.append(await self.api.create(manifest))

    async def claims(self, *names: str, of: str) -> None:
        made = [claim(name, of=self.name(of), namespace=self.namespace).manifest() for name in names]
        await self.api.create_all(made, namespace=self.namespace)

    def disk(self, name: str, *, of: str, on: str, size: str = "1Gi") -> VolumeBuilder:
        """A volume of one node, which is known by its label."""
        return volume(self.name(name), of=self.name(of), size=size).reached_from(
            line(OF_TEST, "In", self.namespace), line(PLACE, "In", on)
        )

    async def are_available(self) -> None:
        """The controller has seen the volumes."""

        def available(volumes: list[Object]) -> bool:
            phases = {each["metadata"]["name"]: each["status"].get("phase") for each in volumes}
            wanted = [each["metadata"]["name"] for each in self.made if each["kind"] == "PersistentVolume"]
            assert [phases.get(name) for name in wanted] == ["Available"] * len(wanted)
            return True

        await self.api.until_all(at("persistentvolumes"), available, what="the volumes to be available")

    async def bound(self, number: int) -> dict[str, str]:
        """Claim -> its volume, once so many say that they are bound. Their phase comes a moment after the fact."""

        def bound(claims: list[Object]) -> list[Object]:
            return [each for each in claims if each["status"].get("phase") == "Bound"]

        found = await self.api.until_all(
            at("persistentvolumeclaims", self.namespace),
            lambda claims: len(bound(claims)) == number,
            what=f"{number} bound claims",
        )
        return {
            each["metadata"]["name"]: each["spec"]["volumeName"].removesuffix(f".{self.namespace}")
            for each in bound(found)
        }

    async def remove(self) -> None:
        for manifest in reversed(self.made):
            plural = {"PersistentVolume": "persistentvolumes", "StorageClass": "storageclasses"}
            name = manifest["metadata"]["name"]
            await self.api.delete(at(plural.get(manifest["kind"], "csinodes"), None, name))


@pytest.fixture
async def storage(api: Api, namespace: str) -> AsyncIterator[Storage]:
    made = Storage(api, namespace)
    yield made
    await made.remove()


@asynccontextmanager
async def provisioner(storage: Storage, gate: asyncio.Event) -> AsyncIterator[None]:
    """Makes a volume for every claim that names its node, once the gate is open."""

    async def run() -> None:
        done: set[str] = set()
        async for claims in storage.api.follow(at("persistentvolumeclaims", storage.namespace)):
            await gate.wait()
            for each in claims:
                meta = each["metadata"]
                place = meta.get("annotations", {}).get(SELECTED)
                if place and meta["name"] not in done:
                    done.add(meta["name"])
                    there = storage.disk(
                        f"made-{meta['name']}", of="made", on=place.removesuffix(f".{storage.namespace}")
                    )
                    there = there.kept_for(meta["name"], namespace=storage.namespace, uid=meta["uid"])
                    await storage.add(there.annotated(PROVISIONED_BY))

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def place_of(each: Object) -> str:
    return str(each["spec"]["nodeName"].partition(".")[0])


@pytest.mark.shares_operator
async def test_members_are_bound_where_their_disks_are(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, storage: Storage
) -> None:
    await fleet.add(*(node(name).with_cards(2).labelled({PLACE: name}) for name in ("n1", "n2", "n3")))
    await storage.add(
        storage_class(storage.name("local")),
        storage.disk("v1", of="local", on="n1"),
        storage.disk("v2", of="local", on="n2"),
        storage.disk("w2", of="local", on="n2", size="5Gi"),
    )
    await storage.are_available()
    await storage.claims("data-0", "data-1", "data-2", of="local")
    await api.create(group("disks", min_member=3).manifest(), namespace=namespace)
    for index in range(3):
        worker = pod(f"w-{index}").in_group("disks").asking(gpu=1).mounting(f"data-{index}")
        await api.create(
            worker.by(operator.scheduler).selecting(fleet.selector).manifest(), namespace=namespace
        )

    bound = await bound_pods(api, namespace, 3)
    assert sorted(map(place_of, bound)) == ["n1", "n2", "n2"]
    claims = await storage.bound(3)
    assert sorted(claims.values()) == ["v1", "v2", "w2"]
    for each in bound:
        index = each["metadata"]["name"].partition("-")[2]
        assert claims[f"data-{index}"][1:] == place_of(each)[1:], "the volume is the node's own"
    await record_of_group(api, namespace, "disks", phase="Bound")


async def test_volumes_are_made_for_a_gang_and_a_restart_in_between_does_not_matter(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, storage: Storage
) -> None:
    await fleet.add(*(node(name).with_cards(1).labelled({PLACE: name}) for name in ("n1", "n2")))
    allowed = [{OF_TEST: [namespace]}]
    await storage.add(storage_class(storage.name("made"), provisioner=PROVISIONER, allowed=allowed))
    await storage.claims("data-0", "data-1", of="made")
    gate = asyncio.Event()
    async with provisioner(storage, gate):
        await api.create(group("made", min_member=2).manifest(), namespace=namespace)
        for index in range(2):
            worker = pod(f"w-{index}").in_group("made").asking(gpu=1).mounting(f"data-{index}")
            await api.create(
                worker.by(operator.scheduler).selecting(fleet.selector).manifest(), namespace=namespace
            )

        def all_tied(claims: list[Object]) -> bool:
            return all(SELECTED in each["metadata"].get("annotations", {}) for each in claims)

        await api.until_all(at("persistentvolumeclaims", namespace), all_tied, what="the claims' nodes")
        tied = {
            each["metadata"]["name"]: each["metadata"]["annotations"][SELECTED]
            for each in await api.items(at("persistentvolumeclaims", namespace))
        }
        assert bindings(operator.release.cluster, namespace) == [], "no pod is bound before its volume"
        operator.kill()
        await operator.start()
        gate.set()
        bound = await bound_pods(api, namespace, 2)
    assert await storage.bound(2) == {"data-0": "made-data-0", "data-1": "made-data-1"}
    assert {f"data-{p['metadata']['name'][2:]}": p["spec"]["nodeName"] for p in bound} == tied


@pytest.mark.shares_operator
async def test_a_pod_waits_for_its_claim_and_goes_when_it_comes(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, storage: Storage
) -> None:
    await fleet.add(node("n1").labelled({PLACE: "n1"}))
    await storage.add(storage_class(storage.name("local")), storage.disk("v1", of="local", on="n1"))
    waiting = pod("late").mounting("data").by(operator.scheduler).selecting(fleet.selector)
    await api.create(waiting.manifest(), namespace=namespace)
    told = await event_about(api, namespace, "late", "FailedScheduling")
    assert "has no volume for claim data: the claim does not exist" in told["note"]
    await storage.claims("data", of="local")
    await bound_pods(api, namespace, 1)
    assert await storage.bound(1) == {"data": "v1"}


@pytest.mark.shares_operator
async def test_an_ephemeral_volume_within_the_limits_of_its_driver(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, storage: Storage
) -> None:
    """The claim is made by a controller after the pod, and its volume by a provisioner after the plan."""
    names = await fleet.add(*(node(name).labelled({PLACE: name}) for name in ("n1", "n2")))
    await storage.add(storage_class(storage.name("made"), provisioner=PROVISIONER))
    await storage.add(csi_node(names[0], {PROVISIONER: 0}))
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage.name("made"),
    }
    scratch = pod("own").with_volume("scratch", ephemeral={"volumeClaimTemplate": {"spec": spec}})
    gate = asyncio.Event()
    gate.set()
    async with provisioner(storage, gate):
        asking = scratch.by(operator.scheduler).selecting(fleet.selector)
        await api.create(asking.manifest(), namespace=namespace)
        (bound,) = await bound_pods(api, namespace, 1)
    assert place_of(bound) == "n2"
    assert await storage.bound(1) == {"own-scratch": "made-own-scratch"}
