"""NodeVolumeLimits: what counts against a driver's limit, once; old kinds; members of one gang."""

from __future__ import annotations

import pytest

from alnair.scheduling.board import Boards
from alnair.scheduling.profile import NOWHERE
from harness.builders import Built, PodBuilder, pod
from harness.storage import DRIVER, attachment, claim, csi_node, storage_class, volume
from unit.builders import PACK, Cluster, let_through, reasons, times, where
from unit.storage import gone, host, stored

RULE = "NodeVolumeLimits"
EBS = "ebs.csi.aws.com"
MADE = storage_class("made", provisioner=DRIVER)
DATA = pod("p").mounting("data")


def bound(name: str, driver: str = DRIVER, handle: str = "") -> list[Built]:
    """A claim with a volume of the driver's."""
    there = volume(f"v-{name}").kept_for(name).served_by(driver, handle)
    return [claim(name).bound_to(f"v-{name}"), there]


def cluster(limits: dict[str, int | None], *things: Built) -> Cluster:
    return stored(Cluster(host("a"), host("b")), MADE, csi_node("a", limits), *things)


@pytest.mark.parametrize(
    ("limits", "there", "fits"),
    [
        pytest.param({DRIVER: 1}, [], True, id="room for one"),
        pytest.param({DRIVER: 0}, [], False, id="room for none"),
        pytest.param({DRIVER: 1}, ["x"], False, id="taken"),
        pytest.param({DRIVER: 2}, ["x"], True, id="one left"),
        pytest.param({DRIVER: 2}, ["x", "x"], True, id="two pods with one volume count once"),
        pytest.param({DRIVER: 2}, ["x", "y"], False, id="two volumes"),
        pytest.param({DRIVER: 1}, ["data"], True, id="the very volume is there already"),
        pytest.param({DRIVER: 0}, ["data"], True, id="even beyond the limit"),
        pytest.param({DRIVER: 1}, ["other"], True, id="another driver's volume"),
        pytest.param({"other.example.com": 0}, [], True, id="another driver's limit"),
        pytest.param({DRIVER: None}, ["x", "y"], True, id="a driver without a limit"),
        pytest.param({DRIVER: 1}, ["missing"], True, id="a claim that does not exist"),
        pytest.param({DRIVER: 1}, ["unmade"], False, id="a volume that is yet to be made"),
        pytest.param({DRIVER: 1}, ["vanished"], False, id="a volume that is gone counts by its class"),
    ],
)
def test_what_counts(limits: dict[str, int | None], there: list[str], fits: bool) -> None:
    others = [*bound("x"), *bound("y"), *bound("other", "other.example.com"), claim("unmade", of="made")]
    books = cluster(limits, *bound("data"), *others, claim("vanished", of="made").bound_to("nowhere"))
    for index, name in enumerate(there):
        books.running(pod(f"there-{index}").mounting(name), on="a")
    assert let_through(RULE, books, DATA) == (["a", "b"] if fits else ["b"])


@pytest.mark.parametrize(
    ("asking", "fits"),
    [
        pytest.param(claim("data", of="made"), False, id="to be made by the driver"),
        pytest.param(claim("data", of="elsewhere"), True, id="of no known class"),
        pytest.param(claim("data"), True, id="of no class"),
    ],
)
def test_a_claim_without_a_volume_counts_for_its_classes_driver(asking: Built, fits: bool) -> None:
    books = cluster({DRIVER: 0}, asking)
    assert let_through(RULE, books, DATA) == (["a", "b"] if fits else ["b"])


def test_volumes_that_are_attached_whatever_pods_say_count_too() -> None:
    there = attachment("v-x", to="a")
    books = cluster(
        {DRIVER: 1}, *bound("data"), *bound("x"), attachment("v-y", to="a"), attachment("v-x", to="b")
    )
    assert let_through(RULE, books, DATA) == ["a", "b"]  # v-y is no volume
    stored(books, there)
    assert let_through(RULE, books, DATA) == ["b"]
    gone(books, there)
    assert let_through(RULE, books, DATA) == ["a", "b"]


def test_a_volume_that_is_attached_and_used_counts_once() -> None:
    books = cluster({DRIVER: 2}, *bound("data"), *bound("x"), attachment("v-x", to="a"))
    books.running(pod("there").mounting("x"), on="a")
    assert let_through(RULE, books, DATA) == ["a", "b"]


def test_an_attachment_of_the_pods_own_volume_is_not_forgiven() -> None:
    """As kube-scheduler has it: only pods' use makes a volume free."""
    books = cluster({DRIVER: 1}, *bound("data"), attachment("v-data", to="a"))
    assert let_through(RULE, books, DATA) == ["b"]


