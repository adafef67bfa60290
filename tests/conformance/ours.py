"""Asking our filters: which nodes does this pod fit?

Objects go the operator's way: the apiserver's JSON, decoded by `alnair.state.wire`, read into a `ClusterState`, and
then the search is asked where the pod could go, with all filters of the default profile and with each by itself.
Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import orjson

from alnair.api import config
from alnair.scheduling import search
from alnair.scheduling.classes import Member
from alnair.scheduling.profile import Profile, build
from alnair.state import storage, wire
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.draft import Bools, Draft
from alnair.state.nodes import read_node
from alnair.state.pods import Pod, PodReader
from alnair.state.volumes import StorageObject
from conformance.drawing.words import Manifest
from conformance.stage import World

GATES = "SchedulingGates"
UNREADABLE = "(unreadable)"

PROFILE = build(config.DEFAULT.profiles[0])

STORAGE: dict[str, tuple[type[Any], Callable[[Any], StorageObject]]] = {
    "StorageClass": (wire.StorageClass, storage.read_class),
    "CSIDriver": (wire.CSIDriver, storage.read_driver),
    "CSINode": (wire.CSINode, storage.read_node_drivers),
    "CSIStorageCapacity": (wire.CSIStorageCapacity, storage.read_capacity),
    "PersistentVolume": (wire.PersistentVolume, storage.read_volume),
    "PersistentVolumeClaim": (wire.PersistentVolumeClaim, storage.read_claim),
    "VolumeAttachment": (wire.VolumeAttachment, storage.read_attachment),
}


@dataclass(frozen=True)
class Opinion:
    """Of one pod. `refused` tells for every filter which nodes it refuses."""

    nodes: frozenset[str]
    refused: dict[str, frozenset[str]]
    problem: str = ""
    reasons: dict[str, str] = field(default_factory=dict)

    def deciders(self, node: str) -> list[str]:
        return [name for name, nodes in self.refused.items() if node in nodes]


class Books:
    """A cluster as our scheduler knows it."""

    def __init__(self, world: World, profile: Profile = PROFILE) -> None:
        self.profile = profile
        self.state = ClusterState()
        self.reader = PodReader()
        for namespace in world.get("Namespace", ()):
            metadata = namespace["metadata"]
            self.state.company.put_namespace(metadata["name"], metadata.get("labels", {}))
        for kind, (wired, read) in STORAGE.items():
            for thing in world.get(kind, ()):
                self.state.volumes.put(read(_decoded(thing, wired)))
        for node in world.get("Node", ()):
            self.state.put_node(read_node(_decoded(node, wire.Node)))
        for pod in world.get("Pod", ()):
            self.state.put_pod(self.reader.read(_decoded(pod, wire.Pod)))

    def ask(self, manifest: Manifest, *, explain: bool = False) -> Opinion:
        """`explain`: also why, in words, for every node that is refused."""
        pod, gang = self._gang(manifest)
        everyone = frozenset(self.state.nodes)
        refused: dict[str, frozenset[str]] = {}
        if pod.gated:
            refused[GATES] = everyone
        if pod.problem:
            refused[UNREADABLE] = everyone
        with self.state.draft() as draft:
            for rule in self.profile.filters:
                alone = replace(self.profile, filters=(rule,))
                refused[rule.name] = everyone - _named(search.feasible(guest(pod), gang, alone, draft), draft)
            nodes = everyone.difference(*refused.values())
            reasons = self._reasons(pod, draft) if explain else {}
        return Opinion(nodes, refused, pod.problem, reasons)

    def fits(self, manifest: Manifest) -> frozenset[str]:
        """The nodes alone, all filters at once: the quick way."""
        pod, gang = self._gang(manifest)
        if pod.gated or pod.problem:
            return frozenset()
        with self.state.draft() as draft:
            return _named(search.feasible(guest(pod), gang, self.profile, draft), draft)

    def _gang(self, manifest: Manifest) -> tuple[Pod, search.Gang]:
        """The pod, and the gang of one that the loop would make of it."""
        pod = self.reader.read(_decoded(manifest, wire.Pod))
        expected = self.state.expected(priority=pod.priority, beside={pod.uid})
        member = Member(pod.uid, pod.name, guest(pod), pod.nominated)
        return pod, search.Gang(members=(member,), needed=1, expected=tuple(expected))

    def _reasons(self, pod: Pod, draft: Draft) -> dict[str, str]:
        """As people would read them, nominated pods aside."""
        asked = guest(pod)
        told: dict[str, list[str]] = {}
        for rule in self.profile.filters:
            if not rule.concerns(asked, draft):
                continue
            for row in np.flatnonzero(draft.exists & ~rule.passes(asked, draft)):
                why = "; ".join(words for words, _ in rule.reasons(asked, draft, np.array([row])))
                told.setdefault(draft.names[int(row)], []).append(f"{rule.name}: {why}")
        return {name: " | ".join(lines) for name, lines in told.items()}


def _named(mask: Bools, draft: Draft) -> frozenset[str]:
    return frozenset(draft.names[int(row)] for row in np.flatnonzero(mask))


def _decoded(manifest: Manifest, kind: type[Any]) -> Any:
    return msgspec.json.decode(orjson.dumps(manifest), type=kind)


def filter_names() -> Iterable[str]:
    """Those that can decide here. A pod that names its node is never shown to a scheduler, every node here is ready
    (kube-scheduler leaves the others to taints), and kwok's kubelets refuse nobody. kube-scheduler knows neither NUMA
    nodes (`make topology` asks the kubelet) nor how containers get Alnair's cards. NodeLabel and ServiceAffinity say
    nothing without options, and kube-scheduler has them no more."""
    elsewhere = {"NodeName", "NodeReady", "KubeletRefusals", "NodeResourceTopologyMatch", "Delivery"}
    elsewhere |= {"NodeLabel", "ServiceAffinity"}
    return (*(rule.name for rule in PROFILE.filters if rule.name not in elsewhere), GATES)
