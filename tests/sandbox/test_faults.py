"""The control plane can be broken on purpose, and comes back with its data at its address."""

from __future__ import annotations

import asyncio

import pytest

from alnair.sandbox.access import RequestFailed
from alnair.sandbox.kept import KeeperFailed, KeptControlPlane
from harness.api import Api, at
from harness.builders import pod


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
async def test_a_killed_program_comes_back_with_the_same_objects(
    private_cluster: KeptControlPlane, program: str
) -> None:
    access = private_cluster.access
    async with Api(access) as api:
        await api.create(pod("kept").by("nobody").manifest(), namespace="default")
        waiting = asyncio.create_task(
            api.until(at("pods", "default", "kept"), lambda it: it["metadata"].get("labels"), timeout=60)
        )
        await asyncio.to_thread(private_cluster.kill, program)
        if program == "kube-apiserver":
            with pytest.raises(RequestFailed, match="no answer"):
                access.request("GET", "/readyz")
        await asyncio.to_thread(private_cluster.start_again, program)
        await api.patch(at("pods", "default", "kept"), {"metadata": {"labels": {"back": "yes"}}})
        assert (await waiting)["metadata"]["labels"] == {"back": "yes"}


def test_an_unknown_program_is_named_in_the_error(private_cluster: KeptControlPlane) -> None:
    with pytest.raises(KeeperFailed, match="has no program 'kubelet'"):
        private_cluster.kill("kubelet")


def test_a_control_plane_that_cannot_start_shows_the_end_of_its_log() -> None:
    with pytest.raises(
        KeeperFailed, match=r"kube-apiserver ended with exit code(?s:.*)unknown flag: --no-such-flag"
    ):
        KeptControlPlane.start(apiserver_flags=["--no-such-flag"])
