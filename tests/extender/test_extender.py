"""Pods of the real default-scheduler that ask for slices are filtered, scored, bound and recorded."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from alnair.api import names
from extender.plane import DEFAULT_SCHEDULER, Plane, by_certificates, declared, start
from harness import rights
from harness.api import Api, Object, Refused, at
from harness.builders import PodBuilder, node, nodes, pod
from harness.plugin import SHARED, show_log_on_failure
from harness.watching import bound_pods, condition, record_of_pod, slices_by_card

GIB = 1024
CARD_GIB = 16
PODS = 500
OWN_VALUE = ("NVIDIA_VISIBLE_DEVICES", "all")


def asking(gib: int, *, compute: int | None = None) -> PodBuilder:
    return pod("p").by(DEFAULT_SCHEDULER).slice(memory_gib=gib, compute=compute)


async def add(plane: Plane, count: int, *, cards: int) -> list[str]:
    like = node("gpu").with_cards(cards, memory_mib=CARD_GIB * GIB)
    return await plane.fleet.add(*(declared(each, plane.fleet) for each in nodes("gpu", count, like)))


async def records(plane: Plane) -> dict[str, Object]:
    """By the UID of the pod that each lists."""
    there = await plane.api.items(at("gpuallocations", plane.namespace))
    return {entry["uid"]: each for each in there for entry in each.get("status", {}).get("pods", [])}


def priority(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


async def create_with_its_class(api: Api, namespace: str, name: str, like: PodBuilder, value: int) -> None:
    """The apiserver learns of a PriorityClass by a watch of its own, a moment after the class was created."""
    its_class = f"{namespace}-{name}"
    await api.create(priority(its_class, value))
    manifest = like.named(name).with_priority(its_class).manifest()
    async with asyncio.timeout(20):
        while True:
            try:
                await api.create(manifest, namespace=namespace)
                return
            except Refused as refused:
                if "no PriorityClass" not in str(refused):
                    raise
            await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_500_slice_pods_through_default_scheduler_with_the_operator_killed_in_the_middle(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    show_log_on_failure(request.node, "the operator's log", tmp_path / "operator.log")
    async with start(tmp_path) as plane:
        await add(plane, 30, cards=4)
        made = [
            asking(2 + 2 * (number % 2), compute=10).named(f"p-{number}").manifest() for number in range(PODS)
        ]
        await plane.api.create_all(made[:250], namespace=plane.namespace)
        await plane.api.until_all(
            at("pods", plane.namespace),
            lambda pods: sum(bool(each["spec"].get("nodeName")) for each in pods) >= 100,
            timeout=120,
        )
        plane.operator.kill()
        await plane.api.create_all(made[250:], namespace=plane.namespace)
        await plane.operator.start(timeout=60)
        bound = await bound_pods(plane.api, plane.namespace, PODS, timeout=300)
        recorded = await records(plane)
        assert {uid: each["status"]["pods"][0]["node"] for uid, each in recorded.items()} == {
            each["metadata"]["uid"]: each["spec"]["nodeName"] for each in bound
        }
        assert {each["spec"]["schedulerName"] for each in recorded.values()} == {plane.operator.scheduler}
        taken = slices_by_card(recorded.values())
        assert max(taken.values()) <= CARD_GIB * GIB
        assert sum(taken.values()) == 3 * GIB * PODS
        await plane.judged()
        assert plane.checker.pods_seen == PODS
        assert sum(plane.checker.bound_kinds.values()) == PODS


@pytest.mark.timeout(600)
async def test_over_tls_who_finds_no_card_is_told_why_and_gets_the_next_that_comes_free(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    show_log_on_failure(request.node, "the operator's log", tmp_path / "operator.log")
    async with start(tmp_path, ends=by_certificates) as plane:
        await add(plane, 1, cards=1)
        await plane.fleet.add(node("bare"))
        await plane.api.create(asking(10).named("first").manifest(), namespace=plane.namespace)
        await record_of_pod(plane.api, plane.namespace, "first", phase="Bound")
        await plane.api.create(asking(10).named("second").manifest(), namespace=plane.namespace)
        waiting = await plane.api.until(
            at("pods", plane.namespace, "second"),
            lambda it: condition(it, "PodScheduled").get("reason") == "Unschedulable",
        )
        message = condition(waiting, "PodScheduled")["message"]
        assert "1 has no card with 10 GiB free, the largest free slice is 6 GiB on node gpu-1" in message
        assert "1 has no GPUs" in message
        await asyncio.sleep(11)  # so long that kube-scheduler tries again at once when it hears of something
        await plane.api.delete(at("pods", plane.namespace, "first"), grace=0)
        await bound_pods(plane.api, plane.namespace, 1, timeout=20)
        await record_of_pod(plane.api, plane.namespace, "second", phase="Bound")
        await plane.judged()


@pytest.mark.timeout(600)
async def test_of_default_schedulers_pods_those_with_slices_are_the_extenders_preemptors_too(
    tmp_path: Path, request: pytest.FixtureRequest, pytestconfig: pytest.Config
) -> None:
    show_log_on_failure(request.node, "the operator's log", tmp_path / "operator.log")
    service = ("--extender-service=alnair-extender", "--extender-service-address=10.1.2.3")
    async with start(tmp_path, flags=service, audit=True) as plane:
        await add(plane, 1, cards=1)
        api, namespace = plane.api, plane.namespace

        plain = pod("plain").by(DEFAULT_SCHEDULER).asking(cpu="100m").with_env(*OWN_VALUE)
        await api.create(plain.manifest(), namespace=namespace)
        (bound,) = await bound_pods(api, namespace, 1)
        assert bound["spec"]["containers"][0]["env"] == [dict(zip(("name", "value"), OWN_VALUE, strict=True))]
        assert not any(key.startswith(names.PREFIX) for key in bound["metadata"].get("annotations", {}))
        assert await records(plane) == {}

        for unwanted, why in (
            (asking(2).with_env(*OWN_VALUE), "is set by Alnair"),
            (pod("p").by(DEFAULT_SCHEDULER).slice_by_annotation("2Gi"), "kube-scheduler does not see"),
        ):
            with pytest.raises(Refused, match=why):
                await api.create(unwanted.named("unwanted").manifest(), namespace=namespace)

        group = {"apiVersion": names.API_PODGROUP, "kind": "PodGroup", "metadata": {"name": "gang"}}
        await api.create({**group, "spec": {"minMember": 2}}, namespace=namespace)
        await api.create(asking(2).named("member").in_group("gang").manifest(), namespace=namespace)
        refused = await api.until(
            at("pods", namespace, "member"),
            lambda it: "PodGroup gang needs 2 members" in condition(it, "PodScheduled").get("message", ""),
        )
        assert not refused["spec"].get("nodeName")

        await api.create(asking(2).named("slice").manifest(), namespace=namespace)
        record = await record_of_pod(api, namespace, "slice", phase="Bound")
        assert Counter(slices_by_card([record]).values()) == {2 * GIB: 1}

        greedy = asking(10).asking(cpu="40")
        await create_with_its_class(api, namespace, "low", greedy, 1)
        await record_of_pod(api, namespace, "low", phase="Bound")
        await create_with_its_class(api, namespace, "high", greedy, 9)
        await record_of_pod(api, namespace, "high", phase="Bound")
        await api.until_gone(at("pods", namespace, "low"))

        shown = await api.until(at("endpointslices", namespace, "alnair-extender"), lambda _: True)
        assert shown["endpoints"][0]["addresses"] == ["10.1.2.3"]

        # Whoever leads next writes itself over it, whatever kind of address it has.
        for address in ("10.1.2.4", "fd00::1"):
            plane.operator.flags += (f"--extender-service-address={address}",)
            await plane.operator.restart()
            await api.until(
                at("endpointslices", namespace, "alnair-extender"),
                lambda it, address=address: it["endpoints"][0]["addresses"] == [address],  # type: ignore[misc]
            )
        if session := pytestconfig.stash[SHARED].running():
            rights.note(plane.kept.access, session)
