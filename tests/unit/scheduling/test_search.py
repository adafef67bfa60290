"""Cluster in, placement out: a gang is placed whole or not at all, and a no is told in sentences."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from alnair.api import names
from alnair.scheduling.classes import Member, classes_of
from alnair.scheduling.profile import Profile
from alnair.scheduling.search import Plan, Refusal
from alnair.state.holding import ContainerShare
from harness.builders import PodBuilder, node, nodes, pod
from unit.builders import GIB, PACK, SPREAD, Cluster, all_of, card_name, given, holds, part, times, where

WORKER = pod("w").asking(gpu=1)
SLICER = pod("s").slice(memory_gib=6)


# -- whole or not at all -----------------------------------------------------------------------------------------


def test_a_gang_that_fits_is_placed_whole() -> None:
    cluster = Cluster(node("a").with_cards(2), node("b").with_cards(2))
    plan = cluster.place(*times(WORKER, 4))
    assert Counter(where(plan).values()) == {"a": 2, "b": 2}
    assert sorted(card for cards in given(plan).values() for card in cards) == ["a#0", "a#1", "b#0", "b#1"]


def test_a_gang_that_does_not_fit_is_refused_and_leaves_no_trace() -> None:
    cluster = Cluster(node("a").with_cards(2), node("b").with_cards(1))
    assert "3 of 4 members fit" in cluster.refuses(*times(WORKER, 4))
    assert cluster.cards("a") + cluster.cards("b") == [(0, 0)] * 3


def test_members_beyond_the_least_are_placed_as_far_as_they_fit() -> None:
    cluster = Cluster(node("a").with_cards(3))
    plan = cluster.place(*times(WORKER, 5), needed=2)
    assert list(where(plan)) == ["w-0", "w-1", "w-2"]


def test_joining_a_running_gang_needs_at_least_one_place() -> None:
    cluster = Cluster(node("a").with_cards(1))
    assert isinstance(cluster.try_([WORKER], needed=0, present=4), Plan)
    cluster.place(WORKER)
    assert isinstance(cluster.try_([WORKER], needed=0, present=4), Refusal)


def test_there_are_no_nodes() -> None:
    assert Cluster().refuses(WORKER) == "The pod needs 1 whole GPU, but there are no nodes."
    slice_ = pod("p").slice(memory_gib=6)
    assert Cluster().refuses(slice_) == "The pod needs 6 GiB on one card, but there are no nodes."


def test_members_see_what_earlier_members_took() -> None:
    cluster = Cluster(node("a").holding(cpu="4"), node("b").holding(cpu="2"))
    plan = cluster.place(*times(pod("p").asking(cpu="2"), 3))
    assert Counter(where(plan).values()) == {"a": 2, "b": 1}
    assert "too little cpu (2 needed, at most 0 free)" in cluster.refuses(pod("late").asking(cpu="2"))


# -- gangs of different members ----------------------------------------------------------------------------------


def test_the_hardest_members_choose_first_whatever_their_order() -> None:
    master = pod("master").asking(cpu="1")
    whole = pod("whole").asking(gpu=2)
    part_of = pod("part").slice(memory_gib=20)
    for order in ((master, whole, part_of), (part_of, master, whole), (whole, part_of, master)):
        cluster = Cluster(node("two").with_cards(2), node("one").with_cards(1))
        plan = cluster.place(*order)
        assert where(plan)["whole"] == "two"
        assert given(plan)["part"] == ["one#0"]


def test_a_heterogeneous_gang_is_refused_whole_when_one_kind_does_not_fit() -> None:
    cluster = Cluster(node("a").with_cards(1))
    message = cluster.refuses(pod("master").asking(cpu="1"), *times(WORKER, 2))
    assert message.startswith("2 of 3 members fit. 1 more needs 1 whole GPU, but of 1 node: ")
    assert cluster.cards("a") == [(0, 0)]


def classes(cluster: Cluster, *pods: PodBuilder) -> list[list[str]]:
    called = [each.body["metadata"]["name"] for each in pods]
    members = [Member(name, name, cluster.kind(each)) for name, each in zip(called, pods, strict=True)]
    return [[member.uid for member in each.members] for each in classes_of(members, cluster.state.draft())]


def test_shapes_are_classes_of_equal_members() -> None:
    cluster = Cluster()
    pods = [*times(WORKER, 2), pod("m").asking(cpu="1"), pod("big").asking(gpu=4)]
    assert classes(cluster, *pods) == [["big"], ["w-0", "w-1"], ["m"]]


def test_labels_make_no_classes_of_their_own_until_some_rule_selects_by_them() -> None:
    cluster = Cluster(node("a").labelled(zone="z"))
    indexed = [each.labelled(index=str(number)) for number, each in enumerate(times(WORKER, 3))]
    assert classes(cluster, *indexed) == [["w-0", "w-1", "w-2"]]
    cluster.running(pod("grudge").apart_from({"index": "1"}, key="zone"), on="a")
    assert classes(cluster, *indexed) == [["w-0", "w-2"], ["w-1"]]


def test_labels_that_a_member_of_the_gang_selects_by_tell_its_other_members_apart() -> None:
    workers = [
        each.labelled(role="lead" if number == 0 else "hand") for number, each in enumerate(times(WORKER, 3))
    ]
    picky = pod("picky").near_to({"role": "lead"}, key="zone")
    assert classes(Cluster(), *workers, picky) == [["w-0"], ["w-1", "w-2"], ["picky"]]


# -- cards -------------------------------------------------------------------------------------------------------


def test_slices_share_a_card_and_a_whole_card_is_shared_with_nobody() -> None:
    cluster = Cluster(node("a").with_cards(2, memory_mib=24576))
    assert given(cluster.place(*times(SLICER, 4))) == {f"s-{n}": ["a#0"] for n in range(4)}
    assert given(cluster.place(WORKER)) == {"w": ["a#1"]}
    message = cluster.refuses(pod("one-more").slice(memory_gib=1))
    assert message == (
        "The pod needs 1 GiB on one card, but of 1 node: 1 has no card with 1 GiB free, all cards are taken."
    )


def test_a_slice_on_n_cards_takes_n_different_ones() -> None:
    cluster = Cluster(node("a").with_cards(4))
    plan = cluster.place(pod("p").slice_by_annotation("10Gi", count=3))
    assert given(plan) == {"p": ["a#0", "a#1", "a#2"]}
    assert [used for used, _ in cluster.cards("a")] == [10240, 10240, 10240, 0]


def test_sharers_of_a_card_are_limited() -> None:
    cluster = Cluster(node("a").with_cards(1), sharers=3)
    cluster.place(*times(pod("p").slice(memory_gib=1), 3))
    assert "all cards are taken" in cluster.refuses(pod("late").slice(memory_gib=1))


def test_compute_is_never_given_twice() -> None:
    cluster = Cluster(node("a").with_cards(1))
    cluster.place(*times(pod("p").slice(memory_gib=1, compute=40), 2))
    assert cluster.refuses(pod("late").slice(memory_gib=1, compute=40)) == (
        "The pod needs 1 GiB and 40 % compute on one card, but of 1 node: 1 has no card with 1 GiB free "
        "and 40 % compute free, the largest free slice is 22 GiB with 20 % compute on node a."
    )
    cluster.place(pod("modest").slice(memory_gib=1, compute=20))


def test_containers_of_one_pod_get_what_each_asks_for() -> None:
    cluster = Cluster(node("a").with_cards(3, memory_mib=24576))
    asking = pod("p").slice(memory_gib=20).with_container("second").asking(gpu=1).with_container("third")
    (_, holding) = cluster.place(asking.slice(memory_gib=6)).placements[0]
    by_name = {share.name: share for share in holding.containers}
    assert [share.name for share in holding.containers] == ["main", "second", "third"]
    assert by_name["second"].slices[0].whole
    assert len(holding.cards) == 3, "20 and 6 GiB do not fit on one card, and nothing beside a whole one"


def test_containers_that_fit_apart_but_not_together_are_refused_in_words() -> None:
    cluster = Cluster(node("a").with_cards(1, memory_mib=24576))
    asking = pod("p").slice(memory_gib=20).with_container("second").slice(memory_gib=6)
    assert cluster.refuses(asking).endswith(
        "of 1 node: 1 has no cards that fit all containers of the pod together."
    )


def shares_of(cluster: Cluster, asking: PodBuilder) -> dict[str, list[str]]:
    """Container -> its cards, once the pod has its place."""
    ((_, holding),) = cluster.place(asking).placements
    return {
        share.name: [card_name("a", piece.card) for piece in share.slices] for share in holding.containers
    }


def test_an_init_container_has_what_the_pod_has_anyway() -> None:
    cluster = Cluster(node("a").with_cards(3, memory_mib=24576))
    asking = pod("p").slice(memory_gib=8).with_container("second").slice(memory_gib=20)
    shares = shares_of(cluster, asking.with_init("i", {names.VGPU_MEMORY: "18"}))
    assert shares["i"] == shares["second"] != shares["main"]
    assert sorted(cluster.cards("a")) == [(0, 0), (8192, 1), (20480, 1)]


def test_a_large_init_container_has_the_rest_of_the_pod_within_its_card() -> None:
    cluster = Cluster(node("a").with_cards(1, model="T4", memory_mib=16384).with_cards(1, memory_mib=24576))
    shares = shares_of(cluster, pod("p").slice(memory_gib=4).with_init("i", {names.VGPU_MEMORY: "20"}))
    assert shares == {"i": ["a#1"], "main": ["a#1"]}
    assert cluster.cards("a") == [(0, 0), (20480, 1)]


def test_init_containers_take_turns_and_sidecars_stay() -> None:
    cluster = Cluster(node("a").with_cards(1, memory_mib=24576))
    gib = [{names.VGPU_MEMORY: str(size)} for size in (20, 4, 18, 16)]
    asking = pod("p").with_init("i", gib[0]).with_init("s", gib[1], sidecar=True).with_init("j", gib[2])
    cluster.place(asking.slice(memory_gib=16))
    assert cluster.cards("a") == [(22 * GIB, 2)], "the sidecar and the second init container"
    cluster.place(pod("beside").slice(memory_gib=2))
    assert "all cards are taken" in cluster.refuses(pod("late").slice(memory_gib=1))


def test_a_whole_card_before_it_starts_is_whole_for_all_of_the_pods_life() -> None:
    cluster = Cluster(node("a").with_cards(1, memory_mib=24576))
    cluster.place(pod("p").slice(memory_gib=4).with_init("i", {names.NVIDIA_GPU: "1"}))
    assert cluster.cards("a") == [(24576, 1)]
    assert "all cards are taken" in cluster.refuses(pod("late").slice(memory_gib=1))


def test_a_device_plugin_counts_init_containers_as_kubernetes_does() -> None:
    cluster = Cluster(node("a").with_cards(4).owned_by("device-plugin"))
    asking = pod("p").asking(gpu=1).with_init("i", {names.NVIDIA_GPU: "2"})
    plan = cluster.place(*times(asking, 2))
    assert [holding.counted for _, holding in plan.placements] == [2, 2]
    assert cluster.free("a", names.NVIDIA_GPU) == 0


def test_an_exclusive_slice_is_recorded_as_a_whole_card() -> None:
    cluster = Cluster(node("a").with_cards(1, model="T4", memory_mib=16384).with_cards(1, memory_mib=24576))
    ((_, holding),) = cluster.place(pod("p").slice(memory_gib=20).exclusively()).placements
    assert [(card_name("a", piece.card), piece.memory_mib, piece.whole) for piece in holding.slices()] == [
        ("a#1", 24576, True)
    ]


def test_whole_cards_of_two_containers_are_different_cards() -> None:
    cluster = Cluster(node("a").with_cards(2))
    plan = cluster.place(pod("p").asking(gpu=1).with_container("second").asking(gpu=1))
    assert sorted(given(plan)["p"]) == ["a#0", "a#1"]


def test_a_device_plugins_node_is_counted_and_the_kubelet_picks() -> None:
    cluster = Cluster(node("a").with_cards(4).owned_by("device-plugin"))
    plan = cluster.place(*times(pod("p").asking(gpu=2), 2))
    assert [holding.containers for _, holding in plan.placements] == [
        (ContainerShare("main", counted=2),)
    ] * 2
    assert "too few free whole GPUs (1 needed on one node)" in cluster.refuses(WORKER)


def test_only_allowed_models_are_given() -> None:
    mixed = (
        node("a").with_cards(1, model="T4", memory_mib=16384).with_cards(1, model="A100", memory_mib=40960)
    )
    cluster = Cluster(mixed)
    assert given(cluster.place(pod("p").slice(memory_gib=1).of_model("A100"))) == {"p": ["a#1"]}
    assert given(cluster.place(pod("q").asking(gpu=1).of_model("L4", "T4"))) == {"q": ["a#0"]}
    assert "no GPU of model V100" in cluster.refuses(pod("r").asking(gpu=1).of_model("V100"))


def test_a_vanished_card_is_not_given() -> None:
    cluster = Cluster(node("a").with_cards(2))
    cluster.add(node("a").with_cards(1))
    assert given(cluster.place(WORKER)) == {"w": ["a#0"]}


# -- profiles ----------------------------------------------------------------------------------------------------


def test_cost_saving_fills_one_card_where_high_performance_takes_one_each() -> None:
    four = times(pod("p").slice(memory_gib=4), 4)
    two_nodes = [node("a").with_cards(2), node("b").with_cards(2)]
    packed = given(Cluster(*two_nodes).place(*four, profile=PACK))
    spread = given(Cluster(*two_nodes).place(*four, profile=SPREAD))
    assert {card for cards in packed.values() for card in cards} == {"a#0"}
    assert {card for cards in spread.values() for card in cards} == {"a#0", "a#1", "b#0", "b#1"}


def test_whole_cards_are_packed_onto_one_node_or_spread_over_all() -> None:
    four = times(WORKER, 4)
    cluster = nodes("n", 4, node("n").with_cards(4))
    assert Counter(where(Cluster(*cluster).place(*four, profile=PACK)).values()) == {"n-1": 4}
    assert len(set(where(Cluster(*cluster).place(*four, profile=SPREAD)).values())) == 4


def test_packing_keeps_a_whole_node_free_for_the_next_gang() -> None:
    cluster = Cluster(node("a").with_cards(8), node("b").with_cards(8))
    cluster.place(*times(pod("x").slice(memory_gib=20), 8))
    assert set(where(cluster.place(pod("eight").asking(gpu=8))).values()) == {"b"}


# -- the same again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [PACK, SPREAD], ids=lambda profile: profile.name)
def test_equal_clusters_get_equal_plans(profile: Profile) -> None:
    def plan() -> Plan | Refusal:
        cluster = Cluster(*nodes("n", 9, node("n").with_cards(3)), node("plain"))
        cluster.state.hold("u", holds("n-4", part("n-4", 1, 7 * GIB)))
        cluster.running(pod("hog").asking(cpu="30"), on="n-6")
        gang = [*times(SLICER, 5), *times(WORKER, 3), *times(pod("c").asking(cpu="3"), 2)]
        return cluster.try_(gang, profile=profile)

    assert isinstance(plan(), Plan)
    assert plan() == plan()


@pytest.mark.parametrize("profile", [PACK, SPREAD], ids=lambda profile: profile.name)
def test_the_order_in_which_members_are_named_changes_no_amount(profile: Profile) -> None:
    gang = [*times(SLICER, 5), *times(WORKER, 3), *times(pod("c").asking(cpu="3"), 2)]

    def taken(order: list[int]) -> Counter[tuple[str, int]]:
        cluster = Cluster(*nodes("n", 5, node("n").with_cards(2)))
        plan = cluster.place(*(gang[index] for index in order), profile=profile)
        return Counter(
            (holding.node, sum(s.memory_mib for s in holding.slices())) for _, holding in plan.placements
        )

    orders = [list(range(len(gang))) for _ in range(6)]
    for seed, order in enumerate(orders[1:]):
        random.Random(seed).shuffle(order)
    assert all(taken(order) == taken(orders[0]) for order in orders)


# -- why not -----------------------------------------------------------------------------------------------------


def test_every_node_is_counted_once_under_the_first_rule_that_it_fails() -> None:
    cluster = Cluster(
        node("wrong-pool").with_cards(8),
        node("is cordoned").labelled(pool="x").with_cards(8).cordoned(),
        node("tainted").labelled(pool="x").with_cards(8).tainted("sick"),
        node("small").labelled(pool="x").holding(cpu="1"),
        node("plain").labelled(pool="x"),
        node("busy").labelled(pool="x").with_cards(1, memory_mib=16384),
        node("plugin").labelled(pool="x").with_cards(1).owned_by("device-plugin"),
    )
    cluster.add(node("down").labelled(pool="x").with_cards(8), ready=False)
    asking = pod("p").selecting(pool="x").asking(cpu="2", memory="4Gi").slice(memory_gib=20)
    assert cluster.refuses(asking) == (
        "The pod needs 20 GiB on one card, 2 cpu and 4 GiB memory, but of 8 nodes: "
        "1 does not match the node selector pool=x; 1 is cordoned; 1 has the untolerated taint sick:NoSchedule; "
        "1 is not Ready; "
        "1 has too little cpu (2 needed, at most 1 free); 1 has no GPUs; "
        "1 has its GPUs owned by a device plugin, which gives no slices; "
        "1 has no card with 20 GiB free, the largest free slice is 16 GiB on node busy."
    )


def test_a_gang_reads_how_many_fit_and_what_the_rest_needs() -> None:
    cluster = Cluster(node("gpu-17").with_cards(3, memory_mib=24576))
    cluster.state.hold("u", holds("gpu-17", part("gpu-17", 2, 15 * GIB)))
    assert cluster.refuses(*times(pod("m").slice(memory_gib=12), 8)) == (
        "4 of 8 members fit. 4 more each need 12 GiB on one card, but of 1 node: "
        "1 has no card with 12 GiB free, the largest free slice is 9 GiB on node gpu-17."
    )


def test_members_that_are_placed_already_count_among_those_that_fit() -> None:
    cluster = Cluster(node("a"))
    assert cluster.refuses(WORKER, present=3).startswith(
        "3 of 4 members fit. 1 more needs 1 whole GPU, but of 1 node"
    )


def test_two_kinds_that_do_not_fit_have_a_sentence_each() -> None:
    message = Cluster(node("a").holding(cpu="1")).refuses(*times(WORKER, 2), pod("c").asking(cpu="2"))
    first, second, third = message.split(". ")
    assert first == "0 of 3 members fit"
    assert second.startswith("2 more each need 1 whole GPU")
    assert third.startswith("1 more needs 2 cpu")


def test_a_pod_that_asks_for_nothing_needs_a_place() -> None:
    message = Cluster(node("a").cordoned()).refuses(pod("p"))
    assert message == "The pod needs a place, but of 1 node: 1 is cordoned."


def test_a_long_story_is_cut_to_what_an_event_takes() -> None:
    cluster = Cluster(*(node(f"n{index}").tainted("x" * 200 + str(index)) for index in range(20)))
    message = cluster.refuses(pod("p"))
    assert len(message) == 1000
    assert message.endswith("…")


def test_a_whole_card_in_use_by_a_stranger_is_told_by_number() -> None:
    cluster = Cluster(node("a").with_cards(2))
    cluster.state.hold("u", holds("a", all_of("a", 0, 24576)))
    assert cluster.refuses(pod("p").asking(gpu=2)).endswith(
        "1 has too few free whole GPUs (2 needed on one node, a has 1)."
    )
