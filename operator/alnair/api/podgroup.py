"""PodGroup, the kind that scheduler-plugins defined and many operators write.

A superset: whatever its users write today is accepted unchanged. Nothing that upstream allows may be refused
here, and every field of ours is optional: `spec.topology`, `spec.elastic`, what to do when a member fails, and what
`status` has beyond theirs.

    Pending -> Scheduling -> Scheduled -> Running -> Finished
       ^           |             |           |
       +-----------+             +-----------+----> Failed        (Unknown: part of the gang is gone)
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from alnair.api.meta import (
    ATOMIC,
    Conditions,
    Count,
    LongCount,
    Model,
    ObjectMeta,
    Quantity,
    Timestamp,
    rules,
)

Phase = Literal[
    "", "Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Unknown", "Finished", "Failed"
]

PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"
UNKNOWN: Final = "Unknown"


LevelName = Annotated[str, Field(min_length=1, max_length=317)]


class TopologyWish(Model):
    """Where the group's pods are to be together: required or preferred."""

    required: LevelName | None = None
    """All pods in one domain of this level, or none is started: a level's name, for example rack, or a node label."""
    preferred: LevelName | None = None
    """Pods in as few domains of this level as possible: a level's name, for example rack, or a node label."""


MOST_MEMBERS: Final = 8192  # what one record holds

OnMemberFailure = Literal["Replace", "RestartGang", "Fail"]

REPLACE: Final = "Replace"
RESTART_GANG: Final = "RestartGang"
FAIL: Final = "Fail"

KEEP_PLACE_SECONDS: Final = 30
RESTART_LIMIT: Final = 5

Size = Annotated[int, Field(ge=1, le=MOST_MEMBERS, json_schema_extra={"format": "int32"})]
Seconds = Annotated[int, Field(ge=0, le=86_400, json_schema_extra={"format": "int32"})]
Factor = Annotated[float, Field(ge=0.000_001, le=1_000_000, allow_inf_nan=False)]


class TargetRef(Model):
    """An object in the group's namespace that has a scale subresource."""

    api_version: Annotated[
        str, Field(max_length=317, pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[a-z0-9]+$")
    ]
    """Its API version, for example apps/v1."""
    kind: Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Its kind, for example StatefulSet."""
    name: Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
    """Its name."""


class SpeedupPoint(Model):
    """How fast the work goes with so many members."""

    members: Size
    """With so many members."""
    speedup: Factor
    """As many times as fast as with one."""


class Elastic(Model):
    """How far the number of members may change, and whose replicas they are."""

    min: Size
    """Fewest members: the group starts with at least so many, and is never shrunk below."""
    max: Size
    """Most members."""
    target_ref: TargetRef
    """Whose replicas the members are: Alnair sets their number through its scale subresource."""
    speedup: Annotated[list[SpeedupPoint], Field(max_length=64, json_schema_extra=ATOMIC)] | None = None
    """How the work speeds up. Absent: by throughput measured on the pods, else as such work usually does."""
    weight: Factor | None = None
    """How much its speed counts beside other groups'. Absent: 1."""
    restart_seconds: Seconds | None = None
    """How long the work stands still when the number changes. Absent: as Alnair's config says."""


class PodGroupSpec(Model):
    """What the group's author asks for."""

    min_member: Count | None = None
    """How many pods must start together; until so many fit, none is started. Absent or 0 counts as 1."""
    min_resources: Annotated[dict[str, Quantity], Field(max_length=256)] | None = None
    """Accepted as scheduler-plugins' users write it. Alnair looks at what the pods themselves ask for."""
    schedule_timeout_seconds: Count | None = None
    """How long the group may stay unscheduled before it is reported as timed out. Absent or 0: no limit."""
    topology: (
        Annotated[
            TopologyWish,
            Field(
                json_schema_extra=rules(
                    (
                        "has(self.required) != has(self.preferred)",
                        "exactly one of required and preferred must be given",
                    )
                )
            ),
        ]
        | None
    ) = None
    """Where the group's pods are to be together. Absent: annotations say, or nobody minds."""
    elastic: (
        Annotated[
            Elastic,
            Field(
                json_schema_extra=rules(("self.min <= self.max", "elastic.min must not exceed elastic.max"))
            ),
        ]
        | None
    ) = None
    """The number of members may change between two bounds, and Alnair decides on it. Absent: it is the author's."""
    on_member_failure: OnMemberFailure | None = None
    """When a member of a running group fails. Replace (the default): its replacement joins, and its place is kept for
    it. RestartGang: all members start anew, together. Fail: the group has failed, and its members give their cards
    back."""
    keep_place_seconds: Seconds | None = None
    """How long a failed member's place is kept for its replacement. Absent: 30. 0: not at all."""
    restart_limit: Annotated[int, Field(ge=0, le=1000, json_schema_extra={"format": "int32"})] | None = None
    """How often RestartGang starts the group anew before it has failed for good. Absent: 5."""

    @property
    def least(self) -> int:
        """minMember as it is meant: at least one, and at least what an elastic group needs."""
        return max(1, self.min_member or 0, self.elastic.min if self.elastic is not None else 0)


class ElasticStatus(Model):
    """How many members the group has, wants and may have, and why not more."""

    size: Count | None = None
    """Members that have their place."""
    wants: Count | None = None
    """Members that Alnair has decided on: what the target's replicas are set to."""
    reserved: Count | None = None
    """Places that are taken for members to come."""
    min: Count | None = None
    """Fewest members that it may have."""
    max: Count | None = None
    """Most members that it may have."""
    by_hand: Count | None = None
    """Members that somebody has set by hand."""
    by_hand_until: Timestamp | None = None
    """Until when that number is left alone."""
    changed_at: Timestamp | None = None
    """When Alnair last changed the number."""
    may_change_at: Timestamp | None = None
    """Before this the last change is not undone."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """Why it does not have more, in one word."""
    message: Annotated[str, Field(max_length=2048)] | None = None
    """Why it does not have more, in sentences for people."""


class PodGroupStatus(Model):
    """What became of the group. Written by Alnair only."""

    phase: Phase | None = None
    """Where the group stands in its life."""
    occupied_by: Annotated[str, Field(max_length=1024)] | None = None
    """The workload whose pods are in the group, empty until there is one."""
    members: Count | None = None
    """How many pods of the group exist."""
    scheduled: Count | None = None
    """How many pods of the group are bound to a node."""
    running: Count | None = None
    """How many pods of the group run."""
    succeeded: Count | None = None
    """How many pods of the group ended well."""
    failed: Count | None = None
    """How many pods of the group failed."""
    elastic: ElasticStatus | None = None
    """How many members an elastic group has, wants and may have."""
    restarts: Count | None = None
    """How often the group was started anew because a member failed."""
    restarted_at: Timestamp | None = None
    """When it was last."""
    schedule_start_time: Timestamp | None = None
    """When the group was first complete enough to be scheduled."""
    observed_generation: LongCount | None = None
    """The metadata.generation that this status speaks of."""
    conditions: Conditions | None = None
    """Scheduled says whether the group has its place, and if not, why."""


class PodGroup(Model):
    """Pods that are started together or not at all. Pods join by the label scheduling.x-k8s.io/pod-group."""

    metadata: ObjectMeta
    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    """What the group's author asks for."""
    status: PodGroupStatus = Field(default_factory=PodGroupStatus)
    """What became of the group. Written by Alnair only."""
