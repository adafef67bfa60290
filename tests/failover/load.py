"""Gangs and lone pods that come and go all the time, each for a few seconds, on cards that nearly suffice."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from conformance.drawing.dice import Dice
from harness.api import at
from harness.builders import group, pod
from witness.hands import Hands
from witness.words import Object

NAMESPACE: Final = "load"
LIVE: Final = 24
"""Gangs that are there at a time."""
PAUSE_SECONDS: Final = 0.5
SIZES: Final = (1, 1, 2, 4, 8)


class Load:
    def __init__(self, hands: Hands, *, scheduler: str, seed: int) -> None:
        self._hands = hands
        self._scheduler = scheduler
        self._dice = Dice(f"failover/{seed}")
        self._there: deque[tuple[str, int]] = deque()
        self._number = 0

    async def run(self) -> None:
        while True:
            await self.comes()
            if len(self._there) > LIVE:
                await self.goes()
            await asyncio.sleep(PAUSE_SECONDS)

    async def comes(self) -> None:
        self._number += 1
        name, size = f"gang-{self._number:05d}", self._dice.pick(SIZES)
        self._there.append(
            (name, size)
        )  # first: it may be interrupted, and what is there by then has to go, too
        if size > 1:
            await self._hands.create(group(name, min_member=size).manifest(), NAMESPACE)
        for member in self._members(name, size):
            await self._hands.create(member, NAMESPACE)

    async def goes(self) -> None:
        """The oldest."""
        name, size = self._there[0]
        for member in range(size):
            await self._hands.delete(at("pods", NAMESPACE, f"{name}-{member}"), grace=0)
        if size > 1:
            await self._hands.delete(at("podgroups", NAMESPACE, name))
        self._there.popleft()

    async def all_go(self) -> None:
        while self._there:
            await self.goes()

    def _members(self, name: str, size: int) -> list[Object]:
        asking = pod(name).by(self._scheduler)
        asking = asking.in_group(name) if size > 1 else asking
        if self._dice.number(0, 3) == 0:
            return asking.asking(gpu=1).copies(size)
        asking = asking.slice(memory_gib=self._dice.pick((4, 8, 16)), compute=self._dice.pick((10, 25)))
        return asking.copies(size)
