"""What others do to a record is put right while its pods live; a record that nobody committed counts nothing."""

from __future__ import annotations

import pytest

from alnair.api import names
from harness.api import Api, Object, at
from harness.builders import group, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import record_of_group

pytestmark = pytest.mark.shares_operator


async def bound_gang(api: Api, namespace: str, fleet: Fleet, operator: Operator) -> Object:
    await fleet.add(node("gpu").with_cards(2))
    await api.create(group("team", min_member=2).manifest(), namespace=namespace)
    member = pod("m").in_group("team").slice(memory_gib=8).by(operator.scheduler).selecting(fleet.selector)
    await api.create_all(member.copies(2), namespace=namespace)
    return await record_of_group(api, namespace, "team", phase="Bound")


async def test_an_edited_record_is_restored(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    record = await bound_gang(api, namespace, fleet, operator)
    path = at("gpuallocations", namespace, record["metadata"]["name"])
    await api.patch(f"{path}/status", {"status": {"pods": record["status"]["pods"][:1], "scheduled": 1}})
    restored = await api.until(path, lambda it: it["status"]["scheduled"] == 2)
    assert restored["status"]["pods"] == record["status"]["pods"]


async def test_a_stripped_record_gets_its_finalizer_and_labels_back(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    record = await bound_gang(api, namespace, fleet, operator)
    path = at("gpuallocations", namespace, record["metadata"]["name"])
    await api.patch(path, {"metadata": {"finalizers": None, "labels": {names.OWNER_UID: None}}})
    restored = await api.until(path, lambda it: names.FINALIZER in it["metadata"].get("finalizers", []))
    assert restored["metadata"]["labels"] == record["metadata"]["labels"]


async def test_a_deleted_record_stays_until_its_pods_are_gone(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    record = await bound_gang(api, namespace, fleet, operator)
    path = at("gpuallocations", namespace, record["metadata"]["name"])
    await api.delete(path)
    kept = await api.until(path, lambda it: it["metadata"].get("deletionTimestamp"))
    assert kept["status"]["pods"] == record["status"]["pods"]
    for name in ("m-0", "m-1"):
        await api.delete(at("pods", namespace, name))
    await api.until_gone(path)


async def test_a_record_that_vanishes_altogether_is_written_anew(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    record = await bound_gang(api, namespace, fleet, operator)
    path = at("gpuallocations", namespace, record["metadata"]["name"])
    await api.delete(path)
    await api.patch(path, {"metadata": {"finalizers": None}})
    again = await api.until(
        path,
        lambda it: (
            it["metadata"]["uid"] != record["metadata"]["uid"]
            and it.get("status", {}).get("phase") == "Bound"
        ),
    )
    assert again["status"]["pods"] == record["status"]["pods"]


async def test_a_forged_record_is_removed_and_takes_nothing(
    api: Api, namespace: str, fleet: Fleet, operator: Operator
) -> None:
    await fleet.add(node("gpu").with_cards(1))
    owner = {"kind": "PodGroup", "name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}
    forged = {
        "apiVersion": names.API_ALLOCATION,
        "kind": names.KIND_ALLOCATION,
        "metadata": {"name": names.record_name("ghost", owner["uid"]), "finalizers": [names.FINALIZER]},
        "spec": {"owner": owner, "schedulerName": operator.scheduler},
    }
    made = await api.create(forged, namespace=namespace)
    await api.until_gone(at("gpuallocations", namespace, made["metadata"]["name"]))
