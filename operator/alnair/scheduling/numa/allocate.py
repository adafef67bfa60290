"""What a container takes once its affinity is known: CPUs, devices, memory, and what it leaves to those after it.

Counted, not named: of a NUMA node's CPUs and devices only the number matters here. Where the kubelet leaves the choice
between NUMA nodes to chance (devices come out of a Go map, or a plugin prefers some), the lowest are assumed and the
resource is noted as uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from alnair.scheduling.numa import hints
from alnair.scheduling.numa.masks import narrowness, places
from alnair.scheduling.numa.merge import Affinity
from alnair.state.alignment import ContainerNeed
from alnair.state.machine import Machine, Stock


class Refused(Exception):
    """A manager cannot serve the container after all: what the kubelet calls an unexpected admission error."""


@dataclass(slots=True)
class Desk:
    """A machine on which one pod is being admitted, and what its init containers left to the others."""

    machine: Machine
    alone: bool = False  # only single NUMA nodes are ever chosen
    cpus_again: tuple[int, ...] = ()
    devices_again: dict[str, tuple[int, ...]] = field(default_factory=dict)
    memory_again: dict[int, dict[str, int]] = field(default_factory=dict)
    uncertain: set[str] = field(default_factory=set)  # devices of which nobody can tell where they came from

    def __post_init__(self) -> None:
        self.cpus_again = (0,) * len(self.machine.ids)

    def take(self, need: ContainerNeed, affinity: Affinity) -> None:
        """In the kubelet's order: devices, CPUs, memory. Raises Refused."""
        for name, wanted in need.devices:
            self._take_devices(name, wanted, affinity.mask, passes_on=need.passes_on)
        if need.cpus and self.machine.cpus is not None:
            self._take_cpus(self.machine.cpus, need.cpus, affinity.mask, passes_on=need.passes_on)
        if need.memory and self.machine.memory:
            self._take_memory(dict(need.memory), affinity, passes_on=need.passes_on)

    # -- CPUs ----------------------------------------------------------------------------------------------------

    def _take_cpus(self, stock: Stock, wanted: int, mask: int | None, *, passes_on: bool) -> None:
        open_to = [free + again for free, again in zip(stock.free, self.cpus_again, strict=True)]
        if sum(open_to) < wanted:
            raise Refused("there are too few CPUs")
        taken = [0] * len(open_to)
        if mask is not None:
            aligned = places(mask)
            wanted -= _pack(
                stock, open_to, taken, aligned, min(wanted, sum(open_to[each] for each in aligned))
            )
        _pack(stock, open_to, taken, list(range(len(open_to))), wanted)
        again = [min(*pair) for pair in zip(taken, self.cpus_again, strict=True)]
        free = tuple(
            there - (count - used) for there, count, used in zip(stock.free, taken, again, strict=True)
        )
        self.machine = replace(self.machine, cpus=replace(stock, free=free))
        self.cpus_again = _left_over(self.cpus_again, taken, again, passes_on=passes_on)

    # -- devices -------------------------------------------------------------------------------------------------

    def _take_devices(self, name: str, wanted: int, mask: int | None, *, passes_on: bool) -> None:
        stock = dict(self.machine.devices).get(name)
        if stock is None:
            return
        again = self.devices_again.get(name, (0,) * len(stock.free))
        aligned = set(places(mask)) if mask is not None else set()
        used = self._draw(name, again, range(len(again)), min(wanted, sum(again)))
        missing = wanted - sum(used)
        if missing > sum(stock.free):
            raise Refused(f"there are too few {name}")
        near = [place for place in range(len(stock.free)) if place in aligned]
        far = [place for place in range(len(stock.free)) if place not in aligned]
        fresh = self._draw(name, stock.free, near, min(missing, sum(stock.free[place] for place in near)))
        rest = self._draw(name, stock.free, far, missing - sum(fresh))
        free = tuple(there - a - b for there, a, b in zip(stock.free, fresh, rest, strict=True))
        taken = [a + b + c for a, b, c in zip(used, fresh, rest, strict=True)]
        devices = tuple(
            (other, replace(stock, free=free) if other == name else its)
            for other, its in self.machine.devices
        )
        self.machine = replace(self.machine, devices=devices)
        self.devices_again[name] = _left_over(again, taken, used, passes_on=passes_on)

    def _draw(self, name: str, stock: tuple[int, ...], where: range | list[int], wanted: int) -> list[int]:
        taken = [0] * len(stock)
        stocked = [place for place in where if stock[place]]
        if 0 < wanted < sum(stock[place] for place in stocked) and len(stocked) > 1:
            self.uncertain.add(name)
        for place in stocked:
            taken[place] = min(stock[place], wanted)
            wanted -= taken[place]
        return taken

    # -- memory --------------------------------------------------------------------------------------------------

    def _take_memory(self, wanted: dict[str, int], affinity: Affinity, *, passes_on: bool) -> None:
        mask, preferred = affinity.mask, affinity.preferred
        if mask is None:
            mask, preferred = self._better(wanted, 0, preferred=preferred)
        if not self._holds(wanted, mask):
            mask, preferred = self._better(wanted, mask, preferred=preferred)
        inside = tuple(places(mask))
        groups = self.machine.groups
        if len(inside) > 1 and any(groups[place] not in (0, mask) for place in inside):
            raise Refused("memory there is pinned to other groups of NUMA nodes")
        left = self.memory_again.get(mask, {})
        stocks = dict(self.machine.memory)
        for name, amount in wanted.items():
            if name in stocks:
                stocks[name] = _drained(stocks[name], inside, max(amount - left.get(name, 0), 0))
        self.machine = replace(
            self.machine,
            memory=tuple((name, stocks[name]) for name, _ in self.machine.memory),
            groups=tuple(mask if mask >> place & 1 else group for place, group in enumerate(groups)),
        )
        if passes_on:
            kept = self.memory_again.setdefault(mask, {})
            for name, amount in wanted.items():
                kept[name] = max(kept.get(name, 0), amount)
        else:
            for name, amount in wanted.items():
                if name in left:
                    left[name] = max(left[name] - amount, 0)

    def _holds(self, wanted: dict[str, int], mask: int) -> bool:
        stocks = dict(self.machine.memory)
        inside = places(mask)
        return all(
            (sum(stocks[name].free[place] for place in inside) if name in stocks else 0) >= amount
            for name, amount in wanted.items()
        )

    def _better(self, wanted: dict[str, int], least: int, *, preferred: bool) -> tuple[int, bool]:
        """The best set that could serve it and holds `least`; if `preferred`, it must be preferred too."""
        found = hints.memory(self.machine, wanted, self.memory_again, alone=self.alone)
        wide = [mask for mask in found.possible if mask & least == least]
        if not wide:
            raise Refused("no set of NUMA nodes has the memory")
        best = min(wide, key=lambda mask: (mask not in found.preferred, *narrowness(mask)))
        if preferred and best not in found.preferred:
            raise Refused("the memory would need more NUMA nodes than the rest")
        return best, best in found.preferred


def _pack(stock: Stock, open_to: list[int], taken: list[int], where: list[int], wanted: int) -> int:
    """Whole NUMA nodes first, then the fullest. Changes both lists; returns how many it got."""
    left = wanted
    for whole in (True, False):
        for place in sorted(where, key=lambda place: (open_to[place], place)):
            if whole and (open_to[place] != stock.there[place] or left < open_to[place]):
                continue
            got = min(open_to[place], left)
            open_to[place] -= got
            taken[place] += got
            left -= got
    return wanted - left


def _left_over(
    again: tuple[int, ...], taken: list[int], used: list[int], *, passes_on: bool
) -> tuple[int, ...]:
    """An ordinary init container adds what it took to what is left to the others; everybody else uses it up."""
    if passes_on:
        return tuple(had + count - reused for had, count, reused in zip(again, taken, used, strict=True))
    return tuple(had - reused for had, reused in zip(again, used, strict=True))


def _drained(stock: Stock, inside: tuple[int, ...], amount: int) -> Stock:
    free = list(stock.free)
    for place in inside:
        got = min(free[place], amount)
        free[place] -= got
        amount -= got
    return replace(stock, free=tuple(free))
