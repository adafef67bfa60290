"""Holdings survive the way into an annotation or a record and back, and junk is refused with a reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.state.holding import (
    ContainerShare,
    Holding,
    Slice,
    containers_from_json,
    containers_to_json,
    parse_annotation,
    shares_from_json,
    shares_to_json,
)

SLICES = st.builds(
    Slice, st.text(min_size=1, max_size=8), st.integers(0, 1 << 26), st.integers(0, 100), st.booleans()
)
SHARES = st.builds(
    ContainerShare, st.text(max_size=8), st.lists(SLICES, max_size=3).map(tuple), st.integers(0, 1024)
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
            st.sampled_from(["name", "slices", "gpu", "memoryMiB", "gpuCount"]), inner, max_size=3
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
