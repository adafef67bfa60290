"""Storage for tests, written as sentences like those of `harness.builders`.

storage_class("local")                                      no provisioner, waits for the first consumer
storage_class("fast", provisioner="disk.example.com")
claim("data", of="local", size="1Gi")
volume("pv-1", of="local", size="2Gi").at_node("gpu-1")
csi_node("gpu-1", {"disk.example.com": 2})
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from harness.builders import Built, Manifest, line

HOSTNAME = "kubernetes.io/hostname"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
DRIVER = "disk.example.com"
BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


@dataclass(frozen=True)
class ClaimBuilder(Built):
    def bound_to(self, volume: str) -> Self:
        """For good."""
        return self.naming(volume).annotated(BIND_COMPLETED)

    def naming(self, volume: str) -> Self:
        """The volume is named, and nobody has completed the binding."""
        return self.with_(lambda it: it["spec"].update(volumeName=volume))

    def made_for(self, node: str) -> Self:
        return self.annotated({"volume.kubernetes.io/selected-node": node})

    def asking(self, **spec: Any) -> Self:
        return self.with_(lambda it: it["spec"].update(spec))

    def owned_by_pod(self, uid: str) -> Self:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
        return self.with_(lambda it: it["metadata"].update(ownerReferences=[owner]))


def claim(name: str, *, of: str | None = None, size: str = "1Gi", namespace: str = "team") -> ClaimBuilder:
    spec: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return ClaimBuilder(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}"},
            "spec": spec if of is None else {**spec, "storageClassName": of},
        }
    )


@dataclass(frozen=True)
class VolumeBuilder(Built):
    def at_node(self, *names: str) -> Self:
        return self.reached_from(line(HOSTNAME, "In", *names))

    def reached_from(self, *lines: Manifest) -> Self:
        """Said again it is another term: any of them will do."""

        def change(it: Manifest) -> None:
            affinity = it["spec"].setdefault("nodeAffinity", {"required": {"nodeSelectorTerms": []}})
            affinity["required"]["nodeSelectorTerms"].append({"matchExpressions": list(lines)})

        return self.with_(change)

    def kept_for(self, claim: str, *, namespace: str = "team", uid: str | None = None) -> Self:
        reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim}
        reference |= {"uid": uid} if uid is not None else {}
        return self.with_(lambda it: it["spec"].update(claimRef=reference))

    def in_phase(self, phase: str) -> Self:
        return self.with_(lambda it: it.update(status={"phase": phase}))

    def being(self, **spec: Any) -> Self:
        return self.with_(lambda it: it["spec"].update(spec))

    def served_by(self, driver: str = DRIVER, handle: str = "") -> Self:
        def change(it: Manifest) -> None:
            it["spec"].pop("hostPath", None)
            it["spec"]["csi"] = {
                "driver": driver,
                "volumeHandle": handle or f"handle-{it['metadata']['name']}",
            }

        return self.with_(change)


def volume(name: str, *, of: str = "", size: str = "1Gi") -> VolumeBuilder:
    """Available, and of a kind that nobody counts."""
    return VolumeBuilder(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": of,
                "hostPath": {"path": "/srv"},
            },
            "status": {"phase": "Available"},
        }
    )


def storage_class(
    name: str,
    *,
    provisioner: str = NO_PROVISIONER,
    waits: bool = True,
    allowed: list[dict[str, list[str]]] | None = None,
) -> Built:
    """`allowed`: the topologies, any of them; each is labels with the values that they may have."""
    made: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }
    if allowed is not None:
        made["allowedTopologies"] = [
            {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term.items()]}
            for term in allowed
        ]
    return Built(made)


def csi_node(name: str, limits: dict[str, int | None], *, migrated: str = "") -> Built:
    drivers = [
        {"name": driver, "nodeID": name, **({"allocatable": {"count": count}} if count is not None else {})}
        for driver, count in limits.items()
    ]
    metadata: Manifest = {"name": name}
    if migrated:
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return Built(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": metadata,
            "spec": {"drivers": drivers},
        }
    )


def csi_driver(name: str, *, tells_capacity: bool) -> Built:
    return Built(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": name},
            "spec": {"storageCapacity": tells_capacity},
        }
    )


def capacity(name: str, *, of: str, nodes: Manifest | None, **sizes: str) -> Built:
    """`nodes`: labels, or None for nowhere."""
    made: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "team"},
        "storageClassName": of,
        **sizes,
    }
    return Built(made if nodes is None else {**made, "nodeTopology": {"matchLabels": nodes} if nodes else {}})


def attachment(volume: str, *, to: str, by: str = DRIVER) -> Built:
    return Built(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": f"{volume}-{to}"},
            "spec": {"attacher": by, "nodeName": to, "source": {"persistentVolumeName": volume}},
        }
    )
