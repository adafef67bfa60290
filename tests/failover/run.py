"""One run: as many faults of the leader as are asked for, one after the other, while the history is judged.

Every second fault strikes as soon as a gang is decided on and not settled, the others whenever they come. After the
last one nobody comes or goes any more: when all is quiet, no gang may be half bound, and nothing may be written; then
everybody leaves, and nothing may stay.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.drawing.dice import Dice
from elastic import cluster
from failover.load import NAMESPACE, Load
from failover.replicas import Fault, Replicas
from harness.api import at
from witness.checker import Checker
from witness.findings import KINDS, NOISE, Finding, Outcome
from witness.hands import Hands
from witness.meanwhile import beside, tick
from witness.plane import Plane
from witness.words import GROUPS, LEASES, PODS, RECORDS, Change

NODES: Final = (12, 4)
"""Alnair's own, and a device plugin's."""
STAND_BY_SECONDS: Final = 4.0
"""A process needs so long to start; a leader that falls before its stand-by is there is another question."""
PATIENCE_SECONDS: Final = 60.0
LEAVING_SECONDS: Final = 120.0
QUIET_SECONDS: Final = 6.0
"""What an operator says of a gang, and is not heard, it says again five seconds later."""
SETTLED: Final = "Bound"


@dataclass(frozen=True, slots=True)
class Progress:
    rounds: int
    revisions: int
    findings: int
    seconds: float
    """From the last fault to the next bind."""


class Judge:
    """Reads the history, and hears when a pod that came after a moment is bound, and when a gang is under way."""

    def __init__(self, plane: Plane, on_finding: Callable[[Finding], None]) -> None:
        self.checker = Checker(plane.schedulers, delivering=True)
        self.binds = 0
        self.holders: list[str] = []
        self.under_way: set[str] = set()
        """Records that are not settled."""
        self.stirred_at = 0.0
        """When anything of the load or about it was last written."""
        self._plane = plane
        self._on_finding = on_finding
        self._came: set[str] = set()  # UIDs of pods that were created since `listen`, and are not bound
        self._known: set[str] = set()
        self._listening = False
        self._bound = asyncio.Event()
        self._begun = asyncio.Event()

    async def read(self) -> None:
        told = 0
        async for change in self._plane.history.changes():
            self.checker.see(change)
            for finding in self.checker.findings[told:]:
                self._on_finding(finding)
            told = len(self.checker.findings)
            if change.kind in (PODS, RECORDS, GROUPS):
                self.stirred_at = time.monotonic()
            if change.kind == RECORDS:
                self._see_record(change)
            elif change.kind == PODS and change.object is not None:
                self._see_pod(change.object["metadata"]["uid"], change.object["spec"].get("nodeName") or "")
            elif change.kind == LEASES and change.key == f"{self._plane.operator.release.namespace}/alnair":
                self._see_lease(change)

    def _see_record(self, change: Change) -> None:
        phase = ((change.object or {}).get("status") or {}).get("phase")
        if change.object is None or phase == SETTLED:
            self.under_way.discard(change.key)
        else:
            self.under_way.add(change.key)
            self._begun.set()

    def _see_pod(self, uid: str, node: str) -> None:
        if uid not in self._known:
            self._known.add(uid)
            if self._listening and not node:
                self._came.add(uid)
        elif node and uid in self._came:
            self._bound.set()
        self.binds += bool(node)

    def _see_lease(self, change: Change) -> None:
        holder = ((change.object or {}).get("spec") or {}).get("holderIdentity") or ""
        if holder and holder not in self.holders[-1:]:
            self.holders.append(holder)

    def listen(self) -> None:
        """From now on, for the first bind of a pod that is yet to come."""
        self._came, self._listening = set(), True
        self._bound.clear()

    async def next_bind(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._bound.wait()
        self._listening = False

    async def one_under_way(self) -> None:
        """Until a gang is being bound, or taken back."""
        self._begun.clear()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._begun.wait()


def draw(seed: int, rounds: int) -> list[Fault]:
    """As many kills as pauses, and a fifth as many clean ends beside them, in any order."""
    both: tuple[Fault, Fault] = ("kill", "pause")
    drawn = [both[number % 2] for number in range(rounds)] + ["end"] * (rounds // 5)
    return Dice(f"failover/{seed}/faults").some(drawn, len(drawn), len(drawn))


async def failover(
    plane: Plane,
    *,
    seed: int,
    faults: Sequence[Fault],
    folder: Path,
    told: Callable[[Progress], None] = lambda _: None,
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> Outcome:
    began = time.monotonic()
    moments = Dice(f"failover/{seed}/moments")
    hands = Hands(plane.api)
    judge = Judge(plane, on_finding)
    load = Load(hands, scheduler=plane.scheduler, seed=seed)
    replicas = Replicas(plane.api, plane.operator.release, folder)
    waits: dict[Fault, list[float]] = {"kill": [], "pause": [], "end": []}
    caught = 0
    try:
        async with beside(judge.read(), tick(plane)) as check:
            for station in cluster.stations(*NODES):
                await hands.befall(None, station)
            await replicas.start()
            async with beside(load.run()) as check_load:
                for number, fault in enumerate(faults, start=1):
                    await asyncio.sleep(STAND_BY_SECONDS + moments.number(0, 200) / 100)
                    leader = await replicas.leader()
                    if number % 2:
                        await judge.one_under_way()
                    judge.listen()
                    await replicas.befall(leader, fault)
                    fell = time.monotonic()
                    if fault != "end":  # which carries out what it has begun
                        await _read_all(plane, check)
                        caught += bool(judge.under_way)
                    await judge.next_bind()
                    waits[fault].append(time.monotonic() - fell)
                    await replicas.mend()
                    check()
                    check_load()
                    so_far = plane.history.revision, len(judge.checker.findings)
                    told(Progress(number, *so_far, waits[fault][-1]))
            await _at_rest(plane, judge, check)
            await load.all_go()
            await _empty(plane)
            await _read_all(plane, check)
    finally:
        replicas.end()
    every = sorted(waits["kill"] + waits["pause"])
    findings = judge.checker.findings
    figures = {
        "seed": seed,
        "rounds": len(faults),
        "kills": len(waits["kill"]),
        "pauses": len(waits["pause"]),
        "ends": len(waits["end"]),
        "caught_a_gang": caught,
        "terms": len(judge.holders),
        "revisions": plane.history.count,
        "violations": len(findings),
        **{kind: sum(finding.kind == kind for finding in findings) for kind in (*KINDS, NOISE)},
        "to_bind_p50_s": _percentile(every, 50),
        "to_bind_p99_s": _percentile(every, 99),
        "to_bind_p50_s_by_fault": {
            fault: _percentile(sorted(each), 50) for fault, each in waits.items() if each
        },
        "lease_s": 5,
        "seconds": round(time.monotonic() - began, 1),
    }
    return Outcome(findings, figures)


async def _at_rest(plane: Plane, judge: Judge, check: Callable[[], None]) -> None:
    """Nobody comes or goes: what was begun ends, and then nothing is half done, and nothing is written."""
    async with asyncio.timeout(LEAVING_SECONDS):
        while (left := judge.stirred_at + QUIET_SECONDS - time.monotonic()) > 0:
            check()
            await asyncio.sleep(left)
    await _read_all(plane, check)
    judge.checker.rests(NAMESPACE)
    await asyncio.sleep(QUIET_SECONDS)
    await _read_all(plane, check)
    judge.checker.stirs(NAMESPACE)


async def _empty(plane: Plane) -> None:
    """Everybody has left: nothing may stay of them."""
    for plural in ("pods", "gpuallocations"):
        await plane.api.until_all(at(plural, NAMESPACE), lambda left: not left, timeout=LEAVING_SECONDS)


async def _read_all(plane: Plane, check: Callable[[], None]) -> None:
    target = await plane.history.current()
    while plane.history.revision < target:
        check()
        await asyncio.sleep(0.05)


def _percentile(ordered: Sequence[float], per_cent: int) -> float:
    """By rank."""
    return round(ordered[max(0, math.ceil(len(ordered) * per_cent / 100) - 1)], 2)
