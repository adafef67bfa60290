"""The session's control plane is a real one, and the harness works against it."""

from __future__ import annotations

import json
import time

import pytest

from alnair.sandbox.access import Access, CommandFailed
from alnair.sandbox.versions import kubernetes_version
from harness.api import Api, NotInTime, Refused, at
from harness.builders import deployment, group, job, node, pod
from harness.fixtures import Fleet, is_ready


def test_every_program_is_of_the_pinned_version(cluster: Access) -> None:
    said = json.loads(cluster.kubectl("version", "-o", "json"))
    assert said["serverVersion"]["gitVersion"] == kubernetes_version()
    assert said["clientVersion"]["gitVersion"] == kubernetes_version()


def test_crds_are_installed_and_established(cluster: Access) -> None:
    served = cluster.kubectl("api-resources", "--categories=alnair", "-o", "name").split()
    assert "podgroups.scheduling.x-k8s.io" in served
    assert "gpuallocations.ai.centaurus.io" in served


def test_helm_reaches_the_cluster(cluster: Access, namespace: str) -> None:
    assert json.loads(cluster.helm("list", "--namespace", namespace, "-o", "json")) == []


def test_a_service_account_has_the_rights_of_its_rbac_and_no_more(cluster: Access, namespace: str) -> None:
    kubeconfig = cluster.token_kubeconfig(namespace, "default")
    assert cluster.kubectl("auth", "whoami", "-o", "name", kubeconfig=kubeconfig) is not None
    with pytest.raises(CommandFailed, match=f"system:serviceaccount:{namespace}:default.*cannot list"):
        cluster.kubectl("get", "pods", kubeconfig=kubeconfig)
    cluster.kubectl(
        "create",
        "rolebinding",
        "v",
        "--clusterrole=view",
        f"--serviceaccount={namespace}:default",
        "-n",
        namespace,
    )
    assert cluster.kubectl("get", "pods", "-o", "name", kubeconfig=kubeconfig) == ""


async def test_nodes_keep_the_cards_and_capacity_they_are_given(api: Api, fleet: Fleet) -> None:
    names = await fleet.add(
        node("own").with_cards(4, model="A10", memory_mib=24576).holding(cpu="7"),
        node("plugin").with_cards(2, model="T4", memory_mib=16384).owned_by("device-plugin"),
        node("mixed").with_cards(1, model="A10").with_cards(1, model="T4", memory_mib=16384),
    )
    own, plugin, _ = [await api.get(at("nodes", None, name)) for name in names]
    assert own["status"]["allocatable"]["cpu"] == "7"
    assert own["metadata"]["annotations"]["ai.centaurus.io/physical-gpu-count"] == "4"
    assert plugin["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    topology = await api.get(at("noderesourcetopologies", None, names[2]))
    cards = [zone for zone in topology["zones"] if zone["type"] == "GPU"]
    assert [card["resources"][0]["capacity"] for card in cards] == ["24Gi", "16Gi"]
    assert is_ready(own)


async def test_a_bound_pod_runs_and_a_deleted_one_goes(api: Api, fleet: Fleet, namespace: str) -> None:
    (name,) = await fleet.add(node("n"))
    await api.create(pod("a").by("nobody").manifest(), namespace=namespace)
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": name}}
    await api.call(
        "POST", at("pods", namespace, "a", "binding"), {"apiVersion": "v1", "kind": "Binding", **binding}
    )
    running = await api.until(at("pods", namespace, "a"), lambda it: it["status"]["phase"] == "Running")
    assert running["spec"]["nodeName"] == name
    await api.delete(at("pods", namespace, "a"))
    await api.until_gone(at("pods", namespace, "a"))


async def test_controllers_make_pods_of_jobs_and_deployments(api: Api, namespace: str) -> None:
    member = pod("x").in_group("team").asking(gpu=1).by("nobody")
    await api.create(group("team", min_member=4).manifest(), namespace=namespace)
    await api.create(job("train", member, count=2).manifest(), namespace=namespace)
    await api.create(deployment("serve", member, replicas=2).manifest(), namespace=namespace)
    pods = await api.until_all(at("pods", namespace), lambda found: len(found) == 4)
    assert {item["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for item in pods} == {"team"}


async def test_a_wait_that_fails_says_why_and_shows_the_last_object(api: Api, namespace: str) -> None:
    await api.create(pod("a").by("nobody").manifest(), namespace=namespace)

    def bound(it: dict[str, dict[str, str]]) -> bool:
        assert "nodeName" in it["spec"], "it has no node"
        return True

    with pytest.raises(NotInTime, match=r"it has no node(?s:.*)\"name\": \"a\""):
        await api.until(at("pods", namespace, "a"), bound, timeout=0.5)


async def test_a_wait_ends_when_the_change_comes_not_at_a_tick(api: Api, namespace: str) -> None:
    import asyncio

    await api.create(pod("a").by("nobody").manifest(), namespace=namespace)
    seen = asyncio.create_task(
        api.until(at("pods", namespace, "a"), lambda it: it["metadata"].get("labels", {}).get("now"))
    )
    await asyncio.sleep(0.3)
    began = time.monotonic()
    await api.patch(at("pods", namespace, "a"), {"metadata": {"labels": {"now": "1"}}})
    await seen
    assert time.monotonic() - began < 1.0


async def test_an_error_of_the_apiserver_names_the_request(api: Api, namespace: str) -> None:
    with pytest.raises(Refused, match=f"POST /api/v1/namespaces/{namespace}/pods: 422"):
        await api.create(pod("Not A Name").manifest(), namespace=namespace)


async def test_writes_are_in_the_audit_log(api: Api, cluster: Access, namespace: str) -> None:
    await api.create(pod("audited").by("nobody").manifest(), namespace=namespace)
    lines = [json.loads(line) for line in cluster.audit_log.read_text().splitlines() if namespace in line]
    creates = [
        line
        for line in lines
        if line["verb"] == "create" and line.get("objectRef", {}).get("resource") == "pods"
    ]
    assert [line["objectRef"]["namespace"] for line in creates] == [namespace]
