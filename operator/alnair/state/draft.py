"""The books as a planner sees them: the real ones, to scribble on and wipe clean again.

    with state.draft() as draft:
        ... draft.take(row, pod, containers) ...

Planning a pod must not cost a copy of five thousand nodes, so a draft is a view, and what was taken is given back
at the end of the `with`. All arrays have one row a node, and cards a second axis, padded with cards of no memory.
`only(row)` and `at(rows)` are the same draft narrowed to some nodes: a rule written for all nodes answers for a few
at no extra code.

What must never happen here: a scribble that outlives its draft. Nothing between `take` and the end may wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alnair.state import wire
from alnair.state.columns import ImageColumn, LabelColumn
from alnair.state.company import Company
from alnair.state.holding import ContainerShare, footprint
from alnair.state.loads import Load
from alnair.state.refusals import Refusals
from alnair.state.selectors import Pods
from alnair.state.services import Services
from alnair.state.shapes import PodClass
from alnair.state.volumes import Volumes
from alnair.state.zones import Zones

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

Taken = tuple[int, PodClass | None, Sequence[ContainerShare], int]


@dataclass(frozen=True, slots=True)
class Draft:
    """Arrays over nodes (N), resources (R) and cards (C)."""

    names: Sequence[str]  # of the rows; empty text = a row without a node
    rows: Ints  # N: which rows of the books these are
    columns: Mapping[str, int]  # resource name -> its column
    exists: Bools  # N
    ready: Bools  # N
    unschedulable: Bools  # N
    owned: Bools  # N: Alnair hands out this node's cards
    sliced: Ints  # N: cards that the books' pods hold there, pod by pod, known or not; `take` leaves it alone
    taint_set: Ints  # N, index into taint_sets
    taint_sets: Sequence[tuple[wire.Taint, ...]]
    allocatable: Ints  # N x R
    free: Ints  # N x R, changed by `take`
    card_ids: Sequence[Sequence[str]]  # a row's cards in order
    models: Sequence[str]  # model id -> its name
    card_links: Sequence[
        Ints | None
    ]  # a row's distances card to card (C x C, smaller is nearer); None = unknown
    nearest_pairs: (
        Floats  # N: the part of its pairs of cards that are as near as the nearest; 1 = nobody tells
    )
    card_model: Ints  # N x C
    card_index: Ints  # N x C, as the driver counts the node's cards
    card_numa: Ints  # N x C, NUMA node; -1 = unknown
    card_memory: Ints  # N x C, MiB; 0 = no such card
    card_usable: Bools  # N x C: there, healthy
    card_free_memory: Ints  # N x C, changed by `take`, and so are the rest
    card_free_compute: Ints
    card_free_slots: Ints
    card_users: Ints
    card_exclusive: Ints  # users that share with nobody
    company: Company  # of all nodes, whatever the draft is narrowed to
    volumes: Volumes
    services: Services
    refusals: Refusals
    zones: Zones  # NUMA nodes; what `take` puts there is in the journal
    load: Load  # measured: N, and N x C; `take` leaves it alone
    label_column: Callable[[str], LabelColumn]  # of all nodes too
    image_column: Callable[[str], ImageColumn]
    version: int  # of the books
    changed_at: Ints  # N: version of the row's last change
    journal: list[Taken] = field(default_factory=list)
    whole: Draft | None = None
    narrowed_from: tuple[Draft, slice | Ints] | None = None

    # -- narrower ------------------------------------------------------------------------------------------------

    def only(self, row: int) -> Draft:
        """One node, as views: what is taken there later shows."""
        return self._narrowed(slice(row, row + 1))

    def at(self, rows: Ints) -> Draft:
        """These nodes, as they are now."""
        narrowed = self._narrowed(rows)
        for name in BY_NODE:
            getattr(narrowed, name)
        return narrowed

    def glance(self, rows: Ints) -> Draft:
        """These nodes, for questions that are answered at once: few rules look at all there is, so each array is
        fetched when it is first asked for, as it is then."""
        return self._narrowed(rows)

    def _narrowed(self, part: slice | Ints) -> Draft:
        # Not by dataclasses.replace: this is done several times for every pod.
        narrowed = object.__new__(Draft)
        for name in COMMON:
            object.__setattr__(narrowed, name, getattr(self, name))
        object.__setattr__(narrowed, "whole", self.all_nodes())
        object.__setattr__(narrowed, "narrowed_from", (self, part))
        return narrowed

    if not TYPE_CHECKING:  # else a field that there is not would pass for one

        def __getattr__(self, name: str) -> object:
            """What was not asked of a narrowed draft before."""
            if name not in BY_NODE:
                raise AttributeError(f"{type(self).__name__} has no {name}")
            source, part = self.narrowed_from
            value = getattr(source, name)
            if name == "load":
                value = value.at(part)
            elif isinstance(value, np.ndarray) or isinstance(part, slice):
                value = value[part]
            else:
                value = [value[row] for row in part.tolist()]
            object.__setattr__(self, name, value)
            return value

    def sealed(self) -> Draft:
        """For rules that are not our own: the same numbers, and whoever writes to them gets an error, not the books."""
        arrays: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                arrays[each.name] = value.view()
                arrays[each.name].flags.writeable = False
        whole = None if self.whole is None else self.whole.sealed()
        return replace(self, whole=whole, load=self.load.sealed(), journal=[], **arrays)

    def all_nodes(self) -> Draft:
        """The draft that this one was narrowed from, or itself."""
        return self if self.whole is None else self.whole

    # -- questions -----------------------------------------------------------------------------------------------

    def column(self, resource: str) -> int | None:
        return self.columns.get(resource)

    def label(self, key: str) -> Ints:
        """N: the number of the label's value, -1 where the node has no such label."""
        return self.label_column(key).codes[self.rows]

    def labelled(self, key: str, value: str) -> Bools:
        code = self.label_column(key).code(value)
        if code is None:
            return np.zeros(len(self.rows), dtype=np.bool_)
        return np.asarray(self.label(key) == code)

    def image(self, name: str) -> Ints:
        """N: bytes of that image on the node."""
        return self.image_column(name).sizes[self.rows]

    def count(self, pods: Pods) -> Ints:
        """N: how many pods of the set are on the node."""
        return self.company.count(pods)[self.rows]

    def count_by_domain(self, pods: Pods, key: str) -> Ints:
        """How many pods of the set are in each domain of the label, over all nodes of the cluster."""
        column = self.label_column(key)
        there = column.codes >= 0
        sums = np.bincount(
            column.codes[there],
            weights=self.company.count(pods)[there],
            minlength=len(column.values),
        )
        return sums.astype(np.int64)

    def among(self, rows: Sequence[int] | set[int]) -> Bools:
        """N: whether the node is one of these rows of the books."""
        return np.isin(self.rows, np.fromiter(rows, dtype=np.int64, count=len(rows)))

    # -- scribbling (on a draft of all nodes) --------------------------------------------------------------------

    def take(self, row: int, pod: PodClass, containers: Sequence[ContainerShare]) -> None:
        """Write a pod into the draft."""
        self._move(row, pod, containers, +1)

    def put_back(self, row: int, pod: PodClass, containers: Sequence[ContainerShare]) -> None:
        """Undo a `take`."""
        self._move(row, pod, containers, -1)

    def hand_out(self, row: int, containers: Sequence[ContainerShare], sign: int = +1) -> None:
        """Only the parts of cards, or (with -1) only those of a holding that the books have. All containers of a pod at
        once, for what it takes is not their sum; one by one only those that run at the same time."""
        self._move(row, None, containers, sign)

    def wipe(self, *, keep: int = 0) -> None:
        """As if nothing had been taken, but for the first `keep` entries of the journal."""
        for row, pod, containers, sign in reversed(self.journal[keep:]):
            self._apply(row, pod, containers, -sign)
        del self.journal[keep:]

    def __enter__(self) -> Draft:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wipe()

    def _move(self, row: int, pod: PodClass | None, containers: Sequence[ContainerShare], sign: int) -> None:
        self.journal.append((row, pod, containers, sign))
        self._apply(row, pod, containers, sign)

    def _apply(self, row: int, pod: PodClass | None, containers: Sequence[ContainerShare], sign: int) -> None:
        if pod is not None:
            for resource, amount in pod.shape.requests:
                column = self.columns.get(resource)
                if column is not None:
                    self.free[row, column] -= sign * amount
            (self.company.visit if sign > 0 else self.company.end_visit)(row, pod)
            if pod.shape.claims:
                if sign > 0:
                    self.volumes.promise(pod.shape.claims, self.names[row])
                else:
                    self.volumes.withdraw(pod.shape.claims)
        if not containers:
            return
        positions = {card: index for index, card in enumerate(self.card_ids[row])}
        for use in footprint(containers):
            card = positions.get(use.card)
            if card is None:
                continue  # a card that vanished since
            self.card_free_memory[row, card] -= sign * use.memory_mib
            self.card_free_compute[row, card] -= sign * use.compute_percent
            self.card_free_slots[row, card] -= sign * use.slots
            self.card_users[row, card] += sign * use.slots
            self.card_exclusive[row, card] += sign * use.whole


# Of the cluster as a whole. All else has an entry for each node.
COMMON = (
    "columns",
    "taint_sets",
    "models",
    "company",
    "volumes",
    "services",
    "refusals",
    "zones",
    "label_column",
    "image_column",
    "version",
    "journal",
)
BY_NODE = frozenset(each.name for each in fields(Draft)) - {*COMMON, "whole", "narrowed_from"}
