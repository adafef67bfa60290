"""What an ElasticHorovodJob consists of, as manifests: pure functions of the job.

    PodGroup     elastic, between minReplicas and maxReplicas; the sizing scales the StatefulSet
    Service      headless: a name for every worker
    ConfigMap    the discovery script, which lists the workers that live
    StatefulSet  the workers, all members of the group; its replicas are never written again once it is made
    Job          the launcher: horovodrun, without a GPU and no member of the group

Nothing in here may depend on anything but its arguments: the same job makes the same manifests, today and by the next
leader, or every job would be written anew at every start.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, Final

import orjson

from alnair.api import names
from alnair.api.horovod import LAUNCHER_RETRIES, Resources
from alnair.api.podgroup import Elastic, TargetRef
from alnair.api.quantity import BadQuantity, whole
from alnair.control.horovod.discovery import SCRIPT, script
from alnair.control.horovod.job import Job, Manifest
from alnair.control.horovod.overlay import overlaid

SSH_PORT: Final = 12345  # where sshd of the images that are in use answers
SSH_FOLDER: Final = "/etc/secrets"
SCRIPT_FOLDER: Final = "/etc/alnair"

_TAKE_KEYS: Final = (
    "mkdir -p /root/.ssh && cp /etc/secrets/* /root/.ssh/ && chmod 600 /root/.ssh/* && chmod 700 /root/.ssh"
)
_SERVE: Final = f"mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e -p {SSH_PORT}"
_LAUNCH: Final = 'exec "$@"'


def group(job: Job) -> Manifest:
    workers = job.spec.workers_spec
    elastic = Elastic(
        min=workers.min_replicas,
        max=workers.max_replicas,
        target_ref=TargetRef(api_version="apps/v1", kind="StatefulSet", name=job.workers),
        speedup=workers.speedup,
        weight=workers.weight,
        restart_seconds=workers.restart_seconds,
    )
    spec = {"minMember": workers.min_replicas, "elastic": elastic.wire()}
    return {**_head(job, names.API_PODGROUP, names.KIND_PODGROUP, job.group), "spec": spec}


def service(job: Job) -> Manifest:
    spec = {
        "clusterIP": "None",
        "selector": _worker_labels(job),
        "publishNotReadyAddresses": True,  # a name must be there before its worker is listed
    }
    return {**_head(job, "v1", "Service", job.workers), "spec": spec}


def discovery(job: Job, live: Iterable[str]) -> Manifest:
    text = script(job, live, slots(job))
    return {**_head(job, "v1", "ConfigMap", job.discovery), "data": {SCRIPT: text}}


def workers(job: Job, *, replicas: int | None) -> Manifest:
    """`replicas` is for its creation; None afterwards: they are the sizing's."""
    spec: Manifest = {
        "serviceName": job.workers,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": _worker_labels(job)},
        "template": {
            "metadata": {
                "labels": {**_worker_labels(job), names.POD_GROUP_LABEL: job.group},
                "annotations": {
                    **(job.spec.workers_spec.annotations or {}),
                    names.HOROVOD_MADE_FROM: _worker_digits(job),
                },
            },
            "spec": _worker_pod(job),
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {**_head(job, "apps/v1", "StatefulSet", job.workers), "spec": spec}


def launcher(job: Job) -> Manifest:
    asked = job.spec.launcher_spec
    spec = {
        "backoffLimit": LAUNCHER_RETRIES if asked.backoff_limit is None else asked.backoff_limit,
        "parallelism": 1,
        "suspend": False,
        # That its node was drained or lost is not the training's failure.
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
            ]
        },
        "template": {
            "metadata": {
                "labels": {**job.labels(), names.HOROVOD_ROLE: names.LAUNCHER},
                "annotations": {names.HOROVOD_MADE_FROM: launcher_digits(job)},
            },
            "spec": _launcher_pod(job),
        },
    }
    return {**_head(job, "batch/v1", "Job", job.launcher), "spec": spec}


def launcher_digits(job: Job) -> str:
    """Of what the launcher's pod is made from: where that changes, the launcher has to be another."""
    asked = {key: value for key, value in job.spec.launcher_spec.wire().items() if key != "backoffLimit"}
    return _digits([asked, _horovodrun(job), job.spec.ssh_secret])


