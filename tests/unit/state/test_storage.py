"""Reading storage: what counts as bound, sizes, and what old kinds are to the drivers that took them over."""

from __future__ import annotations

import pytest

from alnair.api.quantity import LARGEST
from alnair.state import wire
from alnair.state.migration import translated
from alnair.state.selectors import NodeTerm, Requirement
from alnair.state.storage import read_capacity, read_claim, read_node_drivers, read_volume
from harness.storage import capacity, claim, csi_node, volume
from unit.builders import decoded

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
EBS = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize(
    ("sentence", "bound"),
    [
        (claim("d"), False),
        (claim("d").naming("v"), False),
        (claim("d").annotated({"pv.kubernetes.io/bind-completed": ""}), False),
        (claim("d").bound_to("v"), True),
    ],
)
def test_a_claim_is_bound_when_both_sides_say_so(sentence: object, bound: bool) -> None:
    assert read_claim(decoded(sentence.manifest(), wire.PersistentVolumeClaim)).bound is bound  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("size", "read"),
    [("1Gi", 1 << 30), ("1500m", 2), ("nonsense", LARGEST), ("-1", LARGEST), ("1e99", LARGEST)],
)
def test_a_claim_whose_size_cannot_be_read_fits_nowhere(size: str, read: int) -> None:
    assert read_claim(decoded(claim("d", size=size).manifest(), wire.PersistentVolumeClaim)).size == read


@pytest.mark.parametrize(("size", "read"), [("1Gi", 1 << 30), ("nonsense", 0)])
def test_a_volume_whose_size_cannot_be_read_holds_nothing(size: str, read: int) -> None:
    assert read_volume(decoded(volume("v", size=size).manifest(), wire.PersistentVolume)).size == read


def test_a_capacity_without_any_number_is_none() -> None:
    found = read_capacity(decoded(capacity("c", of="x", nodes={}).manifest(), wire.CSIStorageCapacity))
    assert found.largest is None


def test_the_annotation_that_names_old_kinds() -> None:
    manifest = csi_node(
        "a", {"d": 1, "e": None}, migrated="kubernetes.io/aws-ebs,kubernetes.io/cinder"
    ).manifest()
    found = read_node_drivers(decoded(manifest, wire.CSINode))
    assert found.migrated == {"kubernetes.io/aws-ebs", "kubernetes.io/cinder"}
    assert found.limits == (("d", 1),)
    assert (
        read_node_drivers(
            decoded({"metadata": {"name": "a"}, "spec": {"drivers": None}}, wire.CSINode)
        ).limits
        == ()
    )


GCE = "projects/UNSPECIFIED"


@pytest.mark.parametrize(
    ("source", "labels", "handle"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, {}, f"{GCE}/zones/UNSPECIFIED/disks/d"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {ZONE: "us-east1-b"}, f"{GCE}/zones/us-east1-b/disks/d"),
        ({"gcePersistentDisk": {"pdName": "d"}}, {OLD_ZONE: "us-east1-b"}, f"{GCE}/zones/us-east1-b/disks/d"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "us-east1-b__us-east1-c"},
            f"{GCE}/regions/us-east1/disks/d",
        ),
        ({"gcePersistentDisk": {"pdName": "d"}}, {ZONE: "us-east1-b__us-west1-c"}, ""),
        ({"gcePersistentDisk": {"pdName": "d"}}, {ZONE: "here__there"}, ""),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/disk"}}, {}, ""),
        ({"awsElasticBlockStore": {"volumeID": "aws://["}}, {}, ""),
        ({"awsElasticBlockStore": {"volumeID": "aws://\u2100/vol-1"}}, {}, ""),
        ({"azureDisk": {"diskName": "n", "diskURI": "/u", "kind": "Managed"}}, {}, "/u"),
        ({"azureDisk": {"diskName": "n", "diskURI": "/u", "kind": "Shared"}}, {}, ""),
        ({"cinder": {"volumeID": "c"}}, {}, "c"),
        ({"portworxVolume": {"volumeID": "p"}}, {}, "p"),
        ({"nfs": {"server": "s", "path": "/"}}, {}, ""),
    ],
)
def test_what_an_old_kind_is_called_by_its_driver(
    source: dict[str, dict[str, str]], labels: dict[str, str], handle: str
) -> None:
    sentence = volume("v").labelled(labels).being(**source)
    assert read_volume(decoded(sentence.manifest(), wire.PersistentVolume)).handle == handle


def term(*lines: tuple[str, str]) -> NodeTerm:
    return NodeTerm(tuple(Requirement(key, "In", (value,)) for key, value in lines))


@pytest.mark.parametrize(
    ("terms", "labels", "after"),
    [
        pytest.param(None, {}, None, id="nothing said"),
        pytest.param((term((ZONE, "z")),), {}, (term((EBS, "z")),), id="by the zone"),
        pytest.param((term((OLD_ZONE, "z")),), {}, (term((EBS, "z")),), id="by the zone's old name"),
        pytest.param(
            (term((ZONE, "z")),), {ZONE: "y"}, (term((EBS, "z")),), id="the affinity goes before the label"
        ),
        pytest.param(None, {ZONE: "y"}, (term((EBS, "y")),), id="by the label"),
        pytest.param(None, {OLD_ZONE: "y"}, (term((EBS, "y")),), id="by the label's old name"),
        pytest.param(
            (term(("disk", "ssd")),), {ZONE: "y"}, (term(("disk", "ssd"), (EBS, "y")),), id="beside others"
        ),
        pytest.param(
            (term((OLD_ZONE, "z"), (OLD_REGION, "r")),),
            {},
            (term((EBS, "z"), (REGION, "r")),),
            id="an old region",
        ),
        pytest.param(
            (term((ZONE, "z"), (OLD_REGION, "r")),), {}, (term((EBS, "z"), (OLD_REGION, "r")),), id="mixed"
        ),
        pytest.param(
            (term((ZONE, "z")), term(("disk", "x"))),
            {},
            (term((EBS, "z")), term(("disk", "x"))),
            id="two terms",
        ),
    ],
)
def test_where_an_old_kind_is_to_its_driver(
    terms: tuple[NodeTerm, ...] | None, labels: dict[str, str], after: tuple[NodeTerm, ...] | None
) -> None:
    assert translated(terms, "aws-ebs", labels) == after
    assert translated(terms, "portworx-volume", labels) == terms
