"""Volumes that wait for a claim, sorted so that for every node at once the smallest that serves is found.

Volumes that few nodes reach (local disks) are one long list of (row, place on the shelf); those that many reach are
walked through, best first, until every node has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alnair.state.reach import Bools, Ints, Reach
from alnair.state.storage import Volume

NOTHING = -1
FEW_ROWS = 64


@dataclass(frozen=True, slots=True)
class Shelf:
    """Volumes that serve one wish, best first. `numbers[place]` is the number by which the books know the volume."""

    places: dict[str, int]
    numbers: Ints
    rows: Ints  # of the volumes that few nodes reach, with
    row_places: Ints
    wide: tuple[tuple[Ints, tuple[int, ...]], ...]  # rows that reach all volumes at these places, best first

    def best(self, rows: int, taken: Iterable[str], before: Sequence[Ints]) -> Ints:
        """For each row the number of the best volume that is neither taken nor was given `before` at that row."""
        gone = np.zeros(len(self.numbers), dtype=np.bool_)
        gone[[self.places[name] for name in taken if name in self.places]] = True
        best = np.full(rows, len(self.numbers))
        self._narrow(best, gone, before)
        for reached, places in self.wide:
            self._walk(best, reached, places, gone, before)
        return np.asarray(np.append(self.numbers, NOTHING)[best], dtype=np.int64)

    def _narrow(self, best: Ints, gone: Bools, before: Sequence[Ints]) -> None:
        left = ~gone[self.row_places]
        for given in before:
            left &= given[self.rows] != self.numbers[self.row_places]
        np.minimum.at(best, self.rows[left], self.row_places[left])

    def _walk(
        self, best: Ints, rows: Ints, places: Sequence[int], gone: Bools, before: Sequence[Ints]
    ) -> None:
        for place in places:
            if not len(rows):
                return
            if gone[place]:
                continue
            free = np.ones(len(rows), dtype=np.bool_)
            for given in before:
                free &= given[rows] != self.numbers[place]
            served = rows[free]
            best[served] = np.minimum(best[served], place)
            rows = rows[~free]


def stock(volumes: Iterable[Volume], reach: Reach, number: Callable[[str], int]) -> Shelf:
    """Smallest first; equal ones by name, so that two looks find the same."""
    ordered = sorted(volumes, key=lambda volume: (volume.size, volume.key))
    few_rows: list[Ints] = [np.zeros(0, dtype=np.int64)]
    few_places: list[Ints] = [np.zeros(0, dtype=np.int64)]
    everyone = np.flatnonzero(reach.everywhere())
    wide: dict[object, tuple[Ints, list[int]]] = {}
    for place, volume in enumerate(ordered):
        rows = everyone if volume.terms is None else reach.rows_of(volume.terms)
        if len(rows) <= FEW_ROWS:
            few_rows.append(rows)
            few_places.append(np.full(len(rows), place))
        else:
            wide.setdefault(volume.terms, (rows, []))[1].append(place)
    return Shelf(
        places={volume.key: place for place, volume in enumerate(ordered)},
        numbers=np.array([number(volume.key) for volume in ordered], dtype=np.int64),
        rows=np.concatenate(few_rows),
        row_places=np.concatenate(few_places),
        wide=tuple((rows, tuple(places)) for rows, places in wide.values()),
    )