def test_several_volumes_of_one_pod() -> None:
    books = cluster({DRIVER: 2}, *bound("data"), *bound("more"), *bound("most"))
    assert let_through(RULE, books, DATA.mounting("more")) == ["a", "b"]
    three = DATA.mounting("more", "most")
    assert let_through(RULE, books, three) == ["b"]
    told = f"does not attach more volumes of driver {DRIVER} (3 needed, at most 2 left)"
    assert reasons(RULE, books, three) == [(told, 1)]


def test_the_count_follows_pods_claims_and_nodes() -> None:
    books = cluster({DRIVER: 1}, *bound("data"), claim("x", of="elsewhere"))
    books.running(pod("there").mounting("x"), on="a")
    assert let_through(RULE, books, DATA) == ["a", "b"]
    stored(books, *bound("x"))
    assert let_through(RULE, books, DATA) == ["b"]
    books.state.drop_pod("uid-there")
    assert let_through(RULE, books, DATA) == ["a", "b"]
    stored(books, csi_node("a", {DRIVER: 0}))
    assert let_through(RULE, books, DATA) == ["b"]
    books.state.drop_node("a")
    books.add(host("c"))  # in the row that a had
    assert let_through(RULE, books, DATA) == ["b", "c"]
    books.add(host("a"))
    assert let_through(RULE, books, DATA) == ["b", "c"]
    gone(books, csi_node("a", {}))
    assert let_through(RULE, books, DATA) == ["a", "b", "c"]


@pytest.mark.parametrize("counted", [True, False])
def test_a_volume_that_is_seen_after_its_claim(counted: bool) -> None:
    """Until then the claim counted for its class's driver, under a name of our own."""
    books = cluster({DRIVER: 1}, claim("data", of="made").bound_to("v"), *bound("more"))
    books.running(pod("there").mounting("data"), on="a")
    assert let_through(RULE, books, pod("q").mounting("more")) == ["b"]
    stored(books, volume("v").served_by() if counted else volume("v"))
    assert let_through(RULE, books, DATA) == ["a", "b"], "it is there already"
    assert let_through(RULE, books, pod("q").mounting("more")) == (["b"] if counted else ["a", "b"])


@pytest.mark.parametrize(
    ("asking", "there", "fits"),
    [
        pytest.param({"volumeID": "vol-1"}, {"volumeID": "vol-2"}, False, id="two disks"),
        pytest.param(
            {"volumeID": "vol-1"}, {"volumeID": "aws://zone/vol-1"}, True, id="one disk by two names"
        ),
    ],
)
def test_old_kinds_count_for_the_driver_that_took_them_over(
    asking: dict[str, str], there: dict[str, str], fits: bool
) -> None:
    books = cluster({EBS: 1})
    books.running(pod("there").with_volume(awsElasticBlockStore=there), on="a")
    assert let_through(RULE, books, pod("p").with_volume(awsElasticBlockStore=asking)) == (
        ["a", "b"] if fits else ["b"]
    )


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io"),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS),
        ({"azureDisk": {"diskName": "d", "diskURI": "uri", "kind": "Managed"}}, "disk.csi.azure.com"),
        ({"cinder": {"volumeID": "d"}}, "cinder.csi.openstack.org"),
        ({"portworxVolume": {"volumeID": "d"}}, "pxd.portworx.com"),
    ],
)
def test_every_old_kind_in_a_pod_and_in_a_volume(source: dict[str, dict[str, str]], driver: str) -> None:
    books = cluster({driver: 0}, claim("data").bound_to("v"), volume("v").being(**source))
    assert let_through(RULE, books, DATA) == ["b"]
    assert let_through(RULE, books, pod("p").with_volume(**source)) == ["b"]


def test_a_class_of_an_old_provisioner() -> None:
    books = cluster(
        {EBS: 0}, storage_class("old", provisioner="kubernetes.io/aws-ebs"), claim("data", of="old")
    )
    assert let_through(RULE, books, DATA) == ["b"]


def test_members_of_a_gang_count_together() -> None:
    names = [f"d-{index}" for index in range(4)]
    books = stored(Cluster(host("a"), host("b")), *(thing for name in names for thing in bound(name)))
    stored(books, csi_node("a", {DRIVER: 2}), csi_node("b", {DRIVER: 1}))
    members: list[PodBuilder] = [
        each.mounting(name) for each, name in zip(times(pod("w"), 4), names, strict=True)
    ]
    assert sorted(where(books.try_(members[:3])).values()) == ["a", "a", "b"]
    told = books.refuses(*members)
    assert told.startswith("3 of 4 members fit.")
    assert f"of 2 nodes: 2 do not attach more volumes of driver {DRIVER}" in told


def test_a_remembered_answer_is_asked_anew_when_storage_changed() -> None:
    books, boards = cluster({DRIVER: 1}, *bound("data")), Boards()
    row = books.row("a")

    def rating() -> float:
        return float(boards.rated(books.kind(DATA), PACK, books.state.draft())[row])

    assert rating() != NOWHERE
    stored(books, csi_node("a", {DRIVER: 0}))
    assert rating() == NOWHERE
