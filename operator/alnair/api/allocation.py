"""GPUAllocation, the commit record of one gang: for whom (spec, never changed) and what (status).

    (created) -> Pending -> Committed -> Bound
                               |  ^        |
                               v  |        v
                            RollingBack <--+

The write that sets `Committed` with the pods in it is the decision; creation is only for gangs that hold numbers of
cards and none by name (docs/decisions/0009-decided-by-creation.md). Memory is in MiB, compute in per cent of one card.
Every list is bounded; CEL rules stay out of the nested lists, where the apiserver multiplies their cost by every bound
above them.

Spec and status are atomic, and so are the lists of pods, containers and slices, not maps by key: the ledger writes
the status whole, by compare-and-swap. As maps, the apiserver notes every item in managedFields (see
docs/decisions/0002-atomic-lists-in-gpuallocation.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, StringConstraints

from alnair.api.gpurequest import MOST_CONTAINERS
from alnair.api.meta import (
    ATOMIC,
    ATOMIC_MAP,
    Conditions,
    Count,
    LongCount,
    Model,
    Name,
    ObjectMeta,
    Timestamp,
    Uid,
    rules,
)

AllocationPhase = Literal["Pending", "Committed", "Bound", "RollingBack"]

GROWTH: Final = "Growth"
REPLACEMENT: Final = "Replacement"

PENDING: Final = "Pending"
COMMITTED: Final = "Committed"
BOUND: Final = "Bound"
ROLLING_BACK: Final = "RollingBack"

MOST_PODS: Final = 8192
MOST_BYTES: Final = 1_400_000  # of a record as JSON: etcd takes 1.5 MiB; about 6,200 pods of one slice each
LONGEST_CARDS: Final = 512  # characters of status.cards
_LONGEST_NODES: Final = 1024
_NODES_SHOWN: Final = 3


LAST_EPOCH = 2**53
"""No Lease ever counts so far: it is where a number that a hand wrote stops."""

GpuCount = Annotated[int, Field(ge=0, le=1024, json_schema_extra={"format": "int32"})]


class Slice(Model):
    """A part of one card, or the whole of it."""

    gpu: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    """UUID of the card."""
    memory_mib: LongCount = 0
    """Memory taken on the card, in MiB."""
    compute_percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})] = 0
    """Compute taken on the card, in per cent; 0 counts no compute."""
    whole: bool = False
    """The whole card, shared with nobody."""


class ContainerAllocation(Model):
    """What one container holds."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """The container's name."""
    stage: Literal["Init", "Sidecar"] | None = None
    """What it is, if it is no ordinary container. The pod holds the most of what its containers hold at one time: init
    containers run one after another, each beside the sidecars before it in this list, and then all the others."""
    slices: Annotated[list[Slice], Field(max_length=1024, json_schema_extra=ATOMIC)] | None = None
    """The parts of cards that are the container's, at most one a card."""
    gpu_count: GpuCount | None = None
    """Whole cards that a device plugin picks; only in pods with GPUs in init containers, else see gpuCounts."""


