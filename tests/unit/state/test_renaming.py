"""Cards whose names change under their users: the node takes nobody new until it is clear again what is taken.

UUIDs are told by topology zones, HAMi and annotations, zones without UUIDs go by their own names, and labels (or
annotations without UUIDs) tell only how many cards there are, so that they are called NODE/INDEX. The cards are the
same; read naively they would be free.
"""

from __future__ import annotations

from typing import Any

import pytest

from alnair.api import names
from alnair.api.topology import NodeResourceTopology
from alnair.sandbox import fleet
from alnair.state.holding import Holding, Slice
from harness.builders import NodeBuilder, node, pod
from unit.builders import Cluster, all_of, card, holds, part

MEMORY = fleet.A10.memory_mib
SMALL = pod("small").slice(memory_gib=1)
BY_LABELS = node("a").labelled(
    {names.GFD_COUNT: "2", names.GFD_MEMORY: str(MEMORY), names.GPU_OWNER: names.OWNED_BY_ALNAIR}
)
ALNAIRS = node("a").labelled({names.GPU_OWNER: names.OWNED_BY_ALNAIR})
BY_ANNOTATIONS = node("a").with_cards(2)
BY_HAMI = node("a").annotated(fleet.hami_node("a", fleet.A10, 2)["metadata"]["annotations"])
BY_COUNT = node("a").annotated({names.GPU_STATIC: f'{{"count": 2, "mem_size": "{MEMORY}MiB"}}'})


def zones(
    *, uuids: bool = True, count: int = 2, without: int | None = None, other: int | None = None
) -> NodeResourceTopology:
    """Zones gpu-0, gpu-1, …, with the UUIDs of the annotations, or without any, or `without` one card's, or with an
    `other` one for it."""
    made: dict[str, Any] = fleet.topology("a", [fleet.A10] * count)
    for index, zone in enumerate(zone for zone in made["zones"] if zone["type"] == "GPU"):
        if not uuids or index == without:
            zone.pop("attributes", None)
        if index == other:
            zone["attributes"] = [{"name": "uuid", "value": "GPU-other"}]
    return NodeResourceTopology.model_validate(made)


def told_by(sentence: NodeBuilder, topology: NodeResourceTopology | None = None) -> Cluster:
    cluster = Cluster(sentence)
    if topology is not None:
        cluster.state.put_topology("a", topology)
    return cluster


def open_cards(cluster: Cluster) -> int:
    return int(cluster.state.draft().card_usable[cluster.row("a")].sum())


def whole(name: str) -> Holding:
    return holds("a", Slice(name, MEMORY, 100, whole=True))


@pytest.mark.parametrize(
    ("sentence", "before", "held"),
    [
        pytest.param(BY_LABELS, zones(), card("a", 0), id="zones with UUIDs fall silent, labels speak"),
        pytest.param(BY_ANNOTATIONS, zones(uuids=False), "a/0", id="zones by index fall silent, UUIDs speak"),
    ],
)
def test_cards_that_another_source_calls_by_other_names_take_nobody_new(
    sentence: NodeBuilder, before: NodeResourceTopology, held: str
) -> None:
    cluster = told_by(sentence, before)
    cluster.state.hold("uid-p", whole(held))
    assert open_cards(cluster) == 2
    cluster.state.drop_topology("a")
    assert open_cards(cluster) == 0
    cluster.refuses(SMALL)
    (problem,) = cluster.state.inventories["a"].problems
    assert held in problem


