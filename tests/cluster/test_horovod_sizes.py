"""An ElasticHorovodJob among neighbours: as many workers as there is room for, and a script that lists exactly them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from alnair.sandbox.access import Access
from harness.api import Api, Object, at
from harness.builders import group, node, pod
from harness.fixtures import Fleet
from harness.horovod import WORKERS, horovod_job, hosts_listed, launcher_is, listed_hosts
from harness.operator import Operator
from harness.watching import bound_pods, event_about, refused

pytestmark = [
    pytest.mark.elastic(stabilizationSeconds=4, growAfterSeconds=1, placeSeconds=10, changesPerMinute=1000),
    pytest.mark.shares_operator,
]


@dataclass
class Story:
    """All that was seen of a job's workers, its script and its StatefulSet, each in the order of its revisions."""

    running: list[list[str]] = field(default_factory=list)
    listed: list[list[str]] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)

    def says_nothing_that_was_not_so(self) -> None:
        """What the script lists is what ran at some moment, and those moments are in order."""
        moment = 0
        for hosts in self.listed:
            try:
                moment = self.running.index(hosts, moment)
            except ValueError:
                raise AssertionError(
                    f"the script listed {hosts}, which was not so: from then on {self.running[moment:]}"
                ) from None


def live(worker: Object) -> bool:
    ready = [each for each in worker["status"].get("conditions", []) if each["type"] == "Ready"]
    return (
        worker["status"]["phase"] == "Running"
        and "deletionTimestamp" not in worker["metadata"]
        and all(each["status"] == "True" for each in ready)
    )


@asynccontextmanager
async def told(api: Api, namespace: str, name: str) -> AsyncIterator[Story]:
    story = Story()

    async def workers() -> None:
        async for pods in api.follow(at("pods", namespace), labels=WORKERS):
            hosts = [f"{each['metadata']['name']}.{name}-workers:1" for each in pods if live(each)]
            story.running.append(hosts)  # by name, which is by ordinal below ten

    async def script() -> None:
        place = at("configmaps", namespace)
        async for found in api.follow(place, fields=f"metadata.name={name}-discovery"):
            story.listed += [listed_hosts(each) for each in found]

    async def scale() -> None:
        place = at("statefulsets", namespace)
        async for found in api.follow(place, fields=f"metadata.name={name}-workers"):
            story.replicas += [each["spec"]["replicas"] for each in found]

    tasks = [asyncio.create_task(each) for each in (workers(), script(), scale())]
    try:
        yield story
        async with asyncio.timeout(10):  # our own watches may be a moment behind
            while story.listed[-1] != story.running[-1]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def hosts(number: int) -> list[str]:
    return [f"train-workers-{ordinal}.train-workers:1" for ordinal in range(number)]


async def rigid(api: Api, namespace: str, fleet: Fleet, operator: Operator, name: str, size: int) -> None:
    await api.create(group(name, min_member=size).manifest(), namespace=namespace)
    member = pod(name).in_group(name).asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(size), namespace=namespace)


async def test_it_starts_with_what_is_free_grows_when_a_neighbour_ends_and_shrinks_for_a_new_job(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, cluster: Access
) -> None:
    await fleet.add(node("gpu").with_cards(6))
    await rigid(api, namespace, fleet, operator, "neighbour", 3)
    await bound_pods(api, namespace, 3)
    async with told(api, namespace, "train") as story:
        job = horovod_job("train", low=2, high=5).by(operator.scheduler).on(fleet.selector)
        await api.create(job.manifest(), namespace=namespace)
        await hosts_listed(api, namespace, "train", hosts(3), timeout=60)
        await launcher_is(api, namespace, "Running")
        full = await api.until(
            at("elastichorovodjobs", namespace, "train"),
            lambda it: it["status"].get("wantedReplicas") == 3 and "no place" in it["status"]["whyNotMore"],
        )
        assert full["status"]["workers"] == "3/2-5"

        for ordinal in range(3):
            await api.delete(at("pods", namespace, f"neighbour-{ordinal}"))
        await hosts_listed(api, namespace, "train", hosts(5), timeout=60)
        most = await api.until(
            at("elastichorovodjobs", namespace, "train"),
            lambda it: "elastic.max is 5" in it["status"].get("whyNotMore", ""),
        )
        assert most["status"]["workers"] == "5/2-5"

        await rigid(api, namespace, fleet, operator, "newcomer", 3)
        await hosts_listed(api, namespace, "train", hosts(3), timeout=60)
        await bound_pods(api, namespace, 6)

        await rigid(api, namespace, fleet, operator, "too-large", 2)
        await refused(api, namespace, "too-large", timeout=60)
        await rigid(api, namespace, fleet, operator, "small", 1)
        await hosts_listed(api, namespace, "train", hosts(2), timeout=60)
        await bound_pods(api, namespace, 6)

        await api.until(
            at("elastichorovodjobs", namespace, "train"), lambda it: it["status"]["wantedReplicas"] == 2
        )
        wide = cluster.kubectl("get", "elastichorovodjobs,podgroups", "-o", "wide", "-n", namespace)
        (line,) = (each.split() for each in wide.splitlines() if "elastichorovodjob" in each)
        assert line[1:3] == ["2/2-5", "Running"]
        assert line[4:8] == ["2", "2", "2", "5"]  # has, wants, min, max
        scaled = await event_about(api, namespace, "train", "Scaled")
        assert "workers" in scaled["note"]

    story.says_nothing_that_was_not_so()
    assert all(2 <= replicas <= 5 for replicas in story.replicas)
    sizes = [len(each) for each in story.running]
    started = next(index for index, size in enumerate(sizes) if size >= 2)
    assert all(2 <= size <= 5 for size in sizes[started:]), sizes


async def test_a_worker_that_dies_is_no_longer_listed_and_its_replacement_is(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(3))
    async with told(api, namespace, "train") as story:
        job = horovod_job("train", low=2, high=3).by(operator.scheduler).on(fleet.selector)
        await api.create(job.manifest(), namespace=namespace)
        await hosts_listed(api, namespace, "train", hosts(3), timeout=60)
        for ordinal in (0, 2, 1):
            victim = await api.get(at("pods", namespace, f"train-workers-{ordinal}"))
            await api.delete(at("pods", namespace, f"train-workers-{ordinal}"), grace=0)
            await api.until(
                at("pods", namespace, f"train-workers-{ordinal}"),
                lambda it, uid=victim["metadata"]["uid"]: it["metadata"]["uid"] != uid and live(it),
                timeout=60,
            )
        await hosts_listed(api, namespace, "train", hosts(3))
    story.says_nothing_that_was_not_so()
    assert min(len(each) for each in story.listed[story.listed.index(hosts(3)) :]) == 2
