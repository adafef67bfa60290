"""Rules about the judged pod's volumes. Each function takes out the volumes of one kind, in place, and says whether
there were any."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from conformance.drawing.words import Manifest
from conformance.stage import World

BOUND = "pv.kubernetes.io/bind-completed"
STATIC = "kubernetes.io/no-provisioner"


def _claim(volume: Manifest, pod: Manifest, world: World) -> Manifest | None:
    name = volume.get("persistentVolumeClaim", {}).get("claimName")
    for claim in world["PersistentVolumeClaim"]:
        metadata = claim["metadata"]
        if metadata["name"] == name and metadata["namespace"] == pod["metadata"]["namespace"]:
            return claim
    return None


def _class(claim: Manifest, world: World) -> Manifest:
    name = claim["spec"].get("storageClassName")
    return next((each for each in world["StorageClass"] if each["metadata"]["name"] == name), {})


def _is_bound(claim: Manifest) -> bool:
    return BOUND in claim["metadata"].get("annotations", {}) and bool(claim["spec"].get("volumeName"))


def _waits(claim: Manifest, world: World) -> Manifest:
    """Its class, if it waits for the first pod that wants it."""
    found = _class(claim, world)
    waiting = not claim["spec"].get("volumeName") and found.get("volumeBindingMode") == "WaitForFirstConsumer"
    return found if waiting else {}


def _bound(claim: Manifest | None, world: World) -> bool:
    return claim is not None and _is_bound(claim)


def _static(claim: Manifest | None, world: World) -> bool:
    return claim is not None and _waits(claim, world).get("provisioner") == STATIC


def _dynamic(claim: Manifest | None, world: World) -> bool:
    return claim is not None and _waits(claim, world).get("provisioner", STATIC) != STATIC


def _immediate(claim: Manifest | None, world: World) -> bool:
    return claim is not None and not _is_bound(claim) and not _waits(claim, world)


def _missing(claim: Manifest | None, world: World) -> bool:
    return claim is None


def _deleted(claim: Manifest | None, world: World) -> bool:
    return claim is not None and "deletionTimestamp" in claim["metadata"]


def _single(claim: Manifest | None, world: World) -> bool:
    return claim is not None and "ReadWriteOncePod" in claim["spec"]["accessModes"]


def _claims(wanted: Callable[[Manifest | None, World], bool], pod: Manifest, world: World) -> bool:
    return _drop(
        pod,
        lambda volume: "persistentVolumeClaim" in volume and wanted(_claim(volume, pod, world), world),
    )


def _source(kind: str, pod: Manifest, world: World) -> bool:
    return _drop(pod, lambda volume: kind in volume)


def _drop(pod: Manifest, wanted: Callable[[Manifest], bool]) -> bool:
    volumes = pod["spec"]["volumes"]
    kept = [volume for volume in volumes if not wanted(volume)]
    pod["spec"]["volumes"] = kept
    return len(kept) < len(volumes)


class WithoutVolumes(Protocol):
    def __call__(self, pod: Manifest, world: World) -> bool: ...


IN_VOLUMES: dict[str, WithoutVolumes] = {
    "claims.bound": partial(_claims, _bound),
    "claims.waitForFirstConsumer.static": partial(_claims, _static),
    "claims.waitForFirstConsumer.dynamic": partial(_claims, _dynamic),
    "claims.unboundImmediate": partial(_claims, _immediate),
    "claims.missing": partial(_claims, _missing),
    "claims.deleted": partial(_claims, _deleted),
    "claims.readWriteOncePod": partial(_claims, _single),
    "claims.ephemeral": partial(_source, "ephemeral"),
    "noDiskConflict.gcePersistentDisk": partial(_source, "gcePersistentDisk"),
    "noDiskConflict.awsElasticBlockStore": partial(_source, "awsElasticBlockStore"),
    "noDiskConflict.rbd": partial(_source, "rbd"),
    "noDiskConflict.iscsi": partial(_source, "iscsi"),
}