def test_cards_that_go_from_indexes_to_uuids_within_zones_take_nobody_new() -> None:
    cluster = told_by(BY_LABELS, zones(uuids=False))
    cluster.state.hold("uid-p", whole("a/0"))
    cluster.state.put_topology("a", zones(uuids=True))
    cluster.refuses(SMALL.slice(memory_gib=MEMORY // 1024), SMALL.named("b").slice(memory_gib=MEMORY // 1024))


def test_cards_that_go_from_indexes_to_uuids_take_nobody_new() -> None:
    cluster = told_by(BY_LABELS)
    cluster.state.hold("uid-p", whole("a/0"))
    cluster.state.put_topology("a", zones())
    assert open_cards(cluster) == 0


def test_cards_that_nobody_holds_may_be_called_anything() -> None:
    cluster = told_by(BY_LABELS, zones())
    cluster.state.drop_topology("a")
    assert open_cards(cluster) == 2
    cluster.place(SMALL)


@pytest.mark.parametrize(
    ("before", "after", "held"),
    [
        pytest.param(BY_HAMI, BY_LABELS, card("a", 0), id="HAMi falls silent, labels speak"),
        pytest.param(BY_HAMI, BY_COUNT, card("a", 0), id="HAMi falls silent, a count speaks"),
        pytest.param(BY_COUNT, BY_HAMI, "a/0", id="from indexes to HAMi's UUIDs"),
        pytest.param(BY_COUNT, BY_ANNOTATIONS, "a/0", id="from indexes to UUIDs within one source"),
    ],
)
def test_between_any_two_sources_that_name_cards_differently_the_node_takes_nobody_new(
    before: NodeBuilder, after: NodeBuilder, held: str
) -> None:
    cluster = told_by(before)
    cluster.state.hold("uid-p", whole(held))
    assert open_cards(cluster) == 2
    cluster.add(after)
    assert open_cards(cluster) == 0
    cluster.state.release("uid-p")
    assert open_cards(cluster) == 2


@pytest.mark.parametrize(
    ("before", "after", "held"),
    [
        pytest.param(BY_HAMI, BY_ANNOTATIONS, card("a", 0), id="HAMi and annotations tell the same UUIDs"),
        pytest.param(BY_COUNT, BY_LABELS, "a/0", id="a count and labels make up the same names"),
    ],
)
def test_between_sources_that_name_cards_alike_what_is_held_stays_held(
    before: NodeBuilder, after: NodeBuilder, held: str
) -> None:
    cluster = told_by(before)
    cluster.state.hold("uid-p", whole(held))
    cluster.add(after)
    assert open_cards(cluster) == 2
    assert cluster.cards("a") == [(MEMORY, 1), (0, 0)]


@pytest.mark.parametrize("changed", [{"without": 1}, {"other": 1}], ids=["no UUID", "another UUID"])
def test_one_card_of_three_that_loses_its_uuid_closes_the_node_whatever_happens_to_its_pods(
    changed: dict[str, int],
) -> None:
    cluster = told_by(BY_LABELS, zones(count=3))
    for index, name in enumerate("pq"):
        there = cluster.running(pod(name), on="a", uid=f"uid-{name}", holding=whole(card("a", index)))
        cluster.state.hold(there.uid, whole(card("a", index)))
    cluster.state.put_topology("a", zones(count=3, **changed))
    assert open_cards(cluster) == 0
    cluster.running(pod("q"), on="a", uid="uid-q", terminating=True, holding=whole(card("a", 1)))
    assert open_cards(cluster) == 0, "it holds its card until it is gone"
    cluster.add(BY_LABELS.labelled(rack="7"))
    assert open_cards(cluster) == 0
    cluster.state.drop_pod("uid-q")
    cluster.state.release("uid-q")
    assert open_cards(cluster) == 3


# -- at a start --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node_first", [True, False])
def test_a_holding_under_names_that_the_node_does_not_know_closes_it_in_either_order(
    node_first: bool,
) -> None:
    cluster = Cluster(*([BY_LABELS] if node_first else []))
    cluster.state.hold("uid-p", whole(card("a", 0)))
    if not node_first:
        cluster.add(BY_LABELS)
    assert open_cards(cluster) == 0


def test_a_second_holding_does_not_open_what_the_first_has_closed() -> None:
    cluster = told_by(BY_LABELS)
    cluster.state.hold("uid-p", whole(card("a", 0)))
    cluster.state.hold("uid-q", whole(card("a", 1)))
    assert open_cards(cluster) == 0


@pytest.mark.parametrize("first", ["uid-p", "uid-q"])
def test_what_part_of_the_holdings_made_look_like_a_renaming_is_judged_again_when_all_are_known(
    first: str,
) -> None:
    """The card that p holds vanished while nobody led, and p came before q, which holds one that is known."""
    cluster = Cluster(node("a").with_cards(1))
    held = {"uid-p": holds("a", part("a", 1, 1024)), "uid-q": holds("a", part("a", 0, 1024))}
    for uid in sorted(held, key=lambda uid: uid != first):
        cluster.state.hold(uid, held[uid])
    cluster.state.judge_names_anew()
    assert open_cards(cluster) == 1
    assert cluster.cards("a") == [(1024, 1)]


def test_labels_that_spoke_before_the_zones_at_a_start_are_forgotten_when_all_is_known() -> None:
    cluster = Cluster(BY_LABELS)
    cluster.state.hold("uid-p", whole(card("a", 0)))
    cluster.state.hold("uid-q", whole(card("a", 1)))
    assert open_cards(cluster) == 0
    cluster.state.put_topology("a", zones(count=1))
    cluster.state.judge_names_anew()
    assert open_cards(cluster) == 1
    assert cluster.cards("a") == [(MEMORY, 1)]


def test_what_is_still_called_otherwise_when_all_is_known_stays_closed() -> None:
    cluster = Cluster(BY_LABELS)
    cluster.state.hold("uid-p", whole(card("a", 0)))
    cluster.state.hold("uid-q", whole(card("a", 1)))
    cluster.state.put_topology("a", zones(count=3, without=1))
    cluster.state.judge_names_anew()
    assert open_cards(cluster) == 0


def test_at_a_start_one_known_name_among_the_held_ones_is_no_renaming() -> None:
    """One card of two vanished while nobody led: the other one is known and goes on."""
    cluster = Cluster()
    cluster.state.hold("uid-p", holds("a", part("a", 0, 1024)))
    cluster.state.hold("uid-q", holds("a", part("a", 1, 1024)))
    cluster.add(node("a").with_cards(1))
    assert open_cards(cluster) == 1


@pytest.mark.parametrize("sentence", [BY_LABELS, ALNAIRS], ids=["labels beside zones", "zones only"])
@pytest.mark.parametrize("node_first", [True, False])
def test_at_a_start_one_card_that_lost_its_uuid_closes_the_node(
    sentence: NodeBuilder, node_first: bool
) -> None:
    cluster = Cluster(*([sentence] if node_first else []))
    cluster.state.hold("uid-p", whole(card("a", 0)))
    cluster.state.hold("uid-q", whole(card("a", 1)))
    cluster.state.put_topology("a", zones(count=3, without=1))
    if not node_first:
        cluster.add(sentence)
    assert open_cards(cluster) == 0


def test_a_pod_of_others_that_names_unknown_cards_closes_the_node_too() -> None:
    cluster = told_by(BY_LABELS)
    cluster.running(pod("theirs"), on="a", holding=whole(card("a", 0)))
    assert open_cards(cluster) == 0


# -- open again --------------------------------------------------------------------------------------------------


def test_closed_cards_open_when_the_last_pod_that_holds_them_by_old_names_ends() -> None:
    cluster = told_by(BY_LABELS, zones())
    cluster.state.hold("uid-p", holds("a", part("a", 0, 1024)))
    cluster.state.hold("uid-q", holds("a", part("a", 0, 1024)))
    cluster.state.drop_topology("a")
    cluster.state.release("uid-p")
    assert open_cards(cluster) == 0, "q still holds a part"
    before = cluster.state.freed
    cluster.state.release("uid-q")
    assert open_cards(cluster) == 2
    assert cluster.state.freed > before, "who waits for a card is woken"
    assert cluster.state.inventories["a"].problems == ()


def test_closed_cards_open_when_the_old_names_come_back_and_are_still_taken() -> None:
    cluster = told_by(BY_LABELS, zones())
    cluster.state.hold("uid-p", whole(card("a", 0)))
    cluster.state.drop_topology("a")
    cluster.state.put_topology("a", zones())
    assert open_cards(cluster) == 2
    assert cluster.cards("a") == [(MEMORY, 1), (0, 0)]


def test_a_holding_that_made_a_fresh_node_suspicious_opens_it_when_it_ends() -> None:
    cluster = told_by(BY_LABELS)
    cluster.state.hold("uid-p", whole(card("a", 0)))
    cluster.state.release("uid-p")
    assert open_cards(cluster) == 2


def test_a_node_that_changes_otherwise_stays_closed() -> None:
    cluster = told_by(BY_LABELS, zones())
    cluster.state.hold("uid-p", whole(card("a", 0)))
    cluster.state.drop_topology("a")
    cluster.add(BY_LABELS.labelled(rack="7"))
    assert open_cards(cluster) == 0


def test_a_closed_node_that_goes_and_comes_back_stays_closed() -> None:
    cluster = told_by(BY_LABELS, zones())
    cluster.state.hold("uid-p", whole(card("a", 0)))
    cluster.state.drop_topology("a")
    cluster.state.drop_node("a")
    cluster.add(BY_LABELS)
    assert open_cards(cluster) == 0


# -- no renaming -------------------------------------------------------------------------------------------------


def test_a_card_that_merely_vanishes_does_not_close_the_node() -> None:
    cluster = Cluster(node("a").with_cards(3))
    cluster.state.hold("uid-p", holds("a", all_of("a", 2, MEMORY)))
    cluster.add(node("a").with_cards(2))
    assert open_cards(cluster) == 2
    assert cluster.cards("a") == [(0, 0), (0, 0)]


def test_a_zone_that_merely_vanishes_does_not_close_the_node() -> None:
    cluster = told_by(BY_LABELS, zones(count=2))
    cluster.state.hold("uid-p", whole(card("a", 1)))
    cluster.state.put_topology("a", zones(count=1))
    assert open_cards(cluster) == 1


def test_a_plan_on_a_node_whose_other_card_vanished_closes_nothing() -> None:
    cluster = Cluster(node("a").with_cards(2))
    cluster.state.hold("uid-p", holds("a", part("a", 1, 1024)))
    cluster.add(node("a").with_cards(1))
    cluster.place(SMALL)
    assert open_cards(cluster) == 1
    assert cluster.cards("a") == [(1024, 1)]
