"""200 gangs of 8 on 100 nodes: all bound, no card over its memory, three record writes a gang."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from alnair.sandbox.kept import KeptControlPlane
from harness.api import Api, at
from harness.audit import entries, writes
from harness.builders import group, node, nodes, pod
from harness.fixtures import Fleet, make_namespace
from harness.operator import Operator, install
from harness.plugin import show_log_on_failure
from harness.watching import bound_pods, slices_by_card

GANGS, SIZE, NODES, CARDS, CARD_MIB = 200, 8, 100, 8, 24576


@pytest.mark.slow
async def test_200_gangs_of_8_are_bound_with_three_record_writes_each(
    private_cluster: KeptControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    access = private_cluster.access
    namespace = make_namespace(access)
    operator = Operator(install(access, namespace, tmp_path), tmp_path)
    show_log_on_failure(request.node, "the operator's log", operator.log)
    await operator.start()
    async with Api(access) as api:
        fleet = Fleet(api, namespace)
        like = node("gpu").with_cards(CARDS, memory_mib=CARD_MIB)
        await fleet.add(*nodes("gpu", NODES, like), timeout=180)
        asking = pod("x").slice(memory_gib=8).by(operator.scheduler).selecting(fleet.selector)

        a_few_at_a_time = asyncio.Semaphore(8)  # a request that waits for 1,600 others waits in vain

        async def submit(number: int) -> None:
            name = f"gang-{number:03d}"
            async with a_few_at_a_time:
                await api.create(group(name, min_member=SIZE).manifest(), namespace=namespace)
                await api.create_all(asking.named(name).in_group(name).copies(SIZE), namespace=namespace)

        await asyncio.gather(*(submit(number) for number in range(GANGS)))
        await bound_pods(api, namespace, GANGS * SIZE, timeout=300)
        records = await api.until_all(
            at("gpuallocations", namespace),
            lambda records: [r["status"]["phase"] for r in records] == ["Bound"] * GANGS,
            timeout=120,
        )
        listed = access.kubectl("get", "gpuallocations", "-A", "--no-headers").splitlines()
        assert len(listed) == GANGS
        assert max(slices_by_card(records).values()) <= CARD_MIB
        assert sum(slices_by_card(records).values()) == GANGS * SIZE * 8192

    user = f"system:serviceaccount:{namespace}:alnair"
    a_gang = Counter(entry["objectRef"]["name"] for entry in writes(access, user, resource="gpuallocations"))
    assert len(a_gang) == GANGS
    assert max(a_gang.values()) <= 3, a_gang.most_common(3)
    denied = [e["requestURI"] for e in entries(access, containing=user) if e["responseStatus"]["code"] == 403]
    assert denied == []
    assert await operator.stop() == 0
