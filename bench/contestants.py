"""Who does the work: each a process that is started for a run and stopped after it.

kube-scheduler runs with its defaults, but for leader election (off) and the client's rate limit (none). Alnair runs
as its users run it: the chart's rights and configuration, the Lease, records, events, status. The ceiling is
`bench.ceiling`.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alnair.sandbox import installation
from alnair.sandbox.control_plane import reserve_port
from alnair.sandbox.processes import Child
from bench.cluster import GATES, Cluster
from bench.manifests import Grouping

NO_LIMIT = 1_000_000
"""Requests a second that kube-scheduler's client may send."""

PROJECT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Contestant:
    """How to start one, and how it says that it is ready."""

    name: str
    scheduler: str
    """The schedulerName of its pods."""

    grouping: Grouping
    child: Child
    ready: Callable[[], bool]
    held: socket.socket | None = None
    """Keeps its port for it."""


def contestant(name: str, cluster: Cluster, *, run: str) -> Contestant:
    """Not started yet. `run` names its log file."""
    log = cluster.control_plane.logs / f"{run}.log"
    match name:
        case "ceiling":
            return _ceiling(cluster, log)
        case "kube":
            return _kube_scheduler(name, cluster, log, gang=False)
        case "kube-gang":
            return _kube_scheduler(name, cluster, log, gang=True)
        case "alnair":
            child = installation.operator(cluster.installed, log=log)
            return Contestant(name, "alnair", "alnair", child, lambda: installation.says_ready(log))
    raise ValueError(f"{name!r} is no contestant; there are ceiling, kube, kube-gang and alnair")


def _ceiling(cluster: Cluster, log: Path) -> Contestant:
    scheduler = "bench-ceiling"
    command = [
        sys.executable,
        "-m",
        "bench.ceiling",
        f"--kubeconfig={cluster.access.kubeconfig}",
        f"--scheduler={scheduler}",
    ]
    child = Child("the ceiling", command, log=log, directory=PROJECT)
    return Contestant("ceiling", scheduler, "none", child, lambda: installation.says_ready(log))


def _kube_scheduler(name: str, cluster: Cluster, log: Path, *, gang: bool) -> Contestant:
    profiles = {"profiles": [{"schedulerName": f"bench-{name}"}]}
    return kube_scheduler(name, cluster, log, config=profiles, gang=gang)


def kube_scheduler(
    name: str, cluster: Cluster, log: Path, *, config: dict[str, Any], gang: bool = False
) -> Contestant:
    """With this configuration; the first profile's pods are its."""
    kubeconfig = str(cluster.folder / "kube-scheduler.kubeconfig")
    file = log.with_suffix(".json")
    file.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"kubeconfig": kubeconfig, "qps": NO_LIMIT, "burst": NO_LIMIT},
                **config,
            }
        ),
        "utf-8",
    )
    held = reserve_port()
    port = int(held.getsockname()[1])
    command: list[str | Path] = [
        cluster.control_plane.binaries["kube-scheduler"],
        f"--config={file}",
        f"--authentication-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup",  # this apiserver publishes no authority to look up
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
    ]
    if gang:
        command.append(
            "--feature-gates=" + ",".join(f"{gate}={str(on).lower()}" for gate, on in GATES.items())
        )
    child = Child(name, command, log=log, directory=cluster.folder)
    scheduler = config["profiles"][0]["schedulerName"]
    return Contestant(name, scheduler, "native" if gang else "none", child, _readyz(port), held)


def _readyz(port: int) -> Callable[[], bool]:
    """kube-scheduler says yes when its informers have synced and their handlers have seen everything."""
    # Made once, and without the machine's authorities: loading those takes longer than the question.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it makes itself a certificate that nobody signed

    def ready() -> bool:
        try:
            address = f"https://127.0.0.1:{port}/readyz"
            with urllib.request.urlopen(address, timeout=2, context=context) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    return ready


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
