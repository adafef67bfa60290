"""VolumeBinding: bound claims, claims that cannot be had, volumes that serve, volumes that are made, promises."""

from __future__ import annotations

import pytest

from harness.builders import Built, line, pod
from harness.storage import (
    DRIVER,
    ClaimBuilder,
    VolumeBuilder,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    volume,
)
from unit.builders import Cluster, holds, let_through, reasons, times, where
from unit.storage import host, stored

RULE = "VolumeBinding"
LOCAL, MADE, EAGER = (
    storage_class("local"),
    storage_class("made", provisioner=DRIVER),
    storage_class("eager", provisioner=DRIVER, waits=False),
)
DATA = pod("p").mounting("data")


def cluster(*things: Built) -> Cluster:
    return stored(
        Cluster(host("a", zone="x"), host("b", zone="x"), host("c", zone="y")), LOCAL, MADE, EAGER, *things
    )


def test_a_pod_without_claims_is_not_asked_about() -> None:
    assert let_through(RULE, cluster(), pod("p").with_volume(emptyDir={})) == ["a", "b", "c"]


# -- claims that have their volume, or should have ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "nodes"),
    [
        pytest.param(volume("v"), "abc", id="reached from everywhere"),
        pytest.param(volume("v").at_node("b"), "b", id="one node"),
        pytest.param(volume("v").at_node("a").at_node("c"), "ac", id="any of two terms"),
        pytest.param(
            volume("v").reached_from(line("zone", "In", "x"), line("zone", "NotIn", "x")),
            "",
            id="all lines of a term",
        ),
        pytest.param(
            volume("v").reached_from(line("zone", "Exists")), "abc", id="a label whatever its value"
        ),
        pytest.param(
            volume("v").being(nodeAffinity={"required": {"nodeSelectorTerms": [{}]}}),
            "",
            id="an empty term means no node",
        ),
        pytest.param(
            volume("v").at_node("b").in_phase("Released"), "b", id="its phase does not matter any more"
        ),
    ],
)
def test_a_bound_claim_keeps_its_pod_where_its_volume_is(there: VolumeBuilder, nodes: str) -> None:
    books = cluster(claim("data", of="local").bound_to("v"), there)
    assert let_through(RULE, books, DATA) == list(nodes)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        pytest.param([], "the claim does not exist", id="missing"),
        pytest.param(
            [claim("data", of="local", namespace="other")],
            "the claim does not exist",
            id="of another namespace",
        ),
        pytest.param(
            [claim("data").with_(lambda it: it["metadata"].update(deletionTimestamp="now"))],
            "the claim is being deleted",
            id="deleted",
        ),
        pytest.param(
            [claim("data").bound_to("v").with_(lambda it: it.update(status={"phase": "Lost"}))],
            "the claim is lost, its volume v does not exist",
            id="lost",
        ),
        pytest.param([claim("data", of="eager")], "the claim is not bound yet", id="should be bound by now"),
        pytest.param([claim("data")], "the claim is not bound yet", id="no class"),
        pytest.param(
            [claim("data", of="nowhere")],
            "the claim is not bound yet, and its class nowhere does not exist",
            id="no such class",
        ),
        pytest.param(
            [claim("data", of="local").naming("v"), volume("v")],
            "the claim is not bound yet to volume v",
            id="half bound",
        ),
        pytest.param(
            [claim("data", of="local").bound_to("v")], "its volume v does not exist", id="bound to nothing"
        ),
    ],
)
def test_a_claim_that_cannot_be_had_keeps_its_pod_off_every_node(there: list[Built], why: str) -> None:
    books = cluster(*there)
    assert let_through(RULE, books, DATA) == []
    assert reasons(RULE, books, DATA) == [(f"has no volume for claim data: {why}", 3)]


def test_the_beta_annotation_names_the_class_too() -> None:
    beta = {"volume.beta.kubernetes.io/storage-class": "local"}
    books = cluster(claim("data").annotated(beta), volume("v").annotated(beta).at_node("b"))
    assert let_through(RULE, books, DATA) == ["b"]


@pytest.mark.parametrize(
    ("made", "nodes", "why"),
    [
        pytest.param([], [], "the claim has not been made yet", id="not made yet"),
        pytest.param(
            [claim("p-scratch", of="made").owned_by_pod("uid-p")], ["a", "b", "c"], "", id="made for the pod"
        ),
        pytest.param(
            [claim("p-scratch", of="made").owned_by_pod("uid-q")],
            [],
            "the claim was not made for this pod",
            id="somebody else's",
        ),
        pytest.param(
            [claim("p-scratch", of="made")], [], "the claim was not made for this pod", id="nobody's"
        ),
    ],
)
def test_an_ephemeral_volume_has_a_claim_of_its_own(made: list[Built], nodes: list[str], why: str) -> None:
    books, asking = cluster(*made), pod("p").with_volume("scratch", ephemeral={"volumeClaimTemplate": {}})
    assert let_through(RULE, books, asking) == nodes
    assert [phrase.rpartition(": ")[2] for phrase, _ in reasons(RULE, books, asking)] == (
        [why] if why else []
    )


