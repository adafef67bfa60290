"""Who reads the metrics of an operator that others than its host reach: the real apiserver says who may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from alnair.console.readers import WHAT_THEY_MAY, Readers
from alnair.console.server import Console
from alnair.control.metrics import Metrics
from alnair.kube import Client, connect
from alnair.kube.clock import Clock
from harness.api import Api, at
from harness.operator import Operator, Release
from harness.plugin import show_log_on_failure
from harness.tenants import RBAC

EVERYWHERE = "0.0.0.0"
AUDIENCE = "alnair-metrics"


async def account(api: Api, namespace: str, name: str) -> str:
    """Somebody without rights; their name at the apiserver."""
    await api.create({"kind": "ServiceAccount", "metadata": {"name": name}}, namespace=namespace)
    return f"system:serviceaccount:{namespace}:{name}"


async def token(api: Api, namespace: str, name: str, *audiences: str) -> str:
    """As the kubelet projects it into a pod; for the apiserver unless for somebody else."""
    wanted = {"spec": {"expirationSeconds": 600, **({"audiences": audiences} if audiences else {})}}
    made = await api.call("POST", at("serviceaccounts", namespace, name, "token"), wanted)
    return str(made["status"]["token"])


@asynccontextmanager
async def bound(api: Api, namespace: str, name: str) -> AsyncIterator[None]:
    """The chart's role for readers is theirs, and the apiserver has heard of it."""
    binding = {
        "metadata": {"name": f"{namespace}-{name}"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        "roleRef": {
            "apiGroup": RBAC,
            "kind": "ClusterRole",
            "name": f"alnair:{namespace}:alnair:alnair:metrics-reader",
        },
    }
    bindings = f"/apis/{RBAC}/v1/clusterrolebindings"
    await api.call("POST", bindings, binding)
    asked = {
        "user": f"system:serviceaccount:{namespace}:{name}",
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }
    try:
        async with asyncio.timeout(30):
            while True:
                said = await api.call("POST", WHAT_THEY_MAY, {"spec": asked})
                if said["status"]["allowed"]:
                    break
                await asyncio.sleep(0.05)
        yield
    finally:
        await api.delete(f"{bindings}/{namespace}-{name}")


async def read(port: int, shown: str | None = None, *, path: str = "/metrics") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {shown}"} if shown is not None else {}
    address = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(address, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_the_metrics_are_for_those_who_may_read_them_and_the_probe_is_for_all(
    api: Api, namespace: str, release: Release, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stranger = await account(api, namespace, "stranger")
    await account(api, namespace, "prometheus")
    operator = Operator(release, tmp_path, flags=(f"--host={EVERYWHERE}",))
    show_log_on_failure(request.node, "the operator's log", operator.log)
    await operator.start()
    port = operator.metrics_port

    assert await read(port, path="/readyz") == (200, "ok\n")
    status, why = await read(port)
    assert (status, "Authorization: Bearer" in why) == (401, True)
    status, why = await read(port, "nonsense")
    assert (status, "does not know this token" in why) == (401, True)
    status, why = await read(port, await token(api, namespace, "stranger"))
    assert status == 403
    assert why.startswith(f"{stranger} needs get on the nonResourceURL /metrics: bind a ClusterRole")
    async with bound(api, namespace, "prometheus"):
        mine = await token(api, namespace, "prometheus")
        status, text = await read(port, mine)
        assert (status, "alnair_leader 1.0" in text) == (200, True)
        assert 'resource="tokenreviews"' in text, "the apiserver was asked"
        status, why = await read(port, await token(api, namespace, "prometheus", "somebody-else"))
        assert (status, "none of the apiserver's" in why) == (401, True)
    assert mine not in operator.log.read_text()
    assert await operator.stop() == 0


async def test_a_token_that_is_for_the_metrics_alone_reads_them_and_is_of_no_use_elsewhere(
    api: Api, namespace: str, release: Release
) -> None:
    await account(api, namespace, "prometheus")
    async with (
        bound(api, namespace, "prometheus"),
        Client(connect(kubeconfig=release.kubeconfig)) as operators,
    ):
        readers = Readers(operators.create, clock=Clock(), audiences=[AUDIENCE])
        console = Console(Metrics(), ready=lambda: True, host=EVERYWHERE, port=0, readers=readers)
        await console.start()
        try:
            narrow = await token(api, namespace, "prometheus", AUDIENCE)
            assert (await read(console.port, narrow))[0] == 200
            status, why = await read(console.port, await token(api, namespace, "prometheus"))
            assert (status, f"for the audience {AUDIENCE}" in why) == (401, True)
        finally:
            await console.stop()
    async with (
        release.cluster.session(aiohttp.ClientTimeout(total=30)) as session,
        session.get("/api", headers={"Authorization": f"Bearer {narrow}"}) as answer,
    ):
        assert answer.status == 401
