"""Jobs, and what the apiserver would make of what we send: for tests without a cluster."""

from __future__ import annotations

import itertools
from typing import Any

from alnair.control.horovod import plan
from alnair.control.horovod.discovery import Condition, JobPod, PodStatus
from alnair.control.horovod.job import Job, Manifest, read
from alnair.control.horovod.plan import Create, Remove, Replace, Seen, Step
from alnair.state.wire import Metadata, OwnerReference
from harness.horovod import horovod_job

_versions = itertools.count(10)
_uids = itertools.count(1)


def job(
    name: str = "train", *, low: int = 2, high: int = 5, uid: str = "u-1", status: Any = None, **workers: Any
) -> Job:
    manifest = horovod_job(name, low=low, high=high).manifest()
    manifest["metadata"] |= {"namespace": "ns", "uid": uid, "generation": 1, "resourceVersion": "1"}
    manifest["spec"]["workersSpec"] |= workers
    if status is not None:
        manifest["status"] = status
    made = read(manifest)
    assert isinstance(made, Job), made
    return made


def worker(
    of: Job, ordinal: int, *, phase: str = "Running", ready: str | None = "True", **meta: Any
) -> JobPod:
    metadata = Metadata(
        name=f"{of.workers}-{ordinal}",
        uid=f"pod-{of.workers}-{ordinal}",
        namespace="ns",
        labels={**of.labels(), "ai.centauruscloud.io/role": "worker"},
        owner_references=[OwnerReference("StatefulSet", of.workers, "s-1", controller=True)],
    )
    for field, value in meta.items():
        setattr(metadata, field, value)
    conditions = [] if ready is None else [Condition("Ready", ready)]
    return JobPod(metadata, PodStatus(phase, conditions))


def stored(manifest: Manifest, **spec: Any) -> Manifest:
    """As the apiserver gives it back."""
    meta = {
        **manifest["metadata"],
        "uid": manifest["metadata"].get("uid") or f"c-{next(_uids)}",
        "resourceVersion": str(next(_versions)),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    there = {**manifest, "metadata": meta}
    if spec:
        there["spec"] = {**manifest.get("spec", {}), **spec}
    return there


def carried_out(seen: Seen, steps: list[Step], *, pods: list[JobPod] | None = None) -> Seen:
    """What is there after these steps, and these pods."""
    children = dict(seen.children)
    for step in steps:
        kind = step.manifest["kind"]
        if isinstance(step, Create):
            assert kind not in children, f"a second {kind}"
            children[kind] = stored(step.manifest)
        elif isinstance(step, Replace):
            assert (
                step.manifest["metadata"]["resourceVersion"] == children[kind]["metadata"]["resourceVersion"]
            )
            children[kind] = stored(step.manifest)
        else:
            assert isinstance(step, Remove)
            del children[kind]
    return Seen(children, tuple(pods if pods is not None else seen.pods))


def settled(of: Job, *, workers: int) -> Seen:
    """All is there, and so many workers run."""
    seen = Seen(pods=tuple(worker(of, ordinal) for ordinal in range(workers)))
    while steps := plan.set_up(of, seen):
        seen = carried_out(seen, steps)
    return seen