# -- volumes that are there --------------------------------------------------------------------------------------


WAITS, FREE = claim("data", of="local"), volume("v", of="local")


@pytest.mark.parametrize(
    ("asking", "there", "serves"),
    [
        pytest.param(WAITS, FREE, True, id="just large enough"),
        pytest.param(claim("data", of="local", size="2Gi"), FREE, False, id="too small"),
        pytest.param(WAITS, volume("v", of="other"), False, id="another class"),
        pytest.param(WAITS, FREE.in_phase("Released"), False, id="not available"),
        pytest.param(
            WAITS,
            FREE.with_(lambda it: it["metadata"].update(deletionTimestamp="now")),
            False,
            id="being deleted",
        ),
        pytest.param(WAITS.asking(volumeMode="Block"), FREE, False, id="block, not files"),
        pytest.param(WAITS.asking(volumeMode="Block"), FREE.being(volumeMode="Block"), True, id="block"),
        pytest.param(WAITS, FREE.being(volumeMode="Filesystem"), True, id="files are the default"),
        pytest.param(
            WAITS.asking(accessModes=["ReadWriteOnce", "ReadOnlyMany"]),
            FREE,
            False,
            id="not all access modes",
        ),
        pytest.param(
            WAITS, FREE.being(accessModes=["ReadOnlyMany", "ReadWriteOnce"]), True, id="more access modes"
        ),
        pytest.param(
            WAITS.asking(volumeAttributesClassName="gold"), FREE, False, id="another attributes class"
        ),
        pytest.param(
            WAITS.asking(selector={"matchLabels": {"grade": "gold"}}), FREE, False, id="selector, no label"
        ),
        pytest.param(
            WAITS.asking(selector={"matchLabels": {"grade": "gold"}}),
            FREE.labelled(grade="gold"),
            True,
            id="selector",
        ),
        pytest.param(WAITS.asking(selector={}), FREE, True, id="empty selector"),
        pytest.param(WAITS, FREE.kept_for("other"), False, id="kept for another claim"),
        pytest.param(WAITS, FREE.kept_for("data", namespace="other"), False, id="kept for a namesake"),
        pytest.param(WAITS, FREE.kept_for("data", uid="an-older-one"), False, id="kept for an earlier one"),
        pytest.param(WAITS, FREE.kept_for("data").in_phase("Pending"), True, id="kept for it"),
        pytest.param(
            claim("data", of="local", size="2Gi"), FREE.kept_for("data"), False, id="kept for it, too small"
        ),
    ],
)
def test_which_volume_serves(asking: ClaimBuilder, there: VolumeBuilder, serves: bool) -> None:
    books = cluster(asking, there.at_node("b"))
    assert let_through(RULE, books, DATA) == (["b"] if serves else [])
    lack = ("has no available volume of class local for claim data", 2 if serves else 3)
    assert reasons(RULE, books, DATA) == [lack]


def test_a_volume_that_is_kept_for_the_claim_goes_before_smaller_ones() -> None:
    books = cluster(
        claim("data", of="local"),
        volume("v", of="local").at_node("a"),
        volume("w", of="local", size="9Gi").kept_for("data").at_node("b"),
    )
    assert let_through(RULE, books, DATA) == ["b"]


def test_two_claims_of_one_pod_need_two_volumes() -> None:
    books = cluster(
        claim("data", of="local"),
        claim("more", of="local"),
        volume("v", of="local").at_node("a"),
        volume("w", of="local").at_node("b"),
        volume("x", of="local").at_node("b"),
    )
    assert let_through(RULE, books, DATA.mounting("more")) == ["b"]


def test_the_smaller_claim_is_served_first_and_takes_the_smallest_volume() -> None:
    books = cluster(
        claim("large", of="local", size="5Gi"),
        claim("small", of="local", size="2Gi"),
        volume("v", of="local", size="3Gi").at_node("a"),
        volume("w", of="local", size="6Gi").at_node("a"),
        volume("x", of="local", size="6Gi").at_node("b"),
        volume("y", of="local", size="9Gi").at_node("c"),
        volume("z", of="local", size="4Gi").at_node("c"),
    )
    assert let_through(RULE, books, pod("p").mounting("large", "small")) == ["a", "c"]


