"""Pods and Nodes as the apiserver sends them, reduced to the fields that scheduling reads.

msgspec skips every other field without building anything for it, which is what makes ten thousand pods cheap.
What this version does not schedule by is decoded as `Raw`, only to notice that it is there. Never as
`Raw | None`: msgspec takes that for null alone and refuses every object that has the field.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

ABSENT = Raw()


def present(raw: Raw) -> bool:
    return bytes(raw) not in (b"", b"null")


class OwnerReference(Struct):
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class Metadata(Struct, rename="camel"):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []


# The apiserver sends quantities as strings; an integer is what a hand-made list may hold.
Quantities = dict[str, str | int]


class Resources(Struct):
    requests: Quantities = {}
    limits: Quantities = {}


class ContainerPort(Struct, rename="camel"):
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class Container(Struct, rename="camel"):
    name: str
    image: str = ""
    resources: Resources = msgspec.field(default_factory=Resources)
    restart_policy: str = ""
    ports: list[ContainerPort] = []


class Toleration(Struct, rename="camel", frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SchedulingGate(Struct):
    name: str


class Expression(Struct):
    key: str
    operator: str
    values: list[str] = []


class LabelSelector(Struct, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: list[Expression] = []


class NodeSelectorTerm(Struct, rename="camel"):
    match_expressions: list[Expression] = []
    match_fields: list[Expression] = []


class NodeSelector(Struct, rename="camel"):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredNodes(Struct):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Struct, rename="camel"):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodes] = []


class PodAffinityTerm(Struct, rename="camel"):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class PreferredPods(Struct, rename="camel"):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Struct, rename="camel"):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[PreferredPods] = []


class Affinity(Struct, rename="camel"):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Struct, rename="camel"):
    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class ClaimVolume(Struct, rename="camel"):
    claim_name: str
    read_only: bool = False


class Volume(Struct, rename="camel"):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Raw = ABSENT


class PodSpec(Struct, rename="camel"):
    containers: list[Container] = []
    init_containers: list[Container] = []
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    overhead: Quantities = {}
    resources: Resources | None = None
    priority: int = 0
    scheduling_gates: list[SchedulingGate] = []
    affinity: Affinity | None = None
    topology_spread_constraints: list[SpreadConstraint] = []
    volumes: list[Volume] = []
    resource_claims: list[Raw] = []


class PodStatus(Struct, rename="camel"):
    phase: str = ""
    nominated_node_name: str = ""


class Pod(Struct):
    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Taint(Struct, rename="camel", frozen=True):
    key: str
    value: str = ""
    effect: str = ""


class NodeCondition(Struct):
    type: str
    status: str


class NodeSpec(Struct, rename="camel"):
    unschedulable: bool = False
    taints: list[Taint] = []


class ContainerImage(Struct, rename="camel"):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Struct, rename="camel"):
    allocatable: Quantities = {}
    conditions: list[NodeCondition] = []
    images: list[ContainerImage] = []


class Node(Struct):
    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Namespace(Struct):
    metadata: Metadata
