"""Objects as the checker sees them: only what it judges by, read out of the JSON that etcd holds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from alnair.api import names
from witness.delivered import Environment, environment
from witness.uses import Given, given
from witness.words import ASKS, KIND, Object

TERMINAL = ("Succeeded", "Failed")
DECIDED = ("Committed", "Bound", "RollingBack")
PLACE = "place "


@dataclass(frozen=True, slots=True)
class Pod:
    uid: str
    name: str
    node: str
    ours: bool
    group: str
    """`namespace/name` of the PodGroup that it joins; empty if it is alone."""
    succeeded: bool
    living: bool
    """Not in a terminal phase: a terminating pod lives, and holds what it holds."""
    terminating: bool
    given: Given | None
    """As its annotations say; None if they say nothing, or what cannot be read."""
    card_list: str
    asks: str
    kind: str
    told: Environment
    answered: bool
    """It is bound, or told why not."""
    whole_cards: int
    """nvidia.com/gpu, as Kubernetes counts it for a pod."""

    def __str__(self) -> str:
        return f"pod {self.name}"


@dataclass(frozen=True, slots=True)
class Node:
    gpus: int | None
    """Allocatable nvidia.com/gpu; None where the node does not advertise it."""
    ready: bool = True
    """False: its kubelet is out of reach, and what ran there may run on."""


@dataclass(frozen=True, slots=True)
class Record:
    uid: str = ""
    owner: str = ""
    """UID of the PodGroup; empty for a pod's own record."""
    group: str = ""
    """`namespace/name` of it."""
    of: str = ""
    """Whom it is for: the group's `namespace/name`, or the pod's UID."""
    committed: bool = False
    """What it says was decided by a write that can decide it."""
    by_creation: bool = False
    """It has no status yet, and says what it was created with."""
    instance: str = ""
    """Whose it is: `namespace.name` of the Lease by which its writer leads."""
    epoch: int = 0
    min_member: int = 1
    entries: dict[str, Given] = field(default_factory=dict)
    """UID -> what it says of that pod."""
    places: dict[str, Given] = field(default_factory=dict)
    """What it holds for members to come, by names that no UID has."""

    @property
    def held(self) -> dict[str, Given]:
        return {**self.entries, **self.places}


def read_pod(manifest: Object | None, schedulers: frozenset[str]) -> Pod | None:
    if manifest is None:
        return None
    meta, spec = manifest["metadata"], manifest["spec"]
    annotations = meta.get("annotations") or {}
    group = (meta.get("labels") or {}).get(names.POD_GROUP_LABEL)
    return Pod(
        uid=meta["uid"],
        name=f"{meta['namespace']}/{meta['name']}",
        node=spec.get("nodeName") or "",
        ours=spec.get("schedulerName") in schedulers,
        group=f"{meta['namespace']}/{group}" if group else "",
        succeeded=(manifest.get("status") or {}).get("phase") == "Succeeded",
        living=(manifest.get("status") or {}).get("phase") not in TERMINAL,
        terminating=bool(meta.get("deletionTimestamp")),
        given=_annotated(annotations),
        card_list=annotations.get(names.GPU_ID, ""),
        asks=annotations.get(ASKS, ""),
        kind=annotations.get(KIND, ""),
        told=environment(manifest),
        answered=bool(spec.get("nodeName")) or _told_why_not(manifest),
        whole_cards=_whole_cards(spec),
    )


def _told_why_not(manifest: Object) -> bool:
    conditions = (manifest.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "PodScheduled" for condition in conditions)


def _annotated(annotations: dict[str, str]) -> Given | None:
    if names.NODE not in annotations or names.GPU_SLICES not in annotations:
        return None
    try:
        return given(annotations[names.NODE], json.loads(annotations[names.GPU_SLICES]), {})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _whole_cards(spec: Object) -> int:
    """Init containers one after the other beside the sidecars started before, then everybody else together."""
    sidecars = most = 0
    for container in spec.get("initContainers") or []:
        cards = _cards_of(container)
        if container.get("restartPolicy") == "Always":
            sidecars += cards
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + cards)
    return max(most, sidecars + sum(_cards_of(container) for container in spec["containers"]))


def _cards_of(container: Object) -> int:
    asked = container.get("resources") or {}
    wanted = {**(asked.get("requests") or {}), **(asked.get("limits") or {})}.get(names.NVIDIA_GPU, "0")
    return int(wanted)


def read_node(manifest: Object | None) -> Node | None:
    if manifest is None:
        return None
    status = manifest.get("status") or {}
    advertised = (status.get("allocatable") or {}).get(names.NVIDIA_GPU)
    said = {each["type"]: each["status"] for each in status.get("conditions") or []}
    return Node(None if advertised is None else int(advertised), said.get("Ready", "True") == "True")


def read_record(manifest: Object | None) -> Record:
    """What it says was decided: its status, or before that is written, the plan that it was created with. A creation
    can come late, and decides no card and no place (decision 9)."""
    if manifest is None:
        return Record()
    meta, status = manifest["metadata"], manifest.get("status") or {}
    plan = (meta.get("annotations") or {}).get(names.PLAN)
    by_creation = False
    if not status.get("phase") and plan:
        status, by_creation = json.loads(plan), True
    entries = {
        pod["uid"]: given(pod["node"], pod.get("containers") or [], pod.get("gpuCounts") or {})
        for pod in status.get("pods") or []
    }
    named = status.get("reserved") or any(entry.parts for entry in entries.values())
    owner = manifest["spec"]["owner"]
    in_group = owner["kind"] == names.KIND_PODGROUP
    return Record(
        uid=meta["uid"],
        owner=owner["uid"] if in_group else "",
        group=f"{meta['namespace']}/{owner['name']}" if in_group else "",
        of=f"{meta['namespace']}/{owner['name']}" if in_group else owner["uid"],
        committed=status.get("phase") in DECIDED and not (by_creation and named),
        by_creation=by_creation,
        instance=(meta.get("labels") or {}).get(names.INSTANCE, ""),
        epoch=status.get("epoch") or 0,
        min_member=status.get("minMember") or 1,
        entries=entries,
        places={
            f"{PLACE}{meta['uid']}/{place['id']}": given(
                place["node"], place.get("containers") or [], place.get("gpuCounts") or {}
            )
            for place in status.get("reserved") or []
        },
    )


def read_least(spec: Object) -> int:
    """How many members a PodGroup needs."""
    return (spec.get("elastic") or {}).get("min") or spec.get("minMember") or 1
