"""The storage of a scenario: classes, drivers, what each node can attach, and volumes that wait for a claim.

Sizes of volumes are all different: kube-scheduler takes the smallest that fits, and among equals whichever it meets
first, which would make the verdict on a second claim a matter of luck.
"""

from __future__ import annotations

from typing import Any

from conformance.drawing.words import HOSTNAME, NODE_LABELS, RACK, ZONE, Manifest
from conformance.drawing.world import World

GIB = 1 << 30
HOLD = "conformance.example/hold"
"""A finalizer: what has it stays when it is deleted, until the scenario is cleared."""

SUCCESSORS = {"kubernetes.io/gce-pd": "pd.csi.storage.gke.io", "kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
"""The CSI drivers that took over from the old kinds of disk."""

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
CAPACITY_NAMESPACE = "grey"


def named(world: World, word: str) -> str:
    """The scenario's own class or driver."""
    return f"{world.prefix}-{word}"


def driver(world: World, word: str) -> str:
    return f"{world.prefix}.{word}.example.com"


def draw_storage(world: World) -> None:
    world.objects += [
        _class(world, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        _class(world, "dynamic", driver(world, "disk"), "WaitForFirstConsumer", topologies=True),
        _class(world, "free", driver(world, "disk"), "WaitForFirstConsumer"),
        _class(world, "capacity", driver(world, "pool"), "WaitForFirstConsumer"),
        _class(world, "immediate", driver(world, "disk"), "Immediate"),
        _driver(world, "disk", storageCapacity=False),
        _driver(world, "pool", storageCapacity=True),
    ]
    dice = world.dice
    for place in world.places:
        if dice.chance(0.8):
            world.objects.append(_csi_node(world, place.name))
    for _ in range(dice.number(0, 3)):
        world.objects.append(_capacity(world))
    for _ in range(dice.number(2, 6)):
        world.objects.append(waiting_volume(world))


def _class(world: World, word: str, provisioner: str, mode: str, *, topologies: bool = False) -> Manifest:
    made: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": named(world, word)},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    dice = world.dice
    if topologies and dice.chance(0.75):
        terms = [_topology(world) for _ in range(dice.weighted(((1, 0.7), (2, 0.3))))]
        # The apiserver refuses the same term twice.
        made["allowedTopologies"] = terms[:1] if terms[0] == terms[-1] else terms
    return made


def _topology(world: World) -> Manifest:
    dice = world.dice
    keys = {ZONE: ("z1", "z2", "z3"), RACK: ("r1", "r2", "r3", "r4")}
    chosen = dice.some(tuple(keys), 1, 2)
    lines = [{"key": key, "values": sorted(dice.some(keys[key], 1, 2))} for key in sorted(chosen)]
    return {"matchLabelExpressions": lines}


def _driver(world: World, word: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": driver(world, word)},
        "spec": spec,
    }


def _csi_node(world: World, node: str) -> Manifest:
    dice = world.dice
    drivers = []
    for word in dice.some(("disk", "pool"), 1, 2):
        entry: Manifest = {"name": driver(world, word), "nodeID": node}
        if dice.chance(0.85):
            entry["allocatable"] = {"count": dice.weighted(((1, 0.5), (2, 0.3), (3, 0.1), (0, 0.1)))}
        drivers.append(entry)
    metadata: Manifest = {"name": node}
    if dice.chance(0.5):
        # On this node CSI drivers have taken over from the old kinds, and count their disks.
        moved = dice.some(tuple(SUCCESSORS), 1, 2)
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(moved)}
        drivers += [
            {
                "name": SUCCESSORS[plugin],
                "nodeID": node,
                "allocatable": {"count": dice.weighted(((0, 0.3), (1, 0.6), (2, 0.1)))},
            }
            for plugin in moved
        ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }


def _capacity(world: World) -> Manifest:
    dice = world.dice
    made: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": world.fresh("capacity"), "namespace": CAPACITY_NAMESPACE},
        "storageClassName": named(world, dice.pick(("capacity", "capacity", "dynamic"))),
        "capacity": f"{dice.number(2, 12)}Gi",
    }
    if dice.chance(0.85):
        key, value = dice.pick(((ZONE, "z1"), (ZONE, "z2"), (ZONE, "z3"), ("disk", "ssd")))
        made["nodeTopology"] = {"matchLabels": {key: value}} if dice.chance(0.9) else {}
    if dice.chance(0.3):
        made["maximumVolumeSize"] = f"{dice.number(1, 8)}Gi"
    return made


def fresh_size(world: World) -> int:
    """In GiB; no two volumes of a scenario have the same."""
    return 2 * world.fresh_number("size")


def volume(world: World, *, storage_class: str, size: int) -> Manifest:
    """A CSI volume that any node may use."""
    name = world.fresh("pv")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": f"{size}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "csi": {"driver": driver(world, "disk"), "volumeHandle": f"handle-{name}"},
        },
        "status": {"phase": "Available"},
    }


FLAWS = (
    ("none", 0.7),
    ("phase", 0.08),
    ("mode", 0.06),
    ("access", 0.06),
    ("deleted", 0.04),
    ("taken", 0.04),
    ("attributes", 0.02),
)


def waiting_volume(world: World) -> Manifest:
    """A volume of the static class that waits for a claim, or looks as if it did."""
    dice = world.dice
    made = volume(world, storage_class=named(world, "static"), size=fresh_size(world))
    if dice.chance(0.85):
        reachable_from(world, made)
    if dice.chance(0.5):
        made["metadata"]["labels"] = {"grade": dice.pick(("gold", "tin"))}
    flaw = dice.weighted(FLAWS)
    if flaw == "phase":
        made["status"] = {"phase": dice.pick(("Released", "Failed", "Pending"))}
    elif flaw == "mode":
        made["spec"]["volumeMode"] = "Block"
    elif flaw == "access":
        made["spec"]["accessModes"] = ["ReadOnlyMany"]
    elif flaw == "deleted":
        made["metadata"].update(finalizers=[HOLD], deletionTimestamp="now")
    elif flaw == "attributes":
        made["spec"]["volumeAttributesClassName"] = "fast"
    elif flaw == "taken":
        made["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "red", "name": "somebody"}
    return made


def reachable_from(world: World, made: Manifest) -> None:
    """Gives a volume a node affinity."""
    dice = world.dice
    terms = [{"matchExpressions": [_expression(world)]} for _ in range(dice.weighted(((1, 0.8), (2, 0.2))))]
    if dice.chance(0.2):
        terms[0]["matchExpressions"].append(_expression(world))
    made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}


def _expression(world: World) -> Manifest:
    dice = world.dice
    match dice.weighted((("zone", 0.5), ("host", 0.2), ("disk", 0.2), ("gen", 0.1))):
        case "zone":
            operator = dice.weighted((("In", 0.8), ("NotIn", 0.2)))
            return {"key": ZONE, "operator": operator, "values": dice.some(("z1", "z2", "z3"), 1, 2)}
        case "host":
            names = [place.name for place in dice.some(world.places, 1, 3)]
            return {"key": HOSTNAME, "operator": "In", "values": names}
        case "disk":
            operator = dice.pick(("Exists", "DoesNotExist", "In"))
            line: Manifest = {"key": "disk", "operator": operator}
            return {**line, "values": [dice.pick(NODE_LABELS["disk"])]} if operator == "In" else line
    return {"key": "gen", "operator": dice.pick(("Gt", "Lt")), "values": ["5"]}
