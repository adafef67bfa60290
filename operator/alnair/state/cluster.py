"""The books: every node, every card, every pod, and what is taken.

Fed by events, one object at a time; each changes only the rows it concerns. A pod is charged to the node where it
is bound, or where a plan or a record has put it, whichever is known: `hold` charges it before the apiserver knows,
`put_pod` confirms it later, and the two never count twice because a pod has one charge.

What must never happen here: a slice is given back because its pod *looks* gone. Cards are charged by holdings
alone, and only `release` ends a holding; the ledger calls it when the record no longer lists the slice.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeVar

from alnair.api import names
from alnair.api.topology import NodeResourceTopology
from alnair.state import wire
from alnair.state.charges import Charge, charge_of, guest
from alnair.state.columns import ImageColumn, LabelColumn
from alnair.state.company import Company
from alnair.state.draft import Draft
from alnair.state.holding import CardUse, Holding
from alnair.state.inventory import (
    NO_CARDS,
    Inventory,
    conclude,
    distances,
    guard_against_renaming,
    nearest_pairs,
)
from alnair.state.loads import Decay, Loads
from alnair.state.nodes import Node, steadied
from alnair.state.pods import Pod
from alnair.state.refusals import Refusals
from alnair.state.services import Services
from alnair.state.shapes import ClaimUse, PodClass
from alnair.state.table import Table
from alnair.state.volumes import Volumes
from alnair.state.zones import Zones

T = TypeVar("T")

SHARERS_A_CARD = 16
MOST_LABELS = 512  # whose values are known node by node; the one asked for longest ago is forgotten
SPARE_TAINT_SETS = 1000  # kept beyond two for each node, though no node has them
MOST_IMAGES = 512  # whose sizes are known node by node


class ClusterState(Table):
    """One cluster. Not thread-safe; lives on the event loop.

    `version` grows with every change, and `changed_at[row]` is its value at the row's last change. `freed` is its
    value when something that was missing may last have come (capacity given back, a node changed), `freed_at[row]`
    the same for a row: a planner that was refused need not look again until something was freed where it looks.
    `arrived` is its value when a pod last came: who must be near somebody may have waited for that.

    `on_cards` is called with a node's name when its cards are others than before (before, now), the books being right.
    """

    def __init__(
        self,
        *,
        sharers: int = SHARERS_A_CARD,
        decay: Decay | None = None,
        on_freed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.on_cards: Callable[[str, Inventory, Inventory], None] = lambda node, before, after: None
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.inventories: dict[str, Inventory] = {}
        self.topologies: dict[str, NodeResourceTopology] = {}
        self.holdings: dict[str, Holding] = {}
        self.volumes = Volumes(row_of=self.row, names=lambda: self._names, column=self.label_column)
        self.services = Services()
        self.refusals = Refusals(self._refusals_changed)
        self.zones = Zones()
        self.loads = Loads(decay)
        self.company = Company(self._everyone, on_volumes=self.volumes.attached.moved)
        self.version = 0
        self.freed = 0
        self.arrived = 0
        self.on_freed = on_freed
        self._sharers = sharers
        self._charges: dict[str, Charge] = {}
        self._charged_to: defaultdict[str, set[str]] = defaultdict(set)
        self._taint_sets: list[tuple[wire.Taint, ...]] = [()]
        self._taint_index: dict[tuple[wire.Taint, ...], int] = {(): 0}
        self._models: list[str] = [""]
        self._model_index: dict[str, int] = {"": 0}
        self._label_columns: OrderedDict[str, LabelColumn] = OrderedDict()
        self._image_columns: dict[str, ImageColumn] = {}
        self._nominated: dict[str, Pod] = {}
        self._awaited: dict[str, PodClass] = {}  # places that are kept for pods to come -> one of those pods
        self._promised: dict[str, tuple[tuple[ClaimUse, ...], str]] = {}  # pods on their way to their volumes

    # -- nodes ---------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        before = self.nodes.get(node.name)
        node = steadied(node, before)
        if before == node:
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
        if len(self._taint_sets) > 2 * len(self.nodes) + SPARE_TAINT_SETS:
            self._number_taints_anew()
        self.free[row] -= self.allocatable[row]
        self.allocatable[row] = 0
        for resource, amount in node.allocatable:
            self.allocatable[row, self._columns[resource]] = amount
        self.free[row] += self.allocatable[row]
        self._write_columns(row, before, node)
        self._renew_cards(node)
        self._free(row)

    def _number_taints_anew(self) -> None:
        """Autoscalers taint with the time of day: what no node has any more is let go."""
        self._taint_sets, self._taint_index = [()], {(): 0}
        self.taint_set[:] = 0
        for name, node in self.nodes.items():
            number = _interned(node.taints, self._taint_sets, self._taint_index)
            self.taint_set[self._rows[name]] = number

    def drop_node(self, name: str) -> None:
        """The node is gone from the apiserver. Charges to it are kept: it may come back with its pods."""
        if self.nodes.pop(name, None) is None:
            return
        cards = self.inventories.pop(name, NO_CARDS)
        row = self._rows[name]
        for charge in self._charges_to(name):
            if charge.node == name and charge.guest is not None:
                self.company.leave(row, charge.guest)
        self._write_columns(row, None, None)
        self.loads.drop(name)
        self._drop_row(name)
        self._change(row)
        self._free(row)  # a domain that is gone may be what a spread rule waited for
        if cards != NO_CARDS:
            self.on_cards(name, cards, NO_CARDS)

    def put_readings(self, node: wire.Node, *, now: float, wall: float) -> None:
        """What its profiler measured; after `put_node`. Only a wish, so nobody is woken."""
        meta = node.metadata
        row = self.loads.put(meta.name, meta.annotations, now=now, wall=wall, managed=meta.managed_fields)
        if row is not None:
            self.loads.free_compute[row] = self.card_free_compute[row]
            self.loads.free_memory[row] = self.card_free_memory[row]

    def put_topology(self, name: str, topology: NodeResourceTopology) -> None:
        self.topologies[name] = topology
        self.zones.publish(name, topology, self._pods_on(name))
        if name in self.nodes:
            self._renew_cards(self.nodes[name])

    def drop_topology(self, name: str) -> None:
        self.zones.drop(name)
        if self.topologies.pop(name, None) is not None and name in self.nodes:
            self._renew_cards(self.nodes[name])

    # -- pods ----------------------------------------------------------------------------------------------------

    def put_pod(self, pod: Pod) -> None:
        """A bound pod is never unbound again: an event from before its Binding that comes late says nothing new."""
        known = self.pods.get(pod.uid)
        if known is not None and known.node and not pod.node:
            pod.node = known.node
        self.pods[pod.uid] = pod
        self._note_nomination(pod)
        self._recharge(pod.uid)

    def drop_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)
        if self._nominated.pop(uid, None) is not None:
            self._free()
        self._recharge(uid)

    def hold(self, uid: str, holding: Holding) -> None:
        """A plan or a record gives this to the pod, whether or not it is bound yet."""
        self.holdings[uid] = holding
        self._recharge(uid)

    def reserve(self, place: str, holding: Holding, pod: PodClass | None) -> None:
        """A record keeps this for a pod to come, which is like `pod`: what that asks of its node is taken too. Without
        it only the cards are."""
        if pod is not None:
            self._awaited[place] = pod
        self.hold(place, holding)

    def release(self, uid: str) -> None:
        """The slices of this pod, or place, are nobody's any more. The ledger's to call, after the record says so."""
        self.holdings.pop(uid, None)
        self._awaited.pop(uid, None)
        self._recharge(uid)

    # -- reading -------------------------------------------------------------------------------------------------

    def draft(self) -> Draft:
        """The books to scribble on; see `Draft`."""
        return Draft(
            names=self._names,
            rows=self._all_rows,
            columns=self._columns,
            exists=self.exists,
            ready=self.ready,
            unschedulable=self.unschedulable,
            owned=self.owned,
            sliced=self.sliced,
            taint_set=self.taint_set,
            taint_sets=self._taint_sets,
            allocatable=self.allocatable,
            free=self.free,
            card_ids=self._card_ids,
            card_links=self._card_links,
            nearest_pairs=self.nearest_pairs,
            models=self._models,
            card_model=self.card_model,
            card_index=self.card_index,
            card_numa=self.card_numa,
            card_memory=self.card_memory,
            card_usable=self.card_usable,
            card_free_memory=self.card_free_memory,
            card_free_compute=self.card_free_compute,
            card_free_slots=self.card_free_slots,
            card_users=self.card_users,
            card_exclusive=self.card_exclusive,
            company=self.company,
            volumes=self.volumes,
            services=self.services,
            refusals=self.refusals,
            zones=self.zones,
            load=self.loads.load(),
            label_column=self.label_column,
            image_column=self.image_column,
            version=self.version,
            changed_at=self.changed_at,
        )

    def label_column(self, key: str) -> LabelColumn:
        column = self._label_columns.get(key)
        if column is None or column.worn:
            while len(self._label_columns) >= MOST_LABELS:
                self._label_columns.popitem(last=False)
            column = self._label_columns[key] = LabelColumn(key, self._numbered(), len(self._names))
        self._label_columns.move_to_end(key)
        return column

    def image_column(self, name: str) -> ImageColumn:
        column = self._image_columns.get(name)
        if column is None:
            if len(self._image_columns) >= MOST_IMAGES:
                self._image_columns.clear()
            column = self._image_columns[name] = ImageColumn(name, self._numbered(), len(self._names))
        return column

    def row(self, name: str) -> int | None:
        return self._rows.get(name)

    def dispute(self, name: str) -> str:
        """Why the node's cards are closed though both parties do their best; empty if they are not.

        Slices that we gave before the node became a device plugin's are on cards that the plugin takes for idle.
        """
        row = self._rows.get(name)
        if row is None or self.owned[row] or not self.sliced[row]:
            return ""
        return (
            "the cards are a device plugin's now, but pods still hold cards that Alnair gave them; as the plugin may "
            f"give those again, nothing new is placed on any until these pods end (label {names.GPU_OWNER} says whose "
            "the cards are)"
        )

    def expected(self, *, priority: int, beside: Container[str]) -> list[tuple[int, PodClass]]:
        """Pods that a preemption has made room for and that go before a pod of this priority: (row, pod).

        They are not bound yet, so no charge stands for them; `beside` are UIDs that do not count.
        """
        return [
            (row, guest(pod))
            for uid, pod in self._nominated.items()
            if pod.priority >= priority
            and uid not in beside
            and uid not in self.holdings
            and (row := self._rows.get(pod.nominated)) is not None
        ]

    def charged_to(self, name: str) -> list[str]:
        """UIDs of the pods that take something of the node or of its cards."""
        return list(self._charged_to.get(name, ()))

    def overcommitted(self, name: str) -> dict[str, str]:
        """Cards of which more is held than there is, because they shrank or somebody else gave them, too -> what there
        is too little of."""
        if (row := self._rows.get(name)) is None:
            return {}
        memory, slots = self.card_free_memory[row], self.card_free_slots[row]
        return {
            card: f"{self.card_memory[row, index]} MiB"
            if memory[index] < 0
            else f"{slots[index] + self.card_users[row, index]} slots"
            for index, card in enumerate(self._card_ids[row])
            if memory[index] < 0 or slots[index] < 0
        }

    def card_usage(self) -> Iterable[tuple[str, str, int, int, int]]:
        """(node, card, MiB there, MiB taken, users) of every card: for metrics and checks."""
        for name, row in self._rows.items():
            for index, card in enumerate(self._card_ids[row]):
                yield (
                    name,
                    card,
                    int(self.card_memory[row, index]),
                    int(self.card_memory[row, index] - self.card_free_memory[row, index]),
                    int(self.card_users[row, index]),
                )

    # -- charges -------------------------------------------------------------------------------------------------

    def _recharge(self, uid: str) -> None:
        before = self._charges.get(uid)
        after = charge_of(self.pods.get(uid), self.holdings.get(uid), awaited=self._awaited.get(uid))
        self._promise_volumes(uid)
        if self.zones.nodes:
            here = after.node if after is not None and after.guest is not None else ""
            more = self.zones.moved(uid, self.pods.get(uid), before.node if before else "", here)
            if more and (row := self._rows.get(here)) is not None:
                self._change(row)
                self._free(row)
        if before == after:
            return
        if before is not None:
            self._apply(before, -1)
            del self._charges[uid]
            for name in {before.node, before.card_node}:
                self._charged_to[name].discard(uid)
                if not self._charged_to[name]:
                    del self._charged_to[name]
            for name in {before.node, before.card_node}:
                if (row := self._rows.get(name)) is not None:
                    self._free(row)
        if after is not None:
            self._apply(after, +1)
            for name in {after.node, after.card_node}:
                self._charged_to[name].add(uid)
            self._charges[uid] = after
            self.arrived = self.version
            self.on_freed()
            if after.uses and after.card_node in self.nodes and not self._knows(after):
                closed = self.inventories[after.card_node].renamed
                self._renew_cards(self.nodes[after.card_node], afresh=not closed)
        if (
            before is not None
            and before.uses
            and before.card_node in self.nodes
            and self.inventories[before.card_node].renamed
        ):
            # Cards closed because of this pod may open again; not before it is known what it holds now.
            self._renew_cards(self.nodes[before.card_node])

    def _pods_on(self, name: str) -> Iterable[tuple[str, Pod]]:
        for uid in self._charged_to.get(name, ()):
            if self._charges[uid].node == name and self._charges[uid].guest is not None:
                yield uid, self.pods[uid]

    def _promise_volumes(self, uid: str) -> None:
        """A pod that a plan or record has put somewhere is promised its volumes until it is bound, or never will be."""
        pod, standing = self.pods.get(uid), self._promised.get(uid)
        wanted = None
        if pod is not None and pod.shape.claims and not (pod.node or pod.terminal):
            holding = self.holdings.get(uid)
            wanted = (pod.shape.claims, holding.node) if holding is not None else None
        if wanted == standing:
            return
        if standing is not None:
            self.volumes.withdraw(self._promised.pop(uid)[0])
        if wanted is not None:
            self.volumes.promise(*wanted)
            self._promised[uid] = wanted

    def _apply(self, charge: Charge, sign: int) -> None:
        # What is charged to a node that is not there (any more) is applied when it comes.
        if (row := self._rows.get(charge.node)) is not None:
            self._apply_requests(row, charge, sign)
            self._change(row)
        if (row := self._rows.get(charge.card_node)) is not None:
            self._apply_uses(row, charge.uses, sign)
            self._change(row)

    def _apply_requests(self, row: int, charge: Charge, sign: int) -> None:
        for resource, amount in charge.requests:
            if (column := self._columns.get(resource)) is not None:  # else no node has any of it
                self.free[row, column] -= sign * amount
        if charge.guest is not None:
            (self.company.come if sign > 0 else self.company.leave)(row, charge.guest)

    def _apply_uses(self, row: int, uses: Sequence[CardUse], sign: int) -> None:
        self.sliced[row] += sign * len(uses)
        for use in uses:
            try:
                card = self._card_ids[row].index(use.card)
            except ValueError:
                continue  # a card that vanished: it takes nothing from the ones that are left
            self.card_free_memory[row, card] -= sign * use.memory_mib
            self.card_free_compute[row, card] -= sign * use.compute_percent
            self.card_free_slots[row, card] -= sign * use.slots
            self.card_users[row, card] += sign * use.slots
            self.card_exclusive[row, card] += sign * use.whole

    def _charges_to(self, name: str) -> Iterable[Charge]:
        return (self._charges[uid] for uid in self._charged_to.get(name, ()))

    def _knows(self, charge: Charge) -> bool:
        cards = self._card_ids[self._rows[charge.card_node]]
        return all(use.card in cards for use in charge.uses)

    def _everyone(self) -> Iterable[tuple[int, PodClass]]:
        for charge in self._charges.values():
            if charge.guest is not None and (row := self._rows.get(charge.node)) is not None:
                yield row, charge.guest

    def _note_nomination(self, pod: Pod) -> None:
        before = self._nominated.get(pod.uid)
        if pod.nominated and not pod.node and not pod.terminal:
            self._nominated[pod.uid] = pod
            if before is not None and (before.nominated, before.priority, before.shape) != (
                pod.nominated,
                pod.priority,
                pod.shape,
            ):
                self._free()  # it keeps another room than before, or gives way to others now
        elif self._nominated.pop(pod.uid, None) is not None:
            self._free()

    def _change(self, row: int) -> None:
        self.version += 1
        self.changed_at[row] = self.version

    def _free(self, row: int | None = None) -> None:
        """Something may be there now that was not; without a row: anywhere."""
        self.version += 1
        self.freed = self.version
        self.freed_at[slice(None) if row is None else row] = self.version
        self.on_freed()

    def _refusals_changed(self, name: str, opened: bool) -> None:
        if (row := self._rows.get(name)) is not None:
            self._change(row)
            if opened:
                self._free(row)

    def free_everywhere(self) -> None:
        """Something changed that no row tells of: a volume, a namespace's labels, a promise."""
        self._free()

    def judge_names_anew(self) -> None:
        """All that is held is known now: of a part of it, names may have looked like other ones than they are."""
        for name, node in self.nodes.items():
            if self.inventories[name].renamed:
                self._renew_cards(node, afresh=True)

    def _renew_cards(self, node: Node, *, afresh: bool = False) -> None:
        """The node's cards may have changed: write its row of the card arrays anew, charges and all.

        `afresh`: as if the node were seen for the first time, because a pod came that holds cards we do not know, or
        only now all pods are known.
        """
        held = [
            use
            for charge in self._charges_to(node.name)
            if charge.card_node == node.name
            for use in charge.uses
        ]
        inventory = conclude(node, self.topologies.get(node.name))
        known = self.inventories.get(node.name, NO_CARDS)
        before = NO_CARDS if afresh else known
        inventory = guard_against_renaming(inventory, before, {use.card for use in held}, node=node.name)
        self.inventories[node.name] = inventory
        row = self._rows[node.name]
        self._widen_cards(len(inventory.cards))
        for array in self._card_arrays():
            array[row] = 0
        self.sliced[row] = 0
        self._card_ids[row] = tuple(card.id for card in inventory.cards)
        self._card_links[row] = distances(inventory.cards)
        self.nearest_pairs[row] = nearest_pairs(self._card_links[row])
        for index, card in enumerate(inventory.cards):
            self.card_memory[row, index] = self.card_free_memory[row, index] = card.memory_mib
            self.card_free_compute[row, index] = 100
            self.card_free_slots[row, index] = card.slots or self._sharers
            self.card_usable[row, index] = card.healthy
            self.card_numa[row, index] = card.numa
            self.card_index[row, index] = card.index
            self.card_model[row, index] = _interned(card.model, self._models, self._model_index)
        self._apply_uses(row, held, +1)
        self.loads.seat(node.name, row, [card.index for card in inventory.cards])
        self._change(row)
        self._free(row)
        if inventory != known:
            self.on_cards(node.name, known, inventory)

    def _numbered(self) -> Iterable[tuple[int, Node]]:
        return ((self._rows[name], node) for name, node in self.nodes.items())

    def _write_columns(self, row: int, before: Node | None, node: Node | None) -> None:
        if before is None or node is None or before.labels != node.labels:
            self.volumes.nodes_changed()
            for labels in self._label_columns.values():
                labels.write(row, node)
        if before is None or node is None or before.images != node.images:
            for images in self._image_columns.values():
                images.write(row, node)

    # -- rows ----------------------------------------------------------------------------------------------------

    def _row_of(self, name: str) -> int:
        row = self._rows.get(name)
        if row is not None:
            return row
        row = self._new_row(name)
        self.inventories[name] = NO_CARDS
        for charge in self._charges_to(name):
            if charge.node == name:
                self._apply_requests(row, charge, +1)
        self._change(row)
        return row

    def _widened(self, resource: str) -> None:
        """The first node that has any of it has come; some pods may ask for it already."""
        column = self._columns[resource]
        for charge in self._charges.values():
            if (row := self._rows.get(charge.node)) is not None:
                self.free[row, column] -= dict(charge.requests).get(resource, 0)

    def _grown(self, rows: int) -> None:
        self.company.resize(rows)
        self.loads.resize(rows, self.card_memory.shape[1])
        self._label_columns.clear()
        self._image_columns.clear()


def _interned(thing: T, things: list[T], index: dict[T, int]) -> int:
    """The thing's number; equal things have one number."""
    number = index.get(thing)
    if number is None:
        number = index[thing] = len(things)
        things.append(thing)
    return number
