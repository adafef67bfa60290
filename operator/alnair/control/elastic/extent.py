"""How many cards hang together in this cluster: by the fastest links, on a node, in a rack. At most, each.

The usual speed-up of a gang has its corners where one of these is full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from alnair.state.cluster import ClusterState
from alnair.state.inventory import Inventory, distances


@dataclass(frozen=True, slots=True)
class Extent:
    """In cards, or in members of a gang; 0: there is no such thing, or none fits in."""

    link: int = 0
    node: int = 0
    rack: int = 0

    def in_members(self, cards: int) -> Extent:
        """With so many cards each."""
        return Extent(self.link // cards, self.node // cards, self.rack // cards)


def extent_of(state: ClusterState, rack: str | None) -> Extent:
    """`rack`: the label that tells racks, if one does. Of nodes with the same models of cards one speaks for all."""
    kinds: dict[tuple[str, ...], Inventory] = {}
    racks: Counter[str] = Counter()
    for name, inventory in state.inventories.items():
        if not inventory.cards:
            continue
        kinds.setdefault(tuple(card.model for card in inventory.cards), inventory)
        if rack is not None and (where := state.nodes[name].labels.get(rack)) is not None:
            racks[where] += len(inventory.cards)
    return Extent(
        link=max(map(_linked, kinds.values()), default=0),
        node=max(map(len, kinds), default=0),
        rack=max(racks.values(), default=0),
    )


def _linked(inventory: Inventory) -> int:
    """Cards of the largest set that are as near to each other as the nearest; 0 where nobody tells."""
    between = distances(inventory.cards)
    if between is None or len(between) < 2:
        return 0
    nearest = min(int(between[one, other]) for one in range(len(between)) for other in range(one))
    left, largest = set(range(len(between))), 0
    while left:
        largest = max(largest, len(_reached(left.pop(), left, between.tolist(), nearest)))
    return largest


def _reached(start: int, left: set[int], between: Sequence[Sequence[int]], nearest: int) -> list[int]:
    """From one card on by the nearest links. Whoever is reached is not `left` any more."""
    found = [start]
    for card in found:
        near = [other for other in left if min(between[card][other], between[other][card]) <= nearest]
        left.difference_update(near)
        found += near
    return found
