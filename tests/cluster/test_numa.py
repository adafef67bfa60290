"""NUMA nodes on the real control plane: what the kubelet would refuse is not bound, however late the publisher is."""

from __future__ import annotations

import pytest

from harness.api import Api, at
from harness.builders import PodBuilder, group, node, pod
from harness.fixtures import Fleet
from harness.numa import Zone, published, zone
from harness.operator import Operator
from harness.watching import bound_pods, condition

pytestmark = pytest.mark.shares_operator

HALF = zone(cpu=(8, 8), memory=("32Gi", "32Gi"))
FULL = zone(cpu=(8, 0), memory=("32Gi", "0"))


async def publish(fleet: Fleet, *zones: Zone) -> None:
    """A node of sixteen CPUs whose publisher has counted no pod yet, and says so."""
    made = published(fleet.name("a"), *zones, counting=[])
    fleet.made.append(made)
    await fleet.api.create(made)
    await fleet.add(node("a").holding(cpu="32", memory="128Gi"))


def worker(name: str, cpu: str, fleet: Fleet, operator: Operator) -> PodBuilder:
    return pod(name).asking(cpu=cpu, memory="8Gi").by(operator.scheduler).selecting(fleet.selector)


async def refused(api: Api, namespace: str, name: str, words: str) -> None:
    await api.until(
        at("pods", namespace, name),
        lambda it: words in condition(it, "PodScheduled").get("message", ""),
        what=f"pod {name} refused with {words}",
    )


async def test_a_pod_that_fits_the_node_but_no_numa_node_is_not_bound_and_told_why(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await publish(fleet, HALF, HALF)
    await api.create(worker("wide", "9", fleet, operator).manifest(), namespace=namespace)
    await refused(
        api,
        namespace,
        "wide",
        "1 has no NUMA nodes to align the pod with (topology policy single-numa-node, container scope)",
    )
    await api.create(worker("shared", "8500m", fleet, operator).manifest(), namespace=namespace)
    (bound,) = await bound_pods(api, namespace, 1)
    assert bound["metadata"]["name"] == "shared"


async def test_members_of_a_gang_fill_the_numa_nodes_exactly(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await publish(fleet, HALF, HALF)
    await api.create(group("four", min_member=4).manifest(), namespace=namespace)
    members = worker("m", "4", fleet, operator).in_group("four")
    await api.create_all(members.copies(4), namespace=namespace)
    assert len(await bound_pods(api, namespace, 4)) == 4

    await api.create(worker("late", "1", fleet, operator).manifest(), namespace=namespace)
    await refused(api, namespace, "late", "4 pods that its NodeResourceTopology does not count yet")


async def test_two_pods_in_quick_succession_do_not_both_get_the_one_free_numa_node(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await publish(fleet, HALF, FULL)
    pair = worker("w", "6", fleet, operator).copies(2)
    await api.create_all(pair, namespace=namespace)
    (bound,) = await bound_pods(api, namespace, 1)
    first = bound["metadata"]["name"]
    (second,) = {each["metadata"]["name"] for each in pair} - {first}
    await refused(api, namespace, second, "1 pod that its NodeResourceTopology does not count yet")

    # The publisher catches up: the first is in its numbers, and another NUMA node came free.
    name = fleet.name("a")
    counted = published(name, FULL, HALF, counting=[(namespace, first)])
    await api.patch(
        at("noderesourcetopologies", None, name),
        {"zones": counted["zones"], "attributes": counted["attributes"]},
    )
    assert len(await bound_pods(api, namespace, 2)) == 2
