"""The fixtures: cluster, api, namespace, fleet, private_cluster. (`operator` is in operator.py.)

Tests run side by side on one cluster: whatever a test makes is in its own namespace or carries its
namespace's name, and is deleted after it. Nothing waits for a deletion.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from alnair.sandbox.access import Access, RequestFailed
from alnair.sandbox.installation import wait_for_kinds
from alnair.sandbox.kept import KeptControlPlane
from alnair.sandbox.locks import file_lock
from harness import rights
from harness.api import Api, Object, at
from harness.builders import NodeBuilder
from harness.plugin import SHARED

REPOSITORY = Path(__file__).parents[2]
OF_TEST = "alnair.test/of"


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Access:
    """The session's real control plane with Alnair's CRDs: kubeconfig, kubectl(), helm(), audit_log."""
    access = pytestconfig.stash[SHARED].access()
    install_crds(access)
    return access


@pytest.fixture
def noted(pytestconfig: pytest.Config) -> rights.Note:
    """Called before a control plane of the test's own goes: what operators asked of it counts for the whole run."""

    def note(access: Access) -> None:
        if session := pytestconfig.stash[SHARED].running():
            rights.note(access, session)

    return note


@pytest.fixture
def private_cluster(noted: rights.Note) -> Iterator[KeptControlPlane]:
    """A control plane of the test's own, for what others must not suffer from: kill(), restart(), start_again()."""
    with KeptControlPlane.start() as kept:
        install_crds(kept.access)
        yield kept
        noted(kept.access)


@pytest.fixture
async def api(cluster: Access) -> AsyncIterator[Api]:
    """The administrator's client."""
    async with Api(cluster) as client:
        yield client


@pytest.fixture
def namespace(cluster: Access) -> Iterator[str]:
    """A fresh namespace, in which pods can be created at once; deleted afterwards, without waiting."""
    name = make_namespace(cluster)
    yield name
    cluster.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def fleet(api: Api, namespace: str) -> AsyncIterator[Fleet]:
    """Nodes of this test alone; deleted afterwards."""
    made = Fleet(api, namespace)
    yield made
    await made.remove()


class Fleet:
    """Nodes of one test. Other tests' pods stay off them, and its own find them by `selector`.

    A node `gpu-1` becomes `gpu-1.<namespace>`; pods get `.selecting(fleet.selector)`.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.selector = {OF_TEST: namespace}
        self.made: list[Object] = []

    def name(self, short: str) -> str:
        """What a node given as `short` is called in the cluster."""
        return f"{short}.{self.namespace}"

    async def add(self, *nodes: NodeBuilder, timeout: float = 60) -> list[str]:
        """Creates nodes and returns their names once they are Ready and free of the apiserver's start-up taint."""
        renamed = [node.named(self.name(node.name)).labelled(self.selector) for node in nodes]
        manifests = [manifest for node in renamed for manifest in node.manifests()]
        self.made += manifests
        # A topology must be known before its node, or the node is for a moment one without cards.
        await self.api.create_all([each for each in manifests if each["kind"] != "Node"])
        await self.api.create_all([each for each in manifests if each["kind"] == "Node"])
        wanted = {node.name for node in renamed}

        def ready(objects: list[Object]) -> bool:
            waiting = wanted - {item["metadata"]["name"] for item in objects if is_ready(item)}
            assert not waiting, f"{len(waiting)} of {len(wanted)} nodes are not ready, such as {min(waiting)}"
            return True

        await self.api.until_all(
            at("nodes"),
            ready,
            labels=f"{OF_TEST}={self.namespace}",
            timeout=timeout,
            what="the nodes to be ready",
        )
        return [node.name for node in renamed]

    async def remove(self) -> None:
        for manifest in self.made:
            plural = "nodes" if manifest["kind"] == "Node" else "noderesourcetopologies"
            await self.api.delete(at(plural, None, manifest["metadata"]["name"]))


def is_ready(node: Object) -> bool:
    """Ready, and without the taint that every new node starts with."""
    conditions = node.get("status", {}).get("conditions", [])
    taints = node["spec"].get("taints", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions) and not any(
        taint["key"] == "node.kubernetes.io/not-ready" for taint in taints
    )


def make_namespace(cluster: Access, prefix: str = "t") -> str:
    name = f"{prefix}-{secrets.token_hex(4)}"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    # The controller-manager would make it a moment later; pods are refused until it is there.
    try:
        cluster.request(
            "POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}}
        )
    except RequestFailed as refused:
        if refused.code != 409:
            raise
    return name


def install_crds(access: Access) -> None:
    """Once a cluster, however many workers ask at once."""
    done = access.directory / "crds.done"
    with file_lock(access.directory / "crds.lock"):
        if done.exists():
            return
        access.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
        wait_for_kinds(access)
        done.touch()
