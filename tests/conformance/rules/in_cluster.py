"""Rules in the objects that are there already. Each function takes one out of the whole cluster, in place, and says
whether there was any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from conformance.drawing.placement import REQUIRED
from conformance.drawing.words import Manifest
from conformance.rules.in_pod import IN_POD
from conformance.stage import World

MANY = "1000"


def _bound_pods(world: World) -> list[Manifest]:
    return [pod for pod in world["Pod"] if pod["spec"].get("nodeName")]


def _drop(kind: str, world: World) -> bool:
    found = bool(world[kind])
    world[kind] = []
    return found


def _pods_without(rule: str, world: World) -> bool:
    """A rule of judged pods, taken out of those that are there."""
    found = [pod for pod in _bound_pods(world) if IN_POD[rule](pod)]
    return bool(found)


def _only_containers(world: World) -> bool:
    """As if of those that are there only the containers asked for anything."""
    parts = ("initContainers", "sidecars", "overhead", "podLevelResources")
    found = [_pods_without(part, world) for part in parts]
    return any(found)


def _taints(world: World) -> bool:
    found = [node for node in world["Node"] if node["spec"].pop("taints", None)]
    return bool(found)


def _preferred_taints(world: World) -> bool:
    """As if a wish were a rule."""
    taints = [taint for node in world["Node"] for taint in node["spec"].get("taints", ())]
    soft = [taint for taint in taints if taint["effect"] == "PreferNoSchedule"]
    for taint in soft:
        taint["effect"] = "NoSchedule"
    return bool(soft)


def _unschedulable(world: World) -> bool:
    found = [node for node in world["Node"] if node["spec"].pop("unschedulable", None)]
    return bool(found)


def _max_pods(world: World) -> bool:
    for node in world["Node"]:
        node["status"]["allocatable"]["pods"] = MANY
    return bool(world["Node"])


def _node_name(world: World) -> bool:
    """As if pods that name their node were not there."""
    found = _bound_pods(world)
    world["Pod"] = [pod for pod in world["Pod"] if not pod["spec"].get("nodeName")]
    return bool(found)


def _nominated(pods: Iterable[Manifest]) -> list[Manifest]:
    return [pod for pod in pods if pod.get("status", {}).get("nominatedNodeName")]


def _nominations(world: World) -> bool:
    found = _nominated(world["Pod"])
    world["Pod"] = [pod for pod in world["Pod"] if pod not in found]
    return bool(found)


def _nominated_priority(world: World) -> bool:
    """As if every nominated pod went before all others."""
    found = _nominated(world["Pod"])
    for pod in found:
        pod["spec"]["priority"] = 10**9
    return bool(found)


def _terminating(world: World) -> bool:
    """As if pods that are being deleted would stay."""
    found = [pod for pod in world["Pod"] if pod["metadata"].pop("deletionTimestamp", None)]
    return bool(found)


def _done(world: World) -> bool:
    """As if pods that are done still ran."""
    found = [pod for pod in world["Pod"] if pod["status"].get("phase") in ("Succeeded", "Failed")]
    for pod in found:
        pod["status"]["phase"] = "Running"
    return bool(found)


def _namespace_labels(world: World) -> bool:
    for namespace in world["Namespace"]:
        namespace["metadata"]["labels"] = {}
    return True


def _spec_field(kind: str, name: str, world: World) -> bool:
    found = [each for each in world[kind] if each["spec"].pop(name, None)]
    return bool(found)


def _volume_labels(world: World) -> bool:
    found = [
        volume
        for volume in world["PersistentVolume"]
        if any("zone" in key for key in volume["metadata"].get("labels", {}))
    ]
    for volume in found:
        del volume["metadata"]["labels"]
    return bool(found)


def _allowed_topologies(world: World) -> bool:
    found = [each for each in world["StorageClass"] if each.pop("allowedTopologies", None)]
    return bool(found)


def _selected_node(world: World) -> bool:
    found = [
        claim
        for claim in world["PersistentVolumeClaim"]
        if claim["metadata"].get("annotations", {}).pop("volume.kubernetes.io/selected-node", None)
    ]
    return bool(found)


def _existing_terms(world: World) -> bool:
    found = [
        pod
        for pod in _bound_pods(world)
        if pod["spec"].get("affinity", {}).get("podAntiAffinity", {}).pop(REQUIRED, None)
    ]
    return bool(found)


# -- whom a rule may concern: asking only those saves most of the time


def _everybody(pod: Manifest) -> bool:
    return True


def _has(field: str, pod: Manifest) -> bool:
    return bool(pod["spec"].get(field))


def _has_ports(pod: Manifest) -> bool:
    containers = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    return any("ports" in each for each in containers)


def _has_claims(pod: Manifest) -> bool:
    return any("persistentVolumeClaim" in volume for volume in pod["spec"].get("volumes", ()))


def _asks_resources(pod: Manifest) -> bool:
    containers = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    return any(each.get("resources") for each in (*containers, pod["spec"]))


IN_CLUSTER: dict[str, tuple[Callable[[World], bool], Callable[[Manifest], bool]]] = {
    "nodeName": (_node_name, _everybody),
    "maxPods": (_max_pods, _everybody),
    "unschedulable": (_unschedulable, _everybody),
    "taints": (_taints, _everybody),
    "taints.preferNoScheduleIsNoRule": (_preferred_taints, _everybody),
    "existing.podAntiAffinity": (_existing_terms, _everybody),
    "existing.namespaceSelector": (partial(_pods_without, "podTerms.namespaceSelector"), _everybody),
    "existing.hostPorts": (partial(_pods_without, "hostPorts"), _has_ports),
    "existing.requests": (_only_containers, _asks_resources),
    "existing.terminating": (_terminating, partial(_has, "topologySpreadConstraints")),
    "existing.done": (_done, _everybody),
    "nominatedNodeName": (_nominations, _everybody),
    "nominatedNodeName.priority": (_nominated_priority, _everybody),
    "namespaceLabels": (_namespace_labels, _everybody),
    "volumes.nodeAffinity": (partial(_spec_field, "PersistentVolume", "nodeAffinity"), _has_claims),
    "volumes.zoneLabels": (_volume_labels, _has_claims),
    "volumes.allowedTopologies": (_allowed_topologies, _has_claims),
    "volumes.selectedNode": (_selected_node, _has_claims),
    "volumes.storageCapacity": (partial(_drop, "CSIDriver"), _has_claims),
    "volumes.attachLimits": (partial(_drop, "CSINode"), _has_claims),
    "volumes.attachments": (partial(_drop, "VolumeAttachment"), _has_claims),
}
"""Name -> (takes the rule out, whom that may concern)."""
