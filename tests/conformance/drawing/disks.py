"""The old kinds of disk, which two pods cannot share on one node unless both only read."""

from __future__ import annotations

from conformance.drawing.dice import Dice
from conformance.drawing.words import Manifest
from conformance.drawing.world import World

DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")


def disks(world: World, pod: Manifest) -> None:
    """Mostly such as other pods have."""
    dice = world.dice
    there = [each for other in world.existing for each in other["spec"].get("volumes", ()) if _is_disk(each)]
    for _ in range(dice.weighted(((1, 0.8), (2, 0.2)))):
        if there and dice.chance(0.75):
            mount(pod, _like(dice, dice.pick(there)))
        else:
            mount(pod, _disk(dice))


def mount(pod: Manifest, source: Manifest) -> None:
    """Adds a volume, unless the pod has the same already."""
    volumes: list[Manifest] = pod["spec"].setdefault("volumes", [])
    if any({key: value for key, value in each.items() if key != "name"} == source for each in volumes):
        return
    volumes.append({"name": f"v{len(volumes)}", **source})


def _is_disk(volume: Manifest) -> bool:
    return any(kind in volume for kind in DISKS)


def _like(dice: Dice, volume: Manifest) -> Manifest:
    """The same disk, or nearly."""
    [kind] = [kind for kind in DISKS if kind in volume]
    source = dict(volume[kind])
    if dice.chance(0.4):
        source["readOnly"] = not source.get("readOnly", False)
    if kind == "rbd" and dice.chance(0.4):
        source["monitors"] = dice.some(("10.1.0.1", "10.1.0.2", "10.1.0.3"), 1, 2)
    return {kind: source}


def _disk(dice: Dice) -> Manifest:
    read_only = {"readOnly": True} if dice.chance(0.5) else {}
    number = dice.number(1, 2)
    match dice.pick(("gce", "aws", "rbd", "iscsi")):
        case "gce":
            return {"gcePersistentDisk": {"pdName": f"disk-{number}", **read_only}}
        case "aws":
            return {"awsElasticBlockStore": {"volumeID": f"vol-{number}", **read_only}}
        case "rbd":
            monitors = dice.some(("10.1.0.1", "10.1.0.2", "10.1.0.3"), 1, 2)
            pool = {"pool": dice.pick(("rbd", "fast"))} if dice.chance(0.4) else {}
            return {"rbd": {"monitors": monitors, "image": f"image-{number}", **pool, **read_only}}
    return {
        "iscsi": {
            "targetPortal": dice.pick(("10.2.0.1:3260", "10.2.0.2:3260")),
            "iqn": f"iqn.2026-01.com.example:disk-{number}",
            "lun": dice.number(0, 1),
            **read_only,
        }
    }
