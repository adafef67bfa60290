"""A pod's shape: all that its manifest says about where it may go, and nothing else.

Pods of one shape are interchangeable to every rule that looks at nodes, so rules run once a shape and not once a
pod. Its labels are not part of it: they matter only where some rule selects by them (see `scheduling.classes`), and
an index in a label must not make a class of every member of a gang.

A shape is a value with a hash of its own, kept: it is looked up with every event of every pod.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from weakref import WeakKeyDictionary, ref

from alnair.api.gpurequest import NO_GPU, GpuRequest
from alnair.api.peaks import Peak
from alnair.state import wire
from alnair.state.alignment import Alignment
from alnair.state.selectors import Labels, NodeTerm, PodSet, PodTerm

# What a pod brings to its node for others to stumble over, by kind.
PORT = "port"  # HostPort; by number: see HostPort.kind
APART = "apart"  # PodTerm: who must not come near
NEAR = "near"  # PodTerm: whom it required to be near; others are drawn to it
LIKES = "likes"  # (weight, PodTerm): whom it would like near (or, below 0, far away)
DISK = "disk"  # Disk
CLAIM = "claim"  # "namespace/name" of a PersistentVolumeClaim that the pod names (not one made for it alone)

MOST_PEAKS = 16  # that pods of one shape are told of at once

Tag = tuple[str, Hashable]


@dataclass(frozen=True, slots=True)
class HostPort:
    protocol: str
    ip: str
    port: int

    @property
    def kind(self) -> str:
        """Those of one kind may conflict: a node's ports are looked up by it, not looked through."""
        return f"{PORT}/{self.protocol}/{self.port}"

    def conflicts(self, other: HostPort) -> bool:
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.ip == other.ip or EVERY_IP in (self.ip, other.ip)

    def __str__(self) -> str:
        where = "" if self.ip == EVERY_IP else f"{self.ip}:"
        return f"{where}{self.port}/{self.protocol}"


EVERY_IP = "0.0.0.0"  # noqa: S104 - what Kubernetes calls it, nothing listens here


@dataclass(frozen=True, slots=True)
class Disk:
    """A volume of the old kinds, which two pods may share only if both, or its kind, allow it."""

    kind: str
    id: tuple[str, ...]
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A pod mounts this PersistentVolumeClaim ("namespace/name"). `owner`: it is made for the pod of this UID alone (a
    generic ephemeral volume), and is none of the pod's if it belongs to another."""

    key: str
    owner: str = ""

    def __str__(self) -> str:
        return self.key.partition("/")[2]


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """One topology spread constraint. `hard`: DoNotSchedule."""

    topology_key: str
    max_skew: int
    pods: PodSet
    hard: bool = True
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodShape:
    """`requests`: cpu in thousandths, everything else in whole units, always with `pods: 1`, sorted by name."""

    requests: tuple[tuple[str, int], ...]
    gpu: GpuRequest = NO_GPU
    told: bool | None = None  # its environment tells the containers their cards; None = nobody asks
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None  # any of them; None = no such rule
    preferred_nodes: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[wire.Toleration, ...] = ()
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    preferred_pods: tuple[tuple[int, PodTerm], ...] = ()  # weight below 0: rather not near
    spread: tuple[SpreadRule, ...] = ()
    ports: tuple[HostPort, ...] = ()
    claims: tuple[ClaimUse, ...] = ()
    disks: tuple[Disk, ...] = ()
    images: tuple[str, ...] = ()  # of each container, with a tag
    mounted_images: tuple[str, ...] = ()  # of image volumes
    os: str = ""  # that it says to be for: a kubelet's refusal of it is none of others' pods
    alignment: Alignment | None = None  # what the kubelet aligns with NUMA nodes; None = nothing
    peak: Peak | None = None  # what its like used at most before; None = nobody tells
    tags: tuple[Tag, ...] = field(init=False, compare=False, repr=False)
    selecting: bool = field(init=False, compare=False, repr=False)
    """It has rules about other pods: asks who is where."""
    as_told: int = field(init=False, compare=False, repr=False)
    """A hash of what its manifest says: the same whatever its like used."""
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tags: list[Tag] = [(port.kind, port) for port in self.ports]
        tags += [(APART, term) for term in self.apart]
        tags += [(NEAR, term) for term in self.near]
        tags += [(LIKES, wish) for wish in self.preferred_pods]
        tags += [(DISK, disk) for disk in self.disks]
        tags += [(CLAIM, claim.key) for claim in self.claims if not claim.owner]
        object.__setattr__(self, "tags", tuple(tags))
        object.__setattr__(
            self, "selecting", bool(self.near or self.apart or self.preferred_pods or self.spread)
        )
        parts = (
            self.requests,
            self.gpu,
            self.told,
            self.node_selector,
            self.node_terms,
            self.preferred_nodes,
            self.tolerations,
            self.near,
            self.apart,
            tuple((weight % 1000, term) for weight, term in self.preferred_pods),  # hash(-1) is hash(-2)
            self.spread,
            self.ports,
            self.claims,
            self.disks,
            self.images,
            self.mounted_images,
            self.os,
            self.alignment,
        )
        object.__setattr__(self, "as_told", hash(parts))
        object.__setattr__(self, "_hash", hash((self.as_told, self.peak)))

    def __hash__(self) -> int:
        return self._hash


_kinds: WeakKeyDictionary[PodShape, PodShape] = WeakKeyDictionary()
_each_kind: WeakKeyDictionary[PodShape, ref[PodShape]] = WeakKeyDictionary()


def but_amounts(shape: PodShape) -> PodShape:
    """What it shares with those that differ from it only in how much they ask for. One object for all of them, for as
    long as there is one: thousands are compared."""
    kind = _kinds.get(shape)
    if kind is None:
        kind = replace(shape, requests=())
        kept = _each_kind.setdefault(kind, ref(kind))()
        kind = _kinds[shape] = kept if kept is not None else kind
    return kind


_with_peaks: WeakKeyDictionary[PodShape, dict[Peak, PodShape]] = WeakKeyDictionary()


def with_peak(shape: PodShape, peak: Peak) -> PodShape:
    """The same, of pods whose like used so much before. One object, for as long as there is a pod of that shape."""
    known = _with_peaks.setdefault(shape, {})
    if peak not in known:
        if len(known) >= MOST_PEAKS:
            known.clear()
        known[peak] = replace(shape, peak=peak)
    return known[peak]


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pods that no rule can tell apart, or one pod: its shape, and what others' rules know it by."""

    shape: PodShape
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    terminating: bool = False
    node_name: str = ""
    ghost: bool = False  # only keeps room: no rule about other pods sees it


def room_of(pod: PodClass) -> PodClass:
    """What the pod asks of its node, without cards, and nothing else of it."""
    return _room(pod.shape.requests)


@lru_cache(maxsize=1024)
def _room(requests: tuple[tuple[str, int], ...]) -> PodClass:
    return PodClass(PodShape(requests=requests), ghost=True)


def ghost(pod: PodClass) -> PodClass:
    """What would be in the way on its node if the pod were there, and nothing else of it."""
    shape = pod.shape
    kept = PodShape(
        requests=shape.requests,
        ports=shape.ports,
        claims=shape.claims,
        disks=shape.disks,
        alignment=shape.alignment,
    )
    return PodClass(kept, ghost=True)
