"""Hand-made histories for the checker's own tests, written as a tale: one change a call, a tenth of a second apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from alnair.api import names
from witness import requests, truth
from witness.checker import Checker
from witness.findings import Finding
from witness.requests import Asked
from witness.truth import Card
from witness.words import (
    ASKS,
    CARDS,
    GROUPS,
    LEASES,
    NEVER,
    NODES,
    PODS,
    RECORDS,
    TOPOLOGIES,
    Change,
    Object,
)

SCHEDULER = "alnair"
MIB = 10_000


def card(name: str, **fields: Any) -> Card:
    return Card(**{"id": name, "card": name, "model": "A10", "memory_mib": MIB, **fields})


def piece(gpu: str, memory: int = 1000, compute: int = 0, *, whole: bool = False) -> Object:
    if whole:
        return {"gpu": gpu, "memoryMiB": MIB, "computePercent": 100, "whole": True}
    return {"gpu": gpu, "memoryMiB": memory, "computePercent": compute}


def main(*pieces: Object, name: str = "main", stage: str = "") -> Object:
    """One container and what it has."""
    return {"name": name, "slices": list(pieces), **({"stage": stage} if stage else {})}


LEASE: Final = "system/alnair"
"""By which the writers of records lead."""


class Tale:
    """A pod's UID is `<name>!`; a record of a lone pod is named as the pod. All is in the namespace `ns`.

    What is told returns its revision. The words for a gang give each member 1,000 MiB of the card `a` of `n`.
    """

    def __init__(self, *, delivering: bool = False) -> None:
        self.checker = Checker(frozenset({SCHEDULER}), delivering=delivering)
        self._revision = 0
        self._at = 1000.0
        self._pods: dict[str, Object] = {}
        self._records: dict[str, Object] = {}

    @property
    def findings(self) -> list[Finding]:
        return self.checker.findings

    def said(self) -> list[tuple[str, int]]:
        return [(finding.kind, finding.revision) for finding in self.findings]

    def change(self, kind: str, key: str, manifest: Object | None) -> int:
        self._revision += 1
        self._at += 0.1
        self.checker.see(Change(self._revision, self._at, kind, key, manifest))
        return self._revision

    def wait(self, seconds: float) -> int:
        self._at += seconds
        return self.change(LEASES, "kube-node-lease/any", {})

    def at_once(self) -> None:
        """What is told next happened at the revision of what was told last."""
        self._revision -= 1

    def rest(self, namespace: str = "ns") -> int:
        self.checker.rests(namespace)
        return self._revision

    # -- nodes

    def node(self, name: str, *cards: Card, gpus: int | None = None, ready: bool = True) -> int:
        allocatable = {} if gpus is None else {names.NVIDIA_GPU: str(gpus)}
        annotations = {CARDS: truth.told(cards)}
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
        status = {"allocatable": allocatable, "conditions": conditions}
        return self.change(NODES, name, {"metadata": {"annotations": annotations}, "status": status})

    def topology(self, name: str, *cards: Card) -> int:
        return self.change(TOPOLOGIES, name, {"metadata": {"annotations": {CARDS: truth.told(cards)}}})

    def gone(self, kind: str, key: str) -> int:
        return self.change(kind, key, None)

    # -- pods

    def pod(
        self,
        name: str,
        *,
        asked: Asked | None = None,
        never: bool = False,
        group: str = "",
        gpus: int = 0,
        uid: str = "",
        scheduler: str = SCHEDULER,
    ) -> int:
        """`uid`: of one that comes under the name of another; without an end of that told, it came in its place."""
        asks = NEVER if never else requests.told(asked) if asked is not None else ""
        limits = {"limits": {names.NVIDIA_GPU: str(gpus)}} if gpus else {}
        self._pods[name] = {
            "metadata": {
                "uid": uid or f"{name}!",
                "name": name,
                "namespace": "ns",
                "annotations": {ASKS: asks} if asks else {},
                "labels": {names.POD_GROUP_LABEL: group} if group else {},
            },
            "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "resources": limits}]},
        }
        return self._write(name)

    def stolen(self, name: str, node: str, *, gpus: int) -> int:
        """A pod that another scheduler has bound."""
        self.pod(name, gpus=gpus, scheduler="another")
        self._pods[name]["spec"]["nodeName"] = node
        return self._write(name)

    def bind(
        self, name: str, node: str, *containers: Object, annotated: str = "", listed: str | None = None
    ) -> int:
        """`annotated`, `listed`: node and cards that its annotations name, if others than those."""
        pod = self._pods[name]
        pod["spec"]["nodeName"] = node
        cards = dict.fromkeys(each["gpu"] for one in containers for each in one.get("slices", ()))
        pod["metadata"]["annotations"] |= {
            names.NODE: annotated or node,
            names.GPU_ID: ",".join(cards) if listed is None else listed,
            names.GPU_SLICES: json.dumps(containers),
        }
        return self._write(name)

    def reading(self, name: str, **variables: str) -> int:
        """The pod's container reads these variables from annotations of these keys."""
        env = [
            {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}
            for variable, key in variables.items()
        ]
        self._pods[name]["spec"]["containers"][0]["env"] = env
        return self._write(name)

    def annotate(self, name: str, key: str, value: str) -> int:
        self._pods[name]["metadata"]["annotations"][key] = value
        return self._write(name)

    def moved(self, name: str, node: str) -> int:
        """What no apiserver should ever let happen."""
        self._pods[name]["spec"]["nodeName"] = node
        return self._write(name)

    def phase(self, name: str, phase: str) -> int:
        self._pods[name]["status"] = {"phase": phase}
        return self._write(name)

    def terminating(self, name: str) -> int:
        self._pods[name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return self._write(name)

    def deleted(self, name: str) -> int:
        del self._pods[name]
        return self.change(PODS, f"ns/{name}", None)

    def _write(self, name: str) -> int:
        return self.change(PODS, f"ns/{name}", json.loads(json.dumps(self._pods[name])))

    # -- records

    def group(self, name: str, least: int, *, elastic: int = 0) -> int:
        """`elastic`: the least size of one that grows and shrinks."""
        spec = {"minMember": least, **({"elastic": {"min": elastic}} if elastic else {})}
        return self.change(GROUPS, f"ns/{name}", {"metadata": {"uid": f"{name}?"}, "spec": spec})

    def gang(self, name: str, *members: str, least: int) -> None:
        """The group and its pods are there, and no record."""
        self.group(name, least)
        for member in members:
            self.pod(member, group=name)

    def commit(self, name: str, *members: str, least: int, group: str = "") -> int:
        """A gang's record lists these."""
        return self.record(name, *(share(member) for member in members), group=group or name, least=least)

    def bind_members(self, *members: str) -> int:
        for member in members:
            revision = self.bind(member, "n", main(piece("a")))
        return revision

    def record(
        self,
        name: str,
        *entries: Object,
        group: str = "",
        least: int = 1,
        epoch: int = 1,
        phase: str = "Committed",
        by_creation: bool = False,
        reserved: Sequence[Object] = (),
        uid: str = "",
    ) -> int:
        """`uid`: of one that was made anew under that name."""
        status = {"phase": phase, "epoch": epoch, "minMember": least, "pods": list(entries)}
        if reserved:
            status["reserved"] = list(reserved)
        owner = {"kind": "Pod", "name": name, "uid": f"{name}!"}
        if group:
            owner = {"kind": "PodGroup", "name": group, "uid": f"{group}?"}
        meta: Object = {"uid": uid or f"{name}=", "namespace": "ns"}
        if by_creation:
            meta["annotations"] = {names.PLAN: json.dumps(status)}
            meta["labels"] = {names.INSTANCE: LEASE.replace("/", ".")}
            status = {}
        self._records[name] = {"metadata": meta, "spec": {"owner": owner}, "status": status}
        return self.change(RECORDS, f"ns/{name}", self._records[name])

    def leads(self, term: int) -> int:
        """Somebody has the Lease, for the so-manieth time."""
        return self.change(LEASES, LEASE, {"spec": {"leaseTransitions": term}})

    def restate(self, name: str, **status: Any) -> int:
        """The record says this, and else what it said."""
        record = self._records[name]
        self._records[name] = {**record, "status": {**record["status"], **status}}
        return self.change(RECORDS, f"ns/{name}", self._records[name])

    def recorded_and_bound(self, name: str, node: str, *containers: Object) -> int:
        """The whole of a good lone pod's beginning."""
        self.pod(name)
        self.record(name, entry(name, node, *containers))
        return self.bind(name, node, *containers)

    def grown(self, *reserved: Object) -> int:
        """A gang of one pod with 4,000 MiB of the card `a`, and what its record keeps beside."""
        self.gang("g", "x", least=1)
        held = main(piece("a", 4000))
        self.record("g", entry("x", "n", held), group="g")
        self.bind("x", "n", held)
        return self.record("g", entry("x", "n", held), group="g", reserved=reserved)

    def counted(self, name: str, gpus: int) -> int:
        """A lone pod bound to the device plugin's node `p`."""
        self.pod(name, gpus=gpus)
        return self.bind(name, "p", {"name": "main", "gpuCount": gpus})


def place(number: int, node: str, *containers: Object, counts: dict[str, int] | None = None) -> Object:
    """What a record keeps for a member to come."""
    return {
        "id": f"r{number}",
        "node": node,
        "reason": "Growth",
        **({"containers": list(containers)} if containers else {}),
        **({"gpuCounts": counts} if counts else {}),
    }


def share(member: str) -> Object:
    """A gang's member as its record lists it."""
    return entry(member, "n", main(piece("a")))


def entry(
    name: str, node: str, *containers: Object, counts: dict[str, int] | None = None, uid: str = ""
) -> Object:
    """A pod as a record lists it."""
    return {
        "name": name,
        "uid": uid or f"{name}!",
        "node": node,
        **({"containers": list(containers)} if containers else {}),
        **({"gpuCounts": counts} if counts else {}),
    }
