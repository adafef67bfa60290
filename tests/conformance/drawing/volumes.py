"""Claims for volumes, in every state that a claim can be in."""

from __future__ import annotations

from collections.abc import Callable

from conformance.drawing.disks import disks, mount
from conformance.drawing.storage import (
    BETA_ZONE,
    HOLD,
    driver,
    fresh_size,
    named,
    reachable_from,
    volume,
)
from conformance.drawing.words import ZONE, Manifest
from conformance.drawing.world import World

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def claims(world: World, pod: Manifest) -> None:
    """One or two claims for a pod under test."""
    dice = world.dice
    kinds = tuple((kind, weight) for kind, (_, weight) in CLAIMS.items())
    for _ in range(dice.weighted(((1, 0.75), (2, 0.25)))):
        name = CLAIMS[dice.weighted(kinds)][0](world, pod)
        if name:
            mount(pod, {"persistentVolumeClaim": {"claimName": name}})


def existing_volumes(world: World, pod: Manifest) -> None:
    """For a pod that is bound already: claims that count against attach limits, disks that others want."""
    dice = world.dice
    if dice.chance(0.5):
        disks(world, pod)
        return
    for _ in range(dice.weighted(((1, 0.7), (2, 0.3)))):
        kind = dice.weighted(((_bound, 0.68), (_single, 0.18), (_dynamic, 0.1), (_missing, 0.04)))
        name = kind(world, pod)
        if name:
            mount(pod, {"persistentVolumeClaim": {"claimName": name}})


# -- claims


def _claim(world: World, pod: Manifest, storage_class: str, *, size: int) -> Manifest:
    made: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": world.fresh("claim"), "namespace": pod["metadata"]["namespace"]},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{size}Gi"}},
            "storageClassName": storage_class,
        },
    }
    world.objects.append(made)
    return made


def _name(claim: Manifest) -> str:
    return str(claim["metadata"]["name"])


def _attach(claim: Manifest, to: Manifest) -> None:
    claim["metadata"].setdefault("annotations", {}).update(BOUND)
    claim["spec"]["volumeName"] = to["metadata"]["name"]
    claim["status"] = {"phase": "Bound"}
    to["spec"]["claimRef"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim["metadata"]["namespace"],
        "name": claim["metadata"]["name"],
    }
    to["status"] = {"phase": "Bound"}


def _bound(world: World, pod: Manifest) -> str:
    """Bound to a volume; shared with an earlier pod of the namespace now and then."""
    dice = world.dice
    others = [
        each
        for each in _claims_beside(world, pod)
        if each["metadata"].get("annotations", {}) == BOUND and "deletionTimestamp" not in each["metadata"]
    ]
    if others and dice.chance(0.25):
        return _name(dice.pick(others))
    claim = _claim(world, pod, named(world, "dynamic"), size=1)
    to = volume(world, storage_class=named(world, "dynamic"), size=fresh_size(world))
    if dice.chance(0.3):
        reachable_from(world, to)
    if dice.chance(0.4):
        key = dice.weighted(((ZONE, 0.7), (BETA_ZONE, 0.3)))
        to["metadata"]["labels"] = {key: dice.pick(("z1", "z2", "z3", "z1__z2", "z2__z3", "z9"))}
    if dice.chance(0.25):
        del to["spec"]["csi"]
        to["spec"].update(_old_source(world))
        # Of a disk in several zones kube-scheduler wants to know the region, and breaks down over names like ours.
        labels = to["metadata"].get("labels", {})
        labels.update({key: value.partition("__")[0] for key, value in labels.items()})
    _attach(claim, to)
    world.objects.append(to)
    if dice.chance(0.45):
        world.objects.append(_attachment(world, to))
    return _name(claim)


