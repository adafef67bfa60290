"""What shapes share, and that nothing of them outlives their pods."""

from __future__ import annotations

import gc
import weakref

from alnair.state.shapes import PodShape, but_amounts


def shape(cpu: int, selector: str = "a") -> PodShape:
    return PodShape(requests=(("cpu", cpu), ("pods", 1)), node_selector=(("zone", selector),))


def test_shapes_that_differ_only_in_amounts_share_one_object() -> None:
    one, other, elsewhere = shape(1), shape(2), shape(1, "b")
    assert but_amounts(one) is but_amounts(other)
    assert but_amounts(one) == but_amounts(shape(3))
    assert but_amounts(one) != but_amounts(elsewhere)


def test_what_they_share_goes_with_the_last_of_them() -> None:
    one, other = shape(1), shape(2)
    shared = weakref.ref(but_amounts(one))
    assert but_amounts(other) is shared()
    del one
    gc.collect()
    assert shared() is not None
    del other
    gc.collect()
    assert shared() is None
