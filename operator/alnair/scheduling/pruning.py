"""Which nodes of the cluster the exact search looks at.

A plan uses at most as many nodes as the gang has members. So of nodes that no rule can tell apart that many are
enough, and a node is left out if that many others are at least as good in everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alnair.scheduling.classes import MemberClass
from alnair.scheduling.model import Floats, numbered
from alnair.scheduling.plugins.interface import Linear
from alnair.scheduling.profile import Profile
from alnair.state.draft import Bools, Draft, Ints

LIKELY = 4  # nodes a member, to try first


def kept_nodes(
    classes: Sequence[MemberClass],
    possible: Bools,
    profile: Profile,
    draft: Draft,
    *,
    apart: Ints | None = None,
) -> tuple[Ints, Bools]:
    """Rows of the nodes that matter, and which of those are the likeliest. `possible`: classes x N. Nodes with
    different numbers in `apart` cannot stand in for one another."""
    nodes = np.flatnonzero(possible.any(axis=0))
    members = sum(len(each.members) for each in classes)
    if len(nodes) <= members:
        return nodes, np.ones(len(nodes), dtype=np.bool_)
    rules = [rule for rule in profile.filters if isinstance(rule, Linear)]
    kinds = numbered(
        [np.zeros(len(nodes), dtype=np.int64) if apart is None else apart[nodes]]
        + [trait[nodes] for rule in rules for trait in rule.traits(classes, draft)]
    )
    stock = [part[nodes] for rule in rules for part in rule.stock(classes, draft)]
    stock += [possible[number, nodes].astype(np.int64) for number in range(len(classes))]
    # The best of each kind first.
    worth: Floats = sum((part / max(int(part.max()), 1) for part in stock), np.zeros(len(nodes)))
    order = np.lexsort((-worth, kinds))
    nodes, kinds, stock = nodes[order], kinds[order], [part[order] for part in stock]
    kept = _rank(numbered([kinds, *stock])) < members
    kept = _undominated(kinds, stock, kept, members)
    kinds = kinds[kept]
    likely = _rank(kinds) < max(2, -(-LIKELY * members // max(len(np.unique(kinds)), 1)))
    rows = np.argsort(nodes[kept])  # back in the order of the books
    return nodes[kept][rows], likely[rows]


def _rank(kinds: Ints) -> Ints:
    """How many of the same kind come before each."""
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    rank = np.empty(len(kinds), dtype=np.int64)
    rank[order] = np.arange(len(kinds)) - np.searchsorted(ordered, ordered)
    return rank


def _undominated(kinds: Ints, stock: Sequence[Ints], kept: Bools, members: int) -> Bools:
    """Without those that enough of the best of their kind are at least as good as. The best stay, all of them."""
    kept = kept.copy()
    here = np.flatnonzero(kept)
    starts = np.flatnonzero(np.diff(kinds[here], prepend=-1))
    for own in np.split(here, starts[1:]):
        best, rest = own[: 2 * members], own[2 * members :]
        if not len(rest):
            continue
        beaten = np.ones((len(rest), len(best)), dtype=np.bool_)
        for part in stock:
            beaten &= part[rest][:, None] <= part[best]
        kept[rest[beaten.sum(axis=1) >= members]] = False
    return kept
