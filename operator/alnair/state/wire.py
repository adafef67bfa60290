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


class OwnerReference(Struct, rename="camel"):
    kind: str
    name: str
    uid: str
    api_version: str = ""
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


class ManagedFields(Struct):
    """What one writer wrote, and when it last changed any of it."""

    time: str = ""
    fields: Raw = msgspec.field(default=ABSENT, name="fieldsV1")


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
    env: Raw = ABSENT  # read by state/environment, for the few pods whose environment matters


class FieldRef(Struct, rename="camel"):
    field_path: str = ""


class EnvSource(Struct, rename="camel"):
    field_ref: FieldRef | None = None


class EnvVar(Struct, rename="camel"):
    name: str
    value_from: EnvSource | None = None


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


class GceDisk(Struct, rename="camel"):
    pd_name: str
    read_only: bool = False


class AwsDisk(Struct, rename="camel"):
    volume_id: str = msgspec.field(name="volumeID")
    read_only: bool = False


class AzureDisk(Struct, rename="camel"):
    disk_uri: str = msgspec.field(name="diskURI")
    kind: str | None = None


class CinderDisk(Struct, rename="camel"):
    volume_id: str = msgspec.field(name="volumeID")


class PortworxDisk(Struct, rename="camel"):
    volume_id: str = msgspec.field(name="volumeID")


class IscsiDisk(Struct, rename="camel"):
    iqn: str
    read_only: bool = False


class RbdDisk(Struct, rename="camel"):
    monitors: list[str] = []
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class InTreeDisks(Struct, rename="camel"):
    """The old kinds that a CSI driver has taken over, in pods and in PersistentVolumes alike."""

    gce_persistent_disk: GceDisk | None = None
    aws_elastic_block_store: AwsDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderDisk | None = None
    portworx_volume: PortworxDisk | None = None


class ImageVolume(Struct):
    reference: str = ""


class Volume(InTreeDisks, rename="camel"):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Raw = ABSENT
    iscsi: IscsiDisk | None = None
    rbd: RbdDisk | None = None
    image: ImageVolume | None = None


class PodOS(Struct):
    name: str = ""


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
    os: PodOS | None = None


class ContainerStatus(Struct, rename="camel"):
    """What the kubelet gave the container (`resources`) or will (`allocated_resources`) while it is resized."""

    name: str = ""
    resources: Resources | None = None
    allocated_resources: Quantities = {}


class PodCondition(Struct):
    type: str
    status: str = ""
    reason: str = ""


class PodStatus(Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resources: Resources | None = None
    allocated_resources: Quantities = {}


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


class NodeMetadata(Metadata, rename="camel"):
    managed_fields: Raw = ABSENT  # read by state/loads, of nodes with readings that are new to us


class Node(Struct):
    metadata: NodeMetadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class ServiceSpec(Struct):
    selector: dict[str, str] | None = None


class Service(Struct):
    metadata: Metadata
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class Namespace(Struct):
    metadata: Metadata


# -- storage -----------------------------------------------------------------------------------------------------


class StorageStatus(Struct):
    phase: str = ""


class ClaimSpec(Struct, rename="camel"):
    access_modes: list[str] = []
    resources: Resources = msgspec.field(default_factory=Resources)
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(Struct):
    metadata: Metadata
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: StorageStatus = msgspec.field(default_factory=StorageStatus)


class ClaimReference(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class CsiSource(Struct, rename="camel"):
    driver: str
    volume_handle: str = ""


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class PersistentVolumeSpec(InTreeDisks, rename="camel"):
    capacity: Quantities = {}
    access_modes: list[str] = []
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None


class PersistentVolume(Struct):
    metadata: Metadata
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: StorageStatus = msgspec.field(default_factory=StorageStatus)


class TopologyExpression(Struct):
    key: str
    values: list[str] = []


class TopologyTerm(Struct, rename="camel"):
    match_label_expressions: list[TopologyExpression] = []


class StorageClass(Struct, rename="camel"):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] = []


class DriverAllocatable(Struct):
    count: int | None = None


class NodeDriver(Struct):
    name: str
    allocatable: DriverAllocatable | None = None


class CSINodeSpec(Struct):
    drivers: list[NodeDriver] | None = None


class CSINode(Struct):
    metadata: Metadata
    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)


class CSIDriverSpec(Struct, rename="camel"):
    storage_capacity: bool | None = None


class CSIDriver(Struct):
    metadata: Metadata
    spec: CSIDriverSpec = msgspec.field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Struct, rename="camel"):
    metadata: Metadata
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None


class AttachmentSource(Struct, rename="camel"):
    persistent_volume_name: str | None = None


class AttachmentSpec(Struct, rename="camel"):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = msgspec.field(default_factory=AttachmentSource)


class VolumeAttachment(Struct):
    metadata: Metadata
    spec: AttachmentSpec = msgspec.field(default_factory=AttachmentSpec)
