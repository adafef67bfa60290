"""The linear form of a gang: what the exact search hands to the solver.

How many members of each class stand on each node is one whole-numbered variable (`seats`). Rules add rows over them,
and variables of their own, each in its plugin's file: see `Linear` in plugins/interface. Everything is added as
arrays, many rows at once, because this runs on the event loop with thousands of nodes.

What must never happen here: a view of the books kept in the finished `Rows`. They are solved on another thread while
the books go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alnair.scheduling.classes import MemberClass
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.holding import ContainerShare
from alnair.state.selectors import Pods
from alnair.state.shapes import PodClass

Floats = NDArray[np.float64]

NEVER = -1  # in place of a variable: it is 0, whatever happens
ANYWHERE = -1  # in place of a node: about none in particular


@dataclass(frozen=True, slots=True)
class Rows:
    """The finished matrix: `least <= matrix @ values <= most`, `0 <= values <= upper`, by row."""

    upper: Floats
    integer: Bools
    at: Ints  # the kept node that a variable is about, and without a member there it is 0; ANYWHERE = none
    starts: Ints
    columns: Ints
    amounts: Floats
    least: Floats
    most: Floats

    def only(self, nodes: Bools) -> tuple[Rows, Ints]:
        """What is left of it with nobody on the other nodes, and which of the variables those are."""
        kept = np.append(nodes, True)[self.at]
        of_row = np.repeat(np.arange(len(self.most)), np.diff(self.starts))
        entries = kept[self.columns]
        lengths = np.bincount(of_row[entries], minlength=len(self.most))
        rows = (lengths > 0) | (self.least > 0) | (self.most < 0)
        numbers = np.cumsum(kept) - 1
        part = Rows(
            upper=self.upper[kept],
            integer=self.integer[kept],
            at=self.at[kept],
            starts=np.concatenate(([0], np.cumsum(lengths[rows]))),
            columns=numbers[self.columns[entries]],
            amounts=self.amounts[entries],
            least=self.least[rows],
            most=self.most[rows],
        )
        return part, np.flatnonzero(kept)


@dataclass(frozen=True, slots=True)
class KeptDomains:
    """Where the kept nodes are by one label."""

    of_node: Ints  # K: number of the node's domain, -1 where it has no such label
    codes: Ints  # domain number -> the label's code in the books


class Dealer(Protocol):
    """Reads from a solution which cards each member gets."""

    def deal(
        self, values: Ints, seated: Ints
    ) -> Mapping[tuple[int, int], Sequence[tuple[ContainerShare, ...]]]:
        """(class, kept node) -> each member's parts. `seated`: classes x K, how many stand there."""


