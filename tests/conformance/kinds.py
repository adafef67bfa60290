"""Where each kind of a scenario's objects lives in the API."""

from __future__ import annotations

from conformance.drawing.words import Manifest

CLUSTER_WIDE = {
    "Node": "/api/v1/nodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "Namespace": "/api/v1/namespaces",
}
NAMESPACED = {
    "Pod": ("/api/v1", "pods"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "CSIStorageCapacity": ("/apis/storage.k8s.io/v1", "csistoragecapacities"),
}

# What a scenario is made of, in the order in which it is cleared: who refers to others goes first.
SCENARIO_KINDS = (
    "Pod",
    "VolumeAttachment",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "CSIStorageCapacity",
    "CSINode",
    "CSIDriver",
    "StorageClass",
    "Node",
)


def everywhere(kind: str) -> str:
    """The path that lists all objects of a kind, in all namespaces."""
    if kind in CLUSTER_WIDE:
        return CLUSTER_WIDE[kind]
    prefix, plural = NAMESPACED[kind]
    return f"{prefix}/{plural}"


def collection(kind: str, namespace: str = "") -> str:
    if kind in CLUSTER_WIDE:
        return CLUSTER_WIDE[kind]
    prefix, plural = NAMESPACED[kind]
    return f"{prefix}/namespaces/{namespace}/{plural}"


def path_of(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return f"{collection(manifest['kind'], metadata.get('namespace', ''))}/{metadata['name']}"
