"""The apiserver goes away and comes back: the operator carries on, in the same process."""

from __future__ import annotations

from pathlib import Path

import pytest

from alnair.sandbox.kept import KeptControlPlane
from harness.api import Api, at
from harness.builders import group, node, pod
from harness.fixtures import Fleet, make_namespace
from harness.operator import Operator, install
from harness.plugin import show_log_on_failure
from harness.watching import bound_now, bound_pods, record_of_group, slices_by_card


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
async def test_gangs_are_bound_whole_across_an_outage_without_a_restart_of_the_operator(
    private_cluster: KeptControlPlane, tmp_path: Path, request: pytest.FixtureRequest, program: str
) -> None:
    namespace = make_namespace(private_cluster.access)
    operator = Operator(install(private_cluster.access, namespace, tmp_path), tmp_path)
    show_log_on_failure(request.node, "the operator's log", operator.log)
    await operator.start()
    assert operator.process is not None
    pid = operator.process.pid
    async with Api(private_cluster.access) as api:
        fleet = Fleet(api, namespace)
        await fleet.add(node("gpu").with_cards(16, memory_mib=16384))
        member = pod("x").slice(memory_gib=16).by(operator.scheduler).selecting(fleet.selector)
        for round_ in range(2):
            name = f"round-{round_}"
            await api.create(group(name, min_member=8).manifest(), namespace=namespace)
            await api.create_all(member.named(name).in_group(name).copies(8), namespace=namespace)
            # In the middle of it all: some are bound by now, or none, or all.
            private_cluster.kill(program)
            private_cluster.start_again(program)
            await bound_pods(api, namespace, 8 * (round_ + 1), timeout=90)
            await record_of_group(api, namespace, name, phase="Bound", timeout=60)

        records = await api.items(at("gpuallocations", namespace))
        assert set(slices_by_card(records).values()) == {16384}, "every card is given once"
        recorded = {p["uid"]: p["node"] for record in records for p in record["status"]["pods"]}
        assert recorded == {
            p["metadata"]["uid"]: p["spec"]["nodeName"] for p in await bound_now(api, namespace)
        }

        for p in await api.items(at("pods", namespace)):
            await api.delete(at("pods", namespace, p["metadata"]["name"]))
        await api.until_all(at("gpuallocations", namespace), lambda records: not records, timeout=60)
    assert operator.running()
    assert operator.process.pid == pid
    assert await operator.stop() == 0
