"""Which members leave when a gang shrinks, where its owner does not dictate it.

Those that stand most alone go first: the node that has fewest of the gang is emptied before the next, so that the rest
stays on few nodes and whole nodes become free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def leaving(members: Mapping[str, str], count: int) -> list[str]:
    """So many of the members (each with its node), the first to leave first; of equals, the last by name."""
    beside = Counter(members.values())
    order = sorted(members, reverse=True)
    order.sort(key=lambda member: (beside[members[member]], members[member]))
    return order[: max(count, 0)]