def slots(job: Job) -> int:
    """Processes on one worker: one for each of its whole cards."""
    limits = _worker_resources(job).get("limits", {})
    try:
        return max(1, whole(limits.get(names.NVIDIA_GPU, 1), field=names.NVIDIA_GPU))
    except BadQuantity:
        return 1  # the apiserver refuses the StatefulSet and says why


# -- pods ------------------------------------------------------------------------------------------------------------


def _worker_pod(job: Job) -> Manifest:
    asked = job.spec.workers_spec
    container: Manifest = {
        "name": names.WORKER,
        "image": asked.image,
        "command": ["/bin/sh", "-c", f"{_TAKE_KEYS} && {_SERVE}" if job.spec.ssh_secret else _SERVE],
        "ports": [{"name": "ssh", "containerPort": SSH_PORT}],
        "readinessProbe": {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 2},
        "resources": _worker_resources(job),
        "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],  # noqa: S108 (of the container)
    }
    pod = _pod(job, container, volumes=[{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}])
    return {**overlaid(pod, asked.pod_spec or {}), "schedulerName": job.spec.scheduler}


def _launcher_pod(job: Job) -> Manifest:
    asked = job.spec.launcher_spec
    start = f"{_TAKE_KEYS} && {_LAUNCH}" if job.spec.ssh_secret else _LAUNCH
    container: Manifest = {
        "name": names.LAUNCHER,
        "image": asked.image,
        "command": ["/bin/sh", "-c", start, "launcher", *_horovodrun(job)],
        "volumeMounts": [{"name": "discovery", "mountPath": SCRIPT_FOLDER}],
    }
    if asked.resources is not None:
        container["resources"] = asked.resources.wire()
    scripts = {"name": "discovery", "configMap": {"name": job.discovery, "defaultMode": 0o755}}
    pod = _pod(job, container, volumes=[scripts])
    return {**overlaid(pod, asked.pod_spec or {}), "restartPolicy": "Never"}


def _horovodrun(job: Job) -> list[str]:
    bounds, words = job.spec.workers_spec, job.spec.launcher_spec.python_command
    if len(words) == 1:
        words = _split(words[0])  # many write the whole command as one word
    return [
        "horovodrun",
        *("-p", str(SSH_PORT)),
        *("-np", str(bounds.min_replicas * slots(job)), "--max-np", str(bounds.max_replicas * slots(job))),
        *("--host-discovery-script", f"{SCRIPT_FOLDER}/{SCRIPT}"),
        *words,
    ]


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command) or [command]
    except ValueError:
        return [command]  # a quote that does not end


def _pod(job: Job, container: Manifest, *, volumes: list[Manifest]) -> Manifest:
    if job.spec.ssh_secret:
        keys = {"name": "ssh-keys", "secret": {"secretName": job.spec.ssh_secret, "defaultMode": 0o600}}
        volumes = [*volumes, keys]
        mount = {"name": "ssh-keys", "mountPath": SSH_FOLDER}
        container = {**container, "volumeMounts": [*container["volumeMounts"], mount]}
    return {"containers": [container], "volumes": volumes}


def _worker_resources(job: Job) -> Manifest:
    return (job.spec.workers_spec.resources or Resources(limits={names.NVIDIA_GPU: 1})).wire()


def _worker_digits(job: Job) -> str:
    """Of what the workers' pods are made from. How many there are is not part of them."""
    counts = {"minReplicas", "maxReplicas", "targetReplicas", "speedup", "weight", "restartSeconds"}
    asked = {key: value for key, value in job.spec.workers_spec.wire().items() if key not in counts}
    return _digits([asked, job.spec.scheduler, job.spec.ssh_secret])


def _worker_labels(job: Job) -> dict[str, str]:
    return {**job.labels(), names.HOROVOD_ROLE: names.WORKER}


def _head(job: Job, version: str, kind: str, name: str) -> Manifest:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": job.labels(),
            "ownerReferences": [job.owner()],
        },
    }


def _digits(said: Any) -> str:
    return names.fingerprint(orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode())
