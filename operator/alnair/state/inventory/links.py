"""How far a node's cards are from each other, as one table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from alnair.state.inventory.cards import Card

Ints = NDArray[np.int64]


def distances(cards: Sequence[Card]) -> Ints | None:
    """Card to card, 0 to itself; a pair of which nothing is told is as far apart as the farthest that is."""
    told = [distance for card in cards for _, distance in card.links]
    if not told:
        return None
    position = {card.id: index for index, card in enumerate(cards)}
    between = np.full((len(cards), len(cards)), max(told), dtype=np.int64)
    np.fill_diagonal(between, 0)
    for index, card in enumerate(cards):
        for other, distance in card.links:
            if other in position:
                between[index, position[other]] = distance
    return between


def nearest_pairs(between: Ints | None) -> float:
    """The part of the pairs of cards that are as near to each other as the nearest; 1 where nobody tells."""
    if between is None or len(between) < 2:
        return 1.0
    pairs = between[~np.eye(len(between), dtype=np.bool_)]
    return float((pairs == pairs.min()).mean())
