"""VolumeRestrictions: claims for one pod alone, and the old kinds of disk, among strangers and in a gang."""

from __future__ import annotations

from typing import Any

import pytest

from harness.builders import pod
from harness.storage import claim, volume
from unit.builders import Cluster, let_through, reasons, times, where
from unit.storage import host, stored

RULE = "VolumeRestrictions"
ALONE = claim("data").asking(accessModes=["ReadWriteOncePod"]).bound_to("v")
DATA = pod("p").mounting("data")


def gce(name: str, **more: Any) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, **more}}


def aws(name: str, **more: Any) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, **more}}


def iscsi(name: str, **more: Any) -> dict[str, Any]:
    return {"iscsi": {"iqn": name, "targetPortal": "10.0.0.1", "lun": 0, **more}}


def rbd(image: str, *monitors: str, **more: Any) -> dict[str, Any]:
    return {"rbd": {"image": image, "monitors": list(monitors), **more}}


READ = {"readOnly": True}


@pytest.mark.parametrize(
    ("there", "asking", "conflict"),
    [
        pytest.param(gce("d"), gce("d"), True, id="gce: one disk"),
        pytest.param(gce("d"), gce("e"), False, id="gce: two disks"),
        pytest.param(gce("d", **READ), gce("d", **READ), False, id="gce: both only read"),
        pytest.param(gce("d", **READ), gce("d"), True, id="gce: one writes"),
        pytest.param(gce("d"), gce("d", **READ), True, id="gce: the other writes"),
        pytest.param(aws("d", **READ), aws("d", **READ), True, id="aws: not even to read"),
        pytest.param(aws("d"), aws("e"), False, id="aws: two disks"),
        pytest.param(iscsi("d"), iscsi("d", lun=1), True, id="iscsi: one target, whatever the lun"),
        pytest.param(iscsi("d", **READ), iscsi("d", **READ), False, id="iscsi: both only read"),
        pytest.param(iscsi("d"), iscsi("e"), False, id="iscsi: two targets"),
        pytest.param(rbd("d", "m1", "m2"), rbd("d", "m2", "m3"), True, id="rbd: a monitor in common"),
        pytest.param(rbd("d", "m1"), rbd("d", "m2"), False, id="rbd: no monitor in common"),
        pytest.param(rbd("d", "m1"), rbd("d", "m1", pool="fast"), False, id="rbd: two pools"),
        pytest.param(rbd("d", "m1", pool="rbd"), rbd("d", "m1"), True, id="rbd: the pool's default"),
        pytest.param(rbd("d", "m1"), rbd("e", "m1"), False, id="rbd: two images"),
        pytest.param(rbd("d", "m1", **READ), rbd("d", "m1", **READ), False, id="rbd: both only read"),
        pytest.param(gce("d"), aws("d"), False, id="two kinds"),
        pytest.param(
            {"azureDisk": {"diskName": "d", "diskURI": "d"}},
            {"azureDisk": {"diskName": "d", "diskURI": "d"}},
            False,
            id="azure: nobody minds",
        ),
        pytest.param(gce("d"), {"emptyDir": {}}, False, id="the pod has no disk"),
    ],
)
def test_which_disks_cannot_be_shared(there: dict[str, Any], asking: dict[str, Any], conflict: bool) -> None:
    books = Cluster(host("a"), host("b"))
    books.running(pod("there").with_volume(**there), on="a")
    assert let_through(RULE, books, pod("p").with_volume(**asking)) == (["b"] if conflict else ["a", "b"])


def test_the_disk_is_told() -> None:
    books = Cluster(host("a"), host("b"))
    books.running(pod("there").with_volume(**gce("d")), on="a")
    assert reasons(RULE, books, pod("p").with_volume(**gce("d"))) == [
        ("has a pod with the same disk already", 1)
    ]


def test_members_of_a_gang_do_not_share_a_disk() -> None:
    books = Cluster(host("a"), host("b"))
    members = times(pod("w").with_volume(**gce("d")), 2)
    assert sorted(where(books.try_(members)).values()) == ["a", "b"]


@pytest.mark.parametrize(
    ("modes", "alone"),
    [(["ReadWriteOncePod"], True), (["ReadWriteOnce"], False), (["ReadWriteMany"], False)],
)
def test_a_claim_for_one_pod_alone(modes: list[str], alone: bool) -> None:
    books = stored(Cluster(host("a"), host("b")), ALONE.asking(accessModes=modes), volume("v"))
    assert let_through(RULE, books, DATA) == ["a", "b"]
    books.running(pod("there").mounting("data"), on="a")
    assert let_through(RULE, books, DATA) == ([] if alone else ["a", "b"])
    if alone:
        told = "is no use: claim data is for one pod alone (ReadWriteOncePod), and another pod has it"
        assert reasons(RULE, books, DATA) == [(told, 2)]


def test_a_claim_for_one_pod_alone_is_free_when_that_pod_is_gone_or_done() -> None:
    books = stored(Cluster(host("a")), ALONE, volume("v"))
    books.running(pod("there").mounting("data"), on="a", phase="Succeeded")
    books.running(pod("elsewhere").in_namespace("other").mounting("data"), on="a")
    books.waiting(pod("waits").mounting("data"))
    assert let_through(RULE, books, DATA) == ["a"]


def test_two_members_with_one_claim_for_one_pod_alone_never_fit() -> None:
    books = stored(Cluster(host("a"), host("b")), ALONE, volume("v"))
    assert books.refuses(*times(DATA, 2)).startswith("1 of 2 members fit.")
