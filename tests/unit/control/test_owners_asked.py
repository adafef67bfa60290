"""A pod waits for its controller's word, alone and not for long; whoever goes meanwhile is not placed."""

from __future__ import annotations

import pytest

from alnair.api import names
from alnair.handlers import owners
from harness.builders import node, pod
from unit.control.world import WORKER, World

BY_LOAD = pod("p").by(names.PROFILE_UTILIZATION).asking(cpu="100m")
ASKED = "GET jobs/j"
JOB = "/apis/batch/v1/namespaces/team/jobs/j"


async def test_a_pod_waits_for_its_controllers_word_and_others_do_not_wait_for_it() -> None:
    async with World(nodes=[node("n1")]) as world:
        world.server.put(JOB, {"metadata": {"uid": "j", "annotations": {names.PEAK_CPU: "50m"}}})
        gate = world.server.holds_back(ASKED)
        await world.start()
        world.pod("measured", group="", like=BY_LOAD)
        await world.server.until(lambda: ASKED in world.server.names())
        world.pod("other", group="", like=WORKER)
        await world.until(lambda: "other" in world.where())
        assert "measured" not in world.where()
        gate.set()
        await world.until(lambda: "measured" in world.where())
        world.pod("second", group="", like=BY_LOAD)  # its word is kept
        await world.until(lambda: "second" in world.where())
        assert world.server.names().count(ASKED) == 1


async def test_a_pod_that_goes_while_its_controller_is_asked_is_not_placed() -> None:
    async with World() as world:
        gate = world.server.holds_back(ASKED)
        await world.start()
        world.pod("gone", group="", like=BY_LOAD)
        await world.server.until(lambda: ASKED in world.server.names())
        world.deletes("gone")
        gate.set()
        await world.settled()
        assert not world.where()
        assert not [gang for gang in world.leader.roster.gangs.values() if gang.pods]


async def test_a_controller_that_does_not_answer_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owners, "ANSWER_SECONDS", 0.05)
    async with World() as world:
        gate = world.server.holds_back(ASKED)
        await world.start()
        world.pod("patient", group="", like=BY_LOAD)
        await world.until(lambda: "patient" in world.where())
        gate.set()


async def test_a_pod_that_was_there_before_the_operator_is_asked_about_too() -> None:
    async with World() as world:
        world.pod("early", group="", like=BY_LOAD)
        await world.start()
        await world.until(lambda: "early" in world.where())
        assert ASKED in world.server.names()
