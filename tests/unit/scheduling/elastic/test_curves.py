"""Speed-up curves: whatever they are made of, they are concave, never fall, and are 1 at one member."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.scheduling.elastic.curves import Curve, default, fitted, from_points
from alnair.scheduling.elastic.throughput import measurements
from alnair.state.pods import LONGEST_MEASUREMENT

POINTS = st.lists(st.tuples(st.integers(-2, 40), st.floats()), max_size=8)


def must_be_a_curve(curve: Curve) -> None:
    gains = [curve.gain(members) for members in range(60)]
    assert curve.at(0) == 0
    assert curve.at(1) == pytest.approx(1)
    assert all(gain >= -1e-9 for gain in gains)
    assert all(after <= before + 1e-9 for before, after in pairwise(gains))


@given(POINTS)
def test_any_points_make_a_curve(points: list[tuple[int, float]]) -> None:
    must_be_a_curve(from_points(points))


@given(POINTS, st.integers(1, 40))
def test_any_measurements_make_a_curve(points: list[tuple[int, float]], most: int) -> None:
    must_be_a_curve(fitted(points, default(most)))


@given(st.integers(1, 300), st.integers(0, 8), st.integers(0, 16), st.integers(0, 64))
def test_the_default_is_a_curve(most: int, link: int, node: int, rack: int) -> None:
    must_be_a_curve(default(most, link=link, node=node, rack=rack))


def test_a_curve_passes_through_concave_points_and_is_straight_between_them_and_flat_beyond() -> None:
    curve = from_points([(1, 1.0), (2, 1.8), (4, 3.0)])
    assert [curve.at(members) for members in range(1, 7)] == pytest.approx([1.0, 1.8, 2.4, 3.0, 3.0, 3.0])


def test_a_dent_is_bridged() -> None:
    assert from_points([(2, 1.1), (3, 2.5)]).at(2) == pytest.approx(1.75)


def test_points_are_relative_to_one_member_if_it_is_among_them() -> None:
    assert from_points([(1, 200.0), (2, 300.0)]).at(2) == pytest.approx(1.5)


def test_filling_an_nvlink_set_and_a_node_is_worth_more_than_spilling_over() -> None:
    curve = default(16, link=4, node=8)
    assert curve.gain(3) > 1.1 * curve.gain(4)
    assert curve.gain(7) > 1.1 * curve.gain(8)


def test_a_farther_link_is_slower() -> None:
    assert default(16, node=16).at(16) > default(16, node=8, rack=16).at(16) > default(16, node=8).at(16)


def test_the_measured_overhead_is_found_again() -> None:
    def speed(members: int) -> float:
        return members / (1 + 0.03 * (members - 1))

    prior = from_points((members, members / (1 + 0.1 * (members - 1))) for members in range(1, 17))
    curve = fitted([(members, 250 * speed(members)) for members in (2, 3, 6)], prior)
    assert [curve.at(members) for members in (4, 8, 16)] == pytest.approx([speed(n) for n in (4, 8, 16)])


def test_one_measured_size_says_nothing_of_the_shape() -> None:
    assert fitted([(4, 100.0), (4, 120.0)], default(8)) == default(8)


def test_one_wild_measurement_among_many_does_not_bend_the_curve() -> None:
    honest = [(1, 100.0)] * 5 + [(4, 360.0)] * 5
    assert fitted([*honest, (4, 9000.0)], default(8)) == fitted(honest, default(8))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("512.5", [(3, 512.5)]),
        ("512.5@4", [(4, 512.5)]),
        (" 140@1, 270 @ 2 ,5e2@4", [(1, 140.0), (2, 270.0), (4, 500.0)]),
        ("fast,-1,0,inf,nan,1e999,12@0,12@999999,1.2.3,@4,7@,٣@4,8", [(3, 8.0)]),
        ("", []),
        ("1," * LONGEST_MEASUREMENT, []),
    ],
)
def test_throughput_is_read_and_nonsense_passed_over(text: str, found: list[tuple[int, float]]) -> None:
    assert list(measurements(text, 3)) == found


@given(st.text(), st.integers(-5, 20_000))
def test_no_text_is_too_strange(text: str, size: int) -> None:
    assert all(members >= 1 and throughput > 0 for members, throughput in measurements(text, size))


@pytest.mark.parametrize(("most", "node"), [(5, 4), (9, 8), (7, 2), (8, 8), (3, 0)])
def test_every_member_that_the_author_allows_is_worth_something_by_default(most: int, node: int) -> None:
    curve = default(most, node=node)
    assert all(curve.gain(members) > 0 for members in range(1, most))
    assert curve.gain(most) == 0, "nobody has promised more"
