"""Rooms to allocate in, small and exact, and jobs drawn by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from alnair.scheduling.elastic.curves import Curve, default, from_points
from alnair.scheduling.elastic.jobs import Job, Pool, Room


@dataclass(frozen=True)
class Nodes:
    """Members of so many cards each; each whole on one node. Every packing is tried."""

    free: tuple[int, ...]
    units: tuple[int, ...]

    def fits(self, sizes: Sequence[int]) -> bool:
        members = sorted((u for u, n in zip(self.units, sizes, strict=True) for _ in range(n)), reverse=True)
        return packs(tuple(sorted(self.free)), tuple(members))

    def pool(self) -> Pool:
        return Pool(sum(self.free), self.units)


@cache
def packs(free: tuple[int, ...], members: tuple[int, ...]) -> bool:
    if not members:
        return True
    return any(
        packs(tuple(sorted((*free[:at], room - members[0], *free[at + 1 :]))), members[1:])
        for at, room in enumerate(free)
        if room >= members[0]
    )


@dataclass(frozen=True)
class Beneath:
    """Whatever is no larger than one of these corners: no sum of anything."""

    corners: tuple[tuple[int, ...], ...]

    def fits(self, sizes: Sequence[int]) -> bool:
        return any(all(map(int.__le__, sizes, corner)) for corner in self.corners)


@dataclass(frozen=True)
class Quotas:
    """A pool, and a limit for some jobs together."""

    pool: Pool
    jobs: tuple[int, ...]
    limit: int

    def fits(self, sizes: Sequence[int]) -> bool:
        return self.pool.fits(sizes) and sum(sizes[at] for at in self.jobs) <= self.limit


def drawn_curve(chance: random.Random, most: int) -> Curve:
    if chance.random() < 0.3:
        return default(most, link=2, node=4)
    return from_points((members, chance.uniform(0.5, members)) for members in range(1, most + 1))


def drawn_job(chance: random.Random, key: str) -> Job:
    least = chance.randint(1, 3)
    most = least + chance.randint(0, 4)
    has = chance.choice([0, chance.randint(least, most)])
    return Job(
        key,
        least,
        most,
        has,
        drawn_curve(chance, most),
        weight=chance.choice([1.0, 1.0, chance.uniform(0.1, 4)]),
        change_cost=chance.choice([0.0, chance.uniform(0, 1.5)]),
        floor=chance.choice([None, None, None, chance.randint(1, 8)]),
        ceiling=chance.choice([None, None, None, chance.randint(1, 8)]),
        starts=has == 0 and chance.random() < 0.2,
    )


def drawn_room(chance: random.Random, jobs: Sequence[Job]) -> tuple[Room, Pool | None]:
    """A room, and the count that bounds it or nothing."""
    units = tuple(chance.choice([1, 1, 2, 3]) for _ in jobs)
    wanted = sum(unit * job.most for unit, job in zip(units, jobs, strict=True))
    pool = Pool(chance.randint(wanted // 4, wanted), units)
    kind = chance.choice(["pool", "nodes", "beneath", "quotas"])
    if kind == "nodes":
        nodes = Nodes(tuple(chance.randint(1, 6) for _ in range(chance.randint(1, 4))), units)
        return nodes, chance.choice([None, nodes.pool()])
    if kind == "beneath":
        corners = [tuple(chance.randint(0, job.most) for job in jobs) for _ in range(chance.randint(1, 6))]
        return Beneath((*corners, tuple(job.smallest for job in jobs))), None
    if kind == "quotas":
        some = tuple(at for at in range(len(jobs)) if chance.random() < 0.5)
        return Quotas(pool, some, chance.randint(1, 8)), chance.choice([None, pool])
    return pool, chance.choice([None, pool])
