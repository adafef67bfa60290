"""From the version before to the present one: chart, CRDs and operator, while gangs run.

The version before is the one in `previous/`, chart and program; the two run after each other as a rolling upgrade has
it. What it decided stays decided: no pod moves, nothing is bound twice, every record is kept.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import alnair
from alnair.api.crds import DEFINITIONS
from alnair.sandbox import installation
from alnair.sandbox.access import Access
from alnair.sandbox.installation import KINDS, RELEASE
from alnair.sandbox.kept import KeptControlPlane
from harness.api import Api, Object, at
from harness.audit import bindings, writes
from harness.builders import group, node, nodes, pod
from harness.fixtures import Fleet, make_namespace
from harness.operator import CHART, Operator, Release
from harness.plugin import show_log_on_failure
from harness.watching import bound_pods, event_about, record_of_group, record_of_pod, refused

PREVIOUS = Path(__file__).parent / "previous"
KINDS_BEFORE = tuple(kind for kind in KINDS if kind[1] != "elastichorovodjobs")


@pytest.fixture
def bare_cluster() -> Iterator[Access]:
    """A control plane that has never heard of Alnair."""
    with KeptControlPlane.start() as kept:
        yield kept.access


def the_one(pattern: str) -> Path:
    (found,) = PREVIOUS.glob(pattern)
    return found


def fields(crd: Object) -> set[str]:
    """The paths of all fields that the schema of a CRD knows."""

    def below(schema: Object, path: str) -> Iterator[str]:
        yield path
        for name, one in schema.get("properties", {}).items():
            yield from below(one, f"{path}.{name}")
        for inner in ("items", "additionalProperties"):
            if isinstance(schema.get(inner), dict):
                yield from below(schema[inner], f"{path}[]")

    (version,) = crd["versions"]
    return set(below(version["schema"]["openAPIV3Schema"], version["name"]))


def version_of(environment: dict[str, str]) -> str:
    """Which Alnair a Python with this environment runs."""
    asked = [sys.executable, "-c", "import alnair; print(alnair.__version__)"]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout.strip()


async def decided(api: Api, namespace: str) -> tuple[Object, Object]:
    """Who runs where with which cards, by the pods and by the records."""
    pods = {
        each["metadata"]["uid"]: (each["spec"]["nodeName"], each["metadata"]["annotations"])
        for each in await api.items(at("pods", namespace))
        if each["spec"].get("nodeName")
    }
    records = {
        each["metadata"]["uid"]: (each["metadata"]["name"], each["spec"], each["status"]["pods"])
        for each in await api.items(at("gpuallocations", namespace))
    }
    return pods, records


async def epochs(api: Api, namespace: str) -> dict[str, int]:
    return {
        each["metadata"]["name"]: each["status"]["epoch"]
        for each in await api.items(at("gpuallocations", namespace))
    }


@pytest.mark.kubernetes("1.36", "the version before is installed with delivery, by MutatingAdmissionPolicies")
async def test_an_upgrade_keeps_every_decision_and_the_successor_carries_on(
    bare_cluster: Access, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    team = make_namespace(bare_cluster)
    with zipfile.ZipFile(the_one("*.whl")) as wheel:
        wheel.extractall(tmp_path / "before")
    its_code = {"PYTHONPATH": str(tmp_path / "before")}
    its_version = await asyncio.to_thread(version_of, its_code)
    assert its_version != alnair.__version__

    # The version before, with something that runs, something that waits, and a place for one more.
    profile = {"schedulerName": team, "scorers": [{"name": "BinPack"}], "picker": "best-fit"}
    values = {"profiles": [profile], "delivery": {"wholeCards": "Environment"}}
    installed = installation.install(
        bare_cluster, chart=the_one("*.tgz"), namespace=team, folder=tmp_path, values=values
    )
    installation.wait_for_kinds(bare_cluster, kinds=KINDS_BEFORE)
    release = Release(bare_cluster, installed)
    before = Operator(release, tmp_path, name="before", environment=its_code)
    after = Operator(release, tmp_path, name="after")
    for each in (before, after):
        show_log_on_failure(request.node, f"the log of the operator {each.log.stem}", each.log)
    await before.start(timeout=60)
    async with Api(bare_cluster) as api:
        fleet = Fleet(api, team)
        await fleet.add(*nodes("gpu", 2, node("gpu").with_cards(2, memory_mib=16384)))
        asking = pod("x").by(team).selecting(fleet.selector)
        for name, size, gib in (("runs", 3, 10), ("waits", 2, 12)):
            await api.create(group(name, min_member=size).manifest(), namespace=team)
            await api.create_all(
                asking.named(name).in_group(name).slice(memory_gib=gib).copies(size), namespace=team
            )
        await api.create(asking.named("alone").slice(memory_gib=4).manifest(), namespace=team)
        await bound_pods(api, team, 4)
        await record_of_group(api, team, "runs", phase="Bound")
        await record_of_pod(api, team, "alone", phase="Bound")
        await refused(api, team, "waits")
        told = await decided(api, team)
        groups = {each["metadata"]["uid"]: each["spec"] for each in await api.items(at("podgroups", team))}

        # The chart is upgraded while the operator of before still leads: other CRDs, rights and policies, and a config
        # that it may not understand.
        new_values = tmp_path / "upgrade.json"
        new_values.write_text(json.dumps({**values, "replicas": 2}))
        bare_cluster.helm("upgrade", RELEASE, str(CHART), f"--namespace={team}", f"--values={new_values}")
        installation.wait_for_kinds(bare_cluster)
        for definition in DEFINITIONS:
            served = yaml.safe_load(
                bare_cluster.kubectl("get", "crd", f"{definition.plural}.{definition.group}", "-o", "yaml")
            )
            assert fields(served["spec"]) == fields(definition.manifest()["spec"])
        assert await decided(api, team) == told
        assert groups == {
            each["metadata"]["uid"]: each["spec"] for each in await api.items(at("podgroups", team))
        }
        installation.fetch_config(bare_cluster, installed)
        await event_about(api, team, RELEASE, "ConfigRefused")
        await api.create(asking.named("meanwhile").slice(memory_gib=4).manifest(), namespace=team)
        await record_of_pod(api, team, "meanwhile", phase="Bound")

        # The successor stands by; the one of before is asked to go.
        told = await decided(api, team)
        numbers = await epochs(api, team)
        bound = bindings(bare_cluster, team)
        taking_over = asyncio.create_task(after.start(timeout=60))
        assert await before.stop() == 0
        await taking_over
        await api.until_all(
            at("gpuallocations", team),
            lambda records: all(
                each["status"]["epoch"] > numbers[each["metadata"]["name"]] for each in records
            ),
            what="the successor's epoch in every record",
        )
        assert await decided(api, team) == told
        assert bindings(bare_cluster, team) == bound

        # It carries on: what waited starts when there is room, and what ends is released.
        await fleet.add(node("more").with_cards(2, memory_mib=16384))
        await record_of_group(api, team, "waits", phase="Bound")
        alone = await record_of_pod(api, team, "alone", phase="Bound")
        await api.delete(at("pods", team, "alone"))
        await api.until_gone(at("gpuallocations", team, alone["metadata"]["name"]))
        assert await after.stop() == 0
        assert sorted(bindings(bare_cluster, team)) == sorted([*bound, "waits-0", "waits-1"])
        user = f"system:serviceaccount:{team}:{RELEASE}"
        evicted = [
            entry
            for entry in writes(bare_cluster, user, resource="pods")
            if entry["verb"] == "delete" or entry["objectRef"].get("subresource") == "eviction"
        ]
        assert not evicted

        # Whoever removes the chart keeps the records, and with them who holds which card.
        told = await decided(api, team)
        bare_cluster.helm("uninstall", RELEASE, f"--namespace={team}")
        assert await decided(api, team) == told
