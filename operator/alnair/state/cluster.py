"""The books: every node, every card, every pod, and what is taken.

Fed by events, one object at a time; each changes only the rows it concerns. A pod is charged to the node where it
is bound, or where a plan or a record has put it, whichever is known: `hold` charges it before the apiserver knows,
`put_pod` confirms it later, and the two never count twice because a pod has one charge.

What must never happen here: a slice is given back because its pod *looks* gone. Cards are charged by holdings
alone, and only `release` ends a holding; the ledger calls it when the record no longer lists the slice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from alnair.api.topology import NodeResourceTopology
from alnair.state import wire
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.holding import Holding, Slice, parse_annotation
from alnair.state.inventory import NO_CARDS, Inventory, conclude, guard_against_renaming
from alnair.state.nodes import Node
from alnair.state.pods import Pod

T = TypeVar("T")

SHARERS_A_CARD = 16
FIRST_COLUMNS = ("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu")


@dataclass(frozen=True, slots=True)
class Charge:
    """What one pod takes: `requests` from its node, `slices` from the cards of the node that gave them.

    The two nodes are one, except for a pod that somebody else bound elsewhere while our record still lists its
    slices: until the ledger releases them they are taken where the record says.
    """

    node: str
    requests: tuple[tuple[str, int], ...]
    card_node: str
    slices: tuple[Slice, ...]


class ClusterState:
    """One cluster. Not thread-safe; lives on the event loop.

    `freed` grows whenever something that was missing may now be there (capacity given back, a node changed):
    a planner that was refused at one value need not try again until it differs.
    """

    def __init__(self, *, sharers: int = SHARERS_A_CARD, on_freed: Callable[[], None] = lambda: None) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.inventories: dict[str, Inventory] = {}
        self.topologies: dict[str, NodeResourceTopology] = {}
        self.holdings: dict[str, Holding] = {}
        self.freed = 0
        self.on_freed = on_freed
        self._sharers = sharers
        self._charges: dict[str, Charge] = {}
        self._charged_to: defaultdict[str, set[str]] = defaultdict(set)
        self._rows: dict[str, int] = {}
        self._spare: list[int] = []
        self._columns: dict[str, int] = {name: index for index, name in enumerate(FIRST_COLUMNS)}
        self._taint_sets: list[tuple[wire.Taint, ...]] = [()]
        self._taint_index: dict[tuple[wire.Taint, ...], int] = {(): 0}
        self._models: list[str] = [""]
        self._model_index: dict[str, int] = {"": 0}
        self._labelled: dict[tuple[str, str], Bools] = {}
        self._names: list[str] = []
        self._card_ids: list[tuple[str, ...]] = []
        self.allocatable: Ints
        self.used: Ints
        self._allocate(rows=0, cards=1)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        if self.nodes.get(node.name) == node:
            return
        self.nodes[node.name] = node
        row = self._row_of(node.name)
        for resource, _ in node.allocatable:
            self._column_of(resource)
        self.exists[row] = True
        self.ready[row] = node.ready
        self.unschedulable[row] = node.unschedulable
        self.owned[row] = node.owned_by_alnair
        self.taint_set[row] = _interned(node.taints, self._taint_sets, self._taint_index)
        self.allocatable[row] = 0
        for resource, amount in node.allocatable:
            self.allocatable[row, self._columns[resource]] = amount
        self._labelled.clear()
        self._renew_cards(node)
        self._free()

    def drop_node(self, name: str) -> None:
        """The node is gone from the apiserver. Charges to it are kept: it may come back with its pods."""
        if self.nodes.pop(name, None) is None:
            return
        self.inventories.pop(name, None)
        row = self._rows.pop(name)
        self._names[row] = ""
        self._card_ids[row] = ()
        for array in self._arrays():
            array[row] = 0
        self._labelled.clear()
        self._spare.append(row)

    def put_topology(self, name: str, topology: NodeResourceTopology) -> None:
        self.topologies[name] = topology
        if name in self.nodes:
            self._renew_cards(self.nodes[name])

    def drop_topology(self, name: str) -> None:
        if self.topologies.pop(name, None) is not None and name in self.nodes:
            self._renew_cards(self.nodes[name])

    # -- pods ----------------------------------------------------------------------------------------------------

    def put_pod(self, pod: Pod) -> None:
        """A bound pod is never unbound again: an event from before its Binding that comes late says nothing new."""
        known = self.pods.get(pod.uid)
        if known is not None and known.node and not pod.node:
            pod.node = known.node
        self.pods[pod.uid] = pod
        self._recharge(pod.uid)

    def drop_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self._recharge(uid)

    def hold(self, uid: str, holding: Holding) -> None:
        """A plan or a record gives this to the pod, whether or not it is bound yet."""
        self.holdings[uid] = holding
        self._recharge(uid)

    def release(self, uid: str) -> None:
        """The pod's slices are nobody's any more. The ledger's to call, after the record says so."""
        self.holdings.pop(uid, None)
        self._recharge(uid)

    # -- reading -------------------------------------------------------------------------------------------------

    def draft(self) -> Draft:
        """A private copy of what is free, and a shared look at the rest."""
        return Draft(
            names=self._names,
            columns=self._columns,
            exists=self.exists,
            ready=self.ready,
            unschedulable=self.unschedulable,
            owned=self.owned,
            taint_set=self.taint_set,
            taint_sets=self._taint_sets,
            labelled=self.labelled,
            allocatable=self.allocatable,
            free=self.allocatable - self.used,
            card_ids=self._card_ids,
            models=self._models,
            card_model=self.card_model,
            card_memory=self.card_memory,
            card_usable=self.card_usable,
            card_free_memory=self.card_memory - self.card_used_memory,
            card_free_compute=100 - self.card_used_compute,
            card_free_slots=self._sharers - self.card_users,
            card_users=self.card_users.copy(),
            card_exclusive=self.card_exclusive > 0,
        )

    def labelled(self, key: str, value: str) -> Bools:
        """Which rows carry this label; remembered until a node changes."""
        mask = self._labelled.get((key, value))
        if mask is None:
            mask = np.zeros(len(self._names), dtype=np.bool_)
            for name, node in self.nodes.items():
                mask[self._rows[name]] = (key, value) in node.labels
            self._labelled[key, value] = mask
        return mask

    def card_usage(self) -> Iterable[tuple[str, str, int, int, int]]:
        """(node, card, MiB there, MiB taken, users) of every card: for metrics and checks."""
        for name, row in self._rows.items():
            for index, card in enumerate(self._card_ids[row]):
                yield (
                    name,
                    card,
                    int(self.card_memory[row, index]),
                    int(self.card_used_memory[row, index]),
                    int(self.card_users[row, index]),
                )

    # -- charges -------------------------------------------------------------------------------------------------

    def _recharge(self, uid: str) -> None:
        before, after = self._charges.get(uid), self._charge_of(uid)
        if before == after:
            return
        if before is not None:
            self._apply(before, -1)
            del self._charges[uid]
            for name in {before.node, before.card_node}:
                self._charged_to[name].discard(uid)
                if not self._charged_to[name]:
                    del self._charged_to[name]
            if (
                before.slices
                and before.card_node in self.nodes
                and self.inventories[before.card_node].renamed
            ):
                self._renew_cards(
                    self.nodes[before.card_node]
                )  # cards closed because of this pod may open again
            self._free()
        if after is not None:
            self._apply(after, +1)
            for name in {after.node, after.card_node}:
                self._charged_to[name].add(uid)
            self._charges[uid] = after
            if after.slices and after.card_node in self.nodes and not self._knows(after):
                self._renew_cards(self.nodes[after.card_node], afresh=True)

    def _charge_of(self, uid: str) -> Charge | None:
        pod, holding = self.pods.get(uid), self.holdings.get(uid)
        slices: tuple[Slice, ...] = ()
        node = card_node = pod.node if pod is not None else ""
        if holding is not None:
            node, card_node = node or holding.node, holding.node
            slices = tuple(holding.slices())
        elif pod is not None and pod.node and not pod.terminal:
            slices = foreign_slices(pod)
        requests = pod.shape.requests if pod is not None and not pod.terminal else ()
        return Charge(node, requests, card_node, slices) if node and (requests or slices) else None

    def _apply(self, charge: Charge, sign: int) -> None:
        # What is charged to a node that is not there (any more) is applied when it comes.
        if (row := self._rows.get(charge.node)) is not None:
            self._apply_requests(row, charge.requests, sign)
        if (row := self._rows.get(charge.card_node)) is not None:
            self._apply_slices(row, charge.slices, sign)

    def _apply_requests(self, row: int, requests: Iterable[tuple[str, int]], sign: int) -> None:
        for resource, amount in requests:
            column = self._column_of(resource)  # may replace the array, so before it is looked at
            self.used[row, column] += sign * amount

    def _apply_slices(self, row: int, slices: Iterable[Slice], sign: int) -> None:
        for piece in slices:
            try:
                card = self._card_ids[row].index(piece.card)
            except ValueError:
                continue  # a card that vanished: it takes nothing from the ones that are left
            self.card_used_memory[row, card] += sign * piece.memory_mib
            self.card_used_compute[row, card] += sign * piece.compute_percent
            self.card_users[row, card] += sign
            if piece.whole:
                self.card_exclusive[row, card] += sign

    def _charges_to(self, name: str) -> Iterable[Charge]:
        return (self._charges[uid] for uid in self._charged_to.get(name, ()))

    def _knows(self, charge: Charge) -> bool:
        cards = self._card_ids[self._rows[charge.card_node]]
        return all(piece.card in cards for piece in charge.slices)

    def _free(self) -> None:
        self.freed += 1
        self.on_freed()

    def _renew_cards(self, node: Node, *, afresh: bool = False) -> None:
        """The node's cards may have changed: write its row of the card arrays anew, charges and all.

        `afresh`: as if the node were seen for the first time, because a pod came that holds cards we do not know.
        """
        held = [
            piece
            for charge in self._charges_to(node.name)
            if charge.card_node == node.name
            for piece in charge.slices
        ]
        inventory = conclude(node, self.topologies.get(node.name))
        before = NO_CARDS if afresh else self.inventories.get(node.name, NO_CARDS)
        inventory = guard_against_renaming(inventory, before, {piece.card for piece in held})
        self.inventories[node.name] = inventory
        row = self._rows[node.name]
        self._widen_cards(len(inventory.cards))
        for array in self._card_arrays():
            array[row] = 0
        self._card_ids[row] = tuple(card.id for card in inventory.cards)
        for index, card in enumerate(inventory.cards):
            self.card_memory[row, index] = card.memory_mib
            self.card_usable[row, index] = card.healthy
            self.card_model[row, index] = _interned(card.model, self._models, self._model_index)
        self._apply_slices(row, held, +1)
        self._free()

    # -- rows, columns, arrays -----------------------------------------------------------------------------------

    def _row_of(self, name: str) -> int:
        row = self._rows.get(name)
        if row is not None:
            return row
        if not self._spare:
            rows = len(self._names)
            grown = max(16, rows * 2)
            self._resize(rows=grown)
            self._spare.extend(reversed(range(rows, grown)))
        row = self._spare.pop()
        self._rows[name] = row
        self._names[row] = name
        self.inventories[name] = NO_CARDS
        for charge in self._charges_to(name):
            if charge.node == name:
                self._apply_requests(row, charge.requests, +1)
        return row

    def _column_of(self, resource: str) -> int:
        column = self._columns.get(resource)
        if column is None:
            column = self._columns[resource] = len(self._columns)
            extra = np.zeros((len(self._names), 1), dtype=np.int64)
            self.allocatable = np.concatenate([self.allocatable, extra], axis=1)
            self.used = np.concatenate([self.used, extra], axis=1)
        return column

    def _allocate(self, *, rows: int, cards: int) -> None:
        columns = len(self._columns)
        self.exists = np.zeros(rows, dtype=np.bool_)
        self.ready = np.zeros(rows, dtype=np.bool_)
        self.unschedulable = np.zeros(rows, dtype=np.bool_)
        self.owned = np.zeros(rows, dtype=np.bool_)
        self.taint_set = np.zeros(rows, dtype=np.int64)
        self.allocatable = np.zeros((rows, columns), dtype=np.int64)
        self.used = np.zeros((rows, columns), dtype=np.int64)
        self.card_memory = np.zeros((rows, cards), dtype=np.int64)
        self.card_model = np.zeros((rows, cards), dtype=np.int64)
        self.card_usable = np.zeros((rows, cards), dtype=np.bool_)
        self.card_used_memory = np.zeros((rows, cards), dtype=np.int64)
        self.card_used_compute = np.zeros((rows, cards), dtype=np.int64)
        self.card_users = np.zeros((rows, cards), dtype=np.int64)
        self.card_exclusive = np.zeros((rows, cards), dtype=np.int64)

    def _card_arrays(self) -> tuple[Ints | Bools, ...]:
        return (
            self.card_memory,
            self.card_model,
            self.card_usable,
            self.card_used_memory,
            self.card_used_compute,
            self.card_users,
            self.card_exclusive,
        )

    def _arrays(self) -> tuple[Ints | Bools, ...]:
        return (
            self.exists,
            self.ready,
            self.unschedulable,
            self.owned,
            self.taint_set,
            self.allocatable,
            self.used,
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
        self._labelled.clear()

    def _widen_cards(self, cards: int) -> None:
        if cards > self.card_memory.shape[1]:
            self._resize(cards=cards)


def _interned(thing: T, things: list[T], index: dict[T, int]) -> int:
    """The thing's number; equal things have one number."""
    number = index.get(thing)
    if number is None:
        number = index[thing] = len(things)
        things.append(thing)
    return number


def foreign_slices(pod: Pod) -> tuple[Slice, ...]:
    """What a bound pod that we have no record of says it holds: another instance's, or from before our time."""
    if not pod.slices or pod.annotated_node != pod.node:
        return ()
    try:
        return tuple(piece for container in parse_annotation(pod.slices) for piece in container.slices)
    except ValueError:
        return ()
