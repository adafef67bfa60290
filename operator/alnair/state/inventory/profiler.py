"""Cards as Alnair's profiler annotates a node (`ai.centaurus.io/…`).

`physical-gpu-uuids` and `physical-gpu-count` say which cards there are, `gpu-static` their model and one size for all
({count, model, mem_size}; JSON, or the Python literal that older profilers write), `virtual-gpu-count` (also misspelt)
the GiB of each. Where no UUIDs are told, `gpu-static` with a count tells cards by index. `gpu-<i>`, one card's
readings, tells its size where nothing better does, and that a card is smaller than `gpu-static` says of all: in a node
with different cards that is the size of the first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import orjson

from alnair.api import names
from alnair.api.gpurequest import MOST_MEMORY_MIB
from alnair.api.quantity import integer, shown
from alnair.state.inventory.cards import (
    LONGEST_ANNOTATION,
    LONGEST_CARD_NAME,
    MOST_CARDS_A_NODE,
    Card,
    Unreadable,
    made_up_name,
)
from alnair.state.readings import ROUNDING_MIB, SIZE, UNREADABLE, bytes_of

# What an escape in a Python literal may make, and no JSON can say again.
_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")


def read(node: str, annotations: Mapping[str, str]) -> list[Card]:
    static = _mapping(annotations.get(names.GPU_STATIC), names.GPU_STATIC)
    uuids = _uuids(annotations)
    count = _count(annotations, static, len(uuids) if uuids is not None else None)
    if not count:
        return []
    model = _text(static, "model")[:LONGEST_CARD_NAME]
    sizes = _sizes(annotations, static, count)
    return [
        Card(
            uuids[index] if uuids is not None else made_up_name(node, index),
            model,
            size,
            index=index,
            made_up=uuids is None,
        )
        for index, size in enumerate(sizes)
    ]


def _uuids(annotations: Mapping[str, str]) -> list[str] | None:
    """None: nobody tells any. An empty list: there are none."""
    text = annotations.get(names.PHYSICAL_GPU_UUIDS)
    if text is None:
        return None
    if len(text) > LONGEST_ANNOTATION:
        raise Unreadable(f"{names.PHYSICAL_GPU_UUIDS} is longer than {LONGEST_ANNOTATION} characters")
    return [part.strip(" ") for part in text.split(",")] if text.strip(" ") else []


def _count(annotations: Mapping[str, str], static: Mapping[str, Any], listed: int | None) -> int:
    """How many cards: all who say a number must say the same. A number without any sizes or names tells no card."""
    told: list[tuple[str, int]] = []
    if listed is not None:
        told.append((names.PHYSICAL_GPU_UUIDS, listed))
    if names.PHYSICAL_GPU_COUNT in annotations:
        text: Any = annotations[names.PHYSICAL_GPU_COUNT]
        told.append((names.PHYSICAL_GPU_COUNT, _card_count(text, names.PHYSICAL_GPU_COUNT)))
    if "count" in static:
        field = f"{names.GPU_STATIC}[count]"
        told.append((field, _card_count(static["count"], field)))
    if listed is None and names.GPU_STATIC not in annotations:
        return 0
    if not told:
        raise Unreadable(
            f"{names.GPU_STATIC} has no count, and {names.PHYSICAL_GPU_UUIDS} is missing: which cards are there?"
        )
    (first, count), *others = told
    for other, number in others:
        if number != count:
            # The order of words is that of the list: "count is 3 but the UUIDs list 2".
            raise Unreadable(f"{other} is {number} but {first} {_verb(first)} {count} cards")
    return count


def _verb(field: str) -> str:
    return "lists" if field == names.PHYSICAL_GPU_UUIDS else "says"


def _card_count(value: Any, field: str) -> int:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise Unreadable(f"{field} is {type(value).__name__}, not a number")
    return integer(value, field=field, low=0, high=MOST_CARDS_A_NODE)


# -- memory ------------------------------------------------------------------------------------------------------


def _sizes(annotations: Mapping[str, str], static: Mapping[str, Any], count: int) -> list[int]:
    """MiB of each card."""
    if (listed := _listed_sizes(annotations, count)) is not None:
        return listed
    one_for_all = None
    if "mem_size" in static:
        one_for_all = _size(_text(static, "mem_size"), field=f"{names.GPU_STATIC}[mem_size]")
    return [
        _size_of(annotations.get(f"{names.PREFIX}gpu-{index}"), one_for_all, index) for index in range(count)
    ]


def _listed_sizes(annotations: Mapping[str, str], count: int) -> list[int] | None:
    """GiB card by card."""
    for key in (names.VIRTUAL_GPU_COUNT, names.VIRTUAL_GPU_COUNT_MISSPELT):
        if key in annotations:
            parts = annotations[key][:LONGEST_ANNOTATION].split(",")
            if len(parts) != count:
                raise Unreadable(
                    f"{key}: {shown(annotations[key])} has {len(parts)} entries for {count} cards"
                )
            return [
                1024 * integer(part.strip(" "), field=key, low=1, high=MOST_MEMORY_MIB // 1024)
                for part in parts
            ]
    return None


def _size_of(reading: str | None, one_for_all: int | None, index: int) -> int:
    """One card's MiB, from what `gpu-static` says of all and what was read of it (see `readings.card_read`)."""
    told = int(reading) if reading is not None and reading != UNREADABLE else None
    if one_for_all is None and told is None:
        raise Unreadable(
            f"the memory of card {index} is told nowhere: set mem_size in {names.GPU_STATIC}, or "
            f"{names.VIRTUAL_GPU_COUNT}, or mem_used and mem_free in {names.PREFIX}gpu-{index}"
        )
    if told is None or (one_for_all is not None and told > one_for_all - ROUNDING_MIB):
        return one_for_all or 0
    return told


def _size(text: str, *, field: str) -> int:
    match = SIZE.fullmatch(text)
    if not match:
        raise Unreadable(f"{field}: {shown(text)} is no size; write for example 24GiB or 24576MiB")
    return bytes_of(match) >> 20


# -- gpu-static --------------------------------------------------------------------------------------------------


def _text(static: Mapping[str, Any], key: str) -> str:
    # Only text is looked at: printing a huge integer or a deep list raises by itself.
    value = static.get(key, "")
    if not isinstance(value, str):
        raise Unreadable(f"{names.GPU_STATIC}[{key}] is {type(value).__name__}, not text")
    if _HALF_A_CHARACTER.search(value):
        raise Unreadable(f"{names.GPU_STATIC}[{key}]: {shown(value)} holds half a character")
    return value


def _mapping(text: str | None, field: str) -> dict[str, Any]:
    """A JSON object, or the Python literal that older profilers write. Never evaluated."""
    if text is None:
        return {}
    if len(text) > LONGEST_ANNOTATION:
        raise Unreadable(f"{field} is longer than {LONGEST_ANNOTATION} characters")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
            raise Unreadable(f"{field}: {shown(text)} is neither JSON nor a Python literal") from error
    if not isinstance(value, dict):
        raise Unreadable(f"{field}: {shown(text)} is no mapping")
    return value
