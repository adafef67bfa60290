"""Alnair in a sandbox: the chart installed by Helm, the operator as a local process with the chart's rights.

No container runs in a sandbox, so the chart is installed with `replicas: 0` and `alnair run` is started here,
with a token of the chart's ServiceAccount and the config file out of its ConfigMap: what the process may do is
exactly what the chart grants. It must never get the administrator's kubeconfig.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alnair.api import names
from alnair.sandbox.access import Access, CommandFailed, RequestFailed
from alnair.sandbox.processes import Child

RELEASE = "alnair"


@dataclass(frozen=True, slots=True)
class Installation:
    """One release of the chart, and what a local operator needs to be its operator."""

    namespace: str
    kubeconfig: Path
    config: Path


def install(
    access: Access, *, chart: Path, namespace: str, folder: Path, values: dict[str, Any] | None = None
) -> Installation:
    """`helm install`; the token's kubeconfig and the config file are written into the folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = folder / "values.json"
    written.write_text(json.dumps({"replicas": 0, **(values or {})}), "utf-8")
    access.helm(
        "install",
        RELEASE,
        str(chart),
        f"--namespace={namespace}",
        "--create-namespace",
        f"--values={written}",
    )
    kubeconfig = access.token_kubeconfig(namespace, RELEASE, path=folder / "operator.kubeconfig")
    installed = Installation(namespace, kubeconfig, folder / "config.yaml")
    fetch_config(access, installed)
    return installed


def fetch_config(access: Access, installed: Installation) -> None:
    """What the kubelet does with the mounted ConfigMap, at first and after each change."""
    stored = access.request("GET", f"/api/v1/namespaces/{installed.namespace}/configmaps/{RELEASE}")
    unfinished = installed.config.with_suffix(".part")
    unfinished.write_text(stored["data"]["config.yaml"], "utf-8")
    unfinished.rename(installed.config)


KINDS = (
    (names.API_PODGROUP, names.PLURAL_PODGROUP),
    (names.API_NRT, names.PLURAL_NRT),
    (names.API_ALLOCATION, names.PLURAL_ALLOCATION),
    (names.API_HOROVOD, names.PLURAL_HOROVOD),
)


def wait_for_kinds(access: Access, *, kinds: Sequence[tuple[str, str]] = KINDS, seconds: float = 60) -> None:
    """Until the apiserver serves Alnair's kinds, and not only knows their CRDs.

    Asked kind by kind: `kubectl wait` fails on a CRD that has no conditions yet, and an established one still
    answers "storage is (re)initializing" for a moment.
    """
    deadline = time.monotonic() + seconds
    for version, plural in kinds:
        while True:
            try:
                access.request("GET", f"/apis/{version}/{plural}?limit=1")
                break
            except RequestFailed as refused:
                if time.monotonic() > deadline:
                    raise CommandFailed(f"{plural} are not served after {seconds:g} s: {refused}") from None
                time.sleep(0.05)


def wait_for_delivery(access: Access, namespace: str, scheduler: str, *, seconds: float = 60) -> None:
    """Until pods of this scheduler get their environment: the apiserver takes policies up a second or two after they
    were installed, and a pod created before that is not told its cards. Nothing is created by asking."""
    container = {"name": "main", "image": "none", "resources": {"limits": {names.VGPU_MEMORY: "1"}}}
    pod = {
        "metadata": {"name": "is-delivery-on"},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }
    deadline = time.monotonic() + seconds
    while True:
        said = ""
        try:
            made = access.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
            if made["spec"]["containers"][0].get("env"):
                return
        except RequestFailed as refused:  # the namespace may lack its ServiceAccount yet
            said = f": {refused}"
        if time.monotonic() > deadline:
            raise CommandFailed(f"pods of {scheduler} get no environment after {seconds:g} s{said}")
        time.sleep(0.1)


def command(installation: Installation, *flags: str) -> list[str]:
    """`alnair run` for this installation."""
    return [
        str(Path(sys.executable).with_name("alnair")),
        "run",
        f"--kubeconfig={installation.kubeconfig}",
        f"--config={installation.config}",
        f"--config-map={RELEASE}",
        f"--lease-namespace={installation.namespace}",
        f"--lease-name={RELEASE}",
        "--metrics-port=0",
        "--liveness-port=0",
        *flags,
    ]


def environment(folder: Path) -> dict[str, str]:
    """Files that a killed operator leaves behind go with the folder."""
    return {**os.environ, "TMPDIR": str(folder)}


def operator(installation: Installation, *flags: str, log: Path) -> Child:
    """The operator as a child, not started yet. Start it from a thread that lives as long as it should."""
    return Child("the operator", command(installation, *flags), log=log, environment=environment(log.parent))


def says_ready(log: Path) -> bool:
    """Whether the operator has printed the line by which it says that it leads and has caught up."""
    if not log.exists():
        return False
    lines = log.read_text("utf-8", "replace").splitlines()
    return any(line.startswith('{"ready": true') for line in lines)
