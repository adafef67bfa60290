"""`alnair explain`: the same words that stand in the conditions, from the command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from alnair.sandbox.access import Access
from harness.api import Api
from harness.builders import group, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import record_of_group, record_of_pod, refused

pytestmark = pytest.mark.shares_operator

ALNAIR = Path(sys.executable).with_name("alnair")


async def explain(
    cluster: Access, namespace: str, what: str, *flags: str
) -> subprocess.CompletedProcess[str]:
    command = [str(ALNAIR), "explain", what, "-n", namespace, f"--kubeconfig={cluster.kubeconfig}", *flags]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)


async def test_a_waiting_group_is_explained_in_the_words_of_its_condition(
    cluster: Access, api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    await api.create(group("wide", min_member=2).manifest(), namespace=namespace)
    member = pod("m").in_group("wide").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(2), namespace=namespace)
    # How many nodes there are changes while other tests run; the rest is the same sentence.
    words = "1 of 2 members fit. 1 more needs 1 whole GPU, but of "
    await refused(api, namespace, "wide", words)

    told = await explain(cluster, namespace, "podgroup/wide")
    assert told.returncode == 0
    assert "Pending, 0 of at least 2 scheduled (2 exist)" in told.stdout
    assert f"Unschedulable: {words}" in told.stdout
    answer = json.loads((await explain(cluster, namespace, "pod/m-0", "--json")).stdout.splitlines()[-1])
    assert (answer["name"], answer["reason"]) == ("wide", "Unschedulable")
    assert answer["message"].startswith(words)


async def test_a_bound_group_and_pod_are_explained_by_their_cards(
    cluster: Access, api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(2))
    await api.create(group("team", min_member=1).manifest(), namespace=namespace)
    asking = pod("x").slice(memory_gib=6).by(operator.scheduler).selecting(fleet.selector)
    await api.create(asking.named("member").in_group("team").manifest(), namespace=namespace)
    await api.create(asking.named("alone").manifest(), namespace=namespace)
    record = await record_of_group(api, namespace, "team", phase="Bound")
    await record_of_pod(api, namespace, "alone", phase="Bound")

    card = record["status"]["cards"]
    assert (
        f"member -> {fleet.name('gpu')}: 6144 MiB of {card}"
        in (await explain(cluster, namespace, "pg/team")).stdout
    )
    assert (
        f"alone -> {fleet.name('gpu')}: 6144 MiB of"
        in (await explain(cluster, namespace, "pod/alone")).stdout
    )


async def test_what_cannot_be_explained_is_said(cluster: Access, namespace: str) -> None:
    missing = await explain(cluster, namespace, "podgroup/nobody")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert f"there is no podgroup nobody in namespace {namespace}" in missing.stderr
    wrong = await explain(cluster, namespace, "deployment/x")
    assert wrong.returncode == 2
    assert "neither podgroup/NAME nor pod/NAME" in wrong.stderr
