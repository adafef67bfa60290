"""The script of a run: who comes and goes, who scales by hand, what fails. Drawn from a seed, and from nothing else.

The script keeps its own roster of what it has created; what the operator made of it, it does not know. At all times
there are at least GANGS elastic gangs. What jobs need at least stays below what there is, so that the elastic gangs
share the rest, and something waits now and then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from conformance.drawing.dice import Dice
from elastic import jobs
from elastic.cluster import pool_of
from elastic.jobs import CONTROLLERS, Job
from witness.stations import Station

GANGS: Final = 20
MOST_GANGS: Final = 24
FULL: Final = 0.8
"""Of a pool's cards, what jobs may need at least; beyond that only now and then."""
MOST_FAULTY: Final = 2


@dataclass(frozen=True, slots=True)
class Arrive:
    job: Job


@dataclass(frozen=True, slots=True)
class Leave:
    job: Job


@dataclass(frozen=True, slots=True)
class Scale:
    """Somebody sets the replicas by hand."""

    job: Job
    replicas: int
    through_scale: bool
    """Through the scale subresource, as `kubectl scale` does; else as `kubectl edit` does."""


@dataclass(frozen=True, slots=True)
class LoseMember:
    """One of its pods is deleted, or fails."""

    job: Job
    draw: float
    failing: bool


@dataclass(frozen=True, slots=True)
class Befall:
    name: str
    before: Station
    after: Station
    sweep: bool = False
    """Somebody deletes the pods of the lost node; else Kubernetes does so when it finds the time."""


@dataclass(frozen=True, slots=True)
class KillOperator:
    pause: float


Step = Arrive | Leave | Scale | LoseMember | Befall | KillOperator


class Script:
    """`opening()`, then `events()`, each once."""

    def __init__(
        self, dice: Dice, stations: list[Station], *, scheduler: str, events: int, gangs: int = GANGS
    ) -> None:
        self.drawn: Counter[str] = Counter()
        self.gangs = 0
        """Elastic gangs that were created."""
        self._dice = dice
        self._scheduler = scheduler
        self._events = events
        self._least_gangs = gangs
        self._most_gangs = gangs + MOST_GANGS - GANGS
        self._well = {station.name: station for station in stations}
        self._now = dict(self._well)
        self._live: list[Job] = []
        self._ill: list[tuple[int, str]] = []
        self._made = 0

    def opening(self) -> Iterator[Step]:
        while self.gangs < self._least_gangs:
            yield self._elastic()

    def events(self) -> Iterator[Step]:
        kills = [self._events * part // 3 for part in (1, 2)] if self._events >= 100 else []
        for turn in range(self._events):
            if turn in kills:
                step: Step = KillOperator(self._dice.number(0, 20) / 10)
            else:
                step = self._due(turn) or self._drawn(turn)
            self.drawn[_called(step)] += 1
            yield step

    def _due(self, turn: int) -> Step | None:
        for due, name in self._ill:
            if due <= turn:
                self._ill.remove((due, name))
                return self._become("mended", self._well[name])
        return None

    def _drawn(self, turn: int) -> Step:
        while True:
            what = self._dice.weighted(
                [("come", 26.0), ("go", 20.0), ("scale", 18.0), ("lose", 20.0), ("break", 10.0)]
            )
            match what:
                case "come":
                    step = self._come()
                case "go":
                    step = self._go()
                case "scale":
                    step = self._scale()
                case "lose":
                    step = self._lose()
                case _:
                    step = self._break(turn)
            if step is not None:
                return step

    # -- jobs

    def _come(self) -> Step | None:
        if self._dice.chance(0.4):
            return self._elastic() if self._elastic_now() < self._most_gangs else None
        make = jobs.gang if self._dice.chance(0.5) else jobs.lone
        job = make(self._dice, self._name("w"), self._scheduler)
        if not self._has_room(job):
            return None
        self._live.append(job)
        return Arrive(job)

    def _elastic(self) -> Arrive:
        while True:
            name = self._name("e")
            job = jobs.elastic(self._dice, name, self._scheduler, CONTROLLERS[self.gangs % len(CONTROLLERS)])
            if self._has_room(job):
                break
        self.gangs += 1
        self._live.append(job)
        return Arrive(job)

    def _go(self) -> Step | None:
        rest = [job for job in self._live if job.how != "elastic" or self._elastic_now() > self._least_gangs]
        if not rest:
            return None
        job = self._dice.pick(rest)
        self._live.remove(job)
        return Leave(job)

    def _has_room(self, job: Job) -> bool:
        there = sum(len(station.cards) for station in self._well.values() if pool_of(station) == job.pool)
        needed = job.demand + sum(each.demand for each in self._live if each.pool == job.pool)
        return needed <= there * (FULL if self._dice.chance(0.8) else 1.1)

    def _elastic_now(self) -> int:
        return sum(job.how == "elastic" for job in self._live)

    def _name(self, letter: str) -> str:
        self._made += 1
        return f"{letter}{self._made:04d}"

    # -- hands and failures

    def _scale(self) -> Step:
        job = self._dice.pick([job for job in self._live if job.how == "elastic"])
        replicas = self._dice.weighted(
            [
                (self._dice.number(job.least, job.most), 6.0),
                (self._dice.number(1, max(1, job.least - 1)), 2.0),
                (job.most + self._dice.number(1, 3), 2.0),
                (0, 0.5),
            ]
        )
        # Of 0 set through the scale subresource the apiserver keeps no author: the judge could not tell whose it was.
        return Scale(job, replicas, through_scale=replicas > 0 and self._dice.chance(0.6))

    def _lose(self) -> Step:
        rest = [
            job for job in self._live if job.losses != 0 and (job.how == "elastic" or self._dice.chance(0.3))
        ]
        job = self._dice.pick(rest)
        if job.losses is not None:
            job.losses -= 1
        return LoseMember(job, self._dice.number(0, 999) / 1000, self._dice.chance(0.4))

    def _break(self, turn: int) -> Step | None:
        if len(self._ill) >= MOST_FAULTY:
            return None
        well = [station for name, station in self._now.items() if station == self._well[name]]
        station = self._dice.pick(well)
        self._ill.append((turn + self._dice.number(6, 25), station.name))
        if self._dice.chance(0.5):
            return self._become("cordoned", replace(station, cordoned=True))
        return self._become("lost", replace(station, absent=True), sweep=self._dice.chance(0.6))

    def _become(self, name: str, after: Station, *, sweep: bool = False) -> Befall:
        before, self._now[after.name] = self._now[after.name], after
        return Befall(name, before, after, sweep)


def _called(step: Step) -> str:
    match step:
        case Arrive(job):
            return f"{job.how} comes"
        case Leave(job):
            return f"{job.how} goes"
        case Scale(job, replicas):
            return "scaled by hand" if job.least <= replicas <= job.most else "scaled beyond bounds"
        case LoseMember(failing=failing):
            return "member fails" if failing else "member deleted"
        case Befall(name):
            return f"node {name}"
        case KillOperator():
            return "operator killed"
