"""Holdings survive the way into an annotation or a record and back, and junk is refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.api.stages import Stage
from alnair.state.holding import (
    ContainerShare,
    Holding,
    Slice,
    containers_from_json,
    containers_to_json,
    footprint,
    parse_annotation,
    shares_from_json,
    shares_to_json,
)
from unit.replay import peaks

SLICES = st.builds(
    Slice, st.text(min_size=1, max_size=8), st.integers(0, 1 << 26), st.integers(0, 100), st.booleans()
)
STAGES: st.SearchStrategy[Stage] = st.sampled_from(["", "", "Init", "Sidecar"])
SHARES = st.builds(
    ContainerShare, st.text(max_size=8), st.lists(SLICES, max_size=3).map(tuple), st.integers(0, 1024), STAGES
)


@given(st.lists(SHARES, max_size=3).map(tuple))
def test_a_holding_comes_back_as_it_went(containers: tuple[ContainerShare, ...]) -> None:
    as_json = containers_to_json(containers)
    assert containers_from_json(as_json) == containers
    assert parse_annotation(msgspec.json.encode(as_json).decode()) == containers


EXACT = st.builds(ContainerShare, st.text(max_size=8), st.lists(SLICES, min_size=1, max_size=3).map(tuple))
COUNTED = st.builds(ContainerShare, st.text(max_size=8), counted=st.integers(1, 1024))


@given(
    st.lists(EXACT, max_size=3).map(tuple), st.lists(COUNTED, max_size=3, unique_by=lambda share: share.name)
)
def test_a_pods_shares_come_back_from_its_record(
    exact: tuple[ContainerShare, ...], counted: list[ContainerShare]
) -> None:
    assert shares_from_json(shares_to_json((*exact, *counted))) == (*exact, *counted)


@given(st.lists(st.one_of(EXACT, COUNTED), max_size=4), st.lists(STAGES, min_size=4, max_size=4))
def test_a_record_tells_what_a_pod_takes_whatever_its_containers_are(
    shares: list[ContainerShare], stages: list[Stage]
) -> None:
    """Even where the apiserver has put the keys of every map in another order."""
    shares = [
        replace(share, name=f"c{number}", stage=stage)
        for number, (share, stage) in enumerate(zip(shares, stages, strict=False))
    ]
    there = orjson.loads(orjson.dumps(shares_to_json(shares), option=orjson.OPT_SORT_KEYS))
    before, after = Holding("n", tuple(shares)), Holding("n", shares_from_json(there))
    assert sorted(after.footprint(), key=str) == sorted(before.footprint(), key=str)
    assert after.counted == before.counted
    assert {share.name: share for share in after.containers} == {share.name: share for share in shares}


CARDS = st.builds(Slice, st.sampled_from("xyz"), st.integers(1, 100), st.integers(0, 100), st.booleans())
LIVES = st.lists(
    st.builds(
        lambda slices, stage: ContainerShare("c", tuple(slices), stage=stage),
        st.lists(CARDS, max_size=3, unique_by=lambda piece: piece.card),
        STAGES,
    ),
    max_size=6,
)


@given(LIVES)
def test_a_footprint_is_the_most_that_living_through_it_shows(containers: list[ContainerShare]) -> None:
    told = {
        use.card: (use.memory_mib, use.compute_percent, use.slots, use.whole) for use in footprint(containers)
    }
    lived = {
        card: (peak.memory, peak.compute, peak.users, peak.whole) for card, peak in peaks(containers).items()
    }
    assert told == lived


@pytest.mark.parametrize(
    ("stages", "clash"),
    [
        pytest.param(("", ""), True, id="at the same time"),
        pytest.param(("Init", ""), False, id="one after the other"),
        pytest.param(("Init", "Init"), False, id="both before it starts, one after the other"),
        pytest.param(("Sidecar", "Init"), True, id="a sidecar is still there"),
        pytest.param(("Init", "Sidecar"), False, id="a sidecar that comes later is not"),
        pytest.param(("Sidecar", ""), True, id="a sidecar stays"),
    ],
)
def test_a_whole_card_beside_another_container_is_a_clash(stages: tuple[Stage, Stage], clash: bool) -> None:
    whole, part = Slice("x", 100, 100, whole=True), Slice("x", 10, 0)
    both = (ContainerShare("a", (whole,), stage=stages[0]), ContainerShare("b", (part,), stage=stages[1]))
    (use,) = footprint(both)
    assert use.clash is clash


@pytest.mark.parametrize(
    ("stages", "counted"),
    [(("Init", ""), 2), (("", ""), 3), (("Sidecar", "Init"), 3), (("Init", "Sidecar"), 2)],
)
def test_cards_of_a_device_plugin_are_counted_by_moments_too(
    stages: tuple[Stage, Stage], counted: int
) -> None:
    both = (ContainerShare("a", counted=2, stage=stages[0]), ContainerShare("b", counted=1, stage=stages[1]))
    assert Holding("n", both).counted == counted


@pytest.mark.parametrize("counts", [["main"], {"main": -1}, {"main": 1025}, {"main": "1"}, {"main": True}])
def test_counts_that_are_none_are_refused(counts: object) -> None:
    with pytest.raises(ValueError, match=r"gpuCounts|not a number from 0 to 1024"):
        shares_from_json({"gpuCounts": counts})


def test_a_card_of_two_containers_is_told_once() -> None:
    both = (
        ContainerShare("a", (Slice("x", 1, 0), Slice("y", 1, 0))),
        ContainerShare("b", (Slice("x", 1, 0),)),
    )
    assert Holding("n", both).cards == ("x", "y")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unexpected end|Input is a zero-length"),
        ("{}", "not a list"),
        ("[1]", "without a name"),
        ('[{"name": 1}]', "without a name"),
        ('[{"name": "c", "slices": {"a": 1}}]', "is not a list"),
        ('[{"name": "c", "slices": [{}]}]', "without a gpu"),
        ('[{"name": "c", "slices": [{"gpu": ""}]}]', "without a gpu"),
        ('[{"name": "c", "slices": [{"gpu": "x", "memoryMiB": -1}]}]', "memoryMiB is '-1'"),
        ('[{"name": "c", "slices": [{"gpu": "x", "memoryMiB": true}]}]', "memoryMiB is 'True'"),
        ('[{"name": "c", "slices": [{"gpu": "x", "memoryMiB": 1e3}]}]', "memoryMiB is '1000.0'"),
        ('[{"name": "c", "slices": [{"gpu": "x", "memoryMiB": 99999999999}]}]', "from 0 to 67108864"),
        ('[{"name": "c", "slices": [{"gpu": "x", "computePercent": 101}]}]', "from 0 to 100"),
        ('[{"name": "c", "gpuCount": 1025}]', "gpuCount is '1025'"),
        ('[{"name": "c", "stage": "Ini"}]', "stage is 'Ini'"),
        ('[{"name": "c", "stage": ["Init"]}]', "stage is"),
        ("[" + ",".join(['{"name": "c", "stage": "Init"}'] * 129) + "]", "129 containers"),
        ("[" * 5000, "recursion|unexpected end|depth"),
        ("[" + " " * 70_000 + "]", "longer than 65536"),
    ],
    ids=lambda value: value[:40],
)
def test_junk_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_annotation(text)


JUNK: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["name", "slices", "gpu", "memoryMiB", "gpuCount", "stage"]), inner, max_size=3
        ),
    ),
)


@given(JUNK)
def test_anything_is_a_holding_or_a_value_error(value: Any) -> None:
    try:
        containers = containers_from_json(value)
    except ValueError:
        return
    assert all(0 <= piece.memory_mib <= 1 << 26 for share in containers for piece in share.slices)
