"""Texts and trees from hell: what is valid with something wrong in it, and what was never valid.

Random text is refused at the first character by most parsers. What finds mistakes is an object that is right but for
one thing: a field that is another type, is there twice, is missing, is a number that no machine has, or is text with a
line end in it. So every strategy here starts from valid examples.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

DEEP = 5_000

NUMBERS = (
    "1e999999999999", "-1e999999999999", "NaN", "-NaN", "Infinity", "inf", "1_000", "\u0661\u0662\u0663", "\uff11",
    "0x10", "1e-400", "-0", "-1", "+1", " 1", "1 ", "1\n", "0.1n", "1e64", "1e65", "9" * 19, "9" * 20, "9" * 5_000,
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "1Ei", "8Ei", "1E", "1e", "1..2", ".", "",
    "00",
)  # fmt: skip
TEXTS = (
    "", " ", "\x00", "a\x00b", "line\nend", "line\r\nend", "\x1b[31mred", "\u2028", "\x85", "\u202eright to left",
    "\ud800", "a\udfffb", "\ufeff", "\U0010ffff", "a/b", "../../x", "a b", "x" * 262_144, "{" * DEEP, "[" * DEEP,
    "(" * DEEP, "-" * 60_000, "{'a': " * DEEP, "'" * 1000, "1,2,3", ",", "%s%n", "${x}", "\\u0000",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.5, 1e308,
    float("inf"), float("-inf"), float("nan"), [], {}, [[]], [None], {"": None}, {"a": {"b": []}}, [1, "1", None, {}],
)  # fmt: skip

hostile_texts = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.text(max_size=20),
    st.text(alphabet="0123456789.eE+-_kMGTPinumKi\u0663", max_size=12),
)
hostile_values = st.one_of(st.sampled_from(VALUES).map(copy.deepcopy), hostile_texts)


def _places(tree: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in the tree but the root's."""
    found: list[tuple[Any, ...]] = []
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inside:
        found.append((*here, key))
        found += _places(value, (*here, key))
    return found


def _at(tree: Any, path: Sequence[Any]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


@st.composite
def trees(draw: st.DrawFn, examples: Sequence[Any], *, most: int = 3) -> Any:
    """One of the examples with a few things wrong, mostly; sometimes anything at all."""
    tree = copy.deepcopy(draw(st.sampled_from(list(examples))))
    for _ in range(draw(st.integers(0, most))):
        places = _places(tree)
        if not places:
            return draw(hostile_values)
        path = draw(st.sampled_from(places))
        parent, key = _at(tree, path[:-1]), path[-1]
        match draw(st.integers(0, 8)):
            case 0:
                del parent[key]
            case 1 | 2 | 3:
                parent[key] = draw(hostile_values)
            case 4:
                parent[key] = copy.deepcopy(_at(tree, draw(st.sampled_from(places))))  # another field's
            case 5:
                parent[key] = _retyped(parent[key])
            case 6:
                parent[key] = [parent[key]] if draw(st.booleans()) else {"a": parent[key]}
            case 7 if isinstance(parent, dict):
                parent[draw(hostile_texts)] = copy.deepcopy(parent[key])
            case 7 | 8 if isinstance(parent, list):
                parent += [copy.deepcopy(parent[key]) for _ in range(draw(st.sampled_from((1, 2, 300))))]
            case _ if isinstance(parent[key], str):
                parent[key] = draw(texts([parent[key]]))
    return tree


def _retyped(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else [value]
    if isinstance(value, list):
        return {str(index): each for index, each in enumerate(value)}
    return list(value.items()) if isinstance(value, dict) else "null"


@st.composite
def texts(draw: st.DrawFn, examples: Sequence[str]) -> str:
    """One of the examples, cut, doubled, with a character changed or something from hell in the middle."""
    text = draw(st.sampled_from(list(examples)))
    for _ in range(draw(st.integers(0, 3))):
        if not text:
            break
        start = draw(st.integers(0, len(text) - 1))
        end = min(len(text), start + draw(st.sampled_from((0, 1, 1, 3, 20))))
        match draw(st.integers(0, 4)):
            case 0:
                middle = ""
            case 1:
                middle = "".join(chr(ord(each) ^ (1 << draw(st.integers(0, 6)))) for each in text[start:end])
            case 2:
                middle = text[start:end] * draw(st.sampled_from((2, 100)))
            case 3:
                middle = draw(hostile_texts)
            case _:
                middle = draw(st.characters())
        text = (text[:start] + middle + text[end:])[:300_000]
    return text if draw(st.integers(0, 9)) else draw(hostile_texts)


@st.composite
def json_bytes(draw: st.DrawFn, examples: Sequence[Any]) -> bytes:
    """A tree as JSON that anybody may have written: NaN, keys that stand twice, half characters, nested without end."""
    text = json.dumps(draw(trees(examples)))
    match draw(st.integers(0, 9)):
        case 0:
            text = text.replace(
                "{", draw(st.sampled_from(('{"metadata": 1, ', '{"name": "x", ', '{"": 0,'))), 1
            )
        case 1:
            text = text.replace("{", f'{{"x": {"[" * DEEP}{"]" * DEEP},', 1)
        case 2:
            text = draw(texts([text]))
        case 3:
            data = bytearray(text.encode(errors="surrogatepass"))
            for _ in range(draw(st.integers(1, 4))):
                if data:
                    data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
            return bytes(data)
    return text.encode(errors="surrogatepass")
