"""The one control plane of a bench run: real etcd and apiserver, nodes that exist on paper, Alnair's chart.

kube-controller-manager runs only until the namespaces and the chart are there. Nothing it does is part of
scheduling, and nobody may compete with the contestants for two cores; so kwok is off, too, and the nodes' status
is written once. The apiserver must not taint such nodes, nor hold native PodGroups for a controller that is off.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alnair.api import names
from alnair.sandbox.access import Access, RequestFailed
from alnair.sandbox.binaries import obtain
from alnair.sandbox.control_plane import ControlPlane, Options
from alnair.sandbox.folders import claim
from alnair.sandbox.installation import Installation, install, wait_for_delivery, wait_for_kinds
from alnair.sandbox.progress import Report
from bench import manifests
from bench.api import MERGE_PATCH, Api
from bench.shapes import Shape
from bench.usage import Usage, of_group

CHART = Path(__file__).parents[1] / "charts" / "alnair"
GATES = {"GenericWorkload": True, "GangScheduling": True}
OPTIONS = Options(
    kwok=False,
    audit=False,
    feature_gates=GATES,
    runtime_config={"scheduling.k8s.io/v1alpha2": True},
    apiserver_flags=(
        "--disable-admission-plugins=TaintNodesByCondition,PodGroupProtection",
        "--delete-collection-workers=16",  # only for cleaning up between the runs
    ),
)
OURS = {"policies": {"recordEditors": ["admin"]}}
"""The administrator clears records away between runs, which nobody else may."""
NAMESPACES = (manifests.NAMESPACE, manifests.FILLER_NAMESPACE)


class Cluster:
    """What runs use: the control plane, its administrator's client, the chart's installation."""

    def __init__(self, control_plane: ControlPlane, installed: Installation) -> None:
        self.control_plane = control_plane
        self.installed = installed
        self.folder = control_plane.directory
        self.nodes = 0

    @property
    def access(self) -> Access:
        return self.control_plane.access

    def usage(self, scheduler: int) -> dict[str, Usage]:
        """Of everybody who takes part, so far; `scheduler` is the contestant's process."""
        children = self.control_plane.children
        return {
            "scheduler": of_group(scheduler),
            "apiserver": of_group(children["kube-apiserver"].pid),
            "etcd": of_group(children["etcd"].pid),
        }

    async def grow(self, api: Api, nodes: int) -> None:
        """Adds nodes until there are that many."""
        assert nodes >= self.nodes, f"{self.nodes} nodes never become {nodes}: run small shapes first"
        await api.create_all(manifests.NODES, (manifests.node(number) for number in range(self.nodes, nodes)))
        self.nodes = nodes

    async def fill(self, api: Api, shape: Shape) -> None:
        """The pods that are bound before the run."""
        fillers = (manifests.filler(number, nodes=self.nodes) for number in range(shape.filler))
        await api.create_all(manifests.FILLER_PODS, fillers)

    async def clean(self, api: Api) -> None:
        """Everything that a run left behind; the nodes stay. No contestant may run."""
        records = (await api.get(manifests.RECORDS))["items"]
        freed = {"metadata": {"finalizers": None}}
        paths = (f"{manifests.RECORDS}/{each['metadata']['name']}" for each in records)
        await api.each("PATCH", ((path, freed) for path in paths), content=MERGE_PATCH)
        for path in (
            manifests.PODS,
            manifests.FILLER_PODS,
            manifests.RECORDS,
            *manifests.GROUPS.values(),
            manifests.EVENTS,
        ):
            await api.delete_all(path)


@contextmanager
def running(
    report: Report, *, values: dict[str, Any] | None = None, options: Options = OPTIONS
) -> Iterator[Cluster]:
    """A control plane with the chart installed; gone with all its files afterwards. For the main thread only."""
    binaries = obtain(report)
    folder = claim(None)
    control_plane: ControlPlane | None = None
    try:
        control_plane = ControlPlane(folder.path, binaries, options)
        control_plane.start()
        access = control_plane.access
        for namespace in NAMESPACES:
            access.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        installed = install(
            access,
            chart=CHART,
            namespace="alnair-system",
            folder=folder.path / "alnair",
            values={**OURS, **(values or {})},
        )
        wait_for_kinds(access)
        for namespace in NAMESPACES:
            _wait_for_account(access, namespace)
        wait_for_delivery(access, NAMESPACES[0], names.PROFILE_DEFAULT)
        control_plane.stop_program("kube-controller-manager")
        yield Cluster(control_plane, installed)
    finally:
        if control_plane is not None:
            control_plane.stop()
        folder.remove()


def _wait_for_account(access: Access, namespace: str, *, seconds: float = 30) -> None:
    """Pods can be created once the controller-manager has given their namespace its ServiceAccount."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            access.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
            return
        except RequestFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
