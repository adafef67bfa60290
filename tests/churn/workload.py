"""The script of a run: who comes, who goes, what breaks and when. Drawn from a seed, and from nothing else.

The script keeps its own roster of what it has created; whether a pod was ever bound it does not know. It keeps the
cluster a little fuller than it is: something is removed whenever the demand is more than there are cards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from alnair.api import names
from churn import faults
from churn.drawn import Kind, Scene
from churn.kinds import KINDS
from conformance.drawing.dice import Dice
from harness.builders import PodBuilder, deployment, group, job, pod
from witness import requests
from witness.stations import RACK, Station
from witness.words import ASKS, HOLD, KIND, NEVER, OF, Object

NAMESPACES: Final = ("churn-a", "churn-b", "churn-c")
PROFILES: Final = ("", "", "-cost-saving", "-high-performance")
CARD_MIB: Final = 32 * 1024
"""Of a middling card: what slices are reckoned by to keep the cluster full."""
CROWDED: Final = 1.2
CROWDED_RACK: Final = "rack-0"
MOST_FAULTY: Final = 10
SMALL: Final = 500
"""Runs of fewer pods kill the operator once, for it could hardly start in between."""

How = Literal["deleted", "forced", "completed", "group-first"]


@dataclass(slots=True)
class Work:
    """A lone pod, a gang, or a controller with its pods."""

    name: str
    namespace: str
    manifests: list[Object]
    demand: float
    held: bool = False
    group: str = ""
    controller: str = ""
    pods: list[str] = field(default_factory=list)
    """Names, where no controller makes them up."""


@dataclass(frozen=True, slots=True)
class Arrive:
    work: Work
    losing: tuple[int, float] | None = None
    """A member that is deleted so many seconds after the creation, perhaps while it is being bound."""


@dataclass(frozen=True, slots=True)
class Leave:
    work: Work
    how: How


@dataclass(frozen=True, slots=True)
class LoseOne:
    """One of its pods is deleted; and created again under the same name, if `again`."""

    work: Work
    draw: float
    again: bool


@dataclass(frozen=True, slots=True)
class LetGo:
    """The finalizers of its pods are taken away."""

    work: Work


@dataclass(frozen=True, slots=True)
class Befall:
    name: str
    before: Station
    after: Station


@dataclass(frozen=True, slots=True)
class KillOperator:
    pause: float


@dataclass(frozen=True, slots=True)
class RestartApiserver:
    pass


Step = Arrive | Leave | LoseOne | LetGo | Befall | KillOperator | RestartApiserver


class Script:
    """Iterate once. `drawn` counts the kinds of what was created."""

    def __init__(self, dice: Dice, stations: list[Station], *, scheduler: str, pods: int) -> None:
        self.drawn: Counter[str] = Counter()
        self.pods = 0
        self._dice = dice
        self._scheduler = scheduler
        self._wanted = pods
        self._well = {station.name: station for station in stations}
        self._now = dict(self._well)
        self._scene = Scene(
            tuple(card.id for station in stations if not station.counted for card in station.cards)
        )
        self._room = CROWDED * sum(len(station.cards) for station in stations)
        self._live: list[Work] = []
        self._held: list[tuple[int, Work]] = []
        self._mending: list[tuple[int, str]] = []
        self._turn = 0

    def __iter__(self) -> Iterator[Step]:
        kills = [self._wanted * part // 4 for part in ((1, 2, 3) if self._wanted > SMALL else (2,))]
        restarts = [self._wanted * 5 // 8]
        while self.pods < self._wanted:
            self._turn += 1
            yield from self._arrive()
            while sum(work.demand for work in self._live) > self._room or len(self._live) > 400:
                yield self._depart(self._live.pop(self._dice.number(0, len(self._live) - 1)))
            if self._live and self._dice.chance(0.15):
                again = self._dice.chance(0.4)
                yield LoseOne(self._dice.pick(self._live), self._dice.number(0, 999) / 1000, again)
            yield from self._let_go(self._turn)
            yield from self._break_and_mend()
            if kills and self.pods >= kills[0]:
                kills.pop(0)
                yield KillOperator(self._dice.number(0, 30) / 10)
            if restarts and self.pods >= restarts[0]:
                restarts.pop(0)
                yield RestartApiserver()

    def ending(self) -> Iterator[Step]:
        """Everything is mended, and everybody leaves."""
        for name, station in self._now.items():
            if station != self._well[name]:
                yield Befall("mended", station, self._well[name])
        for work in self._live:
            yield self._depart(work)
        yield from self._let_go(None)

    # -- who comes and goes

    def _arrive(self) -> Iterator[Step]:
        name = f"w{self._turn:05d}"
        shape = self._dice.weighted(
            [("lone", 50.0), ("gang", 36.0), ("deployment", 8.0), ("job", 6.0), ("swarm", 1.5)]
        )
        work = getattr(self, f"_{shape}")(name)
        losing = None
        if shape == "gang" and self._dice.chance(0.2):
            losing = (self._dice.number(0, len(work.pods) - 1), self._dice.number(0, 400) / 1000)
        self._live.append(work)
        yield Arrive(work, losing)

    def _depart(self, work: Work) -> Step:
        if work.held:
            self._held.append((self._turn + self._dice.number(5, 40), work))
        how: How = self._dice.weighted(
            [
                ("deleted", 6.0),
                ("completed", 2.0),
                ("forced", 1.0),
                ("group-first", 1.0 if work.group else 0.0),
            ]
        )
        return Leave(work, how)

    def _let_go(self, turn: int | None) -> Iterator[Step]:
        for due, work in list(self._held):
            if turn is None or due <= turn:
                self._held.remove((due, work))
                yield LetGo(work)

    # -- shapes of work

    def _lone(self, name: str) -> Work:
        made, demand = self._pod(name)
        held = self._dice.chance(0.08)
        manifest = (made.held_by(HOLD) if held else made).manifest()
        return Work(name, self._dice.pick(NAMESPACES), [manifest], demand, held=held, pods=[name])

    def _gang(self, name: str) -> Work:
        size = self._dice.weighted([(2, 4.0), (3, 3.0), (4, 3.0), (8, 2.0), (12, 0.5)])
        least = size if self._dice.chance(0.6) else self._dice.number(1, size)
        manifests = [group(name, min_member=least).giving_up_after(self._dice.number(3, 12)).manifest()]
        unlike = 1 if self._dice.chance(0.25) else 0
        worker, each = self._pod(name, counting=size - unlike)
        pods = [worker.named(f"{name}-{place}") for place in range(size)]
        demand = each * (size - unlike)
        if unlike:
            launcher, more = self._pod(name)
            pods[0] = launcher.named(f"{name}-0")
            demand += more
        held = self._dice.chance(0.04)
        manifests += [(one.held_by(HOLD) if held else one).in_group(name).manifest() for one in pods]
        if self._dice.chance(0.3):
            manifests.append(manifests.pop(0))  # the pods are there before their group
        return Work(
            name,
            self._dice.pick(NAMESPACES),
            manifests,
            demand,
            held=held,
            group=name,
            pods=[f"{name}-{place}" for place in range(size)],
        )

    def _swarm(self, name: str) -> Work:
        """More tiny pods for one node than its cards have slots."""
        targets = [each for each in self._well.values() if 0 < len(each.cards) <= 2 and not each.counted]
        target = self._dice.pick(targets or [each for each in self._well.values() if not each.counted])
        size = 20 * max(1, len(target.cards))
        worker, each = self._pod(name, counting=size, kinds=[kind for kind in KINDS if kind.name == "tiny"])
        pods = [
            worker.named(f"{name}-{place}").selecting({"kubernetes.io/hostname": target.name})
            for place in range(size)
        ]
        manifests = [one.manifest() for one in pods]
        called = [one["metadata"]["name"] for one in manifests]
        return Work(name, self._dice.pick(NAMESPACES), manifests, each * size, pods=called)

    def _deployment(self, name: str) -> Work:
        size = self._dice.number(1, 5)
        worker, each = self._pod(name, counting=size)
        manifests: list[Object] = []
        in_group = self._dice.chance(0.5)
        if in_group:
            worker = worker.in_group(name)
            manifests.append(group(name, min_member=size).giving_up_after(5).manifest())
        manifests.append(deployment(name, worker, replicas=size).manifest())
        namespace = self._dice.pick(NAMESPACES)
        return Work(
            name,
            namespace,
            manifests,
            each * size,
            group=name if in_group else "",
            controller="deployments",
        )

    def _job(self, name: str) -> Work:
        size = self._dice.number(1, 4)
        worker, each = self._pod(name, counting=size)
        manifests = [job(name, worker, count=size).manifest()]
        return Work(name, self._dice.pick(NAMESPACES), manifests, each * size, controller="jobs")

    def _pod(
        self, name: str, *, counting: int = 1, kinds: Sequence[Kind] = KINDS
    ) -> tuple[PodBuilder, float]:
        """A pod of a drawn kind, and how many cards it comes to.

        Some want a node that is in trouble just then, and some one rack, so that it is crowded there.
        """
        kind = self._dice.weighted([(kind, kind.weight) for kind in kinds])
        scheduler = self._scheduler + self._dice.pick(PROFILES)
        made, asked = kind.draw(self._dice, pod(name).by(scheduler).labelled({OF: name}), self._scene)
        self.drawn[kind.name] += counting
        self.pods += counting
        told = NEVER if asked is None else requests.told(asked)
        made = made.annotated({KIND: kind.name, ASKS: told})
        if asked is not None and all(ask.whole for ask in asked.asks) and self._dice.chance(0.6):
            made = made.selecting(
                {names.GPU_OWNER: names.OWNED_BY_ALNAIR}
            )  # a device plugin might have given them
        if self._mending and self._dice.chance(0.15):
            made = made.selecting({"kubernetes.io/hostname": self._dice.pick(self._mending)[1]})
        elif self._dice.chance(0.15):
            made = made.selecting({RACK: CROWDED_RACK})
        return made, 0.05 if asked is None else _cards(asked)

    # -- what breaks

    def _break_and_mend(self) -> Iterator[Step]:
        for due, name in list(self._mending):
            if due <= self._turn:
                self._mending.remove((due, name))
                yield self._become("mended", self._well[name])
        well = [station for name, station in self._now.items() if station == self._well[name]]
        if len(self._mending) < MOST_FAULTY and self._dice.chance(0.25):
            fault, after = faults.draw(self._dice, well)
            self._mending.append((self._turn + self._dice.number(20, 160), after.name))
            yield self._become(fault.name, after)

    def _become(self, name: str, after: Station) -> Befall:
        before, self._now[after.name] = self._now[after.name], after
        return Befall(name, before, after)


def _cards(asked: requests.Asked) -> float:
    total = 0.0
    for ask in asked.asks:
        part = (
            1.0
            if ask.whole
            else max((ask.memory_mib or 0) / CARD_MIB, (ask.percent or 0) / 100, ask.compute / 100)
        )
        total += ask.cards * part
    return total
