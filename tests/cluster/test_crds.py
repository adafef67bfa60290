"""The schemas at work in the real apiserver: what users write is taken, what would be a lie is not."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.api import names
from harness.api import Api, Object, Refused, at

TAKEN: dict[str, dict[str, Any] | None] = {
    "as scheduler-plugins documents it": {
        "scheduleTimeoutSeconds": 10,
        "minMember": 3,
        "minResources": {"cpu": "300m", "nvidia.com/gpu": 4},
    },
    "as a Go client sends it, with nulls": {"minMember": 2, "minResources": None},
    "without minMember": {},
    "with fields of a version to come": {"minMember": 1, "queue": "gold"},
}


@pytest.mark.parametrize("kind", TAKEN)
async def test_a_podgroup_that_its_users_write_today_is_accepted(api: Api, namespace: str, kind: str) -> None:
    manifest = {
        "apiVersion": names.API_PODGROUP,
        "kind": names.KIND_PODGROUP,
        "metadata": {"name": "theirs"},
        "spec": TAKEN[kind],
    }
    assert (await api.create(manifest, namespace=namespace))["metadata"]["uid"]


def record(name: str = "owner-1a2b3c4d") -> Object:
    return {
        "apiVersion": names.API_ALLOCATION,
        "kind": names.KIND_ALLOCATION,
        "metadata": {"name": name},
        "spec": {"owner": {"kind": "PodGroup", "name": "owner", "uid": "u-1"}, "schedulerName": "nobody"},
    }


POD = {
    "name": "p",
    "uid": "u-2",
    "node": "n",
    "containers": [{"name": "main", "slices": [{"gpu": "GPU-1", "memoryMiB": 1024, "computePercent": 10}]}],
}


async def test_a_records_spec_never_changes(api: Api, namespace: str) -> None:
    await api.create(record(), namespace=namespace)
    with pytest.raises(Refused, match="spec is immutable"):
        await api.patch(
            at("gpuallocations", namespace, "owner-1a2b3c4d"), {"spec": {"schedulerName": "another"}}
        )


async def test_a_records_epoch_never_goes_back(api: Api, namespace: str) -> None:
    await api.create(record(), namespace=namespace)
    status = at("gpuallocations", namespace, "owner-1a2b3c4d", "status")
    await api.patch(status, {"status": {"phase": "Committed", "epoch": 7, "pods": [POD]}})
    with pytest.raises(Refused, match="epoch never goes back"):
        await api.patch(status, {"status": {"epoch": 6}})


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        ({"phase": "Pending", "epoch": 1, "pods": [POD]}, "recorded only by a commit"),
        ({"phase": "Committed", "pods": [POD]}, "recorded only under an epoch"),
        ({"phase": "Lost", "epoch": 1}, "Unsupported value"),
        ({"phase": "Committed", "epoch": -1}, "should be greater than or equal to 0"),
        (
            {
                "phase": "Committed",
                "epoch": 1,
                "pods": [{**POD, "containers": [{"name": "main", "slices": [{"gpu": "", "memoryMiB": 1}]}]}],
            },
            "should be at least 1 chars long",
        ),
        (
            {
                "phase": "Committed",
                "epoch": 1,
                "pods": [
                    {**POD, "containers": [{"name": "main", "slices": [{"gpu": "g", "computePercent": 101}]}]}
                ],
            },
            "should be less than or equal to 100",
        ),
    ],
)
async def test_a_status_that_no_ledger_writes_is_refused(
    api: Api, namespace: str, status: dict[str, Any], complaint: str
) -> None:
    await api.create(record(), namespace=namespace)
    with pytest.raises(Refused, match=complaint):
        await api.patch(at("gpuallocations", namespace, "owner-1a2b3c4d", "status"), {"status": status})


async def test_creation_decides_nothing_a_status_sent_with_it_is_dropped(api: Api, namespace: str) -> None:
    made = await api.create(
        {**record(), "status": {"phase": "Committed", "epoch": 1, "pods": [POD]}}, namespace=namespace
    )
    assert "status" not in made
