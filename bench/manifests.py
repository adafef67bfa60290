"""What is created for a shape: nodes, pods, groups. Only the scheduler's name and the way to a group differ."""

from __future__ import annotations

from typing import Any, Literal

from alnair.api import names
from bench.shapes import CARDS, Shape

Manifest = dict[str, Any]
Grouping = Literal["none", "native", "alnair"]
"""How a pod says that it belongs to a gang."""

NAMESPACE = "bench"
FILLER_NAMESPACE = "bench-filler"

NODES = "/api/v1/nodes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
FILLER_PODS = f"/api/v1/namespaces/{FILLER_NAMESPACE}/pods"
GROUPS: dict[Grouping, str] = {
    "native": f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups",
    "alnair": f"/apis/{names.API_PODGROUP}/namespaces/{NAMESPACE}/{names.PLURAL_PODGROUP}",
}
RECORDS = f"/apis/{names.API_ALLOCATION}/namespaces/{NAMESPACE}/{names.PLURAL_ALLOCATION}"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"

IMPOSSIBLE_CARDS = CARDS + 1


def node_name(number: int) -> str:
    return f"node-{number:05d}"


def node(number: int) -> Manifest:
    """A node whose eight cards a device plugin advertises; ready, and with plenty of everything else."""
    name = node_name(number)
    resources = {
        "cpu": "128",
        "memory": "1Ti",
        "ephemeral-storage": "1Ti",
        "pods": "250",
        names.NVIDIA_GPU: str(CARDS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def group_name(gang: int) -> str:
    return f"gang-{gang:05d}"


def pod_name(gang: int, member: int) -> str:
    return f"{group_name(gang)}-{member:04d}"


def group(gang: int, *, size: int, grouping: Grouping) -> Manifest:
    metadata = {"name": group_name(gang), "namespace": NAMESPACE}
    if grouping == "native":
        policy = {"gang": {"minCount": size}}
        spec: Manifest = {"schedulingPolicy": policy}
        return {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": metadata,
            "spec": spec,
        }
    return {
        "apiVersion": names.API_PODGROUP,
        "kind": names.KIND_PODGROUP,
        "metadata": metadata,
        "spec": {"minMember": size},
    }


def pod(shape: Shape, gang: int, member: int, *, scheduler: str, grouping: Grouping) -> Manifest:
    made = _pod(
        pod_name(gang, member), NAMESPACE, scheduler=scheduler, requests=_requests(shape, gang, member)
    )
    if shape.kind == "single":
        return made
    match grouping:
        case "native":
            made["spec"]["schedulingGroup"] = {"podGroupName": group_name(gang)}
        case "alnair":
            made["metadata"]["labels"][names.POD_GROUP_LABEL] = group_name(gang)
        case "none":
            pass
    return made


def filler(number: int, *, nodes: int) -> Manifest:
    """A pod of somebody else's that is bound already."""
    made = _pod(f"filler-{number:05d}", FILLER_NAMESPACE, scheduler="nobody", requests=_worker(cards=1))
    made["spec"]["nodeName"] = node_name(number % nodes)
    return made


def _pod(name: str, namespace: str, *, scheduler: str, requests: dict[str, str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "bench"}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/trainer:1",
                    "resources": {"requests": requests, "limits": _limits(requests)},
                }
            ],
        },
    }


def _requests(shape: Shape, gang: int, member: int) -> dict[str, str]:
    if shape.kind == "mixed" and member == 0:
        return {"cpu": "100m", "memory": "256Mi"}  # the launcher
    if shape.kind == "mixed" and member <= 2:
        return {"cpu": "1", "memory": "4Gi"}  # a parameter server
    if shape.impossible(gang) and (shape.kind == "infeasible" or member == shape.size - 1):
        return _worker(cards=IMPOSSIBLE_CARDS)
    return _worker(cards=1)


def _worker(*, cards: int) -> dict[str, str]:
    return {"cpu": "100m", "memory": "256Mi", names.NVIDIA_GPU: str(cards)}


def _limits(requests: dict[str, str]) -> dict[str, str]:
    """Extended resources have to stand in the limits, too."""
    return {name: amount for name, amount in requests.items() if "/" in name}
