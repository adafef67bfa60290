"""The control plane of a conformance run: etcd, kube-apiserver and kube-scheduler, and nobody else.

Without a controller-manager and without the admission plugins that rewrite objects, a scenario stays as it was
written: nobody binds its volumes, taints its nodes or deletes its pods.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from alnair.sandbox.kept import KeptControlPlane
from conformance.drawing.words import NAMESPACES, PRIORITIES, RUNTIMES, SCHEDULER, Manifest
from conformance.extender import Extender
from conformance.kinds import CLUSTER_WIDE
from harness.api import Api, Refused

# They write into objects what the scenario did not say, or want controllers that are not there.
UNWANTED_ADMISSION = (
    "ServiceAccount",
    "TaintNodesByCondition",
    "StorageObjectInUseProtection",
    "DefaultStorageClass",
)

FEATURES = {
    # Tolerations with Gt and Lt: in this version, but not switched on by itself.
    "TaintTolerationComparisonOperators": True,
    # One attempt a pod is all we want: no hints from earlier pods, no second tries.
    "OpportunisticBatching": False,
    "SchedulerPopFromBackoffQ": False,
}
NEXT_TRY_SECONDS = 600


@dataclass(frozen=True)
class Plane:
    api: Api
    extender: Extender


def scheduler_config(extender: str) -> Manifest:
    """Preemption is left on, for without it a waiting pod's nomination is dropped; no pod here may preempt."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": NEXT_TRY_SECONDS,
        "podMaxBackoffSeconds": NEXT_TRY_SECONDS,
        "profiles": [{"schedulerName": SCHEDULER}],
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "nodeCacheCapable": True,
                "httpTimeout": "60s",
            }
        ],
    }


@asynccontextmanager
async def start(*, stderr: IO[str] | int | None = None) -> AsyncIterator[Plane]:
    """Starts everything; gone again at the end, however it comes."""
    extender = Extender()
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        config = Path(folder) / "scheduler.json"
        config.write_text(json.dumps(scheduler_config(extender.address)), "utf-8")
        kept = KeptControlPlane.start(
            scheduler=True,
            scheduler_config=config,
            controller_manager=False,
            kwok=False,
            audit=False,
            feature_gates=FEATURES,
            apiserver_flags=[f"--disable-admission-plugins={','.join(UNWANTED_ADMISSION)}"],
            stderr=stderr,
        )
        with kept:
            async with extender, Api(kept.access) as api:
                await _furnish(api)
                yield Plane(api, extender)


async def _furnish(api: Api) -> None:
    """What all scenarios share."""
    for manifest in (*_namespaces(), *_priorities(), *_runtimes()):
        try:
            await api.call("POST", CLUSTER_WIDE[manifest["kind"]], manifest)
        except Refused as refused:
            if refused.status != 409:
                raise


def _namespaces() -> list[Manifest]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]


def _priorities() -> list[Manifest]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": value == 0,
            "preemptionPolicy": "Never",
        }
        for name, value in PRIORITIES.items()
    ]


def _runtimes() -> list[Manifest]:
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": "any",
            **fields,
        }
        for name, fields in RUNTIMES.items()
    ]
