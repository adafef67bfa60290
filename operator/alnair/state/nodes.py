"""A node as scheduling sees it. Reading one never raises: what cannot be read is said in `problems`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from alnair.api import names
from alnair.api.quantity import BadQuantity, milli, whole
from alnair.state import wire
from alnair.state.pods import MOST_OF_A_RESOURCE
from alnair.state.readings import ROUNDING_MIB, UNREADABLE, card_read

# What a node says of its cards. Of readings that change every few seconds only the card's size is taken: a node that
# only got warmer has not changed for the books.
CARD_ANNOTATIONS = frozenset(
    {
        names.PHYSICAL_GPU_COUNT,
        names.PHYSICAL_GPU_UUIDS,
        names.VIRTUAL_GPU_COUNT,
        names.VIRTUAL_GPU_COUNT_MISSPELT,
        names.GPU_STATIC,
        names.HAMI_REGISTER,
        names.HAMI_SCORES,
    }
)
_READINGS = f"{names.PREFIX}gpu-"


@dataclass(frozen=True, slots=True)
class Node:
    """`allocatable`: cpu in thousandths, everything else in whole units."""

    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: tuple[tuple[str, str], ...]  # those of CARD_ANNOTATIONS, and each card's size as `gpu-<i>`
    taints: tuple[wire.Taint, ...]
    unschedulable: bool
    ready: bool
    allocatable: tuple[tuple[str, int], ...]
    images: Mapping[str, int] = field(default_factory=dict)  # name -> bytes
    problems: tuple[str, ...] = ()

    @property
    def owned_by_alnair(self) -> bool:
        """Who hands out this node's cards: what its label says, else a device plugin that advertises them or will."""
        owner = self.labels.get(names.GPU_OWNER)
        if owner in (names.OWNED_BY_ALNAIR, names.OWNED_BY_DEVICE_PLUGIN):
            return owner == names.OWNED_BY_ALNAIR
        # One that is down advertises 0: its cards are its own all the same, and its pods still have them. One that has
        # not started yet advertises nothing, but NVIDIA's GPU operator has said before that it will.
        to_come = self.labels.get(names.DEPLOY_DEVICE_PLUGIN, "false") != "false"
        return not to_come and not any(
            name.startswith(names.DEVICE_PLUGIN_PREFIXES) for name, _ in self.allocatable
        )


def read_node(node: wire.Node) -> Node:
    problems: list[str] = []
    allocatable: dict[str, int] = {}
    for name, amount in node.status.allocatable.items():
        try:
            there = (milli if name == "cpu" else whole)(amount, field=f"status.allocatable[{name}]")
            allocatable[name] = min(there, MOST_OF_A_RESOURCE)
        except BadQuantity as error:
            problems.append(str(error))  # counts as nothing: never more than the node has
    owner = node.metadata.labels.get(names.GPU_OWNER)
    if owner not in (None, names.OWNED_BY_ALNAIR, names.OWNED_BY_DEVICE_PLUGIN):
        problems.append(
            f"label {names.GPU_OWNER}: {owner!r} is neither {names.OWNED_BY_ALNAIR!r} "
            f"nor {names.OWNED_BY_DEVICE_PLUGIN!r}; it is ignored"
        )
    return Node(
        name=node.metadata.name,
        uid=node.metadata.uid,
        labels=node.metadata.labels,
        annotations=_of_cards(node.metadata.annotations),
        taints=tuple(node.spec.taints),
        unschedulable=node.spec.unschedulable,
        ready=any(c.type == "Ready" and c.status == "True" for c in node.status.conditions),
        allocatable=tuple(sorted(allocatable.items())),
        images={
            sys.intern(name): image.size_bytes for image in node.status.images for name in image.names or ()
        },
        problems=tuple(problems),
    )


def steadied(node: Node, before: Node | None) -> Node:
    """The node with its cards' sizes as they were read before, where they now seem a little larger.

    What is used and what is free are rounded each for itself, so their sum moves with the load; the smallest that was
    read is true all the same. Otherwise a card would grow and shrink, and be told so, every few seconds.
    """
    if before is None or node.annotations == before.annotations:
        return node
    known = dict(before.annotations)
    told = tuple((key, _steadied(key, text, known.get(key))) for key, text in node.annotations)
    return replace(node, annotations=told) if told != node.annotations else node


def _steadied(key: str, text: str, before: str | None) -> str:
    if key in CARD_ANNOTATIONS or before is None or UNREADABLE in (text, before):
        return text
    return before if 0 < int(text) - int(before) < ROUNDING_MIB else text


def _of_cards(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    told = [(key, text) for key, text in annotations.items() if key in CARD_ANNOTATIONS]
    for key, text in annotations.items():
        if key.startswith(_READINGS) and names.GPU_READING.fullmatch(key):
            told.append((key, card_read(text).mib))
    return tuple(sorted(told))
