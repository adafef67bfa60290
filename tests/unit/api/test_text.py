"""Others' words in our lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alnair.api.text import one_line


def test_plain_text_stays_as_it_is() -> None:
    assert one_line("6 GiB of GPU-1 für Anaïs, 第1") == "6 GiB of GPU-1 für Anaïs, 第1"


def test_what_ends_a_line_is_escaped() -> None:
    assert one_line("a\nb\r\x00\x1b[31m\ud800\u2028") == "a\\nb\\r\\x00\\x1b[31m\\ud800\\u2028"


@given(st.text(), st.integers(2, 50))
def test_any_text_is_one_line_of_so_many_characters(text: str, most: int) -> None:
    found = one_line(text, most=most)
    assert found.isprintable()
    assert len(found) <= most
    found.encode()
