"""What nodes have in common, one array a question: the values of a label, the sizes of an image.

Made when a rule first asks, then kept: a node that changes writes its own row anew.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from alnair.state.nodes import Node

Ints = NDArray[np.int64]

NONE = -1
SPARE_VALUES = 1000


class LabelColumn:
    """`codes[row]` numbers the label's value on that node, `NONE` where it has no such label."""

    __slots__ = ("_index", "codes", "key", "values")

    def __init__(self, key: str, nodes: Iterable[tuple[int, Node]], rows: int) -> None:
        self.key = key
        self.codes: Ints = np.full(rows, NONE, dtype=np.int64)
        self.values: list[str] = []
        self._index: dict[str, int] = {}
        for row, node in nodes:
            self.write(row, node)

    def write(self, row: int, node: Node | None) -> None:
        value = node.labels.get(self.key) if node is not None else None
        if value is None:
            self.codes[row] = NONE
            return
        code = self._index.get(value)
        if code is None:
            code = self._index[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = code

    @property
    def worn(self) -> bool:
        """Most of its values are those of nodes long gone."""
        return len(self.values) > 2 * len(self.codes) + SPARE_VALUES

    def code(self, value: str) -> int | None:
        return self._index.get(value)


class ImageColumn:
    """`sizes[row]`: bytes of the image on that node, 0 where it is not. `nodes`: how many have it."""

    __slots__ = ("name", "nodes", "sizes")

    def __init__(self, name: str, nodes: Iterable[tuple[int, Node]], rows: int) -> None:
        self.name = name
        self.sizes: Ints = np.zeros(rows, dtype=np.int64)
        self.nodes = 0
        for row, node in nodes:
            self.write(row, node)

    def write(self, row: int, node: Node | None) -> None:
        size = node.images.get(self.name, 0) if node is not None else 0
        self.nodes += int(size > 0) - int(self.sizes[row] > 0)
        self.sizes[row] = size
