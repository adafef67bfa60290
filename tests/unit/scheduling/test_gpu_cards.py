"""GPUCards: a slice fits on one card, a whole card is idle, n cards are n different ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alnair.api import names
from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins.gpu_cards import GPUCards, describe
from alnair.state.holding import Slice
from harness.builders import NodeBuilder, PodBuilder, node, pod
from unit.builders import GIB, Cluster, advertising, all_of, card, gpu, holds, part

A = node("a")
RULE = GPUCards()
SMALL, LARGE = 16384, 40960


def passes(cluster: Cluster, asking: PodBuilder) -> bool:
    return bool(RULE.passes(cluster.kind(asking), cluster.state.draft())[cluster.row("a")])


def reasons(cluster: Cluster, asking: PodBuilder) -> list[tuple[str, int]]:
    draft, shape = cluster.state.draft(), cluster.kind(asking)
    failed = np.flatnonzero(draft.exists & ~RULE.passes(shape, draft))
    return [(phrase, len(rows)) for phrase, rows in RULE.reasons(shape, draft, failed)]


NO_COMPUTE = (
    "has no card with 30 GiB free and 50 % compute free, "
    "the largest free slice is 16 GiB with 100 % compute on node a"
)
HAMI = {names.NVIDIA_GPUMEM: "4096"}


@pytest.mark.parametrize(
    ("there", "asking", "fits"),
    [
        pytest.param(A, pod("p"), True, id="no GPU asked, none needed"),
        pytest.param(A, pod("p").asking(gpu=1), False, id="no cards"),
        pytest.param(A.with_cards(2), pod("p").asking(gpu=2), True, id="two whole cards of two"),
        pytest.param(A.with_cards(2), pod("p").asking(gpu=3), False, id="three of two"),
        pytest.param(
            A.with_cards(1, memory_mib=SMALL),
            pod("p").slice(memory_gib=16),
            True,
            id="all of a card's memory",
        ),
        pytest.param(
            A.with_cards(1, memory_mib=SMALL), pod("p").slice(memory_gib=17), False, id="more than a card has"
        ),
        pytest.param(
            A.with_cards(4, memory_mib=SMALL), pod("p").slice(memory_gib=17), False, id="cards do not add up"
        ),
        pytest.param(
            A.with_cards(2),
            pod("p").slice_by_annotation("4Gi", count=2),
            True,
            id="a slice on each of two cards",
        ),
        pytest.param(
            A.with_cards(2),
            pod("p").slice_by_annotation("4Gi", count=3),
            False,
            id="three distinct cards of two",
        ),
        pytest.param(
            A.with_cards(2), pod("p").asking(gpu=2, resources=HAMI), True, id="HAMi: slices on two cards"
        ),
        pytest.param(
            A.with_cards(1), pod("p").asking(gpu=2, resources=HAMI), False, id="HAMi: two cards of one"
        ),
        pytest.param(
            A.with_cards(1, model="A10"),
            pod("p").asking(gpu=1).of_model("A10"),
            True,
            id="the model asked for",
        ),
        pytest.param(
            A.with_cards(1, model="A10"), pod("p").asking(gpu=1).of_model("T4"), False, id="another model"
        ),
        pytest.param(
            A.with_cards(1, model="A10"), pod("p").asking(gpu=1).of_model("T4", "A10"), True, id="one of two"
        ),
        pytest.param(
            A.with_cards(1, model="A10"), pod("p").asking(gpu=1).of_model("a10"), False, id="spelt otherwise"
        ),
        pytest.param(
            A.with_cards(1, model="T4", memory_mib=SMALL).with_cards(1, model="A100", memory_mib=LARGE),
            pod("p").slice(memory_gib=20).of_model("T4"),
            False,
            id="the allowed card is too small, the large one not allowed",
        ),
        pytest.param(
            A.with_cards(1, model="T4", memory_mib=SMALL).with_cards(1, model="A100", memory_mib=LARGE),
            pod("p").slice(memory_gib=20),
            True,
            id="the larger of two different cards",
        ),
    ],
)
def test_cards_of_alnairs_own_nodes(there: NodeBuilder, asking: PodBuilder, fits: bool) -> None:
    assert passes(Cluster(there), asking) is fits


@pytest.mark.parametrize(
    ("taken", "asking", "fits"),
    [
        pytest.param(
            [part("a", 0, 20 * GIB)], pod("p").slice(memory_gib=4), True, id="the rest of the memory"
        ),
        pytest.param([part("a", 0, 20 * GIB)], pod("p").slice(memory_gib=5), False, id="more than the rest"),
        pytest.param(
            [part("a", 0, 1, 60)],
            pod("p").slice(memory_gib=1, compute=40),
            True,
            id="the rest of the compute",
        ),
        pytest.param(
            [part("a", 0, 1, 60)],
            pod("p").slice(memory_gib=1, compute=41),
            False,
            id="more compute than is left",
        ),
        pytest.param(
            [part("a", 0, 1, 100)], pod("p").slice(memory_gib=1), True, id="no compute asked, none needed"
        ),
        pytest.param(
            [part("a", 0, 1)], pod("p").asking(gpu=1), False, id="a shared card is not whole any more"
        ),
        pytest.param(
            [all_of("a", 0, 24576)], pod("p").slice(memory_gib=1), False, id="a whole card is not shared"
        ),
        pytest.param([all_of("a", 0, 1024)], pod("p").slice(memory_gib=1), False, id="even if it grew"),
        pytest.param([all_of("a", 0, 24576)], pod("p").asking(gpu=1), False, id="nor given twice"),
        pytest.param(
            [part("a", 0, 1)] * 3, pod("p").slice(memory_gib=1), True, id="the last of four sharers"
        ),
        pytest.param([part("a", 0, 1)] * 4, pod("p").slice(memory_gib=1), False, id="one sharer too many"),
    ],
)
def test_a_card_that_is_in_use(taken: list[Any], asking: PodBuilder, fits: bool) -> None:
    cluster = Cluster(A.with_cards(1, memory_mib=24576), sharers=4)
    for number, piece in enumerate(taken):
        cluster.state.hold(f"u{number}", holds("a", piece))
    assert passes(cluster, asking) is fits


PLUGIN = A.with_cards(4, model="V100", memory_mib=32768).owned_by("device-plugin")


@pytest.mark.parametrize(
    ("asking", "fits"),
    [
        pytest.param(pod("p").asking(gpu=4), True, id="as many as it advertises"),
        pytest.param(pod("p").asking(gpu=5), False, id="more than it advertises"),
        pytest.param(pod("p").slice(memory_gib=1), False, id="it gives no slices"),
        pytest.param(pod("p").asking(gpu=1, resources=HAMI), False, id="nor HAMi's"),
        pytest.param(pod("p").asking(gpu=1).of_model("V100"), True, id="all its cards are of the model"),
        pytest.param(pod("p").asking(gpu=1).of_model("T4"), False, id="none is of the model"),
    ],
)
def test_a_device_plugins_node_is_counted(asking: PodBuilder, fits: bool) -> None:
    assert passes(Cluster(PLUGIN), asking) is fits


def test_a_device_plugins_cards_are_counted_down_by_whoever_takes_them() -> None:
    cluster = Cluster(PLUGIN)
    cluster.running(pod("other").asking(gpu=3), on="a")
    assert passes(cluster, pod("p").asking(gpu=1))
    assert reasons(cluster, pod("p").asking(gpu=2)) == [
        ("has too few free whole GPUs (2 needed on one node, a has 1)", 1)
    ]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(part("a", 0, 1024), id="a slice"),
        pytest.param(all_of("a", 0, 24576), id="a whole card"),
        pytest.param(part("b", 0, 1024), id="a slice of a card that is not told of any more"),
    ],
)
def test_a_node_that_becomes_a_device_plugins_is_closed_while_pods_hold_cards_of_alnairs_choice(
    given: Slice,
) -> None:
    cluster = Cluster(A.with_cards(4, memory_mib=24576))
    cluster.state.hold("u", holds("a", given))
    cluster.add(PLUGIN)
    assert not passes(cluster, pod("p").asking(gpu=1))
    assert reasons(cluster, pod("p").asking(gpu=1)) == [
        ("has GPUs owned by a device plugin, which may give some that pods have from Alnair", 1)
    ]
    cluster.state.release("u")
    assert passes(cluster, pod("p").asking(gpu=4))


def test_where_a_device_plugin_may_give_any_of_several_models_none_is_promised() -> None:
    mixed = advertising(A.with_cards(1, model="T4").with_cards(1, model="A10"), names.NVIDIA_GPU, 2)
    cluster = Cluster(mixed.labelled({names.GPU_OWNER: "device-plugin"}))
    assert passes(cluster, pod("p").asking(gpu=1))
    assert reasons(cluster, pod("p").asking(gpu=1).of_model("T4")) == [
        ("has GPUs of several models owned by a device plugin, which may give any", 1)
    ]


def test_where_alnair_owns_cards_that_are_advertised_too_the_kubelets_count_holds_as_well() -> None:
    both = advertising(A.with_cards(2), names.NVIDIA_GPU, 2)
    cluster = Cluster(both)
    cluster.running(pod("other").asking(gpu=2), on="a")
    assert not passes(cluster, pod("p").asking(gpu=1))
    assert reasons(cluster, pod("p").asking(gpu=1, resources=HAMI)) == [
        (f"has too few {names.NVIDIA_GPU} left (1 needed)", 1)
    ]
    assert passes(cluster, pod("p").slice(memory_gib=4)), (
        "a slice that asks for no nvidia.com/gpu is not counted"
    )


def test_an_unhealthy_card_is_not_given() -> None:
    cluster = Cluster(A.with_cards(1, model="A").with_cards(1, model="B"))
    sick = cluster.state.topologies["a"].model_copy(deep=True)
    assert sick.zones[-1].attributes is not None
    sick.zones[-1].attributes.append(
        sick.zones[-1].attributes[0].model_copy(update={"name": "health", "value": "no"})
    )
    cluster.state.put_topology("a", sick)
    assert passes(cluster, pod("p").asking(gpu=1))
    assert not passes(cluster, pod("p").asking(gpu=2))


@pytest.mark.parametrize(
    ("nodes", "asking", "expected"),
    [
        pytest.param([A, node("b")], pod("p").asking(gpu=1), [("has no GPUs", 2)], id="no cards anywhere"),
        pytest.param(
            [A.with_cards(1, model="A10"), node("b").with_cards(1, model="L4")],
            pod("p").asking(gpu=1).of_model("T4", "V100"),
            [("has no GPU of model T4 or V100", 2)],
            id="no card of the model",
        ),
        pytest.param(
            [PLUGIN],
            pod("p").slice(memory_gib=1),
            [("has its GPUs owned by a device plugin, which gives no slices", 1)],
            id="a slice on a device plugin's node",
        ),
        pytest.param(
            [A.with_cards(1, memory_mib=SMALL), node("b").with_cards(2, memory_mib=24576)],
            pod("p").slice(memory_gib=30),
            [("has no card with 30 GiB free, the largest free slice is 24 GiB on node b", 2)],
            id="the largest slice and its node are named",
        ),
        pytest.param(
            [A.with_cards(1, memory_mib=SMALL)],
            pod("p").slice(memory_gib=30, compute=50),
            [(NO_COMPUTE, 1)],
            id="with compute",
        ),
        pytest.param(
            [A.with_cards(2, memory_mib=SMALL)],
            pod("p").slice_by_annotation("4Gi", count=3),
            [("has fewer than 3 cards with 4 GiB free, the largest free slice is 16 GiB on node a", 1)],
            id="too few cards for a slice on each",
        ),
        pytest.param(
            [A.with_cards(2), node("b").with_cards(3)],
            pod("p").asking(gpu=4),
            [("has too few free whole GPUs (4 needed on one node, b has 3)", 2)],
            id="whole cards: the node with most is named",
        ),
        pytest.param(
            [A.with_cards(1)],
            pod("p").asking(gpu=1).with_container("second").asking(gpu=1),
            [("has too few free whole GPUs (2 needed on one node, a has 1)", 1)],
            id="whole cards of two containers add up",
        ),
        pytest.param(
            [A.with_cards(1)],
            pod("p").slice(memory_gib=1).with_container("second").asking(gpu=2),
            [("has too few free whole GPUs (2 needed on one node, a has 1)", 1)],
            id="a slice that would fit beside whole cards that do not",
        ),
    ],
)
def test_the_reason_names_numbers_and_the_node(
    nodes: list[NodeBuilder], asking: PodBuilder, expected: list[tuple[str, int]]
) -> None:
    assert reasons(Cluster(*nodes), asking) == expected


def test_cards_that_are_all_taken_are_said_to_be() -> None:
    cluster = Cluster(A.with_cards(1, memory_mib=SMALL))
    cluster.state.hold("u", holds("a", all_of("a", 0, SMALL)))
    assert reasons(cluster, pod("p").slice(memory_gib=1)) == [
        ("has no card with 1 GiB free, all cards are taken", 1)
    ]
    assert reasons(cluster, pod("p").asking(gpu=1)) == [
        ("has too few free whole GPUs (1 needed on one node)", 1)
    ]


COUNTED = node("a").with_cards(2, model="A10", memory_mib=LARGE).owned_by("device-plugin")
MIXED = (
    node("a").with_cards(1, model="Tesla-T4", memory_mib=SMALL).with_cards(1, model="A100", memory_mib=LARGE)
)


@pytest.mark.parametrize(
    ("there", "asking", "fits"),
    [
        pytest.param(MIXED, pod("p").asking(gpu=1).annotated({names.GPU_MODEL_NOT: "A100"}), True, id="not that one"),
        pytest.param(
            MIXED, pod("p").asking(gpu=1).annotated({names.GPU_MODEL_NOT: "A100,Tesla-T4"}), False, id="neither"
        ),
        pytest.param(MIXED, pod("p").asking(gpu=1).annotated({names.HAMI_USE_TYPE: "t4"}), True, id="HAMi: a part"),
        pytest.param(
            MIXED, pod("p").asking(gpu=2).annotated({names.HAMI_NO_USE_TYPE: "tesla"}), False, id="HAMi: not such"
        ),
        pytest.param(MIXED, pod("p").asking(gpu=1).on_cards(card("a", 1)), True, id="by UUID"),
        pytest.param(MIXED, pod("p").asking(gpu=1).on_cards("a/0"), True, id="by node and index"),
        pytest.param(MIXED, pod("p").asking(gpu=1).on_cards("b/0", "a/2"), False, id="cards of others"),
        pytest.param(MIXED, pod("p").slice(memory_gib=20).on_cards("a/0"), False, id="the card named is too small"),
        pytest.param(
            MIXED, pod("p").asking(gpu=2).annotated({names.GPU_UUID_NOT: card("a", 0)}), False, id="all but this"
        ),
        pytest.param(MIXED, pod("p").slice(memory_gib=20).exclusively(), True, id="one large enough, all of it"),
        pytest.param(
            MIXED, pod("p").slice_by_annotation("20Gi", count=2).exclusively(), False, id="two large enough"
        ),
        pytest.param(MIXED, pod("p").annotated({names.GPU_COUNT: "2"}), True, id="whole cards by annotation"),
        pytest.param(
            MIXED,
            pod("p").slice(memory_gib=20).exclusively().with_init("i", {names.NVIDIA_GPU: "2"}),
            True,
            id="two whole cards before it starts, one afterwards",
        ),
        pytest.param(
            MIXED,
            pod("p").slice(memory_gib=20).exclusively().with_init("i", {names.NVIDIA_GPU: "2"}, sidecar=True),
            False,
            id="two whole cards beside it",
        ),
        pytest.param(
            MIXED, pod("p").asking(resources={names.NVIDIA_GPUMEM_PERCENTAGE: "100"}), True, id="all of a card's memory"
        ),
        pytest.param(COUNTED, pod("p").asking(gpu=1).with_init("i", {names.NVIDIA_GPU: "2"}), True, id="the most"),
        pytest.param(
            COUNTED, pod("p").asking(gpu=1).with_init("i", {names.NVIDIA_GPU: "2"}, sidecar=True), False, id="the sum"
        ),
        pytest.param(COUNTED, pod("p").asking(gpu=1).on_cards("a/0", "a/1"), False, id="plugin: none by name"),
        pytest.param(COUNTED, pod("p").annotated({names.GPU_COUNT: "1"}), False, id="plugin: not asked for any"),
        pytest.param(
            COUNTED, pod("p").asking(gpu=1, resources=HAMI).exclusively(), True, id="plugin: all are large enough"
        ),
        pytest.param(
            COUNTED,
            pod("p").asking(gpu=1, resources={names.NVIDIA_GPUMEM: "50000"}).exclusively(),
            False,
            id="plugin: none is",
        ),
        pytest.param(COUNTED, pod("p").asking(gpu=1).annotated({names.HAMI_USE_TYPE: "a10"}), True, id="HAMi"),
        pytest.param(COUNTED, pod("p").asking(gpu=1).annotated({names.GPU_MODEL_NOT: "A10"}), False, id="plugin: not"),
    ],
)  # fmt: skip
def test_cards_by_choice_by_moment_and_by_size(there: NodeBuilder, asking: PodBuilder, fits: bool) -> None:
    assert passes(Cluster(there), asking) is fits


@pytest.mark.parametrize(
    ("percent", "free", "fits"),
    [
        (50, SMALL // 2, True),
        (51, SMALL // 2, False),
        (33, SMALL * 33 // 100, False),
        (33, SMALL * 33 // 100 + 1, True),
    ],
)
def test_per_cent_are_of_the_card_and_rounded_up(percent: int, free: int, fits: bool) -> None:
    cluster = Cluster(node("a").with_cards(1, memory_mib=SMALL))
    cluster.state.hold("tenant", holds("a", part("a", 0, SMALL - free)))
    asking = pod("p").asking(resources={names.NVIDIA_GPUMEM_PERCENTAGE: str(percent)})
    assert passes(cluster, asking) is fits
    if fits:
        ((_, holding),) = cluster.place(asking).placements
        assert [piece.memory_mib for piece in holding.slices()] == [-(-SMALL * percent // 100)]


@pytest.mark.parametrize(
    ("there", "asking", "reason"),
    [
        pytest.param(
            MIXED,
            pod("p").asking(gpu=1).annotated({names.GPU_MODEL_NOT: "A100,Tesla-T4"}),
            "has no GPU of model other than A100 and Tesla-T4",
            id="models denied",
        ),
        pytest.param(
            MIXED,
            pod("p").asking(gpu=1).annotated({names.HAMI_USE_TYPE: "h100,h200"}),
            "has no GPU of model like H100 or H200",
            id="HAMi's parts",
        ),
        pytest.param(
            MIXED,
            pod("p").asking(gpu=1).on_cards("b/0"),
            "has none of the GPUs that the pod names",
            id="named",
        ),
        pytest.param(
            COUNTED,
            pod("p").asking(gpu=1).on_cards("a/0"),
            "has its GPUs owned by a device plugin, which gives cards of its own choice, none by UUID",
            id="named, of a plugin",
        ),
        pytest.param(
            COUNTED,
            pod("p").annotated({names.GPU_COUNT: "1"}),
            "has its GPUs owned by a device plugin, which gives only what nvidia.com/gpu asks for",
            id="by annotation, of a plugin",
        ),
        pytest.param(
            COUNTED,
            pod("p").asking(gpu=1, resources={names.NVIDIA_GPUMEM: "50000"}).exclusively(),
            "has GPUs of unknown or too small size owned by a device plugin, which may give any",
            id="too small, of a plugin",
        ),
        pytest.param(
            MIXED,
            pod("p").slice_by_annotation("20Gi", count=2).exclusively(),
            "has too few free whole GPUs of 20 GiB or more (2 needed on one node, a has 1)",
            id="too few of that size",
        ),
        pytest.param(
            MIXED,
            pod("p").asking(gpu=3).with_init("i", {names.NVIDIA_GPU: "4"}),
            "has too few free whole GPUs (4 needed on one node, a has 2)",
            id="before it starts",
        ),
    ],
)
def test_why_a_choice_leaves_nothing(there: NodeBuilder, asking: PodBuilder, reason: str) -> None:
    assert reasons(Cluster(there), asking) == [(reason, 1)]


@pytest.mark.parametrize(
    ("asking", "told"),
    [
        pytest.param(
            pod("p").slice(memory_gib=48),
            "needs 48 GiB on one card, larger than any card: the largest has 40 GiB on node a, but of 1 node",
            id="slice",
        ),
        pytest.param(
            pod("p").slice(memory_gib=20).of_model("Tesla-T4"),
            "larger than any card that the pod allows: the largest has 16 GiB on node a",
            id="among the models",
        ),
        pytest.param(
            pod("p").slice(memory_gib=48).exclusively(),
            "1 whole GPU of 48 GiB or more, larger than any card: the largest has 40 GiB",
            id="whole",
        ),
    ],
)
def test_a_slice_larger_than_any_card_is_called_that_at_once(asking: PodBuilder, told: str) -> None:
    assert told in Cluster(MIXED.cordoned()).refuses(asking), "whatever else is the matter with the node"


def test_a_slice_that_only_waits_for_room_is_not_called_too_large() -> None:
    cluster = Cluster(MIXED)
    cluster.state.hold("tenant", holds("a", all_of("a", 1, LARGE)))
    assert "larger than any" not in cluster.refuses(pod("p").slice(memory_gib=20))


@pytest.mark.parametrize(
    ("demands", "text"),
    [
        ([CardDemand("c", 1, 0, 0, whole=False, memory_percent=30)], "30 % of the memory on one card"),
        ([CardDemand("c", 2, 6144, 0, whole=True)], "2 whole GPUs of 6 GiB or more"),
        (
            [
                CardDemand("i", 2, 0, 0, whole=True, stage="Init"),
                CardDemand("s", 1, 700, 0, whole=False, stage="Sidecar"),
                CardDemand("c", 1, 0, 0, whole=True),
            ],
            "2 whole GPUs before it starts plus 700 MiB on one card in a sidecar plus 1 whole GPU",
        ),
        ([CardDemand("c", 1, 0, 0, whole=True)], "1 whole GPU"),
        ([CardDemand("c", 8, 0, 0, whole=True)], "8 whole GPUs"),
        ([CardDemand("c", 1, 6144, 0, whole=False)], "6 GiB on one card"),
        ([CardDemand("c", 1, 6144, 50, whole=False)], "6 GiB and 50 % compute on one card"),
        ([CardDemand("c", 2, 700, 0, whole=False)], "700 MiB on each of 2 cards"),
        (
            [CardDemand("c", 1, 0, 0, whole=True), CardDemand("d", 1, 1536, 0, whole=False)],
            "1 whole GPU plus 1.5 GiB on one card",
        ),
    ],
)
def test_a_request_in_words(demands: list[CardDemand], text: str) -> None:
    assert describe(gpu(*demands)) == text
