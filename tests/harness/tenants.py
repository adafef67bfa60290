"""Tenants: somebody with a ServiceAccount of their own and few rights, and what the apiserver says to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from alnair.sandbox.access import Access
from harness.api import Api, Refused

RBAC = "rbac.authorization.k8s.io"


def right(group: str, resources: Sequence[str], verbs: Sequence[str] = ("*",)) -> dict[str, Any]:
    """A rule of a Role."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


@asynccontextmanager
async def tenant(
    api: Api,
    cluster: Access,
    namespace: str,
    folder: Path,
    *rights: dict[str, Any],
    roles: Sequence[str] = (),
    name: str = "tenant",
) -> AsyncIterator[Api]:
    """Somebody with these rights in one namespace, and those of these ClusterRoles there; nothing else."""
    prefix = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    await api.create({"kind": "ServiceAccount", "metadata": {"name": name}}, namespace=namespace)
    given = [("ClusterRole", each) for each in roles]
    if rights:
        await api.call("POST", f"{prefix}/roles", {"metadata": {"name": name}, "rules": list(rights)})
        given.append(("Role", name))
    who = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    for kind, role in given:
        body = {
            "metadata": {"name": f"{name}-{role}"},
            "subjects": [who],
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        }
        await api.call("POST", f"{prefix}/rolebindings", body)
    kubeconfig = cluster.token_kubeconfig(namespace, name, path=folder / f"{name}.kubeconfig")
    async with Api.from_kubeconfig(kubeconfig) as theirs:
        yield theirs


async def refusal(work: Awaitable[Any]) -> str:
    """What the apiserver says to it."""
    with pytest.raises(Refused) as refused:
        await work
    assert refused.value.status in (403, 422)
    return str(refused.value)


async def until_refused(attempt: Callable[[], Awaitable[Any]], *, seconds: float = 20) -> None:
    """Until something harmless is refused: a policy is in force a moment after it was installed."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                await attempt()
            except Refused:
                return
            await asyncio.sleep(0.1)
