"""From a disagreement to the smallest cluster that still shows it.

Objects are left out in ever smaller handfuls, then fields of the pod, as long as the two still differ about the same
node in the same way. Each try is a whole scenario put on the apiserver, a second or two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from conformance import kube, ours, stage
from conformance.compare import Disagreement, set_up
from conformance.drawing.words import Manifest
from conformance.plane import Plane
from conformance.scenario import Scenario

SURE_SECONDS = 0.7
PARTS = ("existing", "nominated", "objects", "nodes")

Differs = Callable[[Scenario], Awaitable[bool]]


async def shrink(plane: Plane, found: Disagreement) -> Disagreement:
    node, fits = next(iter(found.nodes.items()))
    last = found

    async def differs(scenario: Scenario) -> bool:
        nonlocal last
        smaller = await _look(plane, scenario)
        if smaller is None or smaller.nodes.get(node) is not fits:
            return False
        last = replace(smaller, nodes={node: fits})
        return True

    scenario = replace(found.scenario, judged=[found.pod])
    if not await differs(scenario):
        return found  # it needs the other judged pods, or was a passing thing
    for part in PARTS:
        scenario = await _fewer(scenario, part, differs)
    await _plainer(scenario, differs)
    return last


async def _look(plane: Plane, scenario: Scenario) -> Disagreement | None:
    """Judged twice, with a pause: what differs because kube-scheduler had not seen everything yet does not count."""
    try:
        world = await set_up(plane, scenario)
        books = ours.Books(world)
        for attempt in range(2):
            [answer] = (await kube.ask(plane, scenario.judged)).values()
            opinion = books.ask(answer.pod, explain=True)
            if answer.nodes == opinion.nodes:
                return None
            if attempt == 0:
                await kube.forget(plane, scenario.judged)
                await asyncio.sleep(SURE_SECONDS)
    except stage.BadScenario:
        return None  # what is left is no valid object
    nodes = {name: name in answer.nodes for name in sorted(answer.nodes ^ opinion.nodes)}
    return Disagreement(scenario, world, scenario.judged[0], nodes, answer, opinion)


async def _fewer(scenario: Scenario, part: str, differs: Differs) -> Scenario:
    """Leaves out halves, quarters, … single ones of a list of objects."""
    size = len(getattr(scenario, part))
    while size >= 1:
        start = 0
        while start < len(getattr(scenario, part)):
            items = getattr(scenario, part)
            changes: dict[str, Any] = {part: items[:start] + items[start + size :]}
            if await differs(smaller := replace(scenario, **changes)):
                scenario = smaller
            else:
                start += size
        size //= 2
    return scenario


async def _plainer(scenario: Scenario, differs: Differs) -> Scenario:
    """Leaves out fields of the pod, of the pods beside it and of the nodes, one at a time."""
    for part in ("judged", "existing", "nominated", "nodes"):
        for index in range(len(getattr(scenario, part))):
            for where, field in _fields(getattr(scenario, part)[index]):
                items = deepcopy(getattr(scenario, part))
                holder = _at(items[index], where)
                if holder is None or field not in holder:
                    continue
                del holder[field]
                changes: dict[str, Any] = {part: items}
                if await differs(smaller := replace(scenario, **changes)):
                    scenario = smaller
    return scenario


def _fields(thing: Manifest) -> list[tuple[tuple[str, ...], str]]:
    places: list[tuple[tuple[str, ...], str]] = []
    for where in (("spec",), ("spec", "affinity"), ("metadata", "labels"), ("metadata",)):
        kept = ("name", "namespace", "schedulerName", "containers", "nodeName")
        places += [(where, field) for field in _at(thing, where) or () if field not in kept]
    return places


def _at(thing: Manifest, where: tuple[str, ...]) -> Manifest | None:
    found: Manifest = thing
    for key in where:
        inner = found.get(key)
        if not isinstance(inner, dict):
            return None
        found = inner
    return found
