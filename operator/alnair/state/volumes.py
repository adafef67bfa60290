"""The books of storage: claims, volumes, classes, drivers; and which volume a claim that waits would get where.

A claim that waits for its first consumer gets its volume when its pod is placed. Between the plan and the apiserver's
word the choice is a promise, kept here: a volume promised to one claim is no other's, and a volume being made for a
claim ties all pods of that claim to the node it is made for. A promise stands as long as somebody who was promised
stands: a pod in a draft, or one that a plan or record has put somewhere and that is not bound yet.

What must never happen here: a promise that is made anew while it stands. What one pod was told, the next is told too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from alnair.state.attachments import Attachments, Handle
from alnair.state.columns import LabelColumn
from alnair.state.migration import PROVISIONERS
from alnair.state.reach import Bools, Ints, Reach
from alnair.state.shapes import ClaimUse
from alnair.state.shelves import NOTHING, Shelf, stock
from alnair.state.storage import (
    Attachment,
    Capacity,
    Claim,
    Driver,
    NodeDrivers,
    StorageClass,
    Volume,
)

T = TypeVar("T")
MOST_SHELVES = 256

StorageObject = Claim | Volume | StorageClass | NodeDrivers | Driver | Capacity | Attachment


@dataclass(slots=True)
class Promise:
    """For a claim that waits: its pods' node, and the volume it gets there; none: one is made."""

    node: str
    holders: int = 0
    decided: bool = False
    volume: str = ""