class PodAllocation(Model):
    """What one pod holds, and where."""

    name: Name
    """The pod's name."""
    uid: Uid
    """The pod's UID: a namesake that is created later is another pod."""
    node: Name
    """The node that the pod is bound to, or is about to be."""
    containers: (
        Annotated[list[ContainerAllocation], Field(max_length=MOST_CONTAINERS, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """The cards of each container, in running order; containers without GPUs are left out."""
    gpu_counts: Annotated[dict[str, GpuCount], Field(max_length=MOST_CONTAINERS)] | None = None
    """Container -> whole cards, on a node whose device plugin picks them itself."""


class ReservedPlace(Model):
    """A place for a member to come, committed before its pod exists."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """What tells it from the record's other places."""
    node: Name
    """The node that it is on."""
    containers: (
        Annotated[list[ContainerAllocation], Field(max_length=MOST_CONTAINERS, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """The cards of each container, as in pods."""
    gpu_counts: Annotated[dict[str, GpuCount], Field(max_length=MOST_CONTAINERS)] | None = None
    """Container -> whole cards, as in pods."""
    reason: Literal["Growth", "Replacement"]
    """For a member more, or for one that takes a lost one's place."""
    until: Timestamp
    """How long it is kept."""


class Owner(Model):
    """The group, or the pod without a group, that the record is for."""

    kind: Literal["PodGroup", "Pod"]
    """PodGroup or Pod."""
    name: Name
    """The owner's name."""
    uid: Uid
    """The owner's UID."""


class GPUAllocationSpec(Model):
    """For whom the record is."""

    model_config = ConfigDict(
        json_schema_extra=ATOMIC_MAP
        | rules(
            (
                "self == oldSelf",
                "spec is immutable: it says for whom the record is. Delete the pods to release it",
            )
        )
    )

    owner: Owner
    """The group, or the pod without a group, that the record is for."""
    scheduler_name: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    """The profile (spec.schedulerName of the pods) that decided."""


class GPUAllocationStatus(Model):
    """What was decided. Written by Alnair's ledger only."""

    model_config = ConfigDict(
        json_schema_extra=ATOMIC_MAP
        | rules(
            (
                "!has(oldSelf.epoch) || (has(self.epoch) && self.epoch >= oldSelf.epoch)",
                "epoch never goes back: a newer leader has this record",
            ),
            (
                "!has(self.pods) || size(self.pods) == 0 || has(self.epoch)",
                "pods are recorded only under an epoch: set it in the same write",
            ),
            (
                "!has(self.pods) || size(self.pods) == 0 || (has(self.phase) && self.phase != 'Pending')",
                "pods are recorded only by a commit: phase must be Committed, Bound or RollingBack",
            ),
        )
    )

    phase: AllocationPhase | None = None
    """How far the decision is carried out."""
    epoch: Annotated[int, Field(ge=0, le=LAST_EPOCH, json_schema_extra={"format": "int64"})] | None = None
    """The leader's term in which the record was last written."""
    scheduled: Count | None = None
    """How many pods the record places."""
    min_member: Count | None = None
    """How many pods the gang needs."""
    complete: bool | None = None
    """minMember was reached since the commit. From then on a lost member is replaced, never a reason to roll back."""
    gpus: Count | None = None
    """How many distinct cards are held, in part or whole."""
    memory_mib: LongCount | None = None
    """Card memory held, in MiB."""
    nodes: Annotated[str, Field(max_length=_LONGEST_NODES)] | None = None
    """The nodes, as one line for people."""
    cards: Annotated[str, Field(max_length=LONGEST_CARDS)] | None = None
    """The cards, as one line for people."""
    conditions: Conditions | None = None
    """What there is to say about the record."""
    pods: Annotated[list[PodAllocation], Field(max_length=MOST_PODS, json_schema_extra=ATOMIC)] | None = None
    """What each pod holds, and where."""
    size: Count | None = None
    """How many members an elastic gang is to have; written before its target's replicas are."""
    size_before: Count | None = None
    """The size before that: what the replicas may still be."""
    reserved: Annotated[list[ReservedPlace], Field(max_length=MOST_PODS, json_schema_extra=ATOMIC)] | None = (
        None
    )
    """Places for members to come: held like those of pods."""


class GPUAllocation(Model):
    """What one gang holds: which pods, on which nodes, which cards, how much of each."""

    metadata: ObjectMeta
    spec: GPUAllocationSpec
    """For whom the record is; never changed."""
    status: GPUAllocationStatus = Field(default_factory=GPUAllocationStatus)
    """What was decided. Written by Alnair's ledger only."""


def nodes_line(nodes: Iterable[str]) -> str:
    """The nodes for `status.nodes`: each once, sorted, three by name and the rest by number ("a,b,c+5")."""
    distinct = sorted(set(nodes))
    line = ",".join(distinct[:_NODES_SHOWN])
    more = len(distinct) - _NODES_SHOWN
    return f"{line}+{more}" if more > 0 else line


def cards_line(cards: Iterable[str]) -> str:
    """The cards for `status.cards`: each once, sorted, as many as fit 512 characters, the rest by number."""
    distinct = sorted(set(cards))
    line = ",".join(distinct)
    shown = len(distinct)
    while len(line) > LONGEST_CARDS and shown > 0:
        shown = min(shown - 1, LONGEST_CARDS // 2)  # every card takes two characters at least
        line = ",".join(distinct[:shown]) + f"+{len(distinct) - shown}"
    return line
