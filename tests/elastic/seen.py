"""What the judges see of groups and of what they scale: only what they judge by, out of the JSON that etcd holds."""

from __future__ import annotations

from dataclasses import dataclass

from alnair.api import names
from witness import requests
from witness.requests import Ask
from witness.seen import read_least
from witness.words import ASKS, DEPLOYMENTS, STATEFUL_SETS, Object

HAND = "somebody"
"""The field manager that hand-made scaling is written by."""
PLURALS = {"StatefulSet": STATEFUL_SETS, "Deployment": DEPLOYMENTS}
OVER = ("Failed", "Finished")


@dataclass(frozen=True, slots=True)
class Group:
    uid: str
    key: str
    """`namespace/name`."""
    least: int
    most: int | None
    """None: it is not elastic."""
    target: str
    """`plural/namespace/name`; empty if it is not elastic."""
    over: bool
    """It has failed for good, or is done."""
    told: Object
    """status.elastic."""

    @property
    def elastic(self) -> bool:
        return self.most is not None


@dataclass(frozen=True, slots=True)
class Shape:
    """What one member asks for, and where it may go."""

    ask: Ask | None
    """None: no cards."""
    selector: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Target:
    uid: str
    replicas: int
    by_hand: bool
    """Whoever set the replicas last was no operator."""
    shape: Shape


def read_group(key: str, manifest: Object) -> Group:
    elastic = manifest["spec"].get("elastic")
    target = ""
    if elastic:
        ref = elastic["targetRef"]
        target = f"{PLURALS[ref['kind']]}/{key.partition('/')[0]}/{ref['name']}"
    status = manifest.get("status") or {}
    return Group(
        uid=manifest["metadata"]["uid"],
        key=key,
        least=read_least(manifest["spec"]),
        most=elastic["max"] if elastic else None,
        target=target,
        over=status.get("phase") in OVER,
        told=status.get("elastic") or {},
    )


def read_target(manifest: Object) -> Target:
    spec = manifest["spec"]
    return Target(
        uid=manifest["metadata"]["uid"],
        replicas=1 if spec.get("replicas") is None else spec["replicas"],
        by_hand=_scaled_by(manifest) == HAND,
        shape=read_shape(spec["template"]),
    )


def read_shape(pod: Object) -> Shape:
    """Of a pod, or the template of one."""
    told = (pod["metadata"].get("annotations") or {}).get(ASKS)
    asks = requests.asked(told).asks if told else ()
    selector = pod["spec"].get("nodeSelector") or {}
    return Shape(asks[0] if asks else None, tuple(sorted(selector.items())))


def _scaled_by(manifest: Object) -> str:
    """Who set the replicas, as the apiserver itself keeps it."""
    for entry in manifest["metadata"].get("managedFields") or ():
        if "f:replicas" in (entry.get("fieldsV1") or {}).get("f:spec", {}):
            return str(entry.get("manager", ""))
    return ""


def owned_by_alnair(shape: Shape) -> bool:
    """Whether it can go to nodes of Alnair's only, so that whole cards come from there."""
    return dict(shape.selector).get(names.GPU_OWNER) == names.OWNED_BY_ALNAIR
