"""Hints: on which sets of NUMA nodes a manager could serve a request, and which of them it prefers.

A set is preferred if no smaller one could have held the request on an empty machine, so what is preferred hangs on the
machine alone and what is possible on what is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from alnair.scheduling.numa.masks import singles, subsets
from alnair.state.machine import Machine, Stock


@dataclass(frozen=True, slots=True)
class Hints:
    """Of one resource. No masks at all: it cannot be served."""

    possible: tuple[int, ...]
    preferred: frozenset[int]


IMPOSSIBLE = Hints((), frozenset())


def countable(stock: Stock, wanted: int, again: tuple[int, ...], *, alone: bool = False) -> Hints:
    """CPUs or devices. `again`: those that init containers of the pod leave to it; a set must hold all of them.

    `alone`: only single NUMA nodes are of interest.
    """
    where = tuple(place for place, there in enumerate(stock.there) if there > 0)
    fewest = len(where)
    left = sum(again)
    bound = sum(1 << place for place, count in enumerate(again) if count)
    possible = []
    for mask, places in singles(where) if alone else subsets(where):
        if len(places) < fewest and sum([stock.there[place] for place in places]) >= wanted:
            fewest = len(places)
        if bound & ~mask:
            continue
        if left + sum([stock.free[place] for place in places]) >= wanted:
            possible.append(mask)
    return Hints(tuple(possible), frozenset(mask for mask in possible if mask.bit_count() == fewest))


def memory(
    machine: Machine,
    wanted: Mapping[str, int],
    again: Mapping[int, Mapping[str, int]],
    *,
    alone: bool = False,
) -> Hints:
    """Memory and huge pages together: one answer for all of them. `again`: by mask, what init containers leave."""
    everywhere = tuple(range(len(machine.ids)))
    stocks = dict(machine.memory)
    asked = [(stocks.get(name), name, amount) for name, amount in wanted.items()]
    fewest = len(everywhere)
    possible = []
    for mask, places in singles(everywhere) if alone else subsets(everywhere):
        if any(_sum(stock, places, free=False) < amount for stock, _, amount in asked):
            continue
        fewest = min(fewest, len(places))
        if not group_allows(machine, mask, places):
            continue
        left = again.get(mask, {})
        if all(_sum(stock, places, free=True) + left.get(name, 0) >= amount for stock, name, amount in asked):
            possible.append(mask)
    return Hints(tuple(possible), frozenset(mask for mask in possible if mask.bit_count() == fewest))


def group_allows(machine: Machine, mask: int, places: tuple[int, ...]) -> bool:
    """A NUMA node whose memory is pinned together with others' serves that group alone; one with pods of its own serves
    no group."""
    if len(places) == 1:
        return machine.groups[places[0]].bit_count() <= 1
    return all(machine.groups[place] in (0, mask) for place in places)


def _sum(stock: Stock | None, places: tuple[int, ...], *, free: bool) -> int:
    if stock is None:
        return 0
    amounts = stock.free if free else stock.there
    return sum([amounts[place] for place in places])