def test_volumes_that_every_node_reaches_are_given_once_each() -> None:
    """More nodes than are looked at one by one."""
    names = [f"n{number:03}" for number in range(80)]
    books = stored(
        Cluster(*(host(name) for name in names)), LOCAL, claim("d-0", of="local"), claim("d-1", of="local")
    )
    stored(books, volume("v", of="local"))
    asking = pod("p").mounting("d-0", "d-1")
    assert let_through(RULE, books, asking) == []
    stored(books, volume("w", of="local").at_node("n007"))
    assert let_through(RULE, books, asking) == ["n007"]
    stored(books, volume("x", of="local"))
    assert let_through(RULE, books, asking) == names


# -- volumes that are made ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "nodes"),
    [
        pytest.param(None, "abc", id="everywhere"),
        pytest.param([{"zone": ["x"]}], "ab", id="one zone"),
        pytest.param([{"zone": ["x"]}, {"zone": ["y"]}], "abc", id="any of two terms"),
        pytest.param([{"zone": ["x", "y"], "kubernetes.io/hostname": ["c"]}], "c", id="all lines of a term"),
        pytest.param([{"rack": ["1"]}], "", id="a label that no node has"),
        pytest.param([{}], "", id="an empty term means no node"),
    ],
)
def test_a_volume_is_made_where_its_class_allows(
    allowed: list[dict[str, list[str]]] | None, nodes: str
) -> None:
    books = cluster(storage_class("some", provisioner=DRIVER, allowed=allowed), claim("data", of="some"))
    assert let_through(RULE, books, DATA) == list(nodes)
    if len(nodes) < 3:
        outside = ("is outside the topology of class some for claim data", 3 - len(nodes))
        assert reasons(RULE, books, DATA) == [outside]


def test_a_volume_that_serves_goes_before_one_that_is_made() -> None:
    some = storage_class("some", provisioner=DRIVER, allowed=[{"zone": ["y"]}])
    books = cluster(some, claim("data", of="some"), volume("v", of="some").at_node("a"))
    assert let_through(RULE, books, DATA) == ["a", "c"]


def test_a_claim_that_names_its_node_keeps_its_pod_there() -> None:
    books = cluster(claim("data", of="made").made_for("b"), volume("v", of="made").at_node("a"))
    assert let_through(RULE, books, DATA) == ["b"]
    assert reasons(RULE, books, DATA) == [("is not node b, where the volume of claim data is made", 2)]


@pytest.mark.parametrize(
    ("there", "nodes"),
    [
        pytest.param([], "", id="nothing said"),
        pytest.param([capacity("c", of="made", nodes={"zone": "x"}, capacity="5Gi")], "ab", id="enough"),
        pytest.param([capacity("c", of="made", nodes={"zone": "x"}, capacity="4Gi")], "", id="too little"),
        pytest.param(
            [capacity("c", of="made", nodes={"zone": "x"}, capacity="9Gi", maximumVolumeSize="4Gi")],
            "",
            id="none so large",
        ),
        pytest.param(
            [capacity("c", of="made", nodes={"zone": "x"}, capacity="4Gi", maximumVolumeSize="5Gi")],
            "ab",
            id="the largest counts, not the sum",
        ),
        pytest.param([capacity("c", of="made", nodes={"zone": "x"})], "", id="no number"),
        pytest.param([capacity("c", of="made", nodes={}, capacity="5Gi")], "abc", id="everywhere"),
        pytest.param([capacity("c", of="made", nodes=None, capacity="5Gi")], "", id="nowhere"),
        pytest.param([capacity("c", of="other", nodes={}, capacity="5Gi")], "", id="of another class"),
        pytest.param([csi_driver(DRIVER, tells_capacity=False)], "abc", id="the driver does not ask"),
    ],
)
def test_a_driver_that_tells_its_capacity_must_have_enough(there: list[Built], nodes: str) -> None:
    books = cluster(csi_driver(DRIVER, tells_capacity=True), claim("data", of="made", size="5Gi"), *there)
    assert let_through(RULE, books, DATA) == list(nodes)
    if len(nodes) < 3:
        lack = ("has too little storage of class made for claim data", 3 - len(nodes))
        assert reasons(RULE, books, DATA) == [lack]


# -- old kinds ---------------------------------------------------------------------------------------------------

EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def test_where_an_old_kind_was_taken_over_its_drivers_own_zone_label_counts() -> None:
    books = stored(
        Cluster(
            host("old", **{"topology.kubernetes.io/zone": "z1"}),
            host("new", **{"topology.kubernetes.io/zone": "z1"}),
            host("newer", **{EBS_ZONE: "z1"}),
            host("elsewhere", **{EBS_ZONE: "z2"}),
        ),
        claim("data", of="local").bound_to("v"),
        volume("v")
        .being(awsElasticBlockStore={"volumeID": "vol-1"})
        .reached_from(line("topology.kubernetes.io/zone", "In", "z1")),
        *(csi_node(name, {}, migrated="kubernetes.io/aws-ebs") for name in ("new", "newer", "elsewhere")),
    )
    assert let_through(RULE, books, DATA) == ["newer", "old"]


