"""Which of the cards that would do: near to each other, and so that near cards stay together for whoever comes next.

Of all sets of the size asked for, the best one. What is looked at, in this order:

1. the worst link within the set, then all its links together (several cards only);
2. the picker: tightest first, roomiest first;
3. what is left behind: as few as possible of the nearest links between idle cards are cut, then of the second nearest,
   and so on. So a card whose partner is gone goes before one of a whole pair, and one that others use already goes
   before an idle one;
4. the lower index.

Distances are compared, never added up: a publisher may send any 64-bit number, and only their order means something.
Added up are their ranks. A link is as bad as its worse direction.

Up to `EXACT` candidates all sets are looked at. Beyond that a set is grown from each card by its nearest neighbours,
and the best of those is taken: for pairs that is exact too, for larger sets it may not be.

Where nobody tells the links, the picker's order is all there is, and none of this is reckoned.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.plugins.interface import Picker
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

EXACT = 16

# One row a set, one column a candidate: 1 where the card is in it. In floats, because products of those are fast, and
# exact for numbers as small as these (64 cards have 2,016 links, and so many ranks).
Sets = NDArray[np.float64]


def chosen_cards(
    pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints, picker: Picker
) -> Ints:
    """As many of the candidates (in the order of their indices, and enough) as the demand asks for."""
    keys = picker.keys(pod, demand, draft, row, candidates)
    links = draft.card_links[row]
    if links is None:
        return candidates[np.argsort(keys, kind="stable")[: demand.cards]]
    idle = draft.card_usable[row] & (draft.card_users[row] == 0)
    return best_set(demand.cards, candidates, keys, links, np.flatnonzero(idle))


def best_set(cards: int, candidates: Ints, keys: Ints, links: Ints, idle: Ints) -> Ints:
    """`keys`: of each candidate, smaller is better. `links`: distances of all cards of the node. `idle`: those that
    nobody uses, candidates or not."""
    if cards >= len(candidates):
        return candidates
    return _remembered(cards, candidates.tobytes(), keys.tobytes(), links.tobytes(), idle.tobytes())


@lru_cache(maxsize=1024)
def _remembered(cards: int, candidates: bytes, keys: bytes, links: bytes, idle: bytes) -> Ints:
    """Equal nodes in equal states are the rule: most answers are known. Not to be written to."""
    chosen = _best_set(cards, _ints(candidates), _ints(keys), _ranked(links), _ints(idle))
    chosen.flags.writeable = False
    return chosen


def _ints(raw: bytes) -> Ints:
    return np.frombuffer(raw, dtype=np.int64)


@lru_cache(maxsize=256)
def _ranked(links: bytes) -> Ints:
    """0 for the nearest pairs, 1 for the second nearest, … and -1 from a card to itself."""
    distances = _ints(links).reshape(math.isqrt(len(links) // 8), -1)
    ranks = 1 + _dense(np.maximum(distances, distances.T)).reshape(distances.shape)
    np.fill_diagonal(ranks, 0)
    return _dense(ranks).reshape(distances.shape) - 1


def _dense(values: Ints) -> Ints:
    """0 for the smallest, 1 for the second smallest, …"""
    return np.unique(values, return_inverse=True)[1].ravel()


def _best_set(cards: int, candidates: Ints, keys: Ints, ranks: Ints, idle: Ints) -> Ints:
    if ranks.max() <= 0:  # all cards of the node are equally near
        return np.sort(candidates[np.argsort(keys, kind="stable")[:cards]])
    near = ranks[np.ix_(candidates, candidates)]
    if cards == 1:
        sets: Sets = np.eye(len(candidates))
    else:
        sets = _all_sets(len(candidates), cards) if len(candidates) <= EXACT else _grown(cards, near, keys)
        sets = _best_linked(sets, near, cards)
    sets = _least(sets, sets @ _dense(keys))
    sets = _least_cut(sets, ranks, candidates, idle)
    return candidates[np.flatnonzero(sets[0])]


@lru_cache(maxsize=256)
def _all_sets(candidates: int, cards: int) -> Sets:
    """In order of their indices. Not to be written to."""
    chosen = np.array(list(combinations(range(candidates), cards)))
    sets = np.zeros((len(chosen), candidates))
    np.put_along_axis(sets, chosen, 1.0, axis=1)
    sets.flags.writeable = False
    return sets


def _grown(cards: int, near: Ints, keys: Ints) -> Sets:
    """From each candidate a set: whoever makes its worst link, then its sum of links, then its key worse by least."""
    count, keys = len(near), _dense(keys)
    sets = np.eye(count)
    worst, total = near.copy(), near.copy()
    for _ in range(cards - 1):
        # 64 cards: ranks below 2,017, sums below 130,000, keys below 64
        badness = (worst * (1 << 20) + total) * count + keys
        added = np.where(sets > 0, np.iinfo(np.int64).max, badness).argmin(axis=1)
        sets[np.arange(count), added] = 1.0
        worst = np.maximum(worst, near[added])
        total = total + near[added]
    return np.asarray(np.unique(sets, axis=0)[::-1])  # lower indices first


def _best_linked(sets: Sets, near: Ints, cards: int) -> Sets:
    """Those with the best worst link, and of those the least sum."""
    low, high = 0, int(near.max())
    while low < high:
        middle = (low + high) // 2
        inside = _within(sets, (near <= middle) & (near >= 0))
        if (complete := inside == cards * (cards - 1)).any():
            sets, high = sets[complete], middle
        else:
            low = middle + 1
    return _least(sets, _within(sets, np.maximum(near, 0)))


def _within(sets: Sets, between: Ints | Bools) -> NDArray[np.float64]:
    """Of each set: what stands between its cards, added up, each pair from both sides."""
    return np.asarray(np.einsum("sc,sc->s", sets @ between.astype(np.float64), sets))


def _least_cut(sets: Sets, ranks: Ints, candidates: Ints, idle: Ints) -> Sets:
    """Those that cut fewest of the nearest links between idle cards, then of the second nearest, …"""
    is_idle = np.isin(candidates, idle)
    to_idle = np.where(is_idle[:, None], ranks[np.ix_(candidates, idle)], -1)
    taken = np.zeros((len(sets), len(idle)))
    taken[:, np.searchsorted(idle, candidates[is_idle])] = sets[:, is_idle]
    for rank in np.unique(to_idle[to_idle >= 0]):
        if len(sets) == 1:
            break
        cut = np.einsum("sc,sc->s", sets @ (to_idle == rank).astype(np.float64), 1 - taken)
        kept = cut == cut.min()
        sets, taken = sets[kept], taken[kept]
    return sets


def _least(sets: Sets, amounts: NDArray[np.float64]) -> Sets:
    return np.asarray(sets[amounts == amounts.min()])
