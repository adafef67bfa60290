"""Which cards a node has, concluded from whoever tells.

The sources, best first; the first that says anything about a node is believed alone, never mixed with another:
1. NodeResourceTopology zones of type GPU: the only one that can describe different cards in one node;
2. the profiler's annotations `physical-gpu-*` and `gpu-static`;
3. GFD's labels `nvidia.com/gpu.*`: equal cards, no UUIDs, so they are named `NODE/INDEX`.

Nothing is guessed upwards: memory that cannot be read is an error of that card, never infinite.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import orjson

from alnair.api import names
from alnair.api.gpurequest import MOST_MEMORY_MIB
from alnair.api.quantity import BadQuantity, integer, shown, whole
from alnair.api.topology import ZONE_GPU, NodeResourceTopology
from alnair.state.nodes import Node

MOST_CARDS_A_NODE = 64
LONGEST_ANNOTATION = 16_384
LONGEST_CARD_NAME = 128


class Unreadable(ValueError):
    """A source that is there but cannot be understood. The message names the field and the value."""


@dataclass(frozen=True, slots=True)
class Card:
    """One physical card. `id` is its UUID, or NODE/INDEX where nobody tells the UUID."""

    id: str
    model: str
    memory_mib: int
    healthy: bool = True
    index: int = 0  # as the driver counts it
    numa: int = -1  # NUMA node that it hangs on; -1 = nobody tells
    links: tuple[tuple[str, int], ...] = ()  # (id of another card of the node, distance): smaller is nearer


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cards of one node, who told, and what could not be read."""

    cards: tuple[Card, ...] = ()
    source: str = ""
    problems: tuple[str, ...] = ()
    renamed: bool = False  # closed, see guard_against_renaming


NO_CARDS = Inventory()


def conclude(node: Node, topology: NodeResourceTopology | None) -> Inventory:
    sources: tuple[tuple[str, Callable[[], list[Card]]], ...] = (
        ("NodeResourceTopology", lambda: _from_topology(topology) if topology else []),
        ("annotations", lambda: _from_annotations(dict(node.annotations))),
        ("labels", lambda: _from_labels(node.name, node.labels)),
    )
    problems: list[str] = []
    for source, read in sources:
        try:
            cards = read()
            _check(cards)
        except (Unreadable, BadQuantity) as error:
            problems.append(f"{source}: {error}")
            continue
        if cards:
            return Inventory(tuple(cards), source, tuple(problems))
    return Inventory(problems=tuple(problems)) if problems else NO_CARDS


def guard_against_renaming(inventory: Inventory, before: Inventory, held: Set[str]) -> Inventory:
    """Close the node's cards while pods hold some of them under names that another source gave them.

    When the source that told UUIDs falls silent, the next one calls the same cards NODE/INDEX. Read naively, all that
    is held would vanish from the books and the full cards be given out again. A card that vanishes while its source
    goes on speaking, and names no new one, is no renaming. At a start, with nothing to compare, it is one if none of
    the names is known.
    """
    known = {card.id for card in inventory.cards}
    unknown = sorted(held - known)
    if not before.source:
        suspicious = held.isdisjoint(known)
    else:
        new_names = known - {card.id for card in before.cards}
        suspicious = before.renamed or before.source != inventory.source or bool(new_names)
    if not unknown or not suspicious or not inventory.cards:
        return inventory
    problem = (
        f"the cards are now told by {inventory.source} under other names, but pods still hold "
        f"{', '.join(unknown[:3])}; nothing new is placed on them until those pods end or the names come back"
    )
    closed = tuple(replace(card, healthy=False) for card in inventory.cards)
    return Inventory(closed, inventory.source, (*inventory.problems, problem), renamed=True)


def _check(cards: list[Card]) -> None:
    if len(cards) > MOST_CARDS_A_NODE:
        raise Unreadable(f"{len(cards)} cards on one node; {MOST_CARDS_A_NODE} are the most")
    ids = [card.id for card in cards]
    if len(set(ids)) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise Unreadable(f"card {shown(twice)} is listed twice")
    for card in cards:
        if (
            not card.id
            or len(card.id) > LONGEST_CARD_NAME
            or not card.id.isascii()
            or not card.id.isprintable()
        ):
            raise Unreadable(
                f"{shown(card.id)} is no card name (1 to {LONGEST_CARD_NAME} printable ASCII characters)"
            )
        if "," in card.id:
            raise Unreadable(f"card name {shown(card.id)} holds a comma")
        if not 1 <= card.memory_mib <= MOST_MEMORY_MIB:
            raise Unreadable(f"card {card.id} has {card.memory_mib} MiB; 1 to {MOST_MEMORY_MIB} are possible")


# -- NodeResourceTopology ------------------------------------------------------------------------------------


