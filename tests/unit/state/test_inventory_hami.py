"""HAMi's registration: what is absent is 0 or false, and a card that cannot be shared by memory takes nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alnair.api import names
from alnair.sandbox import fleet
from alnair.state.inventory import Card, Inventory, conclude
from harness.builders import node, pod
from unit.builders import Cluster, as_node

FULL = {
    "id": "GPU-1",
    "index": 3,
    "count": 10,
    "devmem": 24576,
    "devcore": 100,
    "type": "NVIDIA-NVIDIA A10",
    "numa": 1,
    "mode": "hami-core",
    "health": True,
}


def without(*keys: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**FULL, **changes}.items() if key not in keys}


def told(*entries: Any, scores: Any = None) -> Inventory:
    annotations = {names.HAMI_REGISTER: json.dumps(entries)}
    if scores is not None:
        annotations[names.HAMI_SCORES] = scores if isinstance(scores, str) else json.dumps(scores)
    return by(annotations)


def by(annotations: dict[str, str]) -> Inventory:
    return conclude(as_node({"metadata": {"name": "n", "annotations": annotations}}), None)


def test_a_registration_tells_each_card_with_its_numa_node_and_slots() -> None:
    assert told(FULL) == Inventory((Card("GPU-1", "NVIDIA-A10", 24576, index=3, numa=1, slots=10),), "HAMi")


def test_what_is_absent_is_0_or_false() -> None:
    (card,) = told(without("index", "numa", "health", "mode", "type")).cards
    assert (card.index, card.numa, card.healthy, card.model) == (0, 0, False, "")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        pytest.param(without(mode="mig"), "mode 'mig' is not shared by memory", id="cut up by MIG"),
        pytest.param(without(mode="mps"), "mode 'mps' is not shared by memory", id="a mode we do not know"),
        pytest.param(without("devcore"), "devcore is 0", id="no compute"),
        pytest.param(without(devcore=50), "devcore is 50", id="half of the compute"),
        pytest.param(without("count"), "count is 0", id="no slots"),
    ],
)
def test_a_card_that_cannot_be_shared_by_memory_is_there_and_takes_nobody(
    entry: dict[str, Any], why: str
) -> None:
    inventory = told(entry, without(id="GPU-2"))
    assert [card.healthy for card in inventory.cards] == [False, True]
    assert inventory.problems[0].startswith(f"HAMi: GPU-1: {why}")


def test_cards_closed_for_one_reason_are_named_in_one_sentence() -> None:
    inventory = told(*(without(id=f"GPU-{n}", mode="mig") for n in range(5)))
    (problem,) = inventory.problems
    assert "GPU-0, GPU-1, GPU-2 and 2 more: mode 'mig'" in problem


@pytest.mark.parametrize(
    ("type_", "model"),
    [
        ("NVIDIA-NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA A10", "NVIDIA-A10"),
        ("NVIDIA-Tesla T4", "Tesla-T4"),
        ("Tesla V100-PCIE-32GB", "Tesla-V100-PCIE-32GB"),
    ],
)
def test_a_model_is_called_as_other_sources_call_it(type_: str, model: str) -> None:
    assert told(without(type=type_)).cards[0].model == model


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("GPU-1,10,24576,100,NVIDIA-A10,0,true:", "upgrade HAMi", id="the text form of old releases"),
        pytest.param("{}", "is no list", id="an object"),
        pytest.param("[1]", "[0] is int, not an object", id="a number for a card"),
        pytest.param("[{}]", "'' is no card name", id="a card that says nothing"),
        pytest.param("[" * 5000, "is no JSON", id="5,000 brackets"),
        pytest.param("x" * 20_000, "longer than 16384", id="20,000 characters"),
        pytest.param(json.dumps([FULL, FULL]), "card 'GPU-1' is listed twice", id="a card twice"),
        pytest.param(json.dumps([{}] * 65), "65 cards on one node", id="65 cards"),
        pytest.param(json.dumps([without("devmem")]), "card GPU-1 has 0 MiB", id="no memory"),
        pytest.param(json.dumps([without(devmem=1.5)]), "[0].devmem is float", id="a broken size"),
        pytest.param(json.dumps([without(devmem="24576")]), "[0].devmem is str", id="a size in words"),
        pytest.param(json.dumps([without(devmem=-1)]), "[0].devmem: -1 is out of range", id="a negative size"),
        pytest.param(json.dumps([without(count=True)]), "[0].count is bool", id="a true count"),
        pytest.param(json.dumps([without(count=2000)]), "[0].count: 2000 is out of range", id="2,000 slots"),
        pytest.param(json.dumps([without(numa=-2)]), "[0].numa: -2 is out of range", id="no NUMA node"),
        pytest.param(json.dumps([without(health="yes")]), "[0].health: 'yes'", id="health in words"),
        pytest.param(json.dumps([without(id=7)]), "[0].id: 7 is no text", id="an id that is a number"),
        pytest.param(json.dumps([without(mode="x" * 200)]), "[0].mode:", id="a mode of 200 characters"),
    ],
)  # fmt: skip
def test_a_registration_that_makes_no_sense_is_named(text: str, problem: str) -> None:
    inventory = by({names.HAMI_REGISTER: text})
    assert inventory.cards == ()
    assert problem in inventory.problems[0]
    assert len(inventory.problems[0]) < 300


@pytest.mark.parametrize("text", ["", " ", "[]"])
def test_an_empty_registration_leaves_the_word_to_the_next(text: str) -> None:
    assert by({names.HAMI_REGISTER: text}) == Inventory()


# -- links -------------------------------------------------------------------------------------------------------


def test_the_better_two_cards_are_linked_the_smaller_their_distance() -> None:
    pair = [
        {"uuid": "GPU-1", "score": {"GPU-2": 260, "GPU-3": 10, "GPU-1": 0, "GPU-elsewhere": 1}},
        {"uuid": "GPU-2", "score": {"GPU-1": 260}},
    ]
    inventory = told(FULL, without(id="GPU-2"), without(id="GPU-3"), scores=pair)
    assert [card.links for card in inventory.cards] == [
        (("GPU-2", 1740), ("GPU-3", 1990)),
        (("GPU-1", 1740),),
        (),
    ]


@pytest.mark.parametrize(
    "scores",
    ["nonsense", "{}", [1], [{"uuid": "GPU-1", "score": 3}], [{"uuid": "GPU-1", "score": {"GPU-2": -1}}]],
)
def test_scores_that_make_no_sense_cost_the_links_and_not_the_cards(scores: Any) -> None:
    inventory = told(FULL, without(id="GPU-2"), scores=scores)
    assert [card.links for card in inventory.cards] == [(), ()]
    assert names.HAMI_SCORES in inventory.problems[0]
    assert "not linked" in inventory.problems[0]


# -- in the books ------------------------------------------------------------------------------------------------


def test_a_card_has_as_many_slots_as_hami_says() -> None:
    entry = without(count=2, id=fleet.card_uuid("a", 0))
    cluster = Cluster(node("a").annotated({names.HAMI_REGISTER: json.dumps([entry])}))
    small = pod("small").slice(memory_gib=1)
    cluster.place(small, small.named("b"))
    cluster.refuses(small.named("c"))
