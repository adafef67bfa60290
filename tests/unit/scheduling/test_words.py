"""Numbers as people write them: exact, and short where they can be."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alnair.scheduling.words import amount, count, memory, sentence


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0, "0 MiB"),
        (1, "1 MiB"),
        (700, "700 MiB"),
        (1024, "1 GiB"),
        (1280, "1.25 GiB"),
        (1536, "1.5 GiB"),
        (1537, "1537 MiB"),
        (6144, "6 GiB"),
        (12345 * 1024 + 256, "12345.25 GiB"),
    ],
)
def test_memory(mib: int, text: str) -> None:
    assert memory(mib) == text


@given(st.integers(0, 1 << 26))
def test_memory_is_exact(mib: int) -> None:
    number, unit = memory(mib).split()
    assert Fraction(number) * {"MiB": 1, "GiB": 1024}[unit] == mib


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 2000, "2"),
        ("cpu", 1500, "1.5"),
        ("cpu", 1, "0.001"),
        ("cpu", 1_234_567, "1234.567"),
        ("cpu", 2_000_000_000, "2000000"),
        ("memory", 1 << 30, "1 GiB"),
        ("memory", 1000, "1000 bytes"),
        ("ephemeral-storage", 5 << 20, "5 MiB"),
        ("example.com/x", 3, "3"),
    ],
)
def test_amounts(resource: str, value: int, text: str) -> None:
    assert amount(resource, value) == text


def test_one_has_no_s() -> None:
    assert (count(1, "node"), count(2, "node"), count(0, "node")) == ("1 node", "2 nodes", "0 nodes")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the pod waits", "The pod waits."),
        ("6 of 8 fit", "6 of 8 fit."),
        ("is it? yes!", "Is it? yes!"),
        ("  trimmed ", "Trimmed."),
        ("spec.minMember: -1 is not valid", "spec.minMember: -1 is not valid."),
        ("ai.centaurus.io/gpu-memory: 'x'", "ai.centaurus.io/gpu-memory: 'x'."),
        ("", ""),
    ],
)
def test_a_sentence_starts_large_ends_with_a_stop_and_never_respells_a_name(text: str, expected: str) -> None:
    assert sentence(text) == expected


def test_a_sentence_is_one_line_whoever_s_words_are_in_it() -> None:
    assert sentence("spec.minResources.a\nb is not valid") == "spec.minResources.a\\nb is not valid."
