"""What a policy makes of all managers' hints.

The kubelet tries every combination of one hint a resource and keeps the best intersection. The outcome does not hang
on the order, so it is computed here without the combinations: an intersection is preferred if and only if every
resource prefers that very set, and otherwise only its size and its lowest bits count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alnair.scheduling.numa.hints import Hints
from alnair.scheduling.numa.masks import narrowness
from alnair.state.machine import BEST_EFFORT, SINGLE


@dataclass(frozen=True, slots=True)
class Affinity:
    """Where the container is to be. `mask` None: anywhere, the managers choose for themselves."""

    mask: int | None
    preferred: bool
    admitted: bool


def merge(policy: str, every: int, hints: Sequence[Hints]) -> Affinity:
    """`hints`: of the resources that somebody has an opinion on; the others are content anywhere."""
    if policy == SINGLE:
        return _single(every, hints)
    mask, preferred = _best(every, hints)
    return Affinity(mask, preferred, admitted=preferred or policy == BEST_EFFORT)


def _single(every: int, hints: Sequence[Hints]) -> Affinity:
    if not hints:
        return Affinity(None, preferred=True, admitted=True)
    agreed = [mask for mask in _agreed(hints) if mask.bit_count() == 1]
    if not agreed:
        return Affinity(None, preferred=False, admitted=False)
    chosen = min(agreed)
    return Affinity(None if chosen == every else chosen, preferred=True, admitted=True)


def _best(every: int, hints: Sequence[Hints]) -> tuple[int, bool]:
    if not hints:
        return every, True
    if agreed := _agreed(hints):
        return min(agreed, key=narrowness), True
    open_to = [each for each in hints if each.possible]
    meets = {every}
    for each in open_to:
        meets = {one & other for one in meets for other in each.possible}
    meets.discard(0)
    if not meets:
        return every, False
    # As many NUMA nodes as the resource that needs the most of them needs, but no more.
    enough = max((min(mask.bit_count() for mask in each.possible) for each in open_to), default=0)
    within = [mask for mask in meets if mask.bit_count() <= enough]
    if within:
        return min(within, key=lambda mask: (-mask.bit_count(), mask)), False
    return min(meets, key=narrowness), False


def _agreed(hints: Sequence[Hints]) -> frozenset[int]:
    return frozenset.intersection(*(each.preferred for each in hints))
