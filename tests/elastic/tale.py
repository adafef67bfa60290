"""Hand-made histories for the tests of the judges: one change a call, a tenth of a second apart.

A node `own` with two cards of 24 GiB, a node `plug` with two that a device plugin counts, and what is added. A gang's
target and group have one name.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from alnair.api import names
from elastic import rest
from elastic.seen import HAND
from elastic.sizes import Sizes
from witness import requests, truth
from witness.findings import Finding
from witness.meanwhile import CLOCK
from witness.requests import Ask, Asked
from witness.truth import Card
from witness.words import (
    ASKS,
    CARDS,
    GROUPS,
    LEASES,
    NODES,
    PODS,
    RECORDS,
    STATEFUL_SETS,
    Change,
    Object,
)

SCHEDULER = "alnair"
MIB = 24 * 1024
STABILIZATION = 8.0
HAND_SECONDS = 10.0
OPERATOR = "alnair"
WHOLE = Ask("main", whole=True)
OWN = {names.GPU_OWNER: names.OWNED_BY_ALNAIR}


class Tale:
    def __init__(self) -> None:
        self.sizes = Sizes(frozenset({SCHEDULER}), stabilization=STABILIZATION)
        self._revision = 0
        self._at = 1000.0
        self._away = 0.0
        self.wait(0)
        self._groups: dict[str, Object] = {}
        self._targets: dict[str, Object] = {}
        self._pods: dict[str, Object] = {}
        self._records: dict[str, Object] = {}
        self.node("own", "a", "b")
        self.node("plug", gpus=2)

    @property
    def findings(self) -> list[Finding]:
        return self.sizes.findings

    def said(self) -> list[tuple[str, int]]:
        self.wait(0)
        self.wait(0)  # only then is it certain how late it is
        return [(finding.kind, finding.revision) for finding in self.findings]

    def at_rest(self) -> list[tuple[str, str]]:
        """What is wrong if nothing comes any more: kinds, and what about."""
        return [(finding.kind, finding.objects[0]) for finding in self.judgement().findings]

    def judgement(self) -> rest.Judgement:
        return rest.judge(self.sizes.picture, hand_seconds=HAND_SECONDS)

    def change(self, kind: str, key: str, manifest: Object | None) -> int:
        self._revision += 1
        self._at += 0.1
        self.sizes.see(Change(self._revision, self._at, kind, key, manifest))
        return self._revision

    def wait(self, seconds: float, *, away: float = 0.0) -> None:
        """`away`: and so long the apiserver was away, which the history's clock does not count."""
        self._at += seconds
        self._away += away
        now = datetime.fromtimestamp(self._at + self._away, UTC).isoformat()
        self.change(LEASES, f"ns/{CLOCK}", {"spec": {"renewTime": now}})

    # -- nodes

    def node(self, name: str, *cards: str, gpus: int | None = None, **spec: Any) -> int:
        told = [Card(card, card, "A10", MIB) for card in cards]
        return self.change(
            NODES,
            name,
            {
                "metadata": {
                    "labels": OWN if gpus is None else {},
                    "annotations": {CARDS: truth.told(told)},
                },
                "spec": spec,
                "status": {
                    "allocatable": {} if gpus is None else {names.NVIDIA_GPU: str(gpus)},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )

    # -- gangs

    def gang(
        self, name: str, *, least: int, most: int | None = None, replicas: int = 0, ask: Ask = WHOLE
    ) -> None:
        """Elastic if it has a most. Whole cards are those of node `own`."""
        spec: Object = {"minMember": least}
        if most is not None:
            ref = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name}
            spec = {"elastic": {"min": least, "max": most, "targetRef": ref}}
        self._groups[name] = {"metadata": {"uid": f"{name}?"}, "spec": spec, "status": {}}
        self.change(GROUPS, f"ns/{name}", dict(self._groups[name]))
        if most is not None:
            template = {
                "metadata": {"annotations": {ASKS: requests.told(Asked((ask,)))}},
                "spec": {"nodeSelector": OWN if ask.whole else {}},
            }
            self._targets[name] = {
                "metadata": {"uid": f"{name}*"},
                "spec": {"replicas": replicas, "template": template},
            }
            self.change(STATEFUL_SETS, f"ns/{name}", dict(self._targets[name]))

    def scaled(self, name: str, replicas: int, *, by_hand: bool = False) -> int:
        target = self._targets[name]
        owner = {"manager": HAND if by_hand else OPERATOR, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
        self._targets[name] = {
            "metadata": {**target["metadata"], "managedFields": [owner]},
            "spec": {**target["spec"], "replicas": replicas},
        }
        return self.change(STATEFUL_SETS, f"ns/{name}", self._targets[name])

    def told(self, name: str, **elastic: Any) -> int:
        group = self._groups[name]
        self._groups[name] = {**group, "status": {**group["status"], "elastic": elastic}}
        return self.change(GROUPS, f"ns/{name}", self._groups[name])

    def phase(self, name: str, phase: str) -> int:
        group = self._groups[name]
        self._groups[name] = {**group, "status": {**group["status"], "phase": phase}}
        return self.change(GROUPS, f"ns/{name}", self._groups[name])

    # -- pods

    def pod(self, name: str, *, gang: str = "", node: str = "", ask: Ask = WHOLE, **meta: Any) -> int:
        """Written anew at every call."""
        self._pods[name] = {
            "metadata": {
                "uid": f"{name}!",
                "name": name,
                "namespace": "ns",
                "labels": {names.POD_GROUP_LABEL: gang} if gang else {},
                "annotations": {ASKS: requests.told(Asked((ask,)))},
                **meta,
            },
            "spec": {
                "schedulerName": SCHEDULER,
                "containers": [{"name": "main"}],
                "nodeSelector": OWN if ask.whole else {},
                **({"nodeName": node} if node else {}),
            },
        }
        return self.change(PODS, f"ns/{name}", self._pods[name])

    def ended(self, name: str, phase: str) -> int:
        self._pods[name] = {**self._pods[name], "status": {"phase": phase}}
        return self.change(PODS, f"ns/{name}", self._pods[name])

    def deleted(self, name: str) -> int:
        del self._pods[name]
        return self.change(PODS, f"ns/{name}", None)

    def holding(self, gang: str, cards: dict[str, str]) -> int:
        """The gang's record: pod -> whole card of `own`; names that begin with `+` are places for members to come."""
        whole = {"memoryMiB": MIB, "computePercent": 100, "whole": True}
        pods, places = [], []
        for name, card in cards.items():
            given = {
                "node": "own",
                "containers": [{"name": "main", "slices": [{"gpu": card, **whole}]}],
            }
            if name.startswith("+"):
                places.append({"id": name, "reason": "Growth", **given})
            else:
                pods.append({"uid": f"{name}!", "name": name, **given})
        status = {"phase": "Bound", "pods": pods, "reserved": places}
        owner = {"kind": names.KIND_PODGROUP, "name": gang, "uid": f"{gang}?"}
        return self.change(
            RECORDS,
            f"ns/{gang}",
            {"metadata": {"uid": f"{gang}=", "namespace": "ns"}, "spec": {"owner": owner}, "status": status},
        )

    def running(self, name: str, cards: str, *, least: int, most: int) -> None:
        """The whole of a good gang's beginning: one member for each letter, which is the card that it has."""
        self.gang(name, least=least, most=most, replicas=len(cards))
        members = {f"{name}-{place}": card for place, card in enumerate(cards)}
        self.holding(name, members)
        for member in members:
            self.pod(member, gang=name, node="own")
        self.explained(name, "NoRoom" if len(cards) < most else "AtMax")

    def explained(self, name: str, reason: str) -> int:
        """Its status says how things are, and this reason."""
        group = self.sizes.picture.groups[f"ns/{name}"]
        members = len(self.sizes.picture.members(group.key))
        wants = self._targets[name]["spec"]["replicas"]
        return self.told(
            name,
            size=members,
            wants=wants,
            min=group.least,
            max=group.most,
            reason=reason,
            message="because",
        )