def _old_source(world: World) -> Manifest:
    """What a volume was made of before there were drivers."""
    name = world.fresh("disk")
    return world.dice.pick(
        (
            {"hostPath": {"path": "/srv"}},
            {"gcePersistentDisk": {"pdName": name}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
        )
    )


def _attachment(world: World, to: Manifest) -> Manifest:
    """A volume that is attached to a node, whatever pods say."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": world.fresh("attachment")},
        "spec": {
            "attacher": driver(world, "disk"),
            "nodeName": _attaching_node(world),
            "source": {"persistentVolumeName": to["metadata"]["name"]},
        },
    }


def _attaching_node(world: World) -> str:
    """Mostly one that may attach few."""
    counting = [
        each["metadata"]["name"]
        for each in world.objects
        if each["kind"] == "CSINode" and any("allocatable" in entry for entry in each["spec"]["drivers"])
    ]
    if counting and world.dice.chance(0.85):
        return str(world.dice.pick(counting))
    return world.dice.pick(world.places).name


def _single(world: World, pod: Manifest) -> str:
    """ReadWriteOncePod; often another pod has it already."""
    dice = world.dice
    taken = [
        each for each in _claims_beside(world, pod) if each["spec"]["accessModes"] == ["ReadWriteOncePod"]
    ]
    if taken and dice.chance(0.7):
        return _name(dice.pick(taken))
    claim = _claim(world, pod, named(world, "dynamic"), size=1)
    claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
    to = volume(world, storage_class=named(world, "dynamic"), size=fresh_size(world))
    to["spec"]["accessModes"] = ["ReadWriteOncePod"]
    _attach(claim, to)
    world.objects.append(to)
    return _name(claim)


def _static(world: World, pod: Manifest) -> str:
    """Waits for the scheduler to choose among volumes that are there: as large as one of them, or a little larger."""
    dice = world.dice
    waiting = [
        each
        for each in world.objects
        if each["kind"] == "PersistentVolume" and each["spec"]["storageClassName"] == named(world, "static")
    ]
    sizes = [int(each["spec"]["capacity"]["storage"].removesuffix("Gi")) for each in waiting]
    asked = {each["spec"]["resources"]["requests"]["storage"] for each in _claims_of(world, pod)}
    size = dice.pick(sizes) + dice.pick((-1, 0, 0, 1))
    if f"{size}Gi" in asked:
        return ""  # two claims of one size would be served in no certain order
    claim = _claim(world, pod, named(world, "static"), size=size)
    if dice.chance(0.2):
        claim["spec"]["selector"] = {"matchLabels": {"grade": dice.pick(("gold", "tin"))}}
    if dice.chance(0.07):
        claim["spec"]["volumeMode"] = "Block"
    if dice.chance(0.03):
        claim["spec"]["volumeAttributesClassName"] = "fast"
    if dice.chance(0.12):
        mine = volume(world, storage_class=named(world, "static"), size=fresh_size(world))
        mine["spec"]["claimRef"] = {"namespace": pod["metadata"]["namespace"], "name": _name(claim)}
        reachable_from(world, mine)
        world.objects.append(mine)
        if dice.chance(0.4):
            claim["spec"]["resources"]["requests"]["storage"] = "1Gi"
    return _name(claim)


def _claims_beside(world: World, pod: Manifest) -> list[Manifest]:
    """All claims of the pod's namespace."""
    return [
        each
        for each in world.objects
        if each["kind"] == "PersistentVolumeClaim"
        and each["metadata"]["namespace"] == pod["metadata"]["namespace"]
    ]


def _claims_of(world: World, pod: Manifest) -> list[Manifest]:
    names = {
        each["persistentVolumeClaim"]["claimName"]
        for each in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in each
    }
    return [each for each in _claims_beside(world, pod) if _name(each) in names]


def _dynamic(world: World, pod: Manifest) -> str:
    """Made where the pod goes, if the class allows that place."""
    claim = _claim(world, pod, named(world, world.dice.pick(("dynamic", "dynamic", "free"))), size=1)
    if world.dice.chance(0.1):
        claim["metadata"]["annotations"] = {SELECTED_NODE: world.dice.pick(world.places).name}
    return _name(claim)


def _selected(world: World, pod: Manifest) -> str:
    """Being made for a node already."""
    claim = _claim(world, pod, named(world, "free"), size=1)
    claim["metadata"]["annotations"] = {SELECTED_NODE: world.dice.pick(world.places).name}
    return _name(claim)


def _capacity(world: World, pod: Manifest) -> str:
    """Made where the pod goes, if the driver says that there is room."""
    return _name(_claim(world, pod, named(world, "capacity"), size=world.dice.number(1, 12)))


def _immediate(world: World, pod: Manifest) -> str:
    """Should be bound by now, and is not."""
    word = world.dice.weighted((("immediate", 0.7), ("unknown", 0.2), ("", 0.1)))
    return _name(_claim(world, pod, named(world, word) if word else "", size=1))


def _half_bound(world: World, pod: Manifest) -> str:
    """Names a volume, and nobody has completed the binding."""
    claim = _claim(world, pod, named(world, "static"), size=1)
    claim["spec"]["volumeName"] = f"{world.prefix}-nowhere"
    if world.dice.chance(0.5):
        claim["metadata"]["annotations"] = dict(BOUND)  # bound to a volume that does not exist
    return _name(claim)


def _missing(world: World, pod: Manifest) -> str:
    return world.fresh("no-claim")


def _deleted(world: World, pod: Manifest) -> str:
    claim = _claim(world, pod, named(world, "dynamic"), size=1)
    claim["metadata"].update(finalizers=[HOLD], deletionTimestamp="now")
    return _name(claim)


def _lost(world: World, pod: Manifest) -> str:
    claim = _claim(world, pod, named(world, "dynamic"), size=1)
    claim["metadata"]["annotations"] = dict(BOUND)
    claim["spec"]["volumeName"] = f"{world.prefix}-lost"
    claim["status"] = {"phase": "Lost"}
    return _name(claim)


def _ephemeral(world: World, pod: Manifest) -> str:
    """A claim of the pod's own that nobody has made yet, or that is somebody else's."""
    if any("ephemeral" in each for each in pod["spec"].get("volumes", ())):
        return ""
    template = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    mount(pod, {"ephemeral": {"volumeClaimTemplate": {"spec": template}}})
    if world.dice.chance(0.4):
        claim = _claim(world, pod, named(world, "dynamic"), size=1)
        claim["metadata"]["name"] = f"{pod['metadata']['name']}-{pod['spec']['volumes'][-1]['name']}"
    return ""


CLAIMS: dict[str, tuple[Callable[[World, Manifest], str], float]] = {
    "bound": (_bound, 0.34),
    "static": (_static, 0.2),
    "dynamic": (_dynamic, 0.14),
    "selected": (_selected, 0.04),
    "capacity": (_capacity, 0.12),
    "single": (_single, 0.13),
    "immediate": (_immediate, 0.05),
    "half bound": (_half_bound, 0.02),
    "missing": (_missing, 0.05),
    "deleted": (_deleted, 0.045),
    "lost": (_lost, 0.01),
    "ephemeral": (_ephemeral, 0.035),
}