# -- among pods that are placed together -------------------------------------------------------------------------


def test_members_of_a_gang_get_different_volumes() -> None:
    books = cluster(
        *(claim(f"data-{index}", of="local") for index in range(3)),
        volume("v", of="local").at_node("a"),
        volume("w", of="local").at_node("c"),
        volume("x", of="local").at_node("c"),
    )
    members = [each.mounting(f"data-{index}") for index, each in enumerate(times(pod("w"), 3))]
    assert sorted(where(books.try_(members)).values()) == ["a", "c", "c"]


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize(
    "choosy",
    [
        pytest.param(claim("b", of="local", size="5Gi"), id="asks for more"),
        pytest.param(
            claim("b", of="local").asking(selector={"matchLabels": {"grade": "gold"}}), id="selects"
        ),
    ],
)
def test_the_member_that_few_volumes_serve_is_served_first(order: str, choosy: ClaimBuilder) -> None:
    large = volume("large", of="local", size="6Gi").labelled(grade="gold")
    small = volume("small", of="local", size="2Gi")
    books = cluster(claim("a", of="local"), choosy, large.at_node("a"), small.at_node("c"))
    members = [pod(f"w-{name}").mounting(name) for name in order]
    assert where(books.try_(members)) == {"w-a": "c", "w-b": "a"}


def test_a_gang_with_too_few_volumes_is_refused_with_the_claims_name() -> None:
    books = cluster(claim("data-0", of="local"), claim("data-1", of="local"), volume("v", of="local"))
    members = [each.mounting(f"data-{index}") for index, each in enumerate(times(pod("w"), 2))]
    told = books.refuses(*members)
    assert told.startswith("1 of 2 members fit.")
    assert "of 3 nodes: 3 have no available volume of class local for claim data-1" in told


def test_what_was_promised_to_a_pod_that_is_not_bound_yet_is_nobody_elses() -> None:
    books = cluster(claim("data", of="local"), claim("late", of="local"), volume("v", of="local"))
    books.place(DATA)
    assert let_through(RULE, books, pod("q").mounting("late")) == []
    books.state.release("uid-p")
    assert let_through(RULE, books, pod("q").mounting("late")) == ["a", "b", "c"]


def test_pods_that_share_a_claim_go_where_its_volume_will_be() -> None:
    for kind, there in (("local", [volume("v", of="local").at_node("b", "c")]), ("made", [])):
        books = cluster(claim("data", of=kind), *there)
        books.place(DATA.selecting(zone="y"))
        assert let_through(RULE, books, pod("q").mounting("data")) == (["b", "c"] if there else ["c"])


def test_a_promise_is_kept_however_often_others_are_planned() -> None:
    """The one that only v serves was promised v; a smaller claim that comes between does not take it."""
    gold = claim("gold", of="local").asking(selector={"matchLabels": {"grade": "gold"}})
    books = cluster(
        gold,
        claim("any", of="local"),
        volume("v", of="local").labelled(grade="gold").at_node("a"),
        volume("w", of="local", size="2Gi").at_node("a"),
    )
    books.place(pod("p").mounting("gold"))
    books.place(pod("q").mounting("any"))
    promised = {
        key: promise.volume
        for key in ("team/gold", "team/any")
        if (promise := books.state.volumes.promised(key))
    }
    assert promised == {"team/gold": "v", "team/any": "w"}


def test_a_promise_is_made_when_its_objects_come_after_the_pod() -> None:
    """After a restart records and pods may be known before claims, volumes and nodes."""
    books = stored(Cluster(host("a")))
    books.waiting(DATA)
    books.state.hold("uid-p", holds("late"))
    books.add(host("late"))
    stored(books, LOCAL, volume("v", of="local"), claim("data", of="local"), claim("other", of="local"))
    assert let_through(RULE, books, pod("q").mounting("other")) == []
    promise = books.state.volumes.promised("team/data")
    assert promise is not None
    assert (promise.node, promise.volume) == ("late", "v")


def test_nothing_is_left_of_a_draft() -> None:
    books = cluster(claim("data", of="local"), claim("more", of="made"), volume("v", of="local"))
    books.try_([DATA.mounting("more")])
    assert books.state.volumes.promised("team/data") is None
    assert books.state.volumes.promised("team/more") is None
    assert let_through(RULE, books, pod("q").mounting("data")) == ["a", "b", "c"]
