"""Which cards a node has: one model, several sources, one conclusion.

`cards` is the model, `conclusion` the order in which sources are believed, `renaming` what happens while pods hold
cards under names that are no longer told, `publication` what Alnair itself tells. Each source is one file: `zones`,
`hami`, `profiler`, `labels`.
"""

from alnair.state.inventory.cards import NO_CARDS, Card, Inventory, Unreadable
from alnair.state.inventory.conclusion import conclude
from alnair.state.inventory.links import distances, nearest_pairs
from alnair.state.inventory.renaming import guard_against_renaming
from alnair.state.inventory.zones import numa_number

__all__ = [
    "NO_CARDS",
    "Card",
    "Inventory",
    "Unreadable",
    "conclude",
    "distances",
    "guard_against_renaming",
    "nearest_pairs",
    "numa_number",
]
