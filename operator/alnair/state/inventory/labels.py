"""Cards as GPU feature discovery labels a node: how many, of what model and size, all alike. No UUIDs, no links."""

from __future__ import annotations

from collections.abc import Mapping

from alnair.api import names
from alnair.api.gpurequest import MOST_MEMORY_MIB
from alnair.api.quantity import integer
from alnair.state.inventory.cards import MOST_CARDS_A_NODE, Card, Unreadable, made_up_name


def read(node: str, labels: Mapping[str, str]) -> list[Card]:
    if names.GFD_COUNT not in labels:
        return []
    count = integer(labels[names.GFD_COUNT], field=names.GFD_COUNT, low=0, high=MOST_CARDS_A_NODE)
    if count == 0:
        return []
    if names.GFD_MEMORY not in labels:
        raise Unreadable(f"label {names.GFD_MEMORY} is missing beside {names.GFD_COUNT}")
    memory = integer(labels[names.GFD_MEMORY], field=names.GFD_MEMORY, low=1, high=MOST_MEMORY_MIB)
    model = labels.get(names.GFD_PRODUCT, "")
    return [
        Card(made_up_name(node, index), model, memory, index=index, made_up=True) for index in range(count)
    ]
