"""All runs of a `make chaos`: crash points of every scenario, outages, drawn histories; each failure made small.

Runs are worked off by as many slots as there are, side by side; which run comes into which slot is chance and does not
matter, for each has nodes, a namespace and operators of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from chaos.faults import KILLS, OUTAGES, Fault, History, smaller
from chaos.plane import Plane
from chaos.run import Outcome, Run
from witness.findings import Finding

DRY_RUNS: Final = 2
TRIES: Final = 3
"""At a crash point, until the run is one in which that call comes: Bindings go out all at once, and what follows
depends on their order."""
SHRINKING_SECONDS: Final = 240.0
"""Spent on making one failure small; a run that never comes to rest takes a while to be called that."""


@dataclass(slots=True)
class Tally:
    """What is told at the end."""

    crash_points: Counter[str] = field(default_factory=Counter)
    """Scenario -> kills that met their call."""
    not_reached: Counter[str] = field(default_factory=Counter)
    """Kills whose call never came, however often it was tried: no crash points, for the runs were others than the dry
    ones."""
    calls: dict[str, int] = field(default_factory=dict)
    outages: int = 0
    histories: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)
    failures: list[Outcome] = field(default_factory=list)
    violations: int = 0

    def add(self, outcome: Outcome) -> None:
        self.recoveries += outcome.recoveries
        self.violations += len(outcome.findings)
        if outcome.failed:
            self.failures.append(outcome)

    def figures(self, plane: Plane) -> dict[str, Any]:
        recoveries = sorted(self.recoveries)
        return {
            "crash_points": self.crash_points.total(),
            "crash_points_by_scenario": dict(sorted(self.crash_points.items())),
            "outages": self.outages,
            "histories": self.histories,
            "revisions": plane.court.revisions,
            "violations": self.violations + len(plane.court.unclaimed()),
            "recovery_p50_s": quantile(recoveries, 0.50),
            "recovery_p99_s": quantile(recoveries, 0.99),
            "recoveries": len(recoveries),
            "not_reached": self.not_reached.total(),
            "faults": dict(sorted(self.faults.items())),
            "lost_leases": sum(slot.lost_leases for slot in plane.slots),
        }


def quantile(numbers: list[float], part: float) -> float | None:
    """Of sorted numbers; the nearest one that is there."""
    return round(numbers[min(len(numbers) - 1, int(part * len(numbers)))], 2) if numbers else None


class Campaign:
    def __init__(
        self,
        plane: Plane,
        *,
        told: Callable[[str], None] = lambda _: None,
        on_failure: Callable[[Outcome, History], None] = lambda *_: None,
    ) -> None:
        self.tally = Tally()
        self._plane = plane
        self._told = told
        self._on_failure = on_failure

    async def count(self, scenarios: Iterable[str]) -> None:
        """Dry runs: how many calls each scenario makes by itself."""

        def counted(outcome: Outcome) -> None:
            self.tally.add(outcome)
            name = outcome.history.scenario
            self.tally.calls[name] = max(self.tally.calls.get(name, 0), outcome.calls)
            self._told(f"{name}: {outcome.calls} calls in {outcome.seconds:.1f} s")

        await self.work_off([History(name) for name in scenarios for _ in range(DRY_RUNS)], counted)

    async def crash_points(self) -> None:
        """The operator is killed at each call of each scenario that was counted, before and after."""
        points = [
            History(name, (Fault(number, word),))
            for name, calls in self.tally.calls.items()
            for number in range(1, calls + 1)
            for word in KILLS
        ]
        number, again = len(points), list[History]()

        def killed(outcome: Outcome) -> None:
            self.tally.add(outcome)
            if outcome.met:
                self.tally.crash_points[outcome.history.scenario] += 1
            else:
                again.append(outcome.history)
            self._told(
                f"{self.tally.crash_points.total()} of {number} crash points, {self.tally.violations} violations; "
                f"{outcome.history} in {outcome.seconds:.1f} s"
            )

        for _ in range(TRIES):
            await self.work_off(points, killed)
            points, again = again, []
        self.tally.not_reached.update(history.scenario for history in points)

    async def outages(self, scenarios: Iterable[str], *, each: int = 2) -> None:
        """The apiserver and etcd are killed at so many calls of each, one run at a time; not at the last ones, which do
        not come in every run."""
        points = [
            History(name, (Fault(max(1, calls * part // (each + 1)), word),))
            for name in scenarios
            if (calls := self.tally.calls.get(name, 0))
            for part in range(1, each + 1)
            for word in OUTAGES
        ]

        def over(outcome: Outcome) -> None:
            self.tally.outages += bool(outcome.met)
            self.tally.add(outcome)
            self._told(
                f"{self.tally.outages} of {len(points)} outages, {self.tally.violations} violations; "
                f"{outcome.history} in {outcome.seconds:.1f} s"
            )

        await self.work_off(points, over, slots=1)

    async def histories(self, histories: Iterable[History]) -> None:
        wanted = list(histories)

        def done(outcome: Outcome) -> None:
            self.tally.histories += 1
            self.tally.add(outcome)
            self.tally.faults.update(fault.what for fault in outcome.met)
            self._told(
                f"{self.tally.histories} of {len(wanted)} histories, {self.tally.violations} violations; "
                f"{outcome.history} in {outcome.seconds:.1f} s"
            )

        await self.work_off(wanted, done)

    async def work_off(
        self, histories: list[History], done: Callable[[Outcome], None], *, slots: int | None = None
    ) -> None:
        waiting = list(reversed(histories))

        async def worker(index: int) -> None:
            slot = self._plane.slots[index]
            while waiting:
                history = waiting.pop()
                outcome = await Run(slot, history, self._plane.court).carry_out()
                done(outcome)
                if outcome.failed:
                    self._on_failure(outcome, await self._shrunk(index, history))

        async with asyncio.TaskGroup() as workers:
            for index in range(slots or len(self._plane.slots)):
                workers.create_task(worker(index))

    async def _shrunk(self, index: int, history: History) -> History:
        """Greedily, the fewest of its faults that still fail."""
        slot = self._plane.slots[index]
        deadline, found = time.monotonic() + SHRINKING_SECONDS, True
        while found and len(history.faults) > 1:
            found = False
            for fewer in smaller(history):
                if time.monotonic() > deadline:
                    return history
                if (await Run(slot, fewer, self._plane.court).carry_out()).failed:
                    history, found = fewer, True
                    break
        return history


def unexplained(plane: Plane) -> list[Finding]:
    """Findings about no run in particular."""
    return plane.court.unclaimed()
