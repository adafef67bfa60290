"""One run: the events are carried out while the history is judged, with rests in which nothing may be left to do."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from conformance.drawing.dice import Dice
from elastic import cluster, rest
from elastic.driver import Driver
from elastic.findings import IDLE, KINDS, RESTLESS
from elastic.script import GANGS, Script
from elastic.sizes import Sizes
from witness.checker import Checker
from witness.findings import Finding, Outcome
from witness.meanwhile import beside, tick
from witness.plane import Plane
from witness.words import LEASES, NODES, TOPOLOGIES, Change

STABILIZATION: Final = 8
BY_HAND: Final = 10
PLACE: Final = 15
VALUES: Final = {
    "stabilizationSeconds": STABILIZATION,
    "growAfterSeconds": 2,
    "changesPerMinute": 600,
    "handSeconds": BY_HAND,
    "placeSeconds": PLACE,
    "restartSeconds": 1,
    "horizonSeconds": 600,
}
"""Of the chart, under `elastic`: short times, so that a run sees many changes; and changes that cost next to nothing,
so that every idle card is worth one."""
SILENCE: Final = PLACE + 6.0
"""Nothing was written for so long: longer than anything that the operator waits for."""
MOST_SECONDS_TO_REST: Final = 150.0
EVENTS_A_STRETCH: Final = 60
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 2.8
UNMOVED: Final = (LEASES, NODES, TOPOLOGIES)
"""What is renewed for ever, or written by others."""


@dataclass(frozen=True, slots=True)
class Progress:
    events: int
    revisions: int
    findings: int
    resting: bool


class Judges:
    """The witness's and ours, told the same history."""

    def __init__(self, plane: Plane, on_finding: Callable[[Finding], None]) -> None:
        self.checker = Checker(plane.schedulers, delivering=True)
        self.sizes = Sizes(plane.schedulers, stabilization=STABILIZATION)
        self.findings: list[Finding] = []
        self.idle_fraction = 0.0
        self.rests: list[rest.Judgement] = []
        self.written: deque[Change] = deque(maxlen=8)
        self.quiet_since = time.monotonic()
        self._plane = plane
        self._on_finding = on_finding
        self._known = 0, 0

    async def read(self) -> None:
        async for change in self._plane.history.changes():
            self.checker.see(change)
            self.sizes.see(change)
            if change.kind not in UNMOVED:
                self.quiet_since = time.monotonic()
                self.written.append(change)
            now = len(self.checker.findings), len(self.sizes.findings)
            if now != self._known:
                for finding in (
                    self.checker.findings[self._known[0] :] + self.sizes.findings[self._known[1] :]
                ):
                    self.say(finding)
                self._known = now

    def rest(self) -> rest.Judgement:
        judged = rest.judge(self.sizes.picture, hand_seconds=BY_HAND)
        self.rests.append(judged)
        self.idle_fraction = max(self.idle_fraction, judged.idle_fraction)
        for finding in judged.findings:
            self.say(finding)
        return judged

    def restless(self, why: str) -> None:
        last = "; ".join(f"{change.kind} {change.key} at {change.revision}" for change in self.written)
        self.say(Finding(RESTLESS, self.sizes.picture.revision, (), f"{why}; last written: {last}"))

    def say(self, finding: Finding) -> None:
        self.findings.append(finding)
        self._on_finding(finding)


async def elastic(
    plane: Plane,
    *,
    seed: int,
    events: int,
    gangs: int = GANGS,
    own: int = 12,
    counted: int = 6,
    told: Callable[[Progress], None] = lambda _: None,
    on_finding: Callable[[Finding, Driver], None] = lambda *_: None,
) -> Outcome:
    began = time.monotonic()
    dice = Dice(f"elastic/{seed}")
    stations = cluster.stations(own, counted)
    play = Script(dice, stations, scheduler=plane.scheduler, events=events, gangs=gangs)
    driver = Driver(plane)
    judges = Judges(plane, lambda finding: on_finding(finding, driver))

    def tell(number: int, *, resting: bool = False) -> None:
        told(Progress(number, plane.history.revision, len(judges.findings), resting))

    async with beside(judges.read(), tick(plane)) as check:
        await driver.furnish(stations)
        await plane.operator.start(timeout=60)
        for step in play.opening():
            await driver.do(step)
        await _to_rest(judges, driver, check)
        paces = Dice(f"elastic/{seed}/paces")
        for number, step in enumerate(play.events(), start=1):
            await driver.do(step)
            tell(number)
            await asyncio.sleep(paces.number(round(SHORTEST_PAUSE * 100), round(LONGEST_PAUSE * 100)) / 100)
            check()
            if number % EVENTS_A_STRETCH == 0 or number == events:
                tell(number, resting=True)
                await _to_rest(judges, driver, check)
    counts = {
        kind: sum(finding.kind == kind for finding in judges.findings) for kind in KINDS if kind != IDLE
    }
    sizes = judges.sizes.counts
    figures = {
        "seed": seed,
        "events": events,
        "gangs": play.gangs,
        "grown": sizes["grown"],
        "shrunk": sizes["shrunk"],
        "replaced": sizes["replaced"],
        "revisions": plane.history.count,
        **counts,
        "idle_fraction": round(judges.idle_fraction, 4),
        "by_hand": sizes["by hand"],
        "corrected": sizes["corrected"],
        "least_gangs_at_rest": min(judged.elastic for judged in judges.rests),
        "started_at_rest": [judged.started for judged in judges.rests],
        "at_most_at_rest": [judged.at_most for judged in judges.rests],
        "waiting_at_rest": [judged.waiting for judged in judges.rests],
        "failed_at_rest": [judged.over for judged in judges.rests],
        "short_at_rest": [judged.short for judged in judges.rests],
        "drawn": dict(sorted(play.drawn.items())),
        "seconds": round(time.monotonic() - began, 1),
    }
    return Outcome(judges.findings, figures)


async def _to_rest(judges: Judges, driver: Driver, check: Callable[[], None]) -> None:
    """Until nothing is written any more, and Kubernetes has cleared away what was on lost nodes; then all is judged."""
    await driver.caught_up()
    began = time.monotonic()
    while time.monotonic() < began + MOST_SECONDS_TO_REST:
        check()
        picture = judges.sizes.picture
        leaving = [
            str(pod)
            for pod in picture.pods.values()
            if pod.terminating or (pod.living and pod.node and pod.node not in picture.nodes)
        ]
        if not leaving and time.monotonic() - judges.quiet_since > SILENCE:
            judges.rest()
            return
        await asyncio.sleep(0.5)
    judges.restless(f"no rest within {MOST_SECONDS_TO_REST:.0f} s; leaving are {leaving[:5]}")
    judges.rest()
