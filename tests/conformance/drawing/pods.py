"""Pods: those that are there already, those that were promised a place, and those that are judged."""

from __future__ import annotations

from collections.abc import Callable

from conformance.drawing import company, disks, placement, ports, resources, spreading, volumes
from conformance.drawing.words import (
    CROWDED,
    GPU,
    NEVER,
    POD_LABELS,
    PRIORITIES,
    SCHEDULER,
    Manifest,
)
from conformance.drawing.world import World


def _pod(world: World, name: str, scheduler: str, namespace: str = "") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace or world.dice.weighted(CROWDED)},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "pause"}],
        },
    }


# -- there already


def draw_existing(world: World) -> None:
    dice = world.dice
    for _ in range(dice.number(6, 28)):
        world.existing.append(_existing(world))
    for pod in world.existing:
        # kube-scheduler keeps a node's ports as a set: when one of two pods with the same port is done it forgets the
        # other's. No scheduler would have put them on one node, so it is nothing to agree with.
        node = pod["spec"]["nodeName"]
        beside = [other for other in world.existing if other is not pod and other["spec"]["nodeName"] == node]
        if "status" in pod and any(ports.has_ports(other) for other in beside):
            ports.drop_ports(pod)
    _draw_crowd(world)
    for place in world.places:
        there = sum(pod["spec"]["nodeName"] == place.name for pod in world.existing)
        if dice.chance(0.12):
            # As many pods as there may be, or one short of it.
            most = str(there + dice.pick((0, 1)))
            for side in ("capacity", "allocatable"):
                place.manifest["status"][side] = {**place.manifest["status"][side], "pods": most}


def _existing(world: World) -> Manifest:
    dice = world.dice
    pod = _pod(world, world.fresh("old"), "somebody-else")
    place = dice.pick(world.places)
    pod["spec"]["nodeName"] = place.name
    if dice.chance(0.85):
        pod["metadata"]["labels"] = company.pod_labels(dice)
    done = dice.chance(0.06)
    if done:
        pod["status"] = {"phase": dice.pick(("Succeeded", "Failed"))}
    elif dice.chance(0.14):
        pod["metadata"]["deletionTimestamp"] = "now"
    if dice.chance(0.6):
        before = place.left.copy()
        resources.take_some(world, pod["spec"], place)
        if done:
            place.left = before
    if dice.chance(0.14):
        company.anti_affinity(dice, pod, narrow=True)
    if dice.chance(0.06):
        company.affinity(world, pod)
    if dice.chance(0.3):
        ports.host_ports(dice, pod)
    if dice.chance(0.45):
        volumes.existing_volumes(world, pod)
    if dice.chance(0.2):
        pod["spec"]["priorityClassName"] = dice.pick(tuple(PRIORITIES))
    if dice.chance(0.02):
        pod["spec"]["nodeName"] = f"{world.prefix}-gone"
    return pod


def _draw_crowd(world: World) -> None:
    """Pods of one app, more of them on some nodes than on others."""
    dice = world.dice
    namespace, app = world.crowd = (dice.weighted(CROWDED), dice.pick(POD_LABELS["app"]))
    liked = dice.some(world.places, 3, len(world.places))
    for _ in range(dice.number(4, 12)):
        pod = _pod(world, world.fresh("old"), "somebody-else", namespace)
        pod["metadata"]["labels"] = {**company.pod_labels(dice), "app": app}
        pod["spec"]["nodeName"] = dice.pick(liked).name
        if dice.chance(0.15):
            pod["metadata"]["deletionTimestamp"] = "now"
        world.existing.append(pod)


# -- promised a place