@dataclass(frozen=True, slots=True)
class SortedClaims:
    """A pod's claims: those that have their volume, those that wait for the pod; or why it cannot go anywhere."""

    bound: tuple[Claim, ...] = ()
    waiting: tuple[Claim, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class Choices:
    """For each waiting claim the number of its volume by row (NOTHING: one is made there), and where that fails: phrase
    that starts with is, has or does, and the rows."""

    given: dict[str, Ints] = field(default_factory=dict)
    failing: list[tuple[str, Bools]] = field(default_factory=list)


class Volumes:
    """Filled by the streams; asked by the volume rules, and by the ledger before it binds."""

    def __init__(
        self,
        *,
        row_of: Callable[[str], int | None] = lambda _: None,
        names: Callable[[], list[str]] = list,
        column: Callable[[str], LabelColumn] = lambda key: LabelColumn(key, (), 0),
    ) -> None:
        self.version = 0
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.node_drivers: dict[str, NodeDrivers] = {}
        self.drivers: dict[str, Driver] = {}
        self.capacities: dict[str, Capacity] = {}
        self.attachments: dict[str, Attachment] = {}
        self.reach = Reach(column=column, rows=lambda: len(names()))
        self.attached = Attachments(
            names=names,
            handle=self.handle,
            drivers=self.node_drivers,
            on_node=lambda name: (self.attachments[key] for key in self._attached_to.get(name, ())),
            volume_handle=self._attached_handle,
        )
        self._row_of = row_of
        self._names = names
        self._promises: dict[str, Promise] = {}
        self._undecided: dict[str, None] = {}
        self._promised: dict[str, str] = {}  # volume -> claim
        self._kept: defaultdict[str, set[str]] = defaultdict(set)  # claim -> volumes that name it
        self._claims_with: defaultdict[str, set[str]] = defaultdict(set)  # volume -> claims that name it
        self._of_class: defaultdict[str, set[str]] = defaultdict(set)
        self._attached_to: defaultdict[str, set[str]] = defaultdict(set)  # node -> attachments
        self._attached_of: defaultdict[str, set[str]] = defaultdict(set)  # volume -> attachments
        self._shelves: dict[tuple[object, ...], Shelf] = {}
        self._numbers: dict[str, int] = {}
        self._numbered: dict[int, str] = {}
        self._next_number = 0

    # -- changes -------------------------------------------------------------------------------------------------

    def table(self, kind: type[T]) -> dict[str, T]:
        tables: dict[type, dict[str, Any]] = {
            Claim: self.claims,
            Volume: self.volumes,
            StorageClass: self.classes,
            NodeDrivers: self.node_drivers,
            Driver: self.drivers,
            Capacity: self.capacities,
            Attachment: self.attachments,
        }
        return tables[kind]

    def put(self, thing: StorageObject) -> bool:
        """True if that is news to any rule."""
        table = self.table(type(thing))
        before = table.get(thing.key)
        table[thing.key] = thing
        if before == thing:
            return False
        self._note(before, thing)
        return True

    def drop(self, thing: StorageObject) -> bool:
        before = self.table(type(thing)).pop(thing.key, None)
        if before is None:
            return False
        self._note(before, None)
        return True

    def nodes_changed(self) -> None:
        """A node came, went or was relabelled."""
        self.reach.nodes_changed()
        self._shelves.clear()
        self.attached.all_changed()

    def _note(self, before: StorageObject | None, after: StorageObject | None) -> None:
        self.version += 1
        for thing in (before, after):
            match thing:
                case Claim():
                    self._index(self._claims_with, thing.volume, thing.key, there=thing is after)
                    self.attached.claim_changed(thing.key)
                case Volume():
                    self._note_volume(thing, there=thing is after)
                case StorageClass():
                    self.attached.all_changed()
                case NodeDrivers():
                    self.attached.row_changed(self._row_of(thing.key))
                case Attachment():
                    self._index(self._attached_to, thing.node, thing.key, there=thing is after)
                    self._index(self._attached_of, thing.volume, thing.key, there=thing is after)
                    self.attached.row_changed(self._row_of(thing.node))

    def _note_volume(self, volume: Volume, *, there: bool) -> None:
        self._index(self._kept, volume.claim, volume.key, there=there)
        self._index(self._of_class, volume.storage_class, volume.key, there=there)
        for wish in [wish for wish in self._shelves if wish[0] == volume.storage_class]:
            del self._shelves[wish]
        for key in self._claims_with.get(volume.key, ()):
            self.attached.claim_changed(key)
        for key in self._attached_of.get(volume.key, ()):
            self.attached.row_changed(self._row_of(self.attachments[key].node))
        if not there and volume.key not in self.volumes and volume.key in self._numbers:
            del self._numbered[self._numbers.pop(volume.key)]

    @staticmethod
    def _index(index: defaultdict[str, set[str]], key: str, name: str, *, there: bool) -> None:
        (index[key].add if there else index[key].discard)(name)
        if not index[key]:
            del index[key]

    # -- a pod's claims ------------------------------------------------------------------------------------------

    def sort(self, uses: Iterable[ClaimUse]) -> SortedClaims:
        bound: list[Claim] = []
        waiting: list[Claim] = []
        late = ""
        for use in uses:
            claim = self.claims.get(use.key)
            if problem := self._problem(use, claim):
                return SortedClaims(problem=problem)
            assert claim is not None
            if claim.bound:
                bound.append(claim)
            elif self.waits(claim):
                waiting.append(claim)
            else:
                why = self._why_unbound(claim)
                late = late or f"has no volume for claim {claim}: the claim is not bound yet{why}"
        return SortedClaims(problem=late) if late else SortedClaims(tuple(bound), tuple(waiting))

    def waits(self, claim: Claim) -> bool:
        """For its first consumer: the scheduler has to say where."""
        found = self.classes.get(claim.storage_class)
        return found is not None and found.waits and not claim.volume

    def choosiness(self, uses: Iterable[ClaimUse]) -> tuple[int, int]:
        """Whom to serve first, lest others take the only volumes that would do: who selects by labels, who asks for
        much."""
        waiting = [claim for use in uses if (claim := self.claims.get(use.key)) and self.waits(claim)]
        return (
            sum(claim.selector is not None for claim in waiting),
            max((claim.size for claim in waiting), default=0),
        )

    def _why_unbound(self, claim: Claim) -> str:
        if claim.volume:
            return f" to volume {claim.volume}"
        if claim.storage_class and claim.storage_class not in self.classes:
            return f", and its class {claim.storage_class} does not exist"
        return ""

    @staticmethod
    def _problem(use: ClaimUse, claim: Claim | None) -> str:
        lack = f"has no volume for claim {use}: "
        if claim is None:
            return lack + ("the claim has not been made yet" if use.owner else "the claim does not exist")
        if claim.lost:
            return f"{lack}the claim is lost, its volume {claim.volume} does not exist"
        if claim.deleted:
            return f"{lack}the claim is being deleted"
        if use.owner and claim.owner != use.owner:
            return f"{lack}the claim was not made for this pod"
        return ""

    def handle(self, key: str) -> Handle | None:
        """What the claim's volume is to its driver; a name of our own while it has no volume."""
        claim = self.claims.get(key)
        if claim is None:
            return None
        volume = self.volumes.get(claim.volume)
        if volume is not None:
            return (volume.driver, volume.handle) if volume.driver and volume.handle else None
        found = self.classes.get(claim.storage_class)
        if found is None:
            return None
        driver = PROVISIONERS.get(found.provisioner, found.provisioner)
        return (driver, f"claim {key}") if driver else None

    def _attached_handle(self, attachment: Attachment) -> Handle | None:
        volume = self.volumes.get(attachment.volume)
        if not attachment.attacher or volume is None or volume.plugin or not volume.driver:
            return None
        return attachment.attacher, volume.handle

    # -- reach ---------------------------------------------------------------------------------------------------

    def reached(self, volume: Volume) -> Bools:
        """The rows that a bound volume can be used from."""
        mask = self.reach.of_terms(volume.terms)
        if volume.plugin and volume.moved_terms != volume.terms:
            moved = self.reach.nowhere()
            moved[[row for row in self._rows_migrated(volume.plugin) if row is not None]] = True
            mask = np.where(moved, self.reach.of_terms(volume.moved_terms), mask)
        return mask

    def _rows_migrated(self, plugin: str) -> Iterable[int | None]:
        return (
            self._row_of(drivers.key) for drivers in self.node_drivers.values() if plugin in drivers.migrated
        )

    # -- claims that wait ----------------------------------------------------------------------------------------

    def choices(self, waiting: Sequence[Claim]) -> Choices:
        """What each of a pod's waiting claims would get on each row, beside all that is promised."""
        self._settle()
        return self._choices(waiting)

    def _choices(self, waiting: Sequence[Claim]) -> Choices:
        found = Choices()
        rows = len(self._names())
        to_make: list[tuple[Claim, Bools]] = []
        to_match: list[Claim] = []
        for claim in waiting:
            node = self.tied_to(claim)
            if node is None:
                to_match.append(claim)
                continue
            elsewhere = self.reach.everywhere()
            if (row := self._row_of(node)) is not None:
                elsewhere[row] = False
            found.failing.append(
                (f"is not node {node}, where the volume of claim {claim} is made", elsewhere)
            )
            found.given[claim.key] = np.full(rows, NOTHING)
            to_make.append((claim, self.reach.everywhere()))
        for claim in sorted(to_match, key=lambda claim: claim.size):
            given = self._matched(claim, list(found.given.values()))
            found.given[claim.key] = given
            to_make.append((claim, given == NOTHING))
        for claim, where in to_make:
            if where.any():
                found.failing += self._cannot_be_made(claim, where)
        return found

    def tied_to(self, claim: Claim) -> str | None:
        """The node that a volume is, or is going to be, made for."""
        if claim.selected_node is not None:
            return claim.selected_node
        promise = self._promises.get(claim.key)
        return promise.node if promise is not None and promise.decided and not promise.volume else None

    def _matched(self, claim: Claim, before: Sequence[Ints]) -> Ints:
        rows = len(self._names())
        kept = self.kept_for(claim)
        if kept is not None:
            given = np.where(self.reach.of_terms(kept.terms), self._number(kept.key), NOTHING)
            for earlier in before:
                given[earlier == given] = NOTHING
            return given
        shelf = self._shelves.get(claim.wish)
        if shelf is None:
            if len(self._shelves) >= MOST_SHELVES:
                self._shelves.clear()
            of_class = (self.volumes[name] for name in self._of_class.get(claim.storage_class, ()))
            serving = (volume for volume in of_class if volume.serves(claim))
            shelf = self._shelves[claim.wish] = stock(serving, self.reach, self._number)
        return shelf.best(rows, self._promised, before)

    def kept_for(self, claim: Claim) -> Volume | None:
        """The volume that is kept for the claim, by its own word or by promise."""
        promise = self._promises.get(claim.key)
        names = sorted(self._kept.get(claim.key, ()))
        if promise is not None and promise.volume:
            names.insert(0, promise.volume)
        for volume in (self.volumes[name] for name in names if name in self.volumes):
            free_or_ours = not volume.claim or volume.is_for(claim)
            if free_or_ours and volume.storage_class == claim.storage_class and volume.holds(claim):
                return volume
        return None

    def _cannot_be_made(self, claim: Claim, where: Bools) -> Iterable[tuple[str, Bools]]:
        found = self.classes[claim.storage_class]
        if not found.provisions:
            yield f"has no available volume of class {found.key} for claim {claim}", where
            return
        allowed = self.reach.everywhere()
        if found.topologies:
            allowed = self.reach.nowhere()
            for term in found.topologies:
                if term:
                    allowed |= self.reach.of_lines(term)
            yield f"is outside the topology of class {found.key} for claim {claim}", where & ~allowed
        driver = self.drivers.get(found.provisioner)
        if claim.sized and driver is not None and driver.tells_capacity:
            yield (
                f"has too little storage of class {found.key} for claim {claim}",
                where & allowed & ~self._roomy(found.key, claim.size),
            )

    def _roomy(self, storage_class: str, size: int) -> Bools:
        mask = self.reach.nowhere()
        for each in self.capacities.values():
            if (
                each.storage_class == storage_class
                and each.nodes is not None
                and each.largest is not None
                and each.largest >= size
            ):
                mask |= self.reach.of_lines(each.nodes.requirements)
        return mask

    # -- promises ------------------------------------------------------------------------------------------------

    def promise(self, uses: Iterable[ClaimUse], node: str) -> None:
        """A pod with these claims is to go there."""
        uses = tuple(uses)
        for use in uses:
            standing = self._promises.get(use.key)
            if standing is None:
                standing = self._promises[use.key] = Promise(node)
                self._undecided[use.key] = None
            standing.holders += 1
            if not standing.holders:
                del self._promises[use.key]
        self._settle()

    def withdraw(self, uses: Iterable[ClaimUse]) -> None:
        """It is bound by now, or goes elsewhere."""
        for use in uses:
            # A draft may take away a pod that nothing was promised to, and will put it back.
            standing = self._promises.setdefault(use.key, Promise(""))
            standing.holders -= 1
            if not standing.holders:
                del self._promises[use.key]
                self._undecided.pop(use.key, None)
                self._promised.pop(standing.volume, None)

    def promised(self, key: str) -> Promise | None:
        self._settle()
        return self._promises.get(key)

    def _settle(self) -> None:
        """Decide what can be decided: claims, volumes and nodes are not always known before their pods."""
        if not self._undecided:
            return
        known = [self.claims[key] for key in self._undecided if key in self.claims]
        for claim in sorted(known, key=lambda claim: claim.size):
            standing = self._promises[claim.key]
            if claim.bound or claim.volume:
                standing.decided = True
            elif self.waits(claim) and (row := self._row_of(standing.node)) is not None:
                number = int(self._choices([claim]).given[claim.key][row])
                standing.decided, standing.volume = True, self._numbered.get(number, "")
                if standing.volume:
                    self._promised[standing.volume] = claim.key
            if standing.decided:
                del self._undecided[claim.key]

    def _number(self, volume: str) -> int:
        number = self._numbers.get(volume)
        if number is None:
            number = self._numbers[volume] = self._next_number
            self._numbered[number] = volume
            self._next_number += 1
        return number
