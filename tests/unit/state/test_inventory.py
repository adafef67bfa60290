"""Which cards a node has: the best source is believed alone, and what cannot be read is named, never guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alnair.api import names
from alnair.api.gpurequest import MOST_MEMORY_MIB
from alnair.api.topology import NodeResourceTopology
from alnair.sandbox.fleet import A10, T4, topology
from alnair.state.inventory import Card, Inventory, conclude
from unit.builders import as_node

UUIDS, COUNT, STATIC = names.PHYSICAL_GPU_UUIDS, names.PHYSICAL_GPU_COUNT, names.GPU_STATIC
VIRTUAL, MISSPELT = names.VIRTUAL_GPU_COUNT, names.VIRTUAL_GPU_COUNT_MISSPELT
LABELS = {names.GFD_COUNT: "2", names.GFD_MEMORY: "24576", names.GFD_PRODUCT: "A10"}
ONE_CARD = {UUIDS: "GPU-1", STATIC: '{"model": "K80", "mem_size": "12GiB"}'}
HAMI = '[{"id": "GPU-7", "count": 10, "devmem": 24576, "devcore": 100, "type": "NVIDIA-A10", "health": true}]'
READING = f"{names.PREFIX}gpu-"


def concluded(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, zones: Any = None
) -> Inventory:
    meta = {"name": "n", "annotations": annotations or {}, "labels": labels or {}}
    told = zones and NodeResourceTopology.model_validate({"metadata": {"name": "n"}, "zones": zones})
    return conclude(as_node({"metadata": meta}), told)


def zone(name: str, memory: str | None = "24Gi", kind: str = "GPU", **attributes: str) -> dict[str, Any]:
    size = {"name": "memory", "capacity": memory, "allocatable": memory, "available": memory}
    return {
        "name": name,
        "type": kind,
        "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
        "resources": [size] if memory is not None else [],
    }


# -- who is believed ---------------------------------------------------------------------------------------------


def test_a_node_of_which_nobody_tells_has_no_cards_and_no_problem() -> None:
    assert concluded() == Inventory()


def test_zones_go_before_hami_before_the_profiler_before_labels() -> None:
    zones = [zone("gpu-0", uuid="GPU-9")]
    both = {**ONE_CARD, names.HAMI_REGISTER: HAMI}
    assert concluded(both, LABELS, zones).source == "NodeResourceTopology"
    assert concluded(both, LABELS).source == "HAMi"
    assert concluded(ONE_CARD, LABELS).source == "annotations"
    assert concluded({}, LABELS).source == "labels"


def test_sources_are_never_mixed() -> None:
    assert [card.id for card in concluded(ONE_CARD, LABELS).cards] == ["GPU-1"]


def test_zones_that_describe_no_card_leave_the_word_to_the_next() -> None:
    assert concluded(ONE_CARD, zones=[zone("node-0", kind="Node")]).source == "annotations"


def test_a_source_that_cannot_be_read_is_named_and_the_next_believed() -> None:
    told = concluded({UUIDS: "a,a", STATIC: '{"mem_size": "1GiB"}'}, LABELS)
    assert (told.source, len(told.cards)) == ("labels", 2)
    assert told.problems == ("annotations: card 'a' is listed twice",)


# -- zones -------------------------------------------------------------------------------------------------------


def test_zones_describe_different_cards_in_one_node() -> None:
    told = NodeResourceTopology.model_validate(topology("n", [A10, T4]))
    cards = conclude(as_node({"metadata": {"name": "n"}}), told).cards
    assert [(card.model, card.memory_mib) for card in cards] == [("NVIDIA-A10", 24576), ("Tesla-T4", 16384)]


def test_a_zone_without_uuid_is_known_by_its_name_and_memory_is_rounded_down() -> None:
    assert concluded(zones=[zone("gpu-0", "1500k")]).cards == (Card("gpu-0", "", 1),)


@pytest.mark.parametrize(
    ("word", "usable"),
    [("healthy", True), ("Healthy", True), ("true", True), ("unhealthy", False), ("xid-79", False)],
)
def test_a_card_that_is_not_healthy_is_there_and_unusable(word: str, usable: bool) -> None:
    (card,) = concluded(zones=[zone("gpu-0", health=word)]).cards
    assert card.healthy is usable


@pytest.mark.parametrize(
    ("zones", "problem"),
    [
        ([zone("gpu-0", None)], "zone 'gpu-0' of type GPU has no resource 'memory'"),
        ([zone("gpu-0", "-1")], "zones[gpu-0].resources[memory].capacity: '-1' is negative"),
        ([zone("gpu-0", "0")], "card gpu-0 has 0 MiB"),
        ([zone("a", uuid="u"), zone("b", uuid="u")], "card 'u' is listed twice"),
        ([zone("a", uuid="")], "'' is no card name"),
        ([zone("a", uuid="x,y")], "card name 'x,y' holds a comma"),
        ([zone(f"gpu-{n}") for n in range(65)], "65 cards on one node; 64 are the most"),
    ],
)
def test_zones_that_make_no_sense_are_named(zones: Any, problem: str) -> None:
    told = concluded(zones=zones)
    assert told.cards == ()
    assert problem in told.problems[0]


# -- annotations -------------------------------------------------------------------------------------------------


SIZED_24 = '{"mem_size": "24GiB"}'


@pytest.mark.parametrize(
    ("annotations", "cards"),
    [
        pytest.param(ONE_CARD, [("GPU-1", "K80", 12288)], id="JSON"),
        pytest.param(
            {UUIDS: "GPU-1", STATIC: "{'count': '1', 'model': 'K80', 'mem_size': '12GiB'}"},
            [("GPU-1", "K80", 12288)],
            id="a Python dict as older profilers print it",
        ),
        pytest.param(
            {UUIDS: "a, b", COUNT: "2", STATIC: '{"mem_size": "11441MB"}'},
            [("a", "", 10910), ("b", "", 10910)],
            id="decimal megabytes, spaces after commas",
        ),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": "12GB"}'}, [("a", "", 11444)], id="12GB is less than 12GiB"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": "24 GiB"}'}, [("a", "", 24576)], id="a space before the unit"),
        pytest.param({UUIDS: "a,b", VIRTUAL: "24,16"}, [("a", "", 24576), ("b", "", 16384)], id="GiB card by card"),
        pytest.param({UUIDS: "a,b", MISSPELT: "24, 16"}, [("a", "", 24576), ("b", "", 16384)], id="the misspelt key"),
        pytest.param({UUIDS: "a", VIRTUAL: "8", MISSPELT: "9"}, [("a", "", 8192)], id="the well-spelt key goes first"),
        pytest.param(
            {UUIDS: "a", VIRTUAL: "8", STATIC: '{"model": "K80", "mem_size": "9GiB"}'},
            [("a", "K80", 8192)],
            id="the size card by card goes before one size for all",
        ),
        pytest.param(
            {STATIC: "{'count': '2', 'model': 'Tesla K80', 'mem_size': '12GB', 'pcie_gen_width': '1x16'}"},
            [("n/0", "Tesla K80", 11444), ("n/1", "Tesla K80", 11444)],
            id="no UUIDs: named by node and index",
        ),
        pytest.param({STATIC: '{"count": 1, "mem_size": "1GiB"}'}, [("n/0", "", 1024)], id="a count that is a number"),
        pytest.param({STATIC: '{"count": "1"}', COUNT: "1", VIRTUAL: "8"}, [("n/0", "", 8192)], id="GiB by index"),
        pytest.param(
            {UUIDS: "a", f"{READING}0": "{'mem_used': '11GB', 'mem_free': '1GB', 'pid-mem': [(1, '11094MB')]}"},
            [("a", "", 10490)],
            id="a reading tells the size, less the unit that rounding may have added",
        ),
        pytest.param(
            {UUIDS: "a", f"{READING}0": '{"mem_used": "1000MiB", "mem_free": "15360 MiB"}'},
            [("a", "", 16359)],
            id="a reading in JSON, in MiB",
        ),
        pytest.param(
            {UUIDS: "a,b", STATIC: SIZED_24, f"{READING}1": "{'mem_used': '1GB', 'mem_free': '15GB'}"},
            [("a", "", 24576), ("b", "", 14305)],
            id="a smaller card in a node with different ones",
        ),
        pytest.param(
            {UUIDS: "a", STATIC: SIZED_24, f"{READING}0": "{'mem_used': '24GB', 'mem_free': '24GB'}"},
            [("a", "", 24576)],
            id="a reading never makes a card larger",
        ),
        pytest.param(
            {UUIDS: "a", STATIC: SIZED_24, f"{READING}0": "{'mem_used': '24GB', 'mem_free': '1GB'}"},
            [("a", "", 24576)],
            id="a reading that rounding explains changes nothing",
        ),
        pytest.param(
            {UUIDS: "a", STATIC: SIZED_24, f"{READING}0": "{'mem_used': 'much'}"},
            [("a", "", 24576)],
            id="a reading that says nothing",
        ),
        pytest.param({UUIDS: "", COUNT: "0"}, [], id="a node that says it has none"),
        pytest.param({COUNT: "2"}, [], id="a count alone tells no card"),
    ],
)  # fmt: skip
def test_annotations_tell_cards(annotations: dict[str, str], cards: list[tuple[str, str, int]]) -> None:
    told = concluded(annotations)
    assert [(card.id, card.model, card.memory_mib) for card in told.cards] == cards
    assert told.problems == ()


SIZED = '{"mem_size": "1GiB"}'
HALVES = "{'mem_used': '1GB', 'mem_free': '1GB'}"


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        pytest.param({UUIDS: "a,b", COUNT: "3", STATIC: SIZED}, "is 3 but", id="count and UUIDs differ"),
        pytest.param({UUIDS: "a", STATIC: '{"count": "2", "mem_size": "1GiB"}'}, "is 2 but", id="static counts two"),
        pytest.param({COUNT: "1", STATIC: '{"count": 2}'}, "is 2 but", id="two counts"),
        pytest.param({STATIC: SIZED}, "has no count", id="neither count nor UUIDs"),
        pytest.param({STATIC: '{"count": [2]}'}, "is list, not a number", id="a list of counts"),
        pytest.param({STATIC: '{"count": true}'}, "is bool, not a number", id="a true count"),
        pytest.param({STATIC: '{"count": "65", "mem_size": "1GiB"}'}, "out of range", id="a count of 65"),
        pytest.param({UUIDS: "a", f"{READING}0": "{'mem_used': '1GB'}"}, "told nowhere", id="half a reading"),
        pytest.param({UUIDS: "a", f"{READING}1": HALVES}, "told nowhere", id="of another"),
        pytest.param({UUIDS: "a", f"{READING}0": HALVES.replace("1", "0")}, "has 0 MiB", id="no size left"),
        pytest.param({UUIDS: "a", COUNT: "٣", STATIC: SIZED}, "plain integer", id="an Arabic digit"),
        pytest.param({UUIDS: "a", COUNT: "1e9", STATIC: SIZED}, "plain integer", id="an exponent"),
        pytest.param({UUIDS: "a", COUNT: "9" * 5000, STATIC: SIZED}, "plain integer", id="5,000 digits"),
        pytest.param({UUIDS: "a,a", STATIC: SIZED}, "card 'a' is listed twice", id="a card twice"),
        pytest.param({UUIDS: "a,,b", STATIC: SIZED}, "'' is no card name", id="an empty entry"),
        pytest.param({UUIDS: "ä", STATIC: SIZED}, "is no card name", id="not ASCII"),
        pytest.param({UUIDS: "a\nb", STATIC: SIZED}, "is no card name", id="a newline in a name"),
        pytest.param({UUIDS: "x" * 129, STATIC: SIZED}, "is no card name", id="a long name"),
        pytest.param({UUIDS: "a," * 9000, STATIC: SIZED}, "longer than 16384", id="18,000 characters of names"),
        pytest.param({UUIDS: ",".join(f"g{n}" for n in range(65)), STATIC: SIZED}, "64 are the most", id="65 cards"),
        pytest.param({UUIDS: "a"}, "told nowhere", id="no memory"),
        pytest.param({UUIDS: "a", STATIC: "{}"}, "told nowhere", id="static without memory"),
        pytest.param({UUIDS: "a", STATIC: ""}, "neither JSON nor", id="empty static"),
        pytest.param({UUIDS: "a", STATIC: "[1]"}, "is no mapping", id="static is a list"),
        pytest.param({UUIDS: "a", STATIC: "__import__('os')"}, "neither JSON nor", id="code is not run"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": NaN}'}, "neither JSON nor", id="NaN"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": 1e400}'}, "not text", id="infinite"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": 24}'}, "is int, not text", id="a size without a unit"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": "24TiB"}'}, "is no size", id="an unknown unit"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": "-1GiB"}'}, "is no size", id="negative"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": "٣GiB"}'}, "is no size", id="Unicode digits"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": "0GiB"}'}, "has 0 MiB", id="no memory at all"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": "999999999GiB"}'}, f"1 to {MOST_MEMORY_MIB}", id="too much"),
        pytest.param({UUIDS: "a", STATIC: "{'mem_size': 0x" + "f" * 9000 + "}"}, "not text", id="a huge integer"),
        pytest.param({UUIDS: "a", STATIC: '{"mem_size": ' + "9" * 9000 + "}"}, "neither JSON nor", id="9,000 digits"),
        pytest.param({UUIDS: "a", STATIC: "[" * 5000}, "neither JSON nor", id="5,000 open brackets"),
        pytest.param({UUIDS: "a", STATIC: "[" * 5000 + "]" * 5000}, "neither JSON nor", id="5,000 nested lists"),
        pytest.param({UUIDS: "a", STATIC: "-" * 9000 + "1"}, "neither JSON nor", id="9,000 minus signs"),
        pytest.param(
            {UUIDS: "a", STATIC: '{"model": ' + "[" * 900 + "]" * 900 + ', "mem_size": "1GiB"}'}, "not text", id="deep"
        ),
        pytest.param({UUIDS: "a", STATIC: "{[]: 1}"}, "neither JSON nor", id="a key that cannot be one"),
        pytest.param({UUIDS: "a", STATIC: "\x00"}, "neither JSON nor", id="a null byte"),
        pytest.param({UUIDS: "a", STATIC: "x" * 20_000}, "longer than 16384", id="20,000 characters"),
        pytest.param({UUIDS: "a,b", VIRTUAL: "24"}, "1 entries for 2 cards", id="one size for two cards"),
        pytest.param({UUIDS: "a", VIRTUAL: "0"}, "out of range", id="0 GiB"),
        pytest.param({UUIDS: "a", VIRTUAL: "1.5"}, "plain integer", id="a fraction of a GiB"),
        pytest.param({UUIDS: "a", MISSPELT: "many"}, "plain integer", id="no number under the misspelt key"),
    ],
)  # fmt: skip
def test_annotations_that_make_no_sense_are_named(annotations: dict[str, str], problem: str) -> None:
    told = concluded(annotations)
    assert told.cards == ()
    assert problem in told.problems[0]
    assert names.PREFIX in told.problems[0] or "card" in told.problems[0]
    assert len(told.problems[0]) < 400


# -- labels ------------------------------------------------------------------------------------------------------


def test_labels_tell_equal_cards_named_by_index() -> None:
    assert concluded({}, LABELS).cards == (
        Card("n/0", "A10", 24576, index=0, made_up=True),
        Card("n/1", "A10", 24576, index=1, made_up=True),
    )


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({names.GFD_COUNT: "2"}, names.GFD_MEMORY),
        ({**LABELS, names.GFD_COUNT: "two"}, names.GFD_COUNT),
        ({**LABELS, names.GFD_COUNT: "65"}, "out of range"),
        ({**LABELS, names.GFD_MEMORY: "0"}, "out of range"),
        ({**LABELS, names.GFD_MEMORY: "24Gi"}, "plain integer"),
    ],
)
def test_labels_that_make_no_sense_are_named(labels: dict[str, str], problem: str) -> None:
    told = concluded({}, labels)
    assert told.cards == ()
    assert problem in told.problems[0]


def test_a_count_of_zero_is_no_cards() -> None:
    assert concluded({}, {names.GFD_COUNT: "0"}) == Inventory()


# -- anything ----------------------------------------------------------------------------------------------------

LITERALS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                ["model", "mem_size", "count", "x", "id", "devmem", "devcore", "health", "score"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=10,
)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="[](){}:,'\"0123456789.eE-+ xGiBMN", max_size=200),
    LITERALS.map(repr),
    LITERALS.map(json.dumps),
    st.builds(lambda opened, depth: opened * depth, st.sampled_from("[({-~"), st.integers(1, 5000)),
    st.lists(st.sampled_from(["a", "b", "GPU-1", "", " ", "12", "24"]), max_size=5).map(",".join),
)


@given(
    annotations=st.dictionaries(
        st.sampled_from(
            [UUIDS, COUNT, STATIC, VIRTUAL, MISSPELT, f"{READING}0", names.HAMI_REGISTER, names.HAMI_SCORES]
        ),
        TEXTS,
    ),
    labels=st.dictionaries(st.sampled_from(sorted(LABELS)), TEXTS),
)
@example({UUIDS: "a", STATIC: "{'mem_size': 0x" + "f" * 5000 + "}"}, {})
def test_whatever_a_node_says_it_has_sensible_cards_or_none(
    annotations: dict[str, str], labels: dict[str, str]
) -> None:
    told = concluded(annotations, labels)
    assert len({card.id for card in told.cards}) == len(told.cards) <= 64
    for card in told.cards:
        assert 1 <= card.memory_mib <= MOST_MEMORY_MIB
        assert card.id.isascii()
        assert card.id.isprintable()
        assert "," not in card.id
    assert all(len(problem) < 400 for problem in told.problems)
    assert bool(told.source) is bool(told.cards)
