"""Which nodes a rule about labels means, over all rows of the books; remembered until the nodes change.

A node's labels change once in a long while and are asked about with every claim, so the answer is an array that is
kept. Only the few hundred rules in use are: the table is emptied when it grows past that, or when a node comes, goes or
is relabelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from alnair.state.columns import LabelColumn
from alnair.state.selectors import NodeTerm, Requirement

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

MOST_TERMS = 20_000


class Reach:
    def __init__(self, *, column: Callable[[str], LabelColumn], rows: Callable[[], int]) -> None:
        self._column = column
        self._rows = rows
        self._of_terms: dict[tuple[NodeTerm, ...], Ints] = {}

    def nodes_changed(self) -> None:
        self._of_terms.clear()

    def everywhere(self) -> Bools:
        return np.ones(self._rows(), dtype=np.bool_)

    def nowhere(self) -> Bools:
        return np.zeros(self._rows(), dtype=np.bool_)

    def rows_of(self, terms: tuple[NodeTerm, ...]) -> Ints:
        """The rows that a volume's node affinity means. Not to be written to."""
        found = self._of_terms.get(terms)
        if found is None:
            if len(self._of_terms) >= MOST_TERMS:
                self._of_terms.clear()
            mask = self.nowhere()
            for term in terms:
                # A volume is asked about labels alone: a term with nothing but fields means every node.
                if term.labels or term.fields:
                    mask |= self.of_lines(term.labels)
            found = self._of_terms[terms] = np.flatnonzero(mask)
        return found

    def of_terms(self, terms: tuple[NodeTerm, ...] | None) -> Bools:
        """None: every node."""
        if terms is None:
            return self.everywhere()
        mask = self.nowhere()
        mask[self.rows_of(terms)] = True
        return mask

    def of_lines(self, lines: Iterable[Requirement]) -> Bools:
        """All of them hold."""
        mask = self.everywhere()
        for line in lines:
            mask &= self._of_line(line)
        return mask

    def _of_line(self, line: Requirement) -> Bools:
        column = self._column(line.key)
        if line.operator == "In":  # most often, and of a label that has a value of its own on every node
            mask = self.nowhere()
            for code in map(column.code, line.values):
                if code is not None:
                    mask |= column.codes == code
            return mask
        allowed = np.array([*(line.allows(value) for value in column.values), line.allows(None)])
        return np.asarray(allowed[column.codes], dtype=np.bool_)  # no label is -1: the last entry
