"""Cards as HAMi's device plugin registers them in annotations of the node.

`hami.io/node-nvidia-register` is a JSON list with one object a card; a field that is 0, false or empty is left out, so
what is absent means exactly that: `health` is false, `index` and `numa` are 0. `devmem` is MiB and is believed as it
stands, scaled up or not: what more a card lends from the host's memory is HAMi's promise. `hami.io/node-nvidia-score`,
where HAMi is told to publish it, says how well two cards are linked: the larger the better.

A card that cannot be shared by memory (MIG, or any mode but HAMi-core's), or with less than all of its compute, or with
no slots, is there and takes nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from alnair.api import names
from alnair.api.gpurequest import MOST_MEMORY_MIB
from alnair.api.quantity import BadQuantity, integer, shown
from alnair.state.inventory.cards import (
    LONGEST_ANNOTATION,
    LONGEST_CARD_NAME,
    MOST_CARDS_A_NODE,
    MOST_SLOTS,
    Card,
    Unreadable,
)

SHARED_BY_MEMORY = ("", "hami-core")
LARGEST_NUMA = 999
LONGEST_SCORES = 131_072  # 48 cards, each with a score for each other
# Distance = this less the score: HAMi gives 10 for cards of two sockets up to 60 for one board, and 100 more for each
# NVLink, of which there are at most 18.
FARTHEST = 2_000
# HAMi puts this before NVIDIA's own name of the model, which often starts with it already.
PREFIX = "NVIDIA-"
NVIDIAS_FIRST_WORDS = ("NVIDIA-", "Tesla-", "GeForce-", "Quadro-", "TITAN-")


def read(annotations: Mapping[str, str], remarks: list[str]) -> list[Card]:
    """`remarks`: what is wrong and no reason not to believe the rest."""
    text = annotations.get(names.HAMI_REGISTER)
    if text is None or not text.strip():
        return []
    field = names.HAMI_REGISTER
    entries = _list(text, field, longest=LONGEST_ANNOTATION)
    if len(entries) > MOST_CARDS_A_NODE:
        raise Unreadable(f"{field}: {len(entries)} cards on one node; {MOST_CARDS_A_NODE} are the most")
    cards = [_card(entry, f"{field}[{position}]") for position, entry in enumerate(entries)]
    scores = annotations.get(names.HAMI_SCORES, "")
    if cards and scores.strip():
        try:
            return _linked(cards, scores)
        except (Unreadable, BadQuantity) as error:
            remarks.append(f"{error}; the cards count as not linked")
    return cards


def _list(text: str, field: str, *, longest: int) -> list[Any]:
    if len(text) > longest:
        raise Unreadable(f"{field} is longer than {longest} characters")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        hint = " (the text form of old releases is not read: upgrade HAMi)" if text.count(",") > 4 else ""
        raise Unreadable(f"{field}: {shown(text)} is no JSON{hint}") from None
    if not isinstance(value, list):
        raise Unreadable(f"{field}: {shown(text)} is no list")
    return value


def _card(entry: object, field: str) -> Card:
    if not isinstance(entry, dict):
        raise Unreadable(f"{field} is {type(entry).__name__}, not an object")
    health = entry.get("health", False)
    if not isinstance(health, bool):
        raise Unreadable(f"{field}.health: {shown(health)} is neither true nor false")
    slots = _number(entry, "count", field, high=MOST_SLOTS)
    why = _why_closed(_text(entry, "mode", field), _number(entry, "devcore", field, high=100_000), slots)
    return Card(
        _text(entry, "id", field),
        model_name(_text(entry, "type", field)),
        _number(entry, "devmem", field, high=MOST_MEMORY_MIB),
        healthy=health and not why,
        index=_number(entry, "index", field, high=999),
        numa=_number(entry, "numa", field, low=-1, high=LARGEST_NUMA),
        slots=slots,
        why=why,
    )


def _why_closed(mode: str, cores: int, slots: int) -> str:
    if mode not in SHARED_BY_MEMORY:
        return f"mode {shown(mode)} is not shared by memory"
    if cores < 100:
        return f"devcore is {cores}, less than the whole card"
    return "" if slots else "count is 0"


def _number(entry: dict[str, Any], key: str, field: str, *, low: int = 0, high: int) -> int:
    value = entry.get(key, 0)
    if type(value) is not int:
        raise Unreadable(f"{field}.{key} is {type(value).__name__}, not a whole number")
    return integer(value, field=f"{field}.{key}", low=low, high=high)


def _text(entry: dict[str, Any], key: str, field: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str) or len(value) > LONGEST_CARD_NAME:
        raise Unreadable(
            f"{field}.{key}: {shown(value)} is no text of at most {LONGEST_CARD_NAME} characters"
        )
    return value


def model_name(told: str) -> str:
    """The model as every other source calls it, so that one selection finds it everywhere: NVIDIA's own name, with
    dashes for spaces."""
    dashed = told.replace(" ", "-")
    rest = dashed.removeprefix(PREFIX)
    return rest if rest.startswith(NVIDIAS_FIRST_WORDS) else dashed


def _linked(cards: list[Card], text: str) -> list[Card]:
    """The cards with their links."""
    field = names.HAMI_SCORES
    there = {card.id for card in cards}
    links: dict[str, tuple[tuple[str, int], ...]] = {}
    for position, entry in enumerate(_list(text, field, longest=LONGEST_SCORES)):
        where = f"{field}[{position}]"
        scores = entry.get("score", {}) if isinstance(entry, dict) else None
        if not isinstance(scores, dict):
            raise Unreadable(f"{where} has no map 'score'")
        links[_text(entry, "uuid", where)] = tuple(
            (other, FARTHEST - _number(scores, other, f"{where}.score", high=FARTHEST))
            for other in sorted(scores)
            if other in there and other != entry.get("uuid")
        )
    return [replace(card, links=links.get(card.id, ())) for card in cards]
