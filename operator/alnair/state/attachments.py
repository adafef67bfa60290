"""How many more volumes each node can attach, driver by driver.

A volume counts once on a node, however many pods there use it. Those that the pods of the node use count, and those
that are attached whatever pods say. Only rows where something changed are counted anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from alnair.state.migration import SUCCESSORS, handle_of
from alnair.state.reach import Ints
from alnair.state.shapes import ClaimUse, Disk, PodShape
from alnair.state.storage import Attachment, NodeDrivers

NO_LIMIT = np.iinfo(np.int64).max

Handle = tuple[str, str]  # driver, its name for the volume


def handle_of_disk(disk: Disk) -> Handle | None:
    successor = SUCCESSORS.get(disk.kind)
    handle = handle_of(disk) if successor is not None else ""
    return (successor.driver, handle) if successor is not None and handle else None


def _mounted(shape: PodShape) -> Iterable[ClaimUse | Disk]:
    yield from shape.claims
    yield from shape.disks


class Attachments:
    """`handle` tells what a claim is to its driver; `names` the nodes of the rows; `on_node` what else is attached."""

    def __init__(
        self,
        *,
        names: Callable[[], list[str]],
        handle: Callable[[str], Handle | None],
        drivers: Mapping[str, NodeDrivers],
        on_node: Callable[[str], Iterable[Attachment]],
        volume_handle: Callable[[Attachment], Handle | None],
    ) -> None:
        self._names = names
        self._handle = handle
        self._drivers = drivers
        self._on_node = on_node
        self._volume_handle = volume_handle
        self._used: defaultdict[int, dict[ClaimUse | Disk, int]] = defaultdict(dict)
        self._users: defaultdict[str, set[int]] = defaultdict(set)  # claim -> rows
        self._attached: dict[int, frozenset[Handle]] = {}
        self._rows_with: defaultdict[Handle, set[int]] = defaultdict(set)
        self._room: dict[str, Ints] = {}
        self._stale: set[int] = set()
        self._all_stale = True

    # -- changes -------------------------------------------------------------------------------------------------

    def moved(self, row: int, shape: PodShape, sign: int) -> None:
        """A pod of this shape came (+1) to the row, or left it."""
        there = self._used[row]
        for thing in _mounted(shape):
            left = there.get(thing, 0) + sign
            if left:
                there[thing] = left
            else:
                there.pop(thing, None)
            if isinstance(thing, ClaimUse):
                (self._users[thing.key].add if left else self._users[thing.key].discard)(row)
                if not self._users[thing.key]:
                    del self._users[thing.key]
        if not there:
            del self._used[row]
        self._stale.add(row)

    def claim_changed(self, key: str) -> None:
        self._stale.update(self._users.get(key, ()))

    def row_changed(self, row: int | None) -> None:
        if row is not None:
            self._stale.add(row)

    def all_changed(self) -> None:
        self._all_stale = True

    # -- questions -----------------------------------------------------------------------------------------------

    def room(self, driver: str) -> Ints | None:
        """How many more of the driver's volumes each row can attach; None: no limit anywhere. Not to be written to."""
        self._renew()
        return self._room.get(driver)

    def rows_with(self, handle: Handle) -> Iterable[int]:
        """Where a pod uses that volume already."""
        return self._rows_with.get(handle, ())

    def handles(self, shape: PodShape) -> set[Handle]:
        """What a pod of this shape needs attached."""
        found = (self._handle_of(thing) for thing in _mounted(shape))
        return {handle for handle in found if handle is not None}

    # -- inside --------------------------------------------------------------------------------------------------

    def _handle_of(self, thing: ClaimUse | Disk) -> Handle | None:
        return self._handle(thing.key) if isinstance(thing, ClaimUse) else handle_of_disk(thing)

    def _renew(self) -> None:
        if self._all_stale:
            self._attached.clear()
            self._rows_with.clear()
            self._room.clear()
            self._stale = set(range(len(self._names())))
            self._all_stale = False
        names = self._names()
        for row in self._stale:
            self._count(row, names[row])
        self._stale.clear()

    def _count(self, row: int, name: str) -> None:
        attached = frozenset(
            handle for thing in self._used.get(row, ()) if (handle := self._handle_of(thing)) is not None
        )
        before = self._attached.pop(row, frozenset())
        if attached:
            self._attached[row] = attached
        for handle in before - attached:
            self._rows_with[handle].discard(row)
            if not self._rows_with[handle]:
                del self._rows_with[handle]
        for handle in attached - before:
            self._rows_with[handle].add(row)
        for room in self._room.values():
            room[row] = NO_LIMIT
        drivers = self._drivers.get(name) if name else None
        if drivers is None or not drivers.limits:
            return
        others = {handle for each in self._on_node(name) if (handle := self._volume_handle(each)) is not None}
        counts: defaultdict[str, int] = defaultdict(int)
        for driver, _ in attached | others:
            counts[driver] += 1
        for driver, limit in drivers.limits:
            if driver not in self._room:
                self._room[driver] = np.full(len(self._names()), NO_LIMIT)
            self._room[driver][row] = limit - counts[driver]