def _from_topology(topology: NodeResourceTopology) -> list[Card]:
    zones = [zone for zone in topology.zones if zone.type == ZONE_GPU]
    ids = {zone.name: zone.name if (uuid := zone.attribute("uuid")) is None else uuid for zone in zones}
    cards = []
    for position, zone in enumerate(zones):
        memory = next(
            (resource.capacity for resource in zone.resources or () if resource.name == "memory"), None
        )
        if memory is None:
            raise Unreadable(f"zone {shown(zone.name)} of type GPU has no resource 'memory'")
        health = (zone.attribute("health") or "healthy").lower()
        cards.append(
            Card(
                ids[zone.name],
                zone.attribute("model") or "",
                whole(memory, field=f"zones[{zone.name}].resources[memory].capacity") >> 20,
                healthy=health in ("healthy", "true"),
                index=_index(zone.attribute("index"), otherwise=position),
                numa=numa_number(zone.parent or ""),
                links=tuple(
                    (ids[cost.name], cost.value)
                    for cost in zone.costs or ()
                    if cost.name in ids and cost.name != zone.name
                ),
            )
        )
    return cards


def _index(text: str | None, *, otherwise: int) -> int:
    return (
        int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 4 else otherwise
    )


def numa_number(zone: str) -> int:
    """The number of the NUMA node that a zone `node-3` is; -1 where the name tells none."""
    number = zone.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 4 else -1


# -- annotations of the profiler -----------------------------------------------------------------------------


def _from_annotations(annotations: Mapping[str, str]) -> list[Card]:
    uuids_text = annotations.get(names.PHYSICAL_GPU_UUIDS)
    if uuids_text is None:
        return []
    if len(uuids_text) > LONGEST_ANNOTATION:
        raise Unreadable(f"{names.PHYSICAL_GPU_UUIDS} is longer than {LONGEST_ANNOTATION} characters")
    uuids = [part.strip(" ") for part in uuids_text.split(",")] if uuids_text.strip(" ") else []
    if (count_text := annotations.get(names.PHYSICAL_GPU_COUNT)) is not None:
        count = integer(count_text, field=names.PHYSICAL_GPU_COUNT, low=0, high=MOST_CARDS_A_NODE)
        if count != len(uuids):
            raise Unreadable(
                f"{names.PHYSICAL_GPU_COUNT} is {count} but {names.PHYSICAL_GPU_UUIDS} lists {len(uuids)} cards"
            )
    if not uuids:
        return []
    static = _mapping(annotations.get(names.GPU_STATIC), names.GPU_STATIC)
    model = _text(static, "model", otherwise="")[:LONGEST_CARD_NAME]
    return [
        Card(uuid, model, size, index=index)
        for index, (uuid, size) in enumerate(
            zip(uuids, _memory_of_each(annotations, static, len(uuids)), strict=True)
        )
    ]


def _memory_of_each(annotations: Mapping[str, str], static: Mapping[str, Any], count: int) -> list[int]:
    """MiB of each card: `virtual-gpu-count` tells GiB card by card, `gpu-static` one size for all."""
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
    if "mem_size" not in static:
        raise Unreadable(
            f"the cards' memory is told nowhere: set mem_size in {names.GPU_STATIC} or {names.VIRTUAL_GPU_COUNT}"
        )
    return [_size(_text(static, "mem_size"), field=f"{names.GPU_STATIC}[mem_size]")] * count


def _text(static: Mapping[str, Any], key: str, *, otherwise: str = "") -> str:
    # Only text is looked at: printing a huge integer or a deep list raises by itself.
    value = static.get(key, otherwise)
    if not isinstance(value, str):
        raise Unreadable(f"{names.GPU_STATIC}[{key}] is {type(value).__name__}, not text")
    return value


_SIZE = re.compile(r"([0-9]{1,9})\s?(MB|GB|MiB|GiB|Mi|Gi|M|G)", re.ASCII)
# GB is read as decimal: a "12GB" card has 11,441 MiB, and 12 GiB would be more than there is.
_BYTES = {"M": 10**6, "G": 10**9, "Mi": 1 << 20, "Gi": 1 << 30}


def _size(text: str, *, field: str) -> int:
    match = _SIZE.fullmatch(text)
    if not match:
        raise Unreadable(f"{field}: {shown(text)} is no size; write for example 24GiB or 24576MiB")
    return int(match[1]) * _BYTES[match[2].removesuffix("B")] >> 20


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


# -- labels of GPU feature discovery -------------------------------------------------------------------------


def _from_labels(node: str, labels: Mapping[str, str]) -> list[Card]:
    if names.GFD_COUNT not in labels:
        return []
    count = integer(labels[names.GFD_COUNT], field=names.GFD_COUNT, low=0, high=MOST_CARDS_A_NODE)
    if count == 0:
        return []
    if names.GFD_MEMORY not in labels:
        raise Unreadable(f"label {names.GFD_MEMORY} is missing beside {names.GFD_COUNT}")
    memory = integer(labels[names.GFD_MEMORY], field=names.GFD_MEMORY, low=1, high=MOST_MEMORY_MIB)
    model = labels.get(names.GFD_PRODUCT, "")
    return [Card(f"{node}/{index}", model, memory, index=index) for index in range(count)]