@dataclass(slots=True)
class Model:
    """A gang's classes and the nodes that are kept of the cluster: those that matter to it, of equal ones a few."""

    classes: Sequence[MemberClass]
    draft: Draft  # of all nodes, with none of the gang's members in it
    nodes: Ints  # K: rows of the books
    seats: Ints  # classes x K: variables, or NEVER
    dealer: Dealer | None = None  # what reads the cards back, if any are asked for
    _upper: list[Floats] = field(default_factory=list)
    _integer: list[Bools] = field(default_factory=list)
    _at: list[Ints] = field(default_factory=list)
    _entries: list[tuple[Ints, Ints, Floats]] = field(default_factory=list)
    _least: list[Floats] = field(default_factory=list)
    _most: list[Floats] = field(default_factory=list)
    _variables: int = 0
    _rows: int = 0

    @classmethod
    def of(cls, classes: Sequence[MemberClass], draft: Draft, nodes: Ints, possible: Bools) -> Model:
        """`possible`: classes x K."""
        model = cls(classes, draft, nodes, np.full(possible.shape, NEVER, dtype=np.int64))
        for number, each in enumerate(classes):
            there = np.flatnonzero(possible[number])
            model.seats[number, there] = model.variables(np.full(len(there), len(each.members)), at=there)
            model.add(np.zeros(len(nodes)), model.seats[number], 1, most=[len(each.members)])
        return model

    # -- for rules -----------------------------------------------------------------------------------------------

    def count(self, number: int) -> int:
        """How many members the class has."""
        return len(self.classes[number].members)

    def pod(self, number: int) -> PodClass:
        return self.classes[number].pod

    def members_in(self, pods: Pods) -> list[int]:
        """Numbers of the classes whose members are in this set."""
        return [
            number for number, each in enumerate(self.classes) if self.draft.company.is_in(pods, each.pod)
        ]

    def domains(self, key: str) -> KeptDomains:
        of_node = self.draft.label(key)[self.nodes]
        codes = np.unique(of_node[of_node >= 0])
        numbers = np.where(of_node >= 0, np.searchsorted(codes, of_node), -1)
        return KeptDomains(numbers, codes)

    def variables(self, upper: ArrayLike, *, integer: bool = True, at: ArrayLike = ANYWHERE) -> Ints:
        """New ones, from 0 to `upper`. `at`: kept nodes without whose members they are 0."""
        bounds = np.asarray(upper, dtype=np.float64)
        self._at.append(np.broadcast_to(np.asarray(at, dtype=np.int64), bounds.shape))
        self._upper.append(bounds)
        self._integer.append(np.full(len(bounds), integer))
        self._variables += len(bounds)
        return np.arange(self._variables - len(bounds), self._variables)

    def cap(self, variables: Ints, most: ArrayLike) -> None:
        """No more than this each."""
        upper = self.upper()
        there = variables != NEVER
        bounds = np.broadcast_to(np.asarray(most, dtype=np.float64), variables.shape)
        upper[variables[there]] = np.minimum(upper[variables[there]], bounds[there])

    def upper(self) -> Floats:
        """The bounds of all variables, to be written to."""
        if len(self._upper) != 1:
            self._upper = [np.concatenate(self._upper)] if self._upper else [np.zeros(0)]
        return self._upper[0]

    def most_of(self, variables: Ints) -> Floats:
        """The bounds of these; 0 for those that can never be anything."""
        return np.append(self.upper(), 0.0)[variables]

    def add(
        self,
        rows: ArrayLike,
        variables: Ints,
        amounts: ArrayLike,
        *,
        most: ArrayLike,
        least: ArrayLike = -np.inf,
    ) -> None:
        """`len(most)` new rows: entry by entry, which of them (below 0: none), which variable, times what."""
        of_row = np.asarray(rows, dtype=np.int64).ravel()
        columns = variables.ravel()
        factors = np.broadcast_to(np.asarray(amounts, dtype=np.float64), variables.shape).ravel()
        bounds = np.asarray(most, dtype=np.float64)
        used = (of_row >= 0) & (columns != NEVER)
        self._entries.append((of_row[used] + self._rows, columns[used], factors[used]))
        self._most.append(bounds)
        self._least.append(np.broadcast_to(np.asarray(least, dtype=np.float64), bounds.shape))
        self._rows += len(bounds)

    def ration(self, amounts: Ints, stock: Ints) -> None:
        """Members take `amounts` (by class) of each kept node's `stock`."""
        step = common_step(amounts)
        amounts, stock = amounts // step, np.maximum(stock, 0) // step
        for number in np.flatnonzero(amounts):
            self.cap(self.seats[number], stock // amounts[number])
        at_worst = (self.most_of(self.seats) * amounts[:, None]).sum(axis=0)
        tight = np.flatnonzero(at_worst > stock)
        seats = self.seats[:, tight]
        rows = np.broadcast_to(np.arange(len(tight)), seats.shape)
        self.add(rows, seats, np.broadcast_to(amounts[:, None], seats.shape), most=stock[tight])

    # -- the end -------------------------------------------------------------------------------------------------

    def finished(self) -> Rows:
        rows, columns, amounts = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        # An entry said twice counts twice; the solver wants it said once.
        keys, where = np.unique(rows * self._variables + columns, return_inverse=True)
        summed = np.bincount(where.ravel(), weights=amounts, minlength=len(keys))
        kept = summed != 0
        keys, summed = keys[kept], summed[kept]
        starts = np.searchsorted(keys, np.arange(self._rows + 1) * self._variables)
        return Rows(
            upper=self.upper().copy(),
            integer=np.concatenate(self._integer),
            at=np.concatenate(self._at),
            starts=starts,
            columns=keys % max(self._variables, 1),
            amounts=summed,
            least=np.concatenate(self._least),
            most=np.concatenate(self._most),
        )


def stacked(*parts: tuple[ArrayLike, Ints, ArrayLike]) -> tuple[Ints, Ints, Floats]:
    """(rows, variables, amounts) of several terms that stand in the same rows, as one argument list for `add`."""
    rows, variables, amounts = [], [], []
    for of_row, columns, factors in parts:
        rows.append(np.broadcast_to(np.asarray(of_row, dtype=np.int64), columns.shape).ravel())
        variables.append(columns.ravel())
        amounts.append(np.broadcast_to(np.asarray(factors, dtype=np.float64), columns.shape).ravel())
    return np.concatenate(rows), np.concatenate(variables), np.concatenate(amounts)


def common_step(amounts: Ints) -> int:
    """All amounts are multiples of it: small numbers are kinder to the solver, and make more nodes alike."""
    return int(np.gcd.reduce(amounts)) or 1


def enough_of(amounts: Ints, counts: Ints, stock: Ints) -> Ints:
    """What `ration` looks at: more than all members together could take is all the same."""
    return np.clip(stock, 0, int((amounts * counts).sum())) // common_step(amounts)


def numbered(traits: Sequence[Ints]) -> Ints:
    """A number for each combination: entries that are equal in all the arrays have equal ones."""
    key = np.zeros(traits[0].shape if traits else 0, dtype=np.int64)
    span = 1
    for trait in traits:
        low, high = (int(trait.min()), int(trait.max())) if trait.size else (0, 0)
        width = high - low + 1
        if span * width >= 1 << 62:
            key, span = _renumbered(key)
            if span * width >= 1 << 62:
                trait, width = _renumbered(trait)
                low = 0
        key = key * width + (trait - low)
        span *= width
    return _renumbered(key)[0]


def _renumbered(key: Ints) -> tuple[Ints, int]:
    values, inverse = np.unique(key, return_inverse=True)
    return inverse.reshape(key.shape), max(len(values), 1)


def domain_trait(codes: Ints, of_domain: Ints) -> Ints:
    """What tells nodes apart by one label: the domain where several share one, else only what is known of it.

    Two nodes that are each alone in their domains can stand in for one another if `of_domain`, a number of at least 0
    for each code, is the same.
    """
    there = codes >= 0
    sizes = np.bincount(codes[there], minlength=len(of_domain))
    alone = np.append(sizes == 1, False)[codes]
    known = np.append(of_domain, 0)[codes]
    return np.where(alone, -2 - known, codes)