def draw_nominated(world: World) -> None:
    """Pods that wait with a node in their status. They bring needs, ports and labels, but no rules about others.

    (kube-scheduler looks at a nominated pod's anti-affinity only if some other rule of the kind is there too.)
    """
    dice = world.dice
    for _ in range(dice.weighted(((0, 0.2), (1, 0.3), (2, 0.3), (3, 0.2)))):
        pod = _pod(world, world.fresh("promised"), SCHEDULER)
        place = dice.pick(world.places)
        pod["spec"]["nodeSelector"] = dict(NEVER)
        pod["spec"]["priorityClassName"] = dice.weighted((("low", 0.35), ("middle", 0.35), ("high", 0.3)))
        pod["metadata"]["labels"] = company.pod_labels(dice)
        pod["status"] = {"nominatedNodeName": place.name}
        names = [name for name in place.left if name not in ("pods", GPU) and place.left[name] > 0]
        wanted = {
            name: resources.amount_below(dice, name, place.left[name]) for name in dice.some(names, 1, 2)
        }
        resources.shape_request(dice, pod["spec"], wanted)
        place.promised.update(wanted)
        if dice.chance(0.3):
            ports.host_ports(dice, pod)
        world.nominated.append(pod)


# -- judged


def draw_judged(world: World, count: int) -> list[Manifest]:
    return [_judged(world) for _ in range(count)]


def _judged(world: World) -> Manifest:
    dice = world.dice
    rules = dict.fromkeys(
        dice.weighted(RULES) for _ in range(dice.weighted(((1, 0.65), (2, 0.27), (3, 0.08))))
    )
    namespace = world.crowd[0] if spreading.spread in rules and dice.chance(0.8) else ""
    pod = _pod(world, world.fresh("new"), SCHEDULER, namespace)
    if dice.chance(0.8):
        pod["metadata"]["labels"] = company.pod_labels(dice)
    if dice.chance(0.4):
        pod["spec"]["priorityClassName"] = dice.pick(tuple(PRIORITIES))
    for rule in rules:
        rule(world, pod)
    if "tolerations" not in pod["spec"]:
        way = dice.weighted((("all", 0.72), ("taints", 0.13), ("none", 0.15)))
        if way == "all":
            placement.tolerate_everything(pod)
        elif way == "taints":
            placement.tolerate_taints_only(world, pod)
    if dice.chance(0.06):
        dice.pick((company.preferred, placement.preferred))(dice, pod)
    if pod["spec"].get("nodeSelector", {}).get("disk", "ssd") != "ssd" and _runs(pod, "picky"):
        del pod["spec"]["runtimeClassName"]  # the apiserver refuses two opinions
    return pod


def _runs(pod: Manifest, runtime: str) -> bool:
    return bool(pod["spec"].get("runtimeClassName") == runtime)


def _resources(world: World, pod: Manifest) -> None:
    if "runtimeClassName" not in pod["spec"]:
        resources.at_the_edge(world, pod["spec"])


def _gpu(world: World, pod: Manifest) -> None:
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        if GPU in container.get("resources", {}).get("limits", {}):
            return
    place = world.dice.pick(world.places)
    wanted = max(place.left[GPU] + world.dice.pick((-1, 0, 1)), 1)
    resources.ask_cards(world.dice, pod["spec"], wanted)


def _runtime(world: World, pod: Manifest) -> None:
    pod["spec"].setdefault("runtimeClassName", "picky")


def _ports(world: World, pod: Manifest) -> None:
    ports.host_ports(world.dice, pod)


def _anti_affinity(world: World, pod: Manifest) -> None:
    company.anti_affinity(world.dice, pod)


def _disks(world: World, pod: Manifest) -> None:
    disks.disks(world, pod)


def _gate(world: World, pod: Manifest) -> None:
    pod["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]


def _nothing(world: World, pod: Manifest) -> None:
    """A pod without rules meets those of others: taints, cordons, full nodes, anti-affinity."""


RULES: tuple[tuple[Callable[[World, Manifest], None], float], ...] = (
    (_resources, 0.18),
    (_gpu, 0.02),
    (_runtime, 0.015),
    (placement.node_selector, 0.04),
    (placement.node_affinity, 0.13),
    (placement.tolerations, 0.1),
    (placement.numeric_tolerations, 0.03),
    (company.affinity, 0.07),
    (company.first_of_its_kind, 0.03),
    (_anti_affinity, 0.08),
    (spreading.spread, 0.15),
    (_ports, 0.09),
    (volumes.claims, 0.17),
    (_disks, 0.09),
    (_gate, 0.012),
    (_nothing, 0.03),
)
