"""Sets of NUMA nodes as integers, bit by place."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations


@lru_cache(maxsize=256)
def subsets(places: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Every set of these places but the empty one, smallest first: (mask, its places)."""
    return tuple(
        (sum(1 << place for place in chosen), chosen)
        for size in range(1, len(places) + 1)
        for chosen in combinations(places, size)
    )


@lru_cache(maxsize=256)
def singles(places: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((1 << place, (place,)) for place in places)


def places(mask: int) -> list[int]:
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def narrowness(mask: int) -> tuple[int, int]:
    """To sort by, narrowest first: the fewest NUMA nodes, then the lowest."""
    return mask.bit_count(), mask
