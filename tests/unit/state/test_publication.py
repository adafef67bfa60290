"""What is published of a node's cards: all that is known of each, nothing that is not, and readable as zones are."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from alnair.api import names
from alnair.api.topology import NodeResourceTopology, is_ours
from alnair.state.inventory import Card, Inventory, conclude
from alnair.state.inventory.publication import fingerprint, publication
from unit.builders import as_node

NODE = as_node({"metadata": {"name": "n", "uid": "uid-n"}})
PAIR = (
    Card("GPU-a", "A10", 24576, index=0, numa=0, links=(("GPU-b", 10), ("GPU-c", 40)), slots=10),
    Card("GPU-b", "A10", 24576, index=1, numa=0, links=(("GPU-a", 10),)),
    Card("GPU-c", "T4", 15000, index=2, numa=1, healthy=False, why="it is cut up"),
)


def published(*cards: Card, source: str = "HAMi") -> dict[str, Any]:
    return publication(NODE, Inventory(cards, source))


def attributes(thing: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in thing["attributes"]}


def zones(manifest: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [zone for zone in manifest["zones"] if zone["type"] == kind]


def test_each_card_is_a_zone_with_its_numa_node_its_memory_and_its_links() -> None:
    manifest = published(*PAIR)
    assert [zone["name"] for zone in zones(manifest, "Node")] == ["node-0", "node-1"]
    first, _, last = zones(manifest, "GPU")
    assert (first["name"], first["parent"]) == ("gpu-0", "node-0")
    assert first["costs"] == [{"name": "gpu-1", "value": 10}, {"name": "gpu-2", "value": 40}]
    assert first["resources"] == [
        {"name": "memory", "capacity": "24Gi", "allocatable": "24Gi", "available": "24Gi"}
    ]
    assert attributes(first) == {
        "publisher": "alnair",
        "uuid": "GPU-a",
        "model": "A10",
        "index": "0",
        "health": "healthy",
        "slots": "10",
    }
    assert (attributes(last)["health"], attributes(last)["why"]) == ("unhealthy", "it is cut up")
    assert last["resources"][0] == {
        "name": "memory",
        "capacity": "15000Mi",
        "allocatable": "0",
        "available": "0",
    }


def test_at_a_glance_there_are_models_sizes_numa_nodes_and_the_nearest_cards() -> None:
    assert attributes(published(*PAIR)) == {
        "cards": "2 x A10, 1 x T4",
        "memory": "24Gi, 15000Mi",
        "numa": "0,1",
        "links": "0-1",
        "unhealthy": "2",
        "source": "HAMi",
    }


def test_what_nobody_tells_is_left_out() -> None:
    (zone,) = published(Card("n/0", "", 1024, made_up=True))["zones"]
    assert "parent" not in zone
    assert "costs" not in zone
    assert "uuid" not in attributes(zone)
    assert attributes(zone)["id"] == "n/0"
    assert "made up" in attributes(zone)["idIs"]


def test_cards_whose_index_is_told_twice_have_zones_of_their_own() -> None:
    manifest = published(Card("a", "", 1, links=(("b", 1),)), Card("b", "", 1, healthy=False))
    assert [zone["name"] for zone in manifest["zones"]] == ["gpu-0", "gpu-1"]
    assert (attributes(manifest)["links"], attributes(manifest)["unhealthy"]) == ("0-1", "1")


def test_the_object_goes_with_its_node() -> None:
    (owner,) = published(*PAIR)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", "n", "uid-n")


def test_it_is_valid_and_would_read_as_what_it_was_made_from() -> None:
    manifest = published(*(card for card in PAIR if card.healthy))
    there = NodeResourceTopology.model_validate(json.loads(json.dumps(manifest)))
    read = conclude(NODE, there).cards
    assert [(card.id, card.numa, card.memory_mib, card.index) for card in read] == [
        ("GPU-a", 0, 24576, 0),
        ("GPU-b", 0, 24576, 1),
    ]


# -- whose it is -------------------------------------------------------------------------------------------------


def test_it_is_ours_until_somebody_replaces_the_zones_whatever_labels_stay() -> None:
    manifest = published(*PAIR)
    assert is_ours(manifest)
    assert not is_ours({**manifest, "zones": [{"name": "node-0", "type": "Node"}]})


@pytest.mark.parametrize(
    "zones", [None, {}, "x", [], [None], [{}], [{"attributes": 7}], [{"attributes": [1]}]]
)
def test_an_object_of_any_form_that_does_not_say_so_is_not_ours(zones: Any) -> None:
    assert not is_ours({"metadata": {"labels": {names.MANAGED_BY: names.ALNAIR}}, "zones": zones})


def test_what_the_apiserver_adds_is_no_difference_and_an_edit_is_one() -> None:
    wanted = published(*PAIR)
    there = deepcopy(wanted)
    there["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": [{}]}
    assert fingerprint(there) == fingerprint(wanted)
    for edit in (
        lambda it: it["zones"].pop(),
        lambda it: it["zones"][-1]["attributes"].reverse(),
        lambda it: it.pop("attributes"),
        lambda it: it["metadata"].pop("labels"),
        lambda it: it["metadata"].pop("ownerReferences"),
        lambda it: it.update(topologyPolicies=["None"]),
    ):
        edited = deepcopy(there)
        edit(edited)  # type: ignore[no-untyped-call]
        assert fingerprint(edited) != fingerprint(wanted)
