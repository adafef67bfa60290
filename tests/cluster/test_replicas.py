"""Two replicas, one leader; and what the kubelet asks of each."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest

from harness.api import Api, at
from harness.builders import node, pod
from harness.fixtures import Fleet
from harness.operator import Operator, Release
from harness.plugin import show_log_on_failure
from harness.watching import record_of_pod


async def test_a_standby_takes_over_when_the_leader_is_stopped(
    api: Api,
    namespace: str,
    fleet: Fleet,
    operator: Operator,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    await fleet.add(node("gpu").with_cards(1, memory_mib=16384))
    asking = pod("x").slice(memory_gib=8).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.named("first").manifest(), namespace=namespace)
    first = await record_of_pod(api, namespace, "first", phase="Bound")

    standby = Operator(operator.release, tmp_path, name="standby")
    show_log_on_failure(request.node, "the stand-by's log", standby.log)
    taking_over = asyncio.create_task(standby.start(timeout=60))
    await api.never(
        at("leases", namespace, "alnair"), lambda it: it["spec"]["leaseTransitions"] != 1, during=4
    )
    assert not taking_over.done(), "it leads beside the leader"

    leader = (await api.get(at("leases", namespace, "alnair")))["spec"]["holderIdentity"]
    assert await operator.stop() == 0
    lease = await api.get(at("leases", namespace, "alnair"))
    assert lease["spec"]["holderIdentity"] != leader, "it was given back, and did not expire"
    await taking_over
    await api.create(asking.named("second").manifest(), namespace=namespace)
    second = await record_of_pod(api, namespace, "second", phase="Bound")
    assert second["status"]["epoch"] > first["status"]["epoch"]
    assert await standby.stop() == 0


async def test_a_leader_whose_lease_is_taken_stops_and_writes_no_more(
    api: Api, namespace: str, operator: Operator
) -> None:
    await api.patch(
        at("leases", namespace, "alnair"),
        {"spec": {"holderIdentity": "somebody-else", "leaseTransitions": 9}},
    )
    assert operator.process is not None
    assert await asyncio.to_thread(operator.process.wait, 30) == 1
    await operator.start(timeout=60)  # once somebody-else has not renewed for the whole duration
    lease = await api.get(at("leases", namespace, "alnair"))
    assert lease["spec"]["leaseTransitions"] == 10


async def test_the_kubelets_probes_are_answered(release: Release, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    operator = Operator(release, tmp_path, flags=(f"--liveness-port={port}",))
    await operator.start()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{operator.metrics_port}/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        for _ in range(100):  # Kopf starts beside the rest, and says nowhere that its port is open
            try:
                async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
                    assert answer.status == 200
                    assert (await answer.json())["loop"] == "turning"
                    break
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)
        else:
            raise AssertionError("nobody answers at the liveness port")
    assert await operator.stop() == 0
