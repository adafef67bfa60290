"""Claims, volumes, classes and drivers as scheduling sees them. Reading one never raises.

All are values: what does not differ in them is no change to any rule. The version of an object is carried along for
whoever writes to it, and does not count as a difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from alnair.api.quantity import LARGEST, BadQuantity, whole
from alnair.state import wire
from alnair.state.migration import SUCCESSORS, disk_of, handle_of, translated
from alnair.state.selectors import Labels, NodeTerm, Requirement, Selector, read_node_term, read_selector

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ONE_POD = "ReadWriteOncePod"
FILESYSTEM = "Filesystem"


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim. `key` is "namespace/name"; `owner` the UID of the object that controls it.

    `selected_node`: the node that a volume is being made for; `complete`: the controller has bound it for good.
    """

    key: str
    uid: str
    version: str = field(compare=False, default="")
    storage_class: str = ""
    size: int = 0
    sized: bool = False
    modes: frozenset[str] = frozenset()
    volume_mode: str = FILESYSTEM
    selector: Selector | None = None
    attributes_class: str = ""
    volume: str = ""
    complete: bool = False
    lost: bool = False
    deleted: bool = False
    selected_node: str | None = None
    owner: str = ""

    @property
    def bound(self) -> bool:
        return bool(self.volume) and self.complete

    @property
    def wish(self) -> tuple[object, ...]:
        """What it asks of a volume; claims with equal wishes are served from one shelf."""
        return (
            self.storage_class,
            self.size,
            self.modes,
            self.volume_mode,
            self.selector,
            self.attributes_class,
        )

    def __str__(self) -> str:
        return self.key.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume. `claim` is the key of the claim it is kept for, with `claim_uid` where that is known.

    `terms`: the nodes that reach it, None = all; `moved_terms` the same where `plugin`, the old kind's, has been
    replaced by its CSI driver. `handle` is its name with `driver`, which on a node counts volumes by it; an old kind's
    counts only where the node has a driver at all.
    """

    key: str
    version: str = field(compare=False, default="")
    storage_class: str = ""
    size: int = 0
    modes: frozenset[str] = frozenset()
    volume_mode: str = FILESYSTEM
    labels: Labels = field(default_factory=dict)
    attributes_class: str = ""
    available: bool = False
    deleted: bool = False
    claim: str = ""
    claim_uid: str = ""
    terms: tuple[NodeTerm, ...] | None = None
    plugin: str = ""
    moved_terms: tuple[NodeTerm, ...] | None = None
    driver: str = ""
    handle: str = ""

    def is_for(self, claim: Claim) -> bool:
        return self.claim == claim.key and self.claim_uid in ("", claim.uid)

    def holds(self, claim: Claim) -> bool:
        """Large enough and of the right sort: what is asked even of a volume that was kept for the claim."""
        return (
            self.size >= claim.size
            and self.volume_mode == claim.volume_mode
            and self.attributes_class == claim.attributes_class
            and not self.deleted
        )

    def serves(self, claim: Claim) -> bool:
        """Anybody's, and what the claim asks for."""
        return (
            not self.claim
            and self.available
            and self.storage_class == claim.storage_class
            and self.holds(claim)
            and (claim.selector is None or claim.selector.matches(self.labels))
            and self.modes >= claim.modes
        )


@dataclass(frozen=True, slots=True)
class StorageClass:
    key: str
    provisioner: str = ""
    waits: bool = False  # for the first pod that uses a claim
    topologies: tuple[tuple[Requirement, ...], ...] = ()

    @property
    def provisions(self) -> bool:
        return self.provisioner not in ("", NO_PROVISIONER)


@dataclass(frozen=True, slots=True)
class NodeDrivers:
    """A CSINode: how many volumes of each driver it can attach, and which old kinds its drivers have taken over."""

    key: str
    limits: tuple[tuple[str, int], ...] = ()
    migrated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Driver:
    key: str
    tells_capacity: bool = False


@dataclass(frozen=True, slots=True)
class Capacity:
    """A CSIStorageCapacity: the largest volume that can be made where the selector matches the node."""

    key: str
    storage_class: str
    largest: int | None
    nodes: Selector | None


@dataclass(frozen=True, slots=True)
class Attachment:
    key: str
    node: str
    attacher: str
    volume: str


