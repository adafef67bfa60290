"""PodGroup, the kind that scheduler-plugins defined and many operators write.

A superset: whatever its users write today is accepted unchanged. Nothing that upstream allows may be refused
here, and every field of ours is optional: `spec.topology`, and what `status` has beyond theirs.

    Pending -> Scheduling -> Scheduled -> Running -> Finished
       ^           |             |           |
       +-----------+             +-----------+----> Failed        (Unknown: part of the gang is gone)
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from alnair.api.meta import Conditions, Count, LongCount, Model, ObjectMeta, Quantity, Timestamp, rules

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

    @property
    def least(self) -> int:
        """minMember as it is meant: at least one."""
        return max(1, self.min_member or 0)


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
