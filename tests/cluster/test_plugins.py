"""Rules of a third party, installed from a package of their own, in the operator on the real control plane: one decides
a placement, and one that is broken stops nobody."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from alnair.sandbox.access import Access
from alnair.sandbox.fleet import card_uuid
from alnair.sandbox.installation import RELEASE
from harness.api import Api
from harness.builders import group, node, pod
from harness.fixtures import REPOSITORY, Fleet
from harness.operator import Operator, Release, install
from harness.plugin import show_log_on_failure
from harness.watching import bound_pods, event_about, record_of_group, record_of_pod

SMALL = pod("small").slice(memory_gib=2)
THREE = (node("a").with_cards(2), node("b").with_cards(2), node("c").with_cards(2))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed into it, as pip does it."""
    folder = tmp_path_factory.mktemp("packages")
    source = REPOSITORY / "tests" / "packages" / "acme-rules"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--target", str(folder), str(source)], check=True
    )
    return folder


@pytest.fixture
def release(cluster: Access, namespace: str, tmp_path: Path) -> Iterator[Release]:
    """The chart with a profile for each rule, `<namespace>-raising` and so on."""
    packing = {"scorers": [{"name": "BinPack"}], "picker": "best-fit"}
    profiles = [
        {"schedulerName": "packing", **packing},
        {
            "schedulerName": "last",
            **packing,
            "nodePicker": "acme.com/LastNamed",
            "picker": "acme.com/LastNamed",
        },
        {"schedulerName": "raising", **packing, "nodePicker": "acme.com/Raising"},
        {"schedulerName": "endless", **packing, "nodePicker": "acme.com/Endless"},
        {"schedulerName": "absent", **packing, "nodePicker": "acme.com/Absent"},
    ]
    yield install(cluster, namespace, tmp_path, profiles=profiles)
    cluster.helm("uninstall", RELEASE, "--namespace", namespace, "--wait=false")


@pytest.fixture
async def operator(
    release: Release, packages: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Operator]:
    """One that has the package."""
    made = Operator(release, tmp_path, environment={"PYTHONPATH": str(packages)})
    show_log_on_failure(request.node, "the operator's log", made.log)
    await made.start()
    yield made
    assert made.running(), "a third party's rule ended the operator"
    await made.stop()


async def places(api: Api, namespace: str, number: int) -> dict[str, str]:
    """Node by pod, once so many are bound."""
    found = await bound_pods(api, namespace, number)
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in found}


async def test_a_picker_of_another_package_decides_node_and_card(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    a, _, c = await fleet.add(*THREE)
    asking = SMALL.selecting(fleet.selector)
    first = asking.named("first").by(f"{namespace}-packing").selecting({"kubernetes.io/hostname": a})
    await api.create(first.manifest(), namespace=namespace)
    await places(api, namespace, 1)
    await api.create(asking.named("packed").by(f"{namespace}-packing").manifest(), namespace=namespace)
    await api.create(asking.named("picked").by(f"{namespace}-last").manifest(), namespace=namespace)
    where = await places(api, namespace, 3)
    assert (where["packed"], where["picked"]) == (a, c)
    record = await record_of_pod(api, namespace, "picked", phase="Bound")
    (piece,) = record["status"]["pods"][0]["containers"][0]["slices"]
    assert piece["gpu"] == card_uuid(c, 1)


async def test_a_picker_of_another_package_places_a_gang_whole(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    _, b, c = await fleet.add(*THREE)
    await api.create(group("g", min_member=3).manifest(), namespace=namespace)
    member = pod("m").asking(gpu=1).in_group("g").by(f"{namespace}-last").selecting(fleet.selector)
    await api.create_all(member.copies(3), namespace=namespace)
    assert sorted((await places(api, namespace, 3)).values()) == [b, c, c]
    record = await record_of_group(api, namespace, "g", phase="Bound")
    assert len(record["status"]["pods"]) == 3


@pytest.mark.parametrize(
    ("fault", "told"),
    [("raising", "RuntimeError: the model was not found"), ("endless", "Overtime")],
)
async def test_a_broken_rule_is_told_of_and_its_profiles_fallback_places(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, fault: str, told: str
) -> None:
    rule = f"acme.com/{fault.capitalize()}"
    await fleet.add(*THREE)
    await api.create(group("g", min_member=2).manifest(), namespace=namespace)
    member = SMALL.in_group("g").by(f"{namespace}-{fault}").selecting(fleet.selector)
    await api.create_all(member.copies(2), namespace=namespace)
    where = await places(api, namespace, 2)
    assert len(set(where.values())) == 1, "the fallback packs"
    event = await event_about(api, namespace, "g", "RuleFailed")
    assert event["type"] == "Warning"
    assert f"rule {rule} of package acme-rules failed to choose: {told}" in event["note"]
    await operator.metrics_with(f'alnair_rule_failures_total{{point="choose",rule="{rule}"}} 1.0')


async def test_pods_of_other_profiles_are_not_disturbed_by_a_broken_rule(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    _, _, c = await fleet.add(*THREE)
    asking = SMALL.selecting(fleet.selector)
    profiles = ("raising", "absent", "endless", "last", "packing")
    await asyncio.gather(
        *(
            api.create(
                asking.named(f"{name}-{each}").by(f"{namespace}-{name}").manifest(), namespace=namespace
            )
            for each in range(2)
            for name in profiles
        ),
        api.create(asking.named("default").by(operator.scheduler).manifest(), namespace=namespace),
    )
    where = await places(api, namespace, 2 * len(profiles) + 1)
    assert {where["last-0"], where["last-1"]} == {c}, "a rule that works goes on while others fail"
    failures = [
        line
        for line in (await operator.metrics()).splitlines()
        if line.startswith("alnair_rule_failures_total")
    ]
    assert {line.partition('rule="')[2].partition('"')[0] for line in failures} == {
        "acme.com/Raising",
        "acme.com/Endless",
    }
