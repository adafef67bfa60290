"""Asking our filters: which nodes does this pod fit?

Objects go the operator's way: the apiserver's JSON, decoded by `alnair.state.wire`, read into a `ClusterState`, and
then every filter of the default profile is asked by itself. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import orjson

from alnair.api import config
from alnair.scheduling.plugins.interface import Filter
from alnair.scheduling.profile import Profile, build
from alnair.state import storage, wire
from alnair.state.cluster import ClusterState, guest
from alnair.state.draft import Draft
from alnair.state.nodes import read_node
from alnair.state.pods import Pod, PodReader
from alnair.state.shapes import PodClass
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
        pod = self.reader.read(_decoded(manifest, wire.Pod))
        everyone = frozenset(self.state.nodes)
        refused: dict[str, frozenset[str]] = {}
        if pod.gated:
            refused[GATES] = everyone
        if pod.problem:
            refused[UNREADABLE] = everyone
        expected = self.state.expected(priority=pod.priority, beside={pod.uid})
        with self.state.draft() as draft:
            without = self._each(pod, draft)
            for row, other in expected:
                draft.take(row, other, ())
            beside = self._each(pod, draft) if expected else without
            for rule in self.profile.filters:
                refused[rule.name] = without[rule.name] | beside[rule.name]
            nodes = everyone.difference(*refused.values())
            reasons = self._reasons(pod, draft) if explain else {}
        return Opinion(nodes, refused, pod.problem, reasons)

    def fits(self, manifest: Manifest) -> frozenset[str]:
        """The nodes alone, all filters at once: the quick way."""
        pod = self.reader.read(_decoded(manifest, wire.Pod))
        if pod.gated or pod.problem:
            return frozenset()
        asked = guest(pod)
        expected = self.state.expected(priority=pod.priority, beside={pod.uid})
        with self.state.draft() as draft:
            mask = self.profile.passes(asked, draft)
            for row, other in expected:
                draft.take(row, other, ())
            if expected:
                mask = mask & self.profile.passes(asked, draft)
            return frozenset(draft.names[int(row)] for row in np.flatnonzero(mask))

    def _each(self, pod: Pod, draft: Draft) -> dict[str, frozenset[str]]:
        asked = guest(pod)
        return {rule.name: _refusing(rule, asked, draft) for rule in self.profile.filters}

    def _reasons(self, pod: Pod, draft: Draft) -> dict[str, str]:
        asked = guest(pod)
        told: dict[str, list[str]] = {}
        for rule in self.profile.filters:
            for name in _refusing(rule, asked, draft):
                row = draft.names.index(name)
                why = "; ".join(words for words, _ in rule.reasons(asked, draft, np.array([row])))
                told.setdefault(name, []).append(f"{rule.name}: {why}")
        return {name: " | ".join(lines) for name, lines in told.items()}


def _refusing(rule: Filter, pod: PodClass, draft: Draft) -> frozenset[str]:
    if not rule.concerns(pod, draft):
        return frozenset()
    mask = rule.passes(pod, draft) | ~draft.exists
    return frozenset(draft.names[int(row)] for row in np.flatnonzero(~mask))


def _decoded(manifest: Manifest, kind: type[Any]) -> Any:
    return msgspec.json.decode(orjson.dumps(manifest), type=kind)


def filter_names() -> Iterable[str]:
    """Those that can decide here. A pod that names its node is never shown to a scheduler, and every node here is
    ready: kube-scheduler leaves the others to taints."""
    return (*(rule.name for rule in PROFILE.filters if rule.name not in ("NodeName", "NodeReady")), GATES)
