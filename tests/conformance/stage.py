"""Putting a scenario on the apiserver, reading it back, and clearing it away."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from conformance.drawing.words import NAMESPACES, SCHEDULER, Manifest
from conformance.kinds import CLUSTER_WIDE, SCENARIO_KINDS, collection, everywhere, path_of
from conformance.scenario import Scenario
from harness.api import Api, Refused

World = dict[str, list[Manifest]]
"""Everything there is, by kind, as the apiserver shows it."""


class BadScenario(Exception):
    """The apiserver would not have an object of the scenario: a mistake of the drawer."""


async def put(api: Api, scenario: Scenario) -> None:
    await asyncio.gather(*(_label(api, name, labels) for name, labels in scenario.namespaces.items()))
    await asyncio.gather(*(_make(api, manifest) for manifest in (*scenario.nodes, *scenario.objects)))
    await asyncio.gather(*(_make(api, pod) for pod in scenario.existing))
    await asyncio.gather(*(_make(api, pod) for pod in scenario.nominated))
    await _until_promised_pods_wait(api, scenario)


async def create(api: Api, manifest: Manifest) -> Manifest:
    """Without what only comes later; a refusal names the object."""
    body = {key: value for key, value in manifest.items() if key != "status" or manifest["kind"] == "Node"}
    body["metadata"] = {k: v for k, v in manifest["metadata"].items() if k != "deletionTimestamp"}
    try:
        made: Manifest = await api.call(
            "POST", collection(manifest["kind"], manifest["metadata"].get("namespace", "")), body
        )
    except Refused as refused:
        raise BadScenario(f"{manifest['kind']} {manifest['metadata']['name']}: {refused}") from refused
    return made


async def _make(api: Api, manifest: Manifest) -> None:
    await create(api, manifest)
    path = path_of(manifest)
    if "status" in manifest and manifest["kind"] != "Node":
        await api.patch(f"{path}/status", {"status": manifest["status"]})
    if "deletionTimestamp" in manifest["metadata"]:
        # A bound pod stays until its kubelet, which there is none of, has stopped it; others by a finalizer.
        await api.delete(path, grace=30 if manifest["kind"] == "Pod" else None)


async def _label(api: Api, namespace: str, labels: dict[str, str]) -> None:
    own = {"kubernetes.io/metadata.name": namespace}
    await api.patch(
        f"{CLUSTER_WIDE['Namespace']}/{namespace}",
        [{"op": "replace", "path": "/metadata/labels", "value": {**own, **labels}}],
    )


async def _until_promised_pods_wait(api: Api, scenario: Scenario) -> None:
    """kube-scheduler has tried and put them aside; from then on their nomination counts."""
    if not scenario.nominated:
        return
    names = {pod["metadata"]["name"] for pod in scenario.nominated}

    def aside(pods: list[Manifest]) -> bool:
        return names <= {pod["metadata"]["name"] for pod in pods if was_tried(pod)}

    await api.until_all(
        everywhere("Pod"), aside, fields=f"spec.schedulerName={SCHEDULER}", timeout=60, what="nominated pods"
    )


def was_tried(pod: Manifest) -> Manifest | None:
    """The condition in which a scheduler says that it could not place the pod."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            found: Manifest = condition
            return found
    return None


async def read(api: Api) -> World:
    """All kinds that scheduling looks at."""
    kinds = (*SCENARIO_KINDS, "Namespace")
    lists = await asyncio.gather(*(api.call("GET", everywhere(kind)) for kind in kinds))
    world: World = {}
    for kind, listed in zip(kinds, lists, strict=True):
        # A list says once what its items are; an object by itself says so too.
        world[kind] = [{"apiVersion": listed["apiVersion"], "kind": kind, **item} for item in listed["items"]]
    return world


async def clear(api: Api) -> None:
    """Away with everything that a scenario may have made, also one that was broken off."""
    for kind in SCENARIO_KINDS:
        if kind in CLUSTER_WIDE:
            await _sweep(api, CLUSTER_WIDE[kind])
        else:
            await asyncio.gather(*(_sweep(api, collection(kind, name)) for name in NAMESPACES))
    await _take_off_finalizers(api)


async def _sweep(api: Api, path: str) -> None:
    await api.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})


async def _take_off_finalizers(api: Api) -> None:
    held = defaultdict(list)
    for kind in ("PersistentVolumeClaim", "PersistentVolume", "Pod"):
        for item in (await api.call("GET", everywhere(kind)))["items"]:
            held[kind].append(path_of({**item, "kind": kind}))
    removal = {"metadata": {"finalizers": None}}
    await asyncio.gather(*(_release(api, path, removal) for paths in held.values() for path in paths))


async def _release(api: Api, path: str, removal: Manifest) -> None:
    try:
        await api.patch(path, removal)
    except Refused as refused:
        if refused.status != 404:
            raise
