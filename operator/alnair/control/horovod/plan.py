"""What is to be done for a job, given what is there: steps, in the order in which they are carried out.

    set_up      while it trains: every child is there and says what it should
    wind_down   when the launcher has ended: the workers go, the launcher and its log stay
    take_apart  when the job is deleted: everything goes, and the job last

What must never happen: a step on an object that is not this job's (`NameTaken` is raised instead), a launcher beside
its predecessor, a write of the StatefulSet's replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from alnair.api import names
from alnair.control.horovod import children
from alnair.control.horovod.discovery import SCRIPT, JobPod, live_workers
from alnair.control.horovod.drift import amended, belongs, says
from alnair.control.horovod.job import Identity, Job, Manifest


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of child, and where its objects are."""

    name: str
    prefix: str
    plural: str

    def path(self, namespace: str = "", name: str = "") -> str:
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.prefix}{place}/{self.plural}" + (f"/{name}" if name else "")


GROUP = Kind(names.KIND_PODGROUP, f"/apis/{names.API_PODGROUP}", names.PLURAL_PODGROUP)
SERVICE = Kind("Service", "/api/v1", "services")
DISCOVERY = Kind("ConfigMap", "/api/v1", "configmaps")
WORKERS = Kind("StatefulSet", "/apis/apps/v1", "statefulsets")
LAUNCHER = Kind("Job", "/apis/batch/v1", "jobs")
KINDS = {kind.name: kind for kind in (GROUP, SERVICE, DISCOVERY, WORKERS, LAUNCHER)}


@dataclass(frozen=True, slots=True)
class Seen:
    """What is there under the names of a job's children, and its pods."""

    children: Mapping[str, Manifest] = field(default_factory=dict)  # by kind
    pods: Sequence[JobPod] = ()

    def group_status(self) -> Manifest:
        return (self.children.get(GROUP.name) or {}).get("status") or {}

    def elastic(self) -> Manifest:
        """How the sizing sees the gang."""
        return self.group_status().get("elastic") or {}


@dataclass(frozen=True, slots=True)
class Create:
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Replace:
    """A PUT: the manifest names the version that it was made from."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Remove:
    """`after_pods`: its name is free only when its pods are gone."""

    manifest: Manifest
    after_pods: bool = False


Step = Create | Replace | Remove


class NameTaken(Exception):
    """Somebody else's object stands where a child is to be."""


def set_up(job: Job, seen: Seen) -> list[Step]:
    for kind in KINDS.values():
        check(job, seen.children.get(kind.name))
    live = live_workers(job, seen.pods)
    replicas = _first_replicas(job, seen) if WORKERS.name not in seen.children else None
    steps: list[Step] = []
    for wanted in (
        children.discovery(job, live),  # first: horovodrun must not start on a worker that goes
        children.group(job),
        children.service(job),
        children.workers(job, replicas=replicas),
    ):
        there = seen.children.get(wanted["kind"])
        if there is None:
            steps.append(Create(wanted))
        elif not _going(there) and not says(there, wanted):
            steps.append(Replace(amended(there, wanted)))
    return [*steps, *_launch(job, seen, enough=len(live) >= job.spec.workers_spec.min_replicas)]


def wind_down(job: Job, seen: Seen) -> list[Step]:
    """The StatefulSet first: its pods free their GPUs as they go. The group stays while one of them is there."""
    steps: list[Step] = []
    script = seen.children.get(DISCOVERY.name)
    wanted = children.discovery(job, live_workers(job, seen.pods))
    if script is not None and belongs(job, script) and not _going(script) and not says(script, wanted):
        steps.append(Replace(amended(script, wanted)))
    steps += _remove(job, seen, WORKERS)
    if not _pods(seen, names.WORKER) and WORKERS.name not in seen.children:
        steps += _remove(job, seen, SERVICE, GROUP)
    return steps


def take_apart(job: Identity, seen: Seen) -> list[Step]:
    steps = _remove(job, seen, LAUNCHER, WORKERS)
    if not seen.pods and not seen.children.keys() & {LAUNCHER.name, WORKERS.name}:
        steps += _remove(job, seen, SERVICE, DISCOVERY, GROUP)
    return steps


def to_be_told(seen: Seen) -> tuple[str, list[JobPod]]:
    """The digits of the script, and launchers that do not bear them.

    A kubelet looks for new contents of a ConfigMap about once a minute, and at once when its pod's annotations change.
    """
    script = seen.children.get(DISCOVERY.name, {}).get("data") or {}
    digits = names.fingerprint(script.get(SCRIPT, ""))
    launchers = [pod for pod in _pods(seen, names.LAUNCHER) if pod.runs]
    return digits, [pod for pod in launchers if pod.metadata.annotations.get(names.HOROVOD_HOSTS) != digits]


def is_gone(job: Identity, seen: Seen) -> bool:
    """Nothing of this job is left. Others' objects under the names of its children are not its."""
    return not seen.pods and not any(belongs(job, there) for there in seen.children.values())


def check(job: Identity, there: Manifest | None) -> None:
    if there is None or belongs(job, there):
        return
    kind, name = there["kind"], there["metadata"]["name"]
    raise NameTaken(
        f"{kind} {name} exists and is not this job's; it is left alone, and the job waits until it is gone"
    )


def _launch(job: Job, seen: Seen, *, enough: bool) -> list[Step]:
    wanted = children.launcher(job)
    there = seen.children.get(LAUNCHER.name)
    if there is None:
        return [Create(wanted)] if enough else []
    if _going(there):
        return []
    made_from = (there["spec"]["template"]["metadata"].get("annotations") or {}).get(names.HOROVOD_MADE_FROM)
    if made_from != children.launcher_digits(job):
        return [Remove(there, after_pods=True)]  # a Job's pods cannot be changed
    told = {**wanted, "spec": {key: value for key, value in wanted["spec"].items() if key in _CHANGEABLE}}
    return [] if says(there, told) else [Replace(amended(there, told))]


_CHANGEABLE = frozenset({"backoffLimit", "parallelism", "suspend"})  # of a Job


def _first_replicas(job: Job, seen: Seen) -> int:
    """What the sizing wants, if it has said so: a StatefulSet that somebody deleted comes back as it was."""
    workers = job.spec.workers_spec
    wants = seen.elastic().get("wants")
    if isinstance(wants, int) and wants:
        return min(max(wants, workers.min_replicas), workers.max_replicas)
    return workers.target_replicas or workers.min_replicas


def _remove(job: Identity, seen: Seen, *kinds: Kind) -> list[Step]:
    there = [seen.children[kind.name] for kind in kinds if kind.name in seen.children]
    return [Remove(each) for each in there if belongs(job, each) and not _going(each)]


def _pods(seen: Seen, role: str) -> list[JobPod]:
    return [pod for pod in seen.pods if pod.metadata.labels.get(names.HOROVOD_ROLE) == role]


def _going(there: Manifest) -> bool:
    return bool(there["metadata"].get("deletionTimestamp"))
