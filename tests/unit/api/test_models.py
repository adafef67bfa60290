"""The models: upstream's objects are read unchanged, wrong ones are refused by field, ours go out in camelCase."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from alnair.api.allocation import (
    ContainerAllocation,
    GPUAllocation,
    GPUAllocationStatus,
    PodAllocation,
    Slice,
    cards_line,
    nodes_line,
)
from alnair.api.podgroup import PodGroup
from alnair.api.topology import NodeResourceTopology

META = {"metadata": {"name": "team", "namespace": "ns", "uid": "u", "creationTimestamp": None}}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"spec": {"minMember": 3, "scheduleTimeoutSeconds": 10}}, id="as the coscheduling guide has it"),
        pytest.param(
            {"spec": {"minMember": 3, "minResources": {"cpu": "3", "nvidia.com/gpu": 8, "memory": "1.5Gi"}}},
            id="with resources",
        ),
        pytest.param({"spec": {"minMember": 3}, "status": {"scheduleStartTime": None}}, id="as Go clients send it"),
        pytest.param({"spec": {"minMember": 1, "minResources": None}}, id="with nulls"),
        pytest.param({}, id="empty"),
        pytest.param({"spec": {}}, id="empty spec"),
        pytest.param({"spec": {"minMember": 0}}, id="zero members, as older releases allow"),
        pytest.param(
            {"spec": {"minMember": 2}, "status": {"phase": "PreScheduling", "occupiedBy": "ns/job", "scheduled": 2,
             "running": 1, "succeeded": 0, "failed": 0, "scheduleStartTime": "2026-01-01T00:00:00Z"}},
            id="as its controller leaves it",
        ),
        pytest.param({"spec": {"minMember": 2, "newField": {"a": 1}}}, id="of a newer version"),
    ],
)  # fmt: skip
def test_a_pod_group_of_scheduler_plugins_is_read(body: dict[str, Any]) -> None:
    group = PodGroup.model_validate({**META, **body})
    assert group.spec.least >= 1


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "minMember"),
        ({"minMember": "3"}, "minMember"),
        ({"minMember": 2**31}, "minMember"),
        ({"minMember": True}, "minMember"),
        ({"minMember": 1.5}, "minMember"),
        ({"scheduleTimeoutSeconds": -1}, "scheduleTimeoutSeconds"),
        ({"minResources": {"cpu": 1.5}}, "minResources"),
        ({"minResources": []}, "minResources"),
    ],
)
def test_a_malformed_pod_group_is_refused_by_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        PodGroup.model_validate({**META, "spec": spec})
    assert refusal.value.errors()[0]["loc"][:2] == ("spec", field)


def test_a_topology_as_nfd_publishes_it_is_read() -> None:
    topology = NodeResourceTopology.model_validate(
        {
            "metadata": {"name": "node-1"},
            "topologyPolicies": None,
            "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
            "zones": [
                {
                    "name": "node-0",
                    "type": "Node",
                    "costs": [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 20}],
                    "resources": [{"name": "cpu", "capacity": "4", "allocatable": "3", "available": 3}],
                },
                {
                    "name": "gpu-0",
                    "type": "GPU",
                    "parent": "node-0",
                    "attributes": [{"name": "uuid", "value": "GPU-1"}, {"name": "model", "value": "A100"}],
                },
            ],
        }
    )
    assert topology.zones[1].attribute("uuid") == "GPU-1"
    assert topology.zones[1].attribute("index") is None


def test_a_topology_without_zones_is_refused() -> None:
    with pytest.raises(ValidationError, match="zones"):
        NodeResourceTopology.model_validate({"metadata": {"name": "node-1"}})


def test_a_record_goes_out_in_camel_case_and_comes_back_the_same() -> None:
    status = GPUAllocationStatus(
        phase="Committed",
        epoch=3,
        memory_mib=8192,
        pods=[
            PodAllocation(
                name="a-0",
                uid="u0",
                node="n1",
                containers=[
                    ContainerAllocation(
                        name="main", slices=[Slice(gpu="GPU-1", memory_mib=8192, compute_percent=50)]
                    ),
                ],
                gpu_counts={"side": 2},
            )
        ],
    )
    wire = status.wire()
    assert wire == {
        "phase": "Committed",
        "epoch": 3,
        "memoryMiB": 8192,
        "pods": [
            {
                "name": "a-0",
                "uid": "u0",
                "node": "n1",
                "containers": [
                    {
                        "name": "main",
                        "slices": [{"gpu": "GPU-1", "memoryMiB": 8192, "computePercent": 50, "whole": False}],
                    },
                ],
                "gpuCounts": {"side": 2},
            }
        ],
    }
    assert GPUAllocationStatus.model_validate(wire) == status


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Bogus"},
        {"epoch": -1},
        {"epoch": "1"},
        {"pods": [{"name": "a", "uid": "u"}]},
        {
            "pods": [
                {"name": "a", "uid": "u", "node": "n", "containers": [{"name": "c", "slices": [{"gpu": ""}]}]}
            ]
        },
    ],
)
def test_a_forged_record_is_refused(status: dict[str, Any]) -> None:
    spec = {"owner": {"kind": "Pod", "name": "a", "uid": "u"}, "schedulerName": "alnair"}
    with pytest.raises(ValidationError):
        GPUAllocation.model_validate({**META, "spec": spec, "status": status})


def test_the_nodes_are_three_by_name_and_the_rest_by_number() -> None:
    assert nodes_line([]) == ""
    assert nodes_line(["b", "a", "b"]) == "a,b"
    assert nodes_line("edcba") == "a,b,c+2"


@given(st.lists(st.text(alphabet="GPU-0123", min_size=1, max_size=128), max_size=300))
def test_the_cards_always_fit_their_column(cards: list[str]) -> None:
    line = cards_line(cards)
    assert len(line) <= 512
    assert (line == ",".join(sorted(set(cards)))) or "+" in line


def test_cards_that_do_not_fit_are_counted() -> None:
    line = cards_line(f"GPU-{number:036}" for number in range(100))
    named, _, rest = line.partition("+")
    assert len(named.split(",")) + int(rest) == 100
    assert len(line) > 450
