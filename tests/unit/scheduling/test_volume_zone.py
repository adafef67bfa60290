"""VolumeZone: labels of volumes against labels of nodes, old and new names of both."""

from __future__ import annotations

import pytest

from harness.builders import Built, pod
from harness.storage import claim, storage_class, volume
from unit.builders import Cluster, let_through, reasons
from unit.storage import host, stored

RULE = "VolumeZone"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
DATA = pod("p").mounting("data")


def cluster(*things: Built) -> Cluster:
    return stored(
        Cluster(
            host("one", **{ZONE: "z1", REGION: "r1"}),
            host("two", **{ZONE: "z2", REGION: "r1"}),
            host("old", **{OLD_ZONE: "z1"}),
            host("bare"),
        ),
        *things,
    )


@pytest.mark.parametrize(
    ("labels", "nodes"),
    [
        pytest.param({}, ["bare", "old", "one", "two"], id="no label"),
        pytest.param({ZONE: "z1"}, ["bare", "one"], id="a zone"),
        pytest.param({ZONE: "z1__z2"}, ["bare", "one", "two"], id="either of two zones"),
        pytest.param({ZONE: " z2 __z9"}, ["bare", "two"], id="spaces around"),
        pytest.param(
            {ZONE: "z1____z2"}, ["bare", "old", "one", "two"], id="a label that cannot be read says nothing"
        ),
        pytest.param(
            {OLD_ZONE: "z1"}, ["bare", "old", "one"], id="the old name, of nodes with the new one too"
        ),
        pytest.param({REGION: "r1"}, ["bare", "one", "two"], id="a region"),
        pytest.param({REGION: "r1", ZONE: "z2"}, ["bare", "two"], id="both"),
        pytest.param({OLD_REGION: "r9"}, ["bare"], id="nowhere"),
        pytest.param({"zone": "z9"}, ["bare", "old", "one", "two"], id="any other label"),
    ],
)
def test_a_volume_keeps_its_pod_in_its_zone(labels: dict[str, str], nodes: list[str]) -> None:
    books = cluster(claim("data").bound_to("v"), volume("v").labelled(labels))
    assert let_through(RULE, books, DATA) == nodes


def test_the_volume_and_its_zone_are_named() -> None:
    books = cluster(claim("data").bound_to("v"), volume("v").labelled({ZONE: "z1__z2"}))
    assert reasons(RULE, books, DATA) == [(f"is not in {ZONE}=z1 or z2, where volume v is", 1)]


def test_a_claim_without_a_volume_is_another_rules_business() -> None:
    books = cluster(
        storage_class("local"), claim("data", of="local"), volume("v", of="local").labelled({ZONE: "z1"})
    )
    assert let_through(RULE, books, DATA) == ["bare", "old", "one", "two"]
    assert let_through(RULE, cluster(), DATA) == ["bare", "old", "one", "two"]


def test_a_claim_of_the_pods_own_is_not_looked_at() -> None:
    books = cluster(
        claim("p-scratch").bound_to("v").owned_by_pod("uid-p"), volume("v").labelled({ZONE: "z1"})
    )
    asking = pod("p").with_volume("scratch", ephemeral={"volumeClaimTemplate": {}})
    assert let_through(RULE, books, asking) == ["bare", "old", "one", "two"]
