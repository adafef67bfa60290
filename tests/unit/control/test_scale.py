"""What a scale subresource answers: a Scale, or a sentence about the target."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.control.elastic.scale import NoTarget, _scale

GOOD: dict[str, Any] = {
    "metadata": {"resourceVersion": "7"},
    "spec": {"replicas": 2},
    "status": {"selector": "a=b"},
}


def test_a_scale_tells_replicas_version_and_selector() -> None:
    found = _scale("/x", GOOD)
    assert (found.replicas, found.version, found.selector) == (2, "7", "a=b")


def test_no_replicas_are_none() -> None:
    assert _scale("/x", {**GOOD, "spec": {}}).replicas == 0


@pytest.mark.parametrize(
    "wrong",
    [{"spec": "x"}, {"spec": {"replicas": "2"}}, {"spec": {"replicas": -1}}, {"spec": {"replicas": 2**31}},
     {"metadata": None}, {"status": 3}],
)  # fmt: skip
def test_anything_else_is_no_target(wrong: dict[str, Any]) -> None:
    with pytest.raises(NoTarget, match="is no Scale"):
        _scale("/x", {**GOOD, **wrong})
