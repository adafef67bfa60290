"""Quantities: what Kubernetes means, exactly, and nothing that Kubernetes does not mean."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alnair.api.quantity import LARGEST, BadQuantity, integer, mib, milli, nano, shown, whole

SUFFIXES: dict[str, Fraction | int] = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "in_milli", "in_units"),
    [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("+1", 1000, 1),
        ("500m", 500, 1),
        ("1500m", 1500, 2),
        ("0.1", 100, 1),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("1n", 1, 1),
        ("1u", 1, 1),
        ("2k", 2_000_000, 2000),
        ("1Ki", 1_024_000, 1024),
        ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("1e+3", 1_000_000, 1000),
        ("1e-3", 1, 1),
        ("1e-64", 1, 1),
        ("007", 7000, 7),
        (7, 7000, 7),
        (0, 0, 0),
        (0.5, 500, 1),
        (1e-07, 1, 1),
    ],
)
def test_a_quantity_is_read_and_rounded_up(value: Any, in_milli: int, in_units: int) -> None:
    assert milli(value, field="cpu") == in_milli
    assert whole(value, field="cpu") == in_units


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1Mi", 1),
        ("1048577", 2),
        ("6Gi", 6144),
        ("6000Mi", 6000),
        ("1M", 1),
        ("0", 0),
        ("1", 1),
        ("16G", 15259),
    ],
)
def test_bytes_become_mib_rounded_up(value: str, expected: int) -> None:
    assert mib(value, field="memory") == expected


BAD = [
    "", " ", "1 ", " 1", "1\n", "\n1", "1\x00", "NaN", "nan", "inf", "Infinity", "1_000", "1,000", "٣", "١٢٣",
    "\uff11", "²",
    "-1", "-0.5", "-1Gi", "--1", "+-1", "++1", "1e", "e3", "E", "Ki", ".", "+", "1.2.3", "1KiB", "1kb", "1K", "1ki",
    "1 Gi", "1Gi ", "0x10", "1e3.5", "1ee3", "1e3Ki", "1e999999999999", "1E+999999999999", "1e-999999999999", "0e65",
    "1e65", "9223372036854775808", "8Ei", "9e18k", "1e19", "9" * 65, "0" * 65, "1" * 300_000, "\ud800", "1\u200b",
    "True", "null", "{}",
]  # fmt: skip


@pytest.mark.parametrize("read", [milli, whole, mib, nano])
@pytest.mark.parametrize("value", BAD, ids=lambda value: ascii(value[:20]))
def test_what_is_no_quantity_is_refused_by_field_and_value(read: Any, value: str) -> None:
    with pytest.raises(BadQuantity) as refusal:
        read(value, field="spec.minResources.cpu")
    message = str(refusal.value)
    assert message.startswith(f"spec.minResources.cpu: {shown(value)} ")
    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 200


@pytest.mark.parametrize(
    "value",
    [
        -1,
        2**63,
        10**5000,
        -(10**5000),
        True,
        False,
        None,
        [],
        {},
        b"1",
        math.nan,
        math.inf,
        -math.inf,
        -0.5,
        1e300,
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_json_that_is_no_quantity_is_refused(value: Any) -> None:
    with pytest.raises(BadQuantity, match=r"^cpu: "):
        whole(value, field="cpu")


def test_the_bounds_are_exact() -> None:
    assert whole("9223372036854775807", field="x") == LARGEST
    assert whole(LARGEST, field="x") == LARGEST
    assert milli("9223372036854775.807", field="x") == LARGEST
    for value in ("9223372036854775.8071", 9223372036854776):
        with pytest.raises(BadQuantity, match="too large"):
            milli(value, field="x")


def test_billionths_reach_as_far_as_units_do() -> None:
    assert nano(LARGEST, field="x") == nano(str(LARGEST), field="x") == LARGEST * 10**9
    for value in (LARGEST + 1, f"{LARGEST}.1", "8Ei"):
        with pytest.raises(BadQuantity, match="too large"):
            nano(value, field="x")


def test_absurd_text_costs_nothing() -> None:
    began = time.perf_counter()
    for number in range(1000):
        with pytest.raises(BadQuantity):
            milli(f"{number}e999999999999", field="x")
    assert time.perf_counter() - began < 1


@given(
    digits=st.from_regex(r"[0-9]{1,15}", fullmatch=True),
    fraction=st.from_regex(r"(\.[0-9]{0,12})?", fullmatch=True),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_every_suffix_agrees_with_exact_arithmetic(digits: str, fraction: str, suffix: str) -> None:
    exact = Fraction((digits + fraction).rstrip(".")) * SUFFIXES[suffix]
    for read, scale, most in ((milli, 1000, LARGEST), (whole, 1, LARGEST), (nano, 10**9, LARGEST * 10**9)):
        expected = math.ceil(exact * scale)
        if expected > most:
            with pytest.raises(BadQuantity, match="too large"):
                read(digits + fraction + suffix, field="x")
        else:
            assert read(digits + fraction + suffix, field="x") == expected


@given(mantissa=st.integers(0, 10**6), exponent=st.integers(-64, 64), letter=st.sampled_from("eE"))
def test_exponents_agree_with_exact_arithmetic(mantissa: int, exponent: int, letter: str) -> None:
    expected = math.ceil(mantissa * Fraction(10) ** exponent)
    text = f"{mantissa}{letter}{exponent}"
    if expected > LARGEST:
        with pytest.raises(BadQuantity):
            whole(text, field="x")
    else:
        assert whole(text, field="x") == expected


@given(st.floats(min_value=0, max_value=1e12, allow_subnormal=False).filter(lambda x: x == 0 or x > 1e-60))
def test_a_json_float_is_read_as_it_is_printed(value: float) -> None:
    assert whole(value, field="x") == math.ceil(Fraction(repr(value)))


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.binary(), st.lists(st.integers())))
@example("1e999999999999")
def test_anything_gives_a_number_in_range_or_a_refusal(value: Any) -> None:
    try:
        number = milli(value, field="x")
    except BadQuantity:
        return
    assert 0 <= number <= LARGEST


@pytest.mark.parametrize("text", ["0", "1", "100", 0, 100])
def test_a_plain_integer_is_read(text: Any) -> None:
    assert integer(text, field="x", low=0, high=100) == int(text)


@pytest.mark.parametrize(
    "text",
    ["", "01", "+1", "-1", "1.0", "1e2", "1_0", "٣", " 1", "1\n", "101", "9" * 20, "1" * 10**6, -1, 101, True, 1.0],
)  # fmt: skip
def test_what_is_no_plain_integer_in_range_is_refused_with_the_range(text: Any) -> None:
    with pytest.raises(BadQuantity, match=r"^count: .*0 to 100"):
        integer(text, field="count", low=0, high=100)


@given(st.one_of(st.text(), st.integers(), st.binary()))
def test_a_shown_value_is_one_short_printable_line(value: Any) -> None:
    text = shown(value)
    assert len(text) <= 80
    assert text.isascii()
    assert text.isprintable()
