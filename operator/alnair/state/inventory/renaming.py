"""Cards whose names change under their users.

What must never happen: that all that is held vanishes from the books because the same cards are called otherwise, and
the full cards are given out again.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from alnair.state.inventory.cards import Inventory, is_made_up


def guard_against_renaming(
    inventory: Inventory, before: Inventory, held: Set[str], *, node: str
) -> Inventory:
    """Close the node's cards while pods hold some of them under names that another source gave them.

    When the source that told UUIDs falls silent, the next one calls the same cards NODE/INDEX. A card that vanishes
    while its source goes on speaking, and names no new one, is no renaming. At a start, with nothing to compare, it is
    one if none of the names is known, or one that nobody holds is of another kind than one that is not known: one
    source may tell the UUIDs of some cards only.
    """
    known = {card.id for card in inventory.cards}
    unknown = sorted(held - known)
    if not before.source:
        free = known - held
        of_both_kinds = len({is_made_up(node, name) for name in (*unknown, *free)}) > 1
        suspicious = held.isdisjoint(known) or bool(free and of_both_kinds)
    else:
        new_names = known - {card.id for card in before.cards}
        suspicious = before.renamed or before.source != inventory.source or bool(new_names)
    if not unknown or not suspicious or not inventory.cards:
        return inventory
    problem = (
        f"the cards are now told by {inventory.source} under other names, but pods still hold "
        f"{', '.join(unknown[:3])}; nothing new is placed on them until those pods end or the names come back"
    )
    closed = tuple(replace(card, healthy=False) for card in inventory.cards)
    return Inventory(closed, inventory.source, (*inventory.problems, problem), renamed=True)
