"""ElasticHorovodJob: a Horovod training with as many workers as there is room for, between two bounds.

The fields that its users write today are taken as they are: `launcherSpec` with image and pythonCommand, `workersSpec`
with image, minReplicas, maxReplicas and perhaps targetReplicas. Every field of ours is optional.

The schema and this model must refuse the same: an object that an older CRD let pass is refused here, by the same words.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, StringConstraints, model_validator

from alnair.api import names
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
from alnair.api.podgroup import Factor, Seconds, SpeedupPoint

READY: Final = "Ready"
INVALID: Final = "Invalid"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"

MOST_WORKERS: Final = (
    4096  # so that the list of their names fits into a ConfigMap, however long the names are
)
SSH_SECRET: Final = "horovod-sshkeys"  # noqa: S105 (the name of a Secret)
LAUNCHER_RETRIES: Final = 1

Replicas = Annotated[int, Field(ge=1, le=MOST_WORKERS, json_schema_extra={"format": "int32"})]
Image = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Word = Annotated[str, StringConstraints(max_length=32768)]
Text = Annotated[str, StringConstraints(max_length=4096)]
PodSpec = Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]

MIN_ABOVE_MAX: Final = "minReplicas must not be more than maxReplicas"
TARGET_OUTSIDE: Final = "targetReplicas must not be less than minReplicas, nor more than maxReplicas"
SCHEDULER_FIXED: Final = "schedulerName cannot be changed: another operator may answer to the other name"


class Resources(Model):
    """What one container asks for, as in any pod."""

    limits: Annotated[dict[str, Quantity], Field(max_length=64)] | None = None
    """At most so much, by resource; nvidia.com/gpu are whole cards."""
    requests: Annotated[dict[str, Quantity], Field(max_length=64)] | None = None
    """At least so much, by resource."""


class LauncherSpec(Model):
    """The pod that runs horovodrun. It is no member of the gang and needs no GPU."""

    image: Image
    """With horovodrun in it."""
    python_command: Annotated[list[Word], Field(min_length=1, max_length=256, json_schema_extra=ATOMIC)]
    """What horovodrun starts on every worker, word by word."""
    backoff_limit: Count | None = None
    """How often the launcher is started again after a failure; 1 if absent. An eviction is no failure."""
    resources: Resources | None = None
    """Of the launcher's container."""
    pod_spec: PodSpec | None = None
    """Laid over the launcher's pod spec: maps are merged, so are lists by name; other lists are replaced."""


class WorkersSpec(Model):
    """The workers: a StatefulSet whose pods are one elastic gang."""

    image: Image
    """With Horovod and sshd in it."""
    min_replicas: Replicas
    """The training starts with so many workers or waits, and never has fewer."""
    max_replicas: Replicas
    """It never has more, however much is free."""
    target_replicas: Replicas | None = None
    """Start with so many, if there is room; minReplicas if absent. What comes later is Alnair's decision."""
    resources: Resources | None = None
    """Of each worker; one nvidia.com/gpu if absent."""
    annotations: Annotated[dict[str, Text], Field(max_length=64)] | None = None
    """Of each worker's pod: ai.centaurus.io/gpu-model, say."""
    speedup: Annotated[list[SpeedupPoint], Field(max_length=64, json_schema_extra=ATOMIC)] | None = None
    """How it speeds up with workers. Absent: by throughput measured on the pods, else as such work usually does."""
    weight: Factor | None = None
    """How much its speed counts beside other jobs'. Absent: 1."""
    restart_seconds: Seconds | None = None
    """How long the training stands still when the number changes. Absent: as Alnair's config says."""
    pod_spec: PodSpec | None = None
    """Laid over the workers' pod spec: maps are merged, so are lists by name; other lists are replaced."""

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"{MIN_ABOVE_MAX}: {self.min_replicas} > {self.max_replicas}")
        target = self.target_replicas
        if target is not None and not self.min_replicas <= target <= self.max_replicas:
            raise ValueError(f"{TARGET_OUTSIDE}: {target} is not in {self.min_replicas}-{self.max_replicas}")
        return self


_TARGET_RULE: Final = (
    "!has(self.targetReplicas)"
    " || (self.minReplicas <= self.targetReplicas && self.targetReplicas <= self.maxReplicas)"
)


def _scheduler_of(spec: str) -> str:
    return f"(has({spec}.schedulerName) ? {spec}.schedulerName : '{names.PROFILE_DEFAULT}')"


class ElasticHorovodJobSpec(Model):
    """What the job's author asks for."""

    launcher_spec: LauncherSpec
    """The pod that runs horovodrun. It is no member of the gang and needs no GPU."""
    workers_spec: Annotated[
        WorkersSpec,
        Field(
            json_schema_extra=rules(
                ("self.minReplicas <= self.maxReplicas", MIN_ABOVE_MAX),
                (_TARGET_RULE, TARGET_OUTSIDE),
            )
        ),
    ]
    """The workers: a StatefulSet whose pods are one elastic gang."""
    scheduler_name: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = None
    """The profile of Alnair that places the workers; alnair if absent."""
    ssh_secret_name: Annotated[str, StringConstraints(max_length=253)] | None = None
    """A Secret with id_rsa and authorized_keys, for launcher and workers; horovod-sshkeys if absent, none if empty."""

    @property
    def scheduler(self) -> str:
        return self.scheduler_name or names.PROFILE_DEFAULT

    @property
    def ssh_secret(self) -> str:
        return SSH_SECRET if self.ssh_secret_name is None else self.ssh_secret_name


class ElasticHorovodJobStatus(Model):
    """What became of the job. Written by Alnair only."""

    available_replicas: Count | None = None
    """How many workers run and are ready: those that the discovery script lists."""
    wanted_replicas: Count | None = None
    """How many workers it is to have now."""
    workers: Annotated[str, Field(max_length=64)] | None = None
    """Workers that run, and the bounds: 3/2-5."""
    launcher: Annotated[str, Field(max_length=64)] | None = None
    """Waiting, Starting, Running, Succeeded or Failed."""
    why_not_more: Annotated[str, Field(max_length=32768)] | None = None
    """Why it has no more workers than it has."""
    completion_time: Timestamp | None = None
    """When the launcher ended."""
    observed_generation: LongCount | None = None
    """The metadata.generation that this status speaks of."""
    conditions: Conditions | None = None
    """Ready, and Invalid, Complete or Failed once it is so."""


class ElasticHorovodJob(Model):
    """A Horovod training with as many workers as there is room for, between two bounds."""

    metadata: ObjectMeta
    spec: Annotated[
        ElasticHorovodJobSpec,
        Field(
            json_schema_extra=rules(
                (f"{_scheduler_of('self')} == {_scheduler_of('oldSelf')}", SCHEDULER_FIXED),
            )
        ),
    ]
    """What the job's author asks for."""
    status: ElasticHorovodJobStatus = Field(default_factory=ElasticHorovodJobStatus)
    """What became of the job. Written by Alnair only."""
