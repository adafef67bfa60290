"""One run: the script is carried out while the history is judged, then everybody leaves and nothing may be left."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from churn import cluster
from churn.driver import Driver
from churn.workload import Arrive, Script
from conformance.drawing.dice import Dice
from harness.api import at
from witness.checker import Checker
from witness.findings import KINDS, LEAK, Finding, Outcome
from witness.plane import Plane

PODS_A_SECOND = 12.0
REST_SECONDS = 5.0
"""The operator has written nothing for so long: it is at rest."""
LEAVING_SECONDS = 300.0
MOST_UNANSWERED = 60
PATIENCE_SECONDS = 2.0
LOOK_SECONDS = 0.05
SURELY = 25
"""Of so many pods of one kind that can be served at all, some find a place."""
BOOKS = re.compile(
    r"^alnair_node_gpu_(?:memory_allocated_mib|slices)\{node=\"([^\"]*)\"\} ([0-9.e+]+)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Progress:
    pods: int
    revisions: int
    findings: int


class Churned(Outcome):
    @property
    def clean(self) -> bool:
        return not self.findings and not self.figures["never_bound"]


async def churn(
    plane: Plane,
    *,
    seed: int,
    pods: int,
    nodes: int = cluster.NODES,
    rate: float = PODS_A_SECOND,
    told: Callable[[Progress], None] = lambda _: None,
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> Churned:
    began = time.monotonic()
    dice = Dice(f"churn/{seed}")
    stations = cluster.draw(dice, nodes)
    script = Script(dice, stations, scheduler=plane.scheduler, pods=pods)
    driver = Driver(plane)
    checker = Checker(plane.schedulers, delivering=True)
    reading = asyncio.create_task(_judge(plane, checker, on_finding))
    try:
        await driver.furnish(stations)
        await plane.operator.start(timeout=60)
        paced = time.monotonic()
        for step in script:
            await driver.do(step)
            if isinstance(step, Arrive):
                told(Progress(script.pods, plane.history.revision, len(checker.findings)))
                await asyncio.sleep(max(0.0, paced + script.pods / rate - time.monotonic()))
                await _answered(checker)
            _must_go_on(reading)
        await driver.caught_up()
        await _rest(plane, checker)
        for step in script.ending():
            await driver.do(step)
        await driver.caught_up()
        await _empty(plane)
        await _rest(plane, checker)
        leaks = await _left(plane, checker)
        await _read_all(plane, reading)
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    for leak in leaks:
        on_finding(leak)
    findings = checker.findings + leaks
    counts = {kind: sum(finding.kind == kind for finding in findings) for kind in KINDS}
    figures = {
        "pods": checker.pods_seen,
        "revisions": plane.history.count,
        **counts,
        "seed": seed,
        "nodes": nodes,
        "bound": sum(checker.bound_kinds.values()),
        "kinds": {
            kind: [checker.drawn_kinds[kind], checker.bound_kinds[kind]] for kind in sorted(script.drawn)
        },
        "never_bound": sorted(
            kind
            for kind, servable in checker.servable_kinds.items()
            if servable >= SURELY and not checker.bound_kinds[kind]
        ),
        "faults": dict(driver.faults),
        "departures": dict(driver.departures),
        "operator_kills": driver.kills,
        "operator_lost_lease": driver.lost_leases,
        "longest_release_seconds": round(checker.longest_release, 1),
        "given_of_cards_just_lost": checker.forgiven,
        "latest_use_of_a_lost_card_seconds": round(checker.latest_use, 1),
        "seconds": round(time.monotonic() - began, 1),
    }
    return Churned(findings, figures)


async def _judge(plane: Plane, checker: Checker, on_finding: Callable[[Finding], None]) -> None:
    known = 0
    async for change in plane.history.changes():
        checker.see(change)
        for finding in checker.findings[known:]:
            on_finding(finding)
        known = len(checker.findings)


def _must_go_on(reading: asyncio.Task[None]) -> None:
    if reading.done():
        reading.result()


async def _answered(checker: Checker) -> None:
    """On a machine with too much to do the script would run away from the operator, and nobody be bound before it is
    deleted. One that is being restarted is waited for a little only: pods come and go meanwhile."""
    for _ in range(round(PATIENCE_SECONDS / LOOK_SECONDS)):
        if checker.unanswered <= MOST_UNANSWERED:
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _read_all(plane: Plane, reading: asyncio.Task[None]) -> None:
    target = await plane.history.current()
    while plane.history.revision < target:
        _must_go_on(reading)
        await asyncio.sleep(0.05)


async def _rest(plane: Plane, checker: Checker, *, most: float = 60.0) -> None:
    """Until the records have not changed for a while."""
    deadline = time.monotonic() + most
    last, since = "", time.monotonic()
    while time.monotonic() < min(deadline, since + REST_SECONDS):
        records = await plane.api.items(at("gpuallocations"))
        now = ",".join(
            sorted(f"{each['metadata']['uid']}={each['metadata']['resourceVersion']}" for each in records)
        )
        if now != last:
            last, since = now, time.monotonic()
        await asyncio.sleep(0.5)


async def _empty(plane: Plane) -> None:
    """Until all pods are gone, and so are their records, or for as long as is reasonable."""
    deadline = time.monotonic() + LEAVING_SECONDS
    while time.monotonic() < deadline:
        for plural in ("pods", "gpuallocations"):
            if await plane.api.items(at(plural)):
                break
        else:
            return
        await asyncio.sleep(0.5)


async def _left(plane: Plane, checker: Checker) -> list[Finding]:
    """What is still there when everybody has left: in the apiserver, and in the operator's own books."""
    revision = plane.history.revision
    found = []
    for plural in ("pods", "gpuallocations"):
        for item in await plane.api.items(at(plural)):
            meta = item["metadata"]
            what = f"{plural} {meta['namespace']}/{meta['name']} is left, finalizers {meta.get('finalizers')}"
            found.append(Finding(LEAK, revision, (f"{meta['namespace']}/{meta['name']}",), what))
    for node, number in BOOKS.findall(await plane.operator.metrics()):
        if float(number):
            what = f"the operator's books still hold {number} on node {node}"
            found.append(Finding(LEAK, revision, (node,), what))
    return found
