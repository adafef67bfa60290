"""The books as a planner sees them: a private copy to scribble on.

A draft shares what planning does not change (capacities, labels, taints) and owns what it does (what is free). All
arrays have one row a node, and cards a second axis, padded with cards of no memory. `only(row)` is the same draft
narrowed to one node, made of views: a rule written for all nodes answers for one at no extra code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from alnair.state import wire
from alnair.state.holding import ContainerShare
from alnair.state.pods import PodShape

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Draft:
    """Arrays over nodes (N), resources (R) and cards (C)."""

    names: Sequence[str]  # of the rows; empty text = a row without a node
    columns: Mapping[str, int]  # resource name -> its column
    exists: Bools  # N
    ready: Bools  # N
    unschedulable: Bools  # N
    owned: Bools  # N: Alnair hands out this node's cards
    taint_set: Ints  # N, index into taint_sets
    taint_sets: Sequence[tuple[wire.Taint, ...]]
    labelled: Callable[[str, str], Bools]  # (key, value) -> N
    allocatable: Ints  # N x R
    free: Ints  # N x R, ours to change
    card_ids: Sequence[Sequence[str]]  # a row's cards in order
    models: Sequence[str]  # model id -> its name
    card_model: Ints  # N x C
    card_memory: Ints  # N x C, MiB; 0 = no such card
    card_usable: Bools  # N x C: there, healthy
    card_free_memory: Ints  # N x C, ours to change, and so are the rest
    card_free_compute: Ints
    card_free_slots: Ints
    card_users: Ints
    card_exclusive: Bools

    def only(self, row: int) -> Draft:
        part = slice(row, row + 1)
        return replace(
            self,
            names=self.names[part],
            exists=self.exists[part],
            ready=self.ready[part],
            unschedulable=self.unschedulable[part],
            owned=self.owned[part],
            taint_set=self.taint_set[part],
            labelled=lambda key, value: self.labelled(key, value)[part],
            allocatable=self.allocatable[part],
            free=self.free[part],
            card_ids=self.card_ids[part],
            card_model=self.card_model[part],
            card_memory=self.card_memory[part],
            card_usable=self.card_usable[part],
            card_free_memory=self.card_free_memory[part],
            card_free_compute=self.card_free_compute[part],
            card_free_slots=self.card_free_slots[part],
            card_users=self.card_users[part],
            card_exclusive=self.card_exclusive[part],
        )

    def column(self, resource: str) -> int | None:
        return self.columns.get(resource)

    def take(self, row: int, shape: PodShape, containers: Sequence[ContainerShare]) -> None:
        """Write a pod of this shape into the draft."""
        for resource, amount in shape.requests:
            column = self.columns.get(resource)
            if column is not None:
                self.free[row, column] -= amount
        self._move(row, containers, +1)

    def give_back(self, row: int, containers: Sequence[ContainerShare]) -> None:
        """Undo the slices of a `take`, or of a holding that the draft was made with."""
        self._move(row, containers, -1)

    def _move(self, row: int, containers: Sequence[ContainerShare], sign: int) -> None:
        positions = {card: index for index, card in enumerate(self.card_ids[row])}
        for container in containers:
            for piece in container.slices:
                card = positions.get(piece.card)
                if card is None:
                    continue  # a card that vanished since
                self.card_free_memory[row, card] -= sign * piece.memory_mib
                self.card_free_compute[row, card] -= sign * piece.compute_percent
                self.card_free_slots[row, card] -= sign
                self.card_users[row, card] += sign
                if piece.whole:  # shared with nobody, so nobody else has set it
                    self.card_exclusive[row, card] = sign > 0
