"""Two gangs that each fit alone but not together, created member by member in turns: the deadlock of those who hold
what they have while they wait for the rest. `make interleaved ROUNDS=50` prints how soon the second one starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time

import pytest

from harness.api import Api, at
from harness.builders import PodBuilder, group, node, pod
from harness.fixtures import Fleet
from harness.operator import Operator
from harness.watching import bound_now, bound_pods

ROUNDS = int(os.environ.get("ALNAIR_ROUNDS", "5"))
MEMBERS = 4
GROUP = "scheduling.x-k8s.io/pod-group"


async def test_one_gang_is_bound_whole_the_other_waits_whole_and_starts_after_it(
    api: Api, namespace: str, fleet: Fleet, operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    await fleet.add(node("gpu").with_cards(MEMBERS + 2))
    member = pod("m").asking(gpu=1).by(operator.scheduler).selecting(fleet.selector)
    waits = [await _round(api, namespace, member, number) for number in range(ROUNDS)]
    figures = {
        "rounds": ROUNDS,
        "start_p50_ms": round(1000 * statistics.median(waits), 1),
        "start_worst_ms": round(1000 * max(waits), 1),
        "within_1s": sum(wait <= 1 for wait in waits),
    }
    with capsys.disabled():
        print("\n" + json.dumps(figures))


async def _round(api: Api, namespace: str, member: PodBuilder, number: int) -> float:
    """Returns the seconds from the end of the first gang to the last bind of the second."""
    names = [f"a{number}", f"b{number}"]
    for name in names:
        await api.create(group(name, min_member=MEMBERS).manifest(), namespace=namespace)
    for index in range(MEMBERS):
        for name in names:
            one = member.named(f"{name}-{index}").in_group(name)
            await api.create(one.manifest(), namespace=namespace)
    first = await _whole_gang(api, namespace)
    second = names[1 - names.index(first)]

    await asyncio.gather(*(_end(api, namespace, f"{first}-{index}") for index in range(MEMBERS)))
    ended = time.monotonic()
    gangs = {pod["metadata"]["labels"][GROUP] for pod in await bound_pods(api, namespace, MEMBERS)}
    waited = time.monotonic() - ended
    assert gangs == {second}

    await asyncio.gather(*(_end(api, namespace, f"{second}-{index}") for index in range(MEMBERS)))
    await bound_pods(api, namespace, 0)
    for name in names:
        await api.delete(at("podgroups", namespace, name))
    return waited


async def _whole_gang(api: Api, namespace: str) -> str:
    """The gang that was bound; all of it, and nobody of the other."""
    await bound_pods(api, namespace, MEMBERS)
    bound = await bound_now(api, namespace)
    (gang,) = {pod["metadata"]["labels"][GROUP] for pod in bound}
    assert len(bound) == MEMBERS
    return str(gang)


async def _end(api: Api, namespace: str, name: str) -> None:
    await api.delete(at("pods", namespace, name), grace=0)
    await api.until_gone(at("pods", namespace, name))
