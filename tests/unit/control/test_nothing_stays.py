"""A process that runs for months: of what is gone nothing is kept, and of what anybody may write only so much."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

from alnair.api import names
from alnair.api.podgroup import Elastic
from alnair.control import publishing
from alnair.control.elastic import members
from alnair.control.elastic.extent import Extent
from alnair.control.elastic.sizing import Sizing
from alnair.control.gangs import Gang, Key
from alnair.control.horovod import rounds
from alnair.control.queue import Queue
from alnair.scheduling.elastic import curves
from alnair.scheduling.elastic.curves import Curve
from alnair.state import wire
from alnair.state.cluster import ClusterState
from alnair.state.pods import Pod, PodReader
from harness.builders import node, pod
from unit.builders import decoded
from unit.control.world import World

if TYPE_CHECKING:
    from alnair.control.profiles import Profiles
    from alnair.kube.clock import Clock

KEY: Key = ("ns", "PodGroup", "g")
SOMEBODY = cast("Pod", object())


def test_a_gang_that_is_gone_waits_for_no_room_though_another_has_its_name() -> None:
    queue = Queue(ClusterState(), cast("Profiles", {}), cast("Clock", None))
    first, second = Gang(KEY), Gang(KEY)
    first.pods["u1"] = SOMEBODY
    queue.wait_for_room(first, (), since=0)
    first.pods.clear()
    queue.touch(first)
    second.pods["u2"] = SOMEBODY
    queue.touch(second)
    assert not queue._waiting


async def test_a_job_that_was_tried_later_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "FIRST_RETRY", 0.0)
    done = asyncio.Event()
    answers = [False, False, True]

    async def work(key: tuple[str, str]) -> bool:
        if len(answers) == 1:
            done.set()
        return answers.pop(0)

    jobs = rounds.Rounds(work)
    running = asyncio.create_task(jobs.run())
    jobs.mark(("ns", "job"))
    await asyncio.wait_for(done.wait(), 5)
    await asyncio.sleep(0)
    running.cancel()
    assert not answers
    assert not jobs._later
    assert not jobs._troubles


async def test_what_was_wrong_with_a_node_is_forgotten_with_it() -> None:
    async with World(nodes=[node("n1")]) as world:
        await world.start()
        reports = world.leader.reports
        reports.node_problems("n1", "uid-1", "topology", ("zone 0 cannot be read",))
        reports.node_problems("n1", "uid-1", "topology", ("zone 0 cannot be read",))
        await world.settled()
        assert len(world.news("n1")) == 1
        world.server.remove("/api/v1/nodes/n1")
        await world.settled()
        assert "n1" not in reports._node_problems


async def test_a_pod_that_leaves_while_it_is_told_why_it_waits_leaves_nothing() -> None:
    async with World(nodes=[node("n1")]) as world:
        await world.start()
        world.pod("a", group="", like=pod("a").by("alnair").asking(cpu="4000"))
        await world.settled()
        (gang,) = world.leader.roster.gangs.values()
        reports = world.leader.reports
        reports.forget_pod("uid-a")
        slow = world.server.holds_back("PATCH a/status")
        before = len(world.server.calls)
        telling = asyncio.create_task(reports._tell_pod(gang, gang.first()))
        await world.until(lambda: len(world.server.calls) > before)
        world.deletes("a")
        await world.until(lambda: not world.leader.roster.gangs)
        slow.set()
        await telling
        assert not reports._told


ELASTIC = Elastic.model_validate(
    {"min": 1, "max": 8, "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s"}}
)


class Fitting:
    """Counts the curves that are made, and what of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: list[int] = []
        self._fitted = curves.fitted
        monkeypatch.setattr(curves, "fitted", self)

    def __call__(self, measured: Sequence[tuple[int, float]], usual: Curve) -> Curve:
        self.of.append(len(measured))
        return self._fitted(measured, usual)


def that_told(*throughputs: str) -> Gang:
    gang = Gang(KEY)
    for number, told in enumerate(throughputs):
        meta = {"name": f"p{number}", "uid": f"u{number}", "annotations": {names.THROUGHPUT: told}}
        gang.pods[f"u{number}"] = PodReader().read(decoded({"metadata": meta}, wire.Pod))
    return gang


def test_more_measurements_than_anybody_needs_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    fitting = Fitting(monkeypatch)
    members.curve_of(that_told(*[",".join(["100@2"] * 600)] * 4), ELASTIC, Sizing(), Extent())
    assert fitting.of == [members.MOST_MEASURED]


def test_the_curve_of_a_gang_is_made_once_however_many_and_large_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are asked for every second, and one of ten thousand members takes some hundredths of it to be made."""
    fitting = Fitting(monkeypatch)
    vast = ELASTIC.model_copy(update={"max": 10_000})
    gangs = [(that_told(f"100@1,{100 + number / 10}@2"), vast, Sizing()) for number in range(3)]
    gangs += [(that_told(f"100@1,{100 + number / 10}@2"), ELASTIC, Sizing()) for number in range(2000)]
    first = [members.curve_of(*each, Extent()) for each in gangs]
    again = [members.curve_of(*each, Extent()) for each in gangs]
    assert all(one is other for one, other in zip(first, again, strict=True))
    assert len(fitting.of) == len(gangs)


def test_a_curve_is_made_anew_when_something_else_was_measured() -> None:
    sizing = Sizing()
    slow = members.curve_of(that_told("100@1,110@2"), ELASTIC, sizing, Extent())
    fast = members.curve_of(that_told("100@1,190@2"), ELASTIC, sizing, Extent())
    assert slow.at(2) < fast.at(2)


async def test_of_a_node_that_is_gone_nothing_is_kept_though_its_topology_was_hard_to_delete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "GATHER_SECONDS", 0.002)
    path = f"/apis/{names.API_NRT}/{names.PLURAL_NRT}/n1"
    async with World(nodes=[node("n1").with_cards(2)]) as world:
        await world.start()
        publisher = world.leader.publisher
        running = asyncio.create_task(publisher.run())
        await world.until(lambda: path in world.server.objects)
        world.server.refuses("DELETE n1", 500, "InternalError")
        world.server.remove("/api/v1/nodes/n1")
        await world.until(lambda: path not in world.server.objects)
        await world.until(lambda: not publisher.known())
        running.cancel()
        assert not publisher._troubles