def read_claim(claim: wire.PersistentVolumeClaim) -> Claim:
    meta, spec = claim.metadata, claim.spec
    size = spec.resources.requests.get("storage")
    return Claim(
        key=f"{meta.namespace}/{meta.name}",
        uid=meta.uid,
        version=meta.resource_version,
        storage_class=meta.annotations.get(BETA_CLASS, spec.storage_class_name or ""),
        size=_size(size, unreadable=LARGEST),
        sized=size is not None,
        modes=frozenset(spec.access_modes),
        volume_mode=spec.volume_mode or FILESYSTEM,
        selector=read_selector(spec.selector),
        attributes_class=spec.volume_attributes_class_name or "",
        volume=spec.volume_name,
        complete=BIND_COMPLETED in meta.annotations,
        lost=claim.status.phase == "Lost",
        deleted=meta.deletion_timestamp is not None,
        selected_node=meta.annotations.get(SELECTED_NODE),
        owner=next((each.uid for each in meta.owner_references if each.controller), ""),
    )


def read_volume(volume: wire.PersistentVolume) -> Volume:
    meta, spec = volume.metadata, volume.spec
    terms: tuple[NodeTerm, ...] | None = None
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        terms = tuple(read_node_term(term) for term in spec.node_affinity.required.node_selector_terms)
    disk = disk_of(spec)
    driver, handle = (spec.csi.driver, spec.csi.volume_handle) if spec.csi is not None else ("", "")
    if disk is not None:
        driver, handle = SUCCESSORS[disk.kind].driver, handle_of(disk, meta.labels)
    reference = spec.claim_ref
    return Volume(
        key=meta.name,
        version=meta.resource_version,
        storage_class=meta.annotations.get(BETA_CLASS, spec.storage_class_name),
        size=_size(spec.capacity.get("storage"), unreadable=0),
        modes=frozenset(spec.access_modes),
        volume_mode=spec.volume_mode or FILESYSTEM,
        labels=meta.labels,
        attributes_class=spec.volume_attributes_class_name or "",
        available=volume.status.phase == "Available",
        deleted=meta.deletion_timestamp is not None,
        claim=f"{reference.namespace}/{reference.name}" if reference is not None else "",
        claim_uid=reference.uid if reference is not None else "",
        terms=terms,
        plugin=f"kubernetes.io/{disk.kind}" if disk is not None else "",
        moved_terms=translated(terms, disk.kind, meta.labels) if disk is not None else None,
        driver=driver,
        handle=handle,
    )


def read_class(found: wire.StorageClass) -> StorageClass:
    return StorageClass(
        key=found.metadata.name,
        provisioner=found.provisioner,
        waits=found.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            tuple(
                Requirement(line.key, "In", tuple(sorted(line.values)))
                for line in term.match_label_expressions
            )
            for term in found.allowed_topologies
        ),
    )


def read_node_drivers(node: wire.CSINode) -> NodeDrivers:
    return NodeDrivers(
        key=node.metadata.name,
        limits=tuple(
            (each.name, each.allocatable.count)
            for each in node.spec.drivers or ()
            if each.allocatable is not None and each.allocatable.count is not None
        ),
        migrated=frozenset(node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")) - {""},
    )


def read_driver(driver: wire.CSIDriver) -> Driver:
    return Driver(driver.metadata.name, tells_capacity=bool(driver.spec.storage_capacity))


def read_capacity(found: wire.CSIStorageCapacity) -> Capacity:
    largest = found.maximum_volume_size if found.maximum_volume_size is not None else found.capacity
    return Capacity(
        key=f"{found.metadata.namespace}/{found.metadata.name}",
        storage_class=found.storage_class_name,
        largest=None if largest is None else _size(largest, unreadable=0),
        nodes=read_selector(found.node_topology),
    )


def read_attachment(found: wire.VolumeAttachment) -> Attachment:
    spec = found.spec
    return Attachment(
        found.metadata.name, spec.node_name, spec.attacher, spec.source.persistent_volume_name or ""
    )


def _size(quantity: str | int | None, *, unreadable: int) -> int:
    """In bytes. What cannot be read fits nowhere and holds nothing."""
    try:
        return 0 if quantity is None else whole(quantity, field="storage")
    except BadQuantity:
        return unreadable
