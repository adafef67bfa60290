"""Which workers live, and the script that tells horovodrun of them.

horovodrun calls the script about once a second and takes each line for a host that processes may be started on. So a
worker that is on its way out must not be listed, nor one whose sshd does not answer yet.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from alnair.api import names
from alnair.control.horovod.job import Job
from alnair.state.wire import Metadata

SCRIPT = "discover_hosts.sh"


class Condition(msgspec.Struct):
    type: str
    status: str


class PodStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[Condition] = []


class JobPod(msgspec.Struct):
    """A worker or a launcher, as far as we look at it."""

    metadata: Metadata
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def runs(self) -> bool:
        return self.status.phase == "Running" and self.metadata.deletion_timestamp is None

    @property
    def live(self) -> bool:
        """Runs, is ready unless nothing is said about that, and is not asked to go."""
        return self.runs and all(
            each.status == "True" for each in self.status.conditions if each.type == "Ready"
        )


def live_workers(job: Job, pods: Iterable[JobPod]) -> list[str]:
    """The names of the workers that live, by ordinal. Only pods of the job's own StatefulSet are workers."""
    ordinals = {
        ordinal: pod.metadata.name
        for pod in pods
        if pod.live and (ordinal := _ordinal(job, pod.metadata)) is not None
    }
    return [ordinals[ordinal] for ordinal in sorted(ordinals)]


def _ordinal(job: Job, meta: Metadata) -> int | None:
    if meta.labels.get(names.HOROVOD_ROLE) != names.WORKER:
        return None
    of_set = any(
        owner.controller and owner.kind == "StatefulSet" and owner.name == job.workers
        for owner in meta.owner_references
    )
    stem, _, digits = meta.name.rpartition("-")
    return int(digits) if of_set and stem == job.workers and digits.isascii() and digits.isdigit() else None


def script(job: Job, workers: Iterable[str], slots: int) -> str:
    lines = [f"echo {worker}.{job.workers}:{slots}" for worker in workers]
    return "\n".join(("#!/bin/sh", *lines, ""))
