"""The arrays of the books: a row a node, a column a resource, a second axis for cards; and how they grow.

Nothing here knows what a node or a pod is. What is not there is 0: a row without a node, a card beyond a node's last.
A row that was given back is used again, so whoever keeps the number of one must hear when it goes.
"""

from __future__ import annotations

import numpy as np

from alnair.state.draft import Bools, Floats, Ints

FIRST_COLUMNS = ("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu")
FIRST_ROWS = 16


class Table:
    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._spare: list[int] = []
        self._columns: dict[str, int] = {name: index for index, name in enumerate(FIRST_COLUMNS)}
        self._names: list[str] = []
        self._card_ids: list[tuple[str, ...]] = []
        self._card_links: list[Ints | None] = []
        self.allocatable: Ints
        self.free: Ints
        self._allocate(rows=0, cards=1)

    def _grown(self, rows: int) -> None:
        """The arrays are others now, with so many rows."""

    def _widened(self, resource: str) -> None:
        """There is a column more, for this."""

    def _new_row(self, name: str) -> int:
        if not self._spare:
            rows = len(self._names)
            grown = max(FIRST_ROWS, rows * 2)
            self._resize(rows=grown)
            self._spare.extend(reversed(range(rows, grown)))
        row = self._spare.pop()
        self._rows[name] = row
        self._names[row] = name
        return row

    def _drop_row(self, name: str) -> None:
        row = self._rows.pop(name)
        self._names[row] = ""
        self._card_ids[row] = ()
        self._card_links[row] = None
        for array in self._arrays():
            array[row] = 0
        self._spare.append(row)

    def _column_of(self, resource: str) -> int:
        column = self._columns.get(resource)
        if column is None:
            column = self._columns[resource] = len(self._columns)
            extra = np.zeros((len(self._names), 1), dtype=np.int64)
            self.allocatable = np.concatenate([self.allocatable, extra], axis=1)
            self.free = np.concatenate([self.free, extra], axis=1)
            self._widened(resource)
        return column

    def _allocate(self, *, rows: int, cards: int) -> None:
        columns = len(self._columns)
        self.exists = np.zeros(rows, dtype=np.bool_)
        self.ready = np.zeros(rows, dtype=np.bool_)
        self.unschedulable = np.zeros(rows, dtype=np.bool_)
        self.owned = np.zeros(rows, dtype=np.bool_)
        self.sliced = np.zeros(rows, dtype=np.int64)
        self.taint_set = np.zeros(rows, dtype=np.int64)
        self.allocatable = np.zeros((rows, columns), dtype=np.int64)
        self.free = np.zeros((rows, columns), dtype=np.int64)
        self.changed_at = np.zeros(rows, dtype=np.int64)
        self.freed_at = np.zeros(rows, dtype=np.int64)
        self.nearest_pairs = np.zeros(rows)
        self._all_rows = np.arange(rows)
        self.card_memory = np.zeros((rows, cards), dtype=np.int64)
        self.card_model = np.zeros((rows, cards), dtype=np.int64)
        self.card_index = np.zeros((rows, cards), dtype=np.int64)
        self.card_numa = np.zeros((rows, cards), dtype=np.int64)
        self.card_usable = np.zeros((rows, cards), dtype=np.bool_)
        self.card_free_memory = np.zeros((rows, cards), dtype=np.int64)
        self.card_free_compute = np.zeros((rows, cards), dtype=np.int64)
        self.card_free_slots = np.zeros((rows, cards), dtype=np.int64)
        self.card_users = np.zeros((rows, cards), dtype=np.int64)
        self.card_exclusive = np.zeros((rows, cards), dtype=np.int64)

    def _card_arrays(self) -> tuple[Ints | Bools, ...]:
        return (
            self.card_memory,
            self.card_model,
            self.card_index,
            self.card_numa,
            self.card_usable,
            self.card_free_memory,
            self.card_free_compute,
            self.card_free_slots,
            self.card_users,
            self.card_exclusive,
        )

    def _arrays(self) -> tuple[Ints | Bools | Floats, ...]:
        return (
            self.exists,
            self.ready,
            self.unschedulable,
            self.owned,
            self.sliced,
            self.taint_set,
            self.allocatable,
            self.free,
            self.changed_at,
            self.freed_at,
            self.nearest_pairs,
            *self._card_arrays(),
        )

    def _resize(self, *, rows: int | None = None, cards: int | None = None) -> None:
        old, had_rows, had_cards = self._arrays(), len(self._names), self.card_memory.shape[1]
        rows, cards = rows or had_rows, cards or had_cards
        self._allocate(rows=rows, cards=cards)
        for array, source in zip(self._arrays(), old, strict=True):
            part = (slice(had_rows), *(slice(size) for size in source.shape[1:]))
            array[part] = source
        self._names.extend([""] * (rows - had_rows))
        self._card_ids.extend([()] * (rows - had_rows))
        self._card_links.extend([None] * (rows - had_rows))
        self._grown(rows)

    def _widen_cards(self, cards: int) -> None:
        if cards > self.card_memory.shape[1]:
            self._resize(cards=cards)
