"""bind: cards chosen, recorded and bound by the ledger, whatever comes in between; nobody gets a card twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from alnair.api import names
from alnair.extender import binding
from alnair.extender.binding import UNDER_WAY
from harness.builders import pod
from unit.builders import card
from unit.control.world import NAMESPACE, RECORDS, World
from unit.extender.kube_scheduler import DEFAULT, PROFILE, SLICE, KubeScheduler, gpu_node, start

LARGE = SLICE.slice(memory_gib=6)  # two do not fit a card


def record_of(world: World, name: str) -> dict[str, Any]:
    """Its record's object; empty if there is none."""
    return world.server.objects.get(f"{RECORDS}/{names.record_name(name, f'uid-{name}')}", {})


def cards_of(world: World, name: str) -> list[str]:
    (entry,) = record_of(world, name)["status"]["pods"]
    return [piece["gpu"] for container in entry["containers"] for piece in container["slices"]]


async def test_the_pod_is_recorded_under_the_profile_and_bound_with_its_cards() -> None:
    async with World(nodes=(gpu_node("n1"), gpu_node("n2"))) as world:
        kube = await start(world)
        world.pod("a", group="", like=LARGE)
        await world.settled()
        assert await kube.bind("a", "n2") == ""
        assert world.where() == {"a": "n2"}
        await world.settled()
        record = record_of(world, "a")
        assert record["spec"] == {
            "owner": {"kind": "Pod", "name": "a", "uid": "uid-a"},
            "schedulerName": PROFILE,
        }
        assert (record["status"]["phase"], cards_of(world, "a")) == ("Bound", [card("n2", 0)])
        assert kube.manifest("a")["metadata"]["annotations"][names.GPU_ID] == card("n2", 0)


async def test_the_record_is_committed_before_the_binding() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        await world.settled()
        assert await kube.bind("a", "n1") == ""
        written = [call for call in world.written() if "status" in call or "binding" in call]
        assert written[:2] == ["PUT " + names.record_name("a", "uid-a") + "/status", "POST a/binding"]


async def test_of_two_that_come_for_one_card_at_once_one_is_told_why_not() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=LARGE)
        await world.settled()
        assert (await kube.passing("a"), await kube.passing("b")) == (["n1"], ["n1"])
        first, second = await asyncio.gather(kube.bind("a", "n1"), kube.bind("b", "n1"))
        assert first == ""
        assert second == "node n1 has no card with 6 GiB free, the largest free slice is 2 GiB on node n1"
        assert world.where() == {"a": "n1"}
        assert record_of(world, "b") == {}


async def test_a_repeated_call_waits_for_the_same_end() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=LARGE)
        await world.settled()
        gate = world.server.delays("POST a/binding")
        first = asyncio.create_task(kube.bind("a", "n1"))
        await world.until(lambda: "POST a/binding" in world.server.names())
        again = asyncio.create_task(kube.bind("a", "n1"))
        elsewhere = asyncio.create_task(kube.bind("a", "n2"))
        gate.set()
        assert (await first, await again) == ("", "")
        assert await elsewhere == "it is bound to node n1, not to n2"
        assert await kube.bind("a", "n1") == "", "and long after it, too"
        assert world.server.names().count("POST a/binding") == 1


async def test_a_caller_that_hangs_up_does_not_stop_the_binding() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        await world.settled()
        gate = world.server.delays("POST a/binding")
        call = asyncio.create_task(kube.bind("a", "n1"))
        await world.until(lambda: "POST a/binding" in world.server.names())
        call.cancel()
        gate.set()
        await world.settled()
        assert world.where() == {"a": "n1"}
        assert record_of(world, "a")["status"]["phase"] == "Bound"


async def test_kube_scheduler_is_held_back_while_too_many_are_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "MOST_UNDER_WAY", 1)
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=SLICE)
        await world.settled()
        gate = world.server.delays("POST a/binding")
        first = asyncio.create_task(kube.bind("a", "n1"))
        await world.until(lambda: "POST a/binding" in world.server.names())
        question = asyncio.create_task(kube.passing("b"))
        await asyncio.sleep(0.02)
        assert not question.done()
        gate.set()
        assert (await first, await question) == ("", ["n1"])
        monkeypatch.setattr(binding, "ROOM_SECONDS", 0.001)
        world.server.delays("POST b/binding")  # for ever
        second = asyncio.create_task(kube.bind("b", "n1"))
        await world.until(lambda: "POST b/binding" in world.server.names())
        world.pod("c", group="", like=SLICE)
        assert await kube.passing("c") == [], "nobody is held back for ever"
        second.cancel()


async def test_meanwhile_only_the_records_node_will_do() -> None:
    async with World(nodes=(gpu_node("n1"), gpu_node("n2"))) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        await world.settled()
        gate = world.server.delays("POST a/binding")
        call = asyncio.create_task(kube.bind("a", "n1"))
        await world.until(lambda: "POST a/binding" in world.server.names())
        answer = await kube.filter("a")
        assert answer["NodeNames"] == ["n1"]
        assert answer["FailedNodes"] == {"n2": "is not the node n1, where the pod's record has put it"}
        gate.set()
        assert await call == ""


async def test_a_pod_that_the_stream_has_not_shown_yet_is_waited_for() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.leader.deaf = True
        world.pod("a", group="", like=SLICE)
        call = asyncio.create_task(kube.bind("a", "n1"))
        await world.until(lambda: "GET pods/a" in world.server.names())
        assert not call.done()
        world.leader.hears_again()
        assert await call == ""
        world.leader.deaf = True
        world.pod("b", group="", like=SLICE)
        assert "ask again" in await kube.bind("b", "n1")
        assert world.where() == {"a": "n1"}


async def test_pods_that_cannot_be_bound_are_said_to_be_so() -> None:
    async with World(nodes=(gpu_node("n1"), gpu_node("n2"))) as world:
        kube = await start(world)
        world.pod("anew", group="", like=SLICE, uid="uid-second")
        world.pod("elsewhere", group="", like=SLICE, on="n2")
        world.pod("going", group="", like=SLICE, deletionTimestamp="2026-01-01T00:00:00Z")
        world.pod("done", group="", like=SLICE, phase="Failed")
        await world.settled()
        assert await kube.bind("never", "n1") == "pod team/never does not exist"
        assert await kube.bind("anew", "n1") == "pod team/anew is another one by now, with UID uid-second"
        assert await kube.bind("elsewhere", "n1") == "it is bound to node n2, not to n1"
        assert await kube.bind("elsewhere", "n2") == ""
        assert await kube.bind("going", "n1") == "pod team/going has ended or is going away"
        assert await kube.bind("done", "n1") == "pod team/done has ended or is going away"
        assert "is that of pod team/anew" in await kube.bind("other", "n1", uid="uid-second")
        assert not [call for call in world.written() if "binding" in call or names.PLURAL_ALLOCATION in call]


async def test_a_pod_deleted_while_it_is_being_bound_leaves_nothing_behind() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=LARGE)
        await world.settled()
        world.vanish_while_bound("a")
        assert await kube.bind("a", "n1") == "pod team/a does not exist"
        await world.settled()
        assert record_of(world, "a") == {}
        assert await kube.bind("b", "n1") == "", "its card is free again"


async def test_a_pod_that_is_bound_by_somebody_else_meanwhile_is_theirs() -> None:
    async with World(nodes=(gpu_node("n1"), gpu_node("n2"))) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=LARGE)
        await world.settled()
        world.server.first("POST a/binding", lambda: world.pod("a", group="", like=LARGE, on="n2"))
        assert await kube.bind("a", "n1") == "it is bound to node n2, not to n1"
        await world.settled()
        assert record_of(world, "a") == {}
        assert await kube.bind("b", "n1") == ""


async def test_a_record_that_is_refused_is_said_to_be_and_takes_nothing() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=LARGE)
        await world.settled()
        with world.server.refusing(
            lambda call: call.method == "POST" and call.path == RECORDS, 403, "Forbidden"
        ):
            assert "the record was refused" in await kube.bind("a", "n1")
        assert world.where() == {}
        assert await kube.bind("b", "n1") == ""


async def test_a_binding_that_is_refused_for_good_gives_the_cards_back() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=LARGE)
        await world.settled()
        with world.server.refusing(lambda call: call.name == "POST a/binding", 422, "Invalid"):
            assert "could not be bound to n1" in await kube.bind("a", "n1")
        await world.settled()
        assert record_of(world, "a") == {}
        assert await kube.bind("b", "n1") == ""


async def test_an_answer_that_gets_lost_is_no_second_binding() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        await world.settled()
        world.server.loses_the_answer_of("POST a/binding")
        assert await kube.bind("a", "n1") == ""
        assert world.server.names().count("POST a/binding") == 1


async def test_a_leader_that_dies_half_way_is_finished_by_the_next_one_and_the_call_can_be_repeated() -> None:
    async with World(nodes=(gpu_node("n1"), gpu_node("n2"))) as world:
        kube = await start(world)
        world.pod("a", group="", like=LARGE)
        await world.settled()
        world.server.delays("POST a/binding")  # for ever
        call = asyncio.create_task(kube.bind("a", "n1"))
        await world.until(lambda: "POST a/binding" in world.server.names())
        call.cancel()
        await world.leader.dies()
        successor = await start(world)
        assert await successor.passing("a") == ["n1"]
        assert await _until_bound(successor, "a", "n1") == ""
        await world.settled()
        assert record_of(world, "a")["status"]["phase"] == "Bound"


async def _until_bound(kube: KubeScheduler, name: str, node: str) -> str:
    for _ in range(100):
        if (why := await kube.bind(name, node)) != UNDER_WAY:
            return why
        await asyncio.sleep(0.005)
    return UNDER_WAY


async def test_after_a_restart_the_cards_stay_taken_and_are_released_with_the_pod() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=LARGE)
        await world.settled()
        assert await kube.bind("a", "n1") == ""
        await world.settled()
        await world.restart()
        kube = KubeScheduler(world, world.leader)
        await world.settled()
        assert await kube.passing("b") == []
        world.deletes("a")
        await world.settled()
        assert record_of(world, "a") == {}
        assert await kube.bind("b", "n1") == ""


async def test_records_are_kept_when_the_extender_is_switched_off() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=LARGE)
        await world.settled()
        assert await kube.bind("a", "n1") == ""
        await world.settled()
        await world.restart()  # and nobody asks any more
        world.pod("b", group="", like=LARGE.by("alnair"))
        await world.settled()
        assert world.where() == {"a": "n1"}
        world.deletes("a")
        await world.settled()
        assert (record_of(world, "a"), world.where()) == ({}, {"b": "n1"})


async def test_a_bound_pod_whose_record_was_lost_is_adopted() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=LARGE)
        await world.settled()
        assert await kube.bind("a", "n1") == ""
        await world.settled()
        await world.leader.dies()
        world.server.remove(f"{RECORDS}/{names.record_name('a', 'uid-a')}")
        kube = await start(world)
        kube.verbs._bindings.adopt_strays()
        await world.settled()
        assert cards_of(world, "a") == [card("n1", 0)]
        assert record_of(world, "a")["status"]["conditions"][0]["type"] == "Adopted"


async def test_a_leader_that_lost_its_lease_decides_nothing() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=LARGE)
        await world.settled()
        old, gate = world.leader, world.server.delays(f"POST {NAMESPACE}/{names.PLURAL_ALLOCATION}")
        call = asyncio.create_task(kube.bind("a", "n1"))
        await world.until(lambda: f"POST {NAMESPACE}/{names.PLURAL_ALLOCATION}" in world.server.names())
        await world.start()
        gate.set()
        (error,) = await asyncio.gather(call, return_exceptions=True)
        assert type(error).__name__ == "LeadershipLost"
        assert old.gave_up
        assert world.where() == {}


async def test_a_pod_without_a_gpu_request_is_bound_and_nothing_is_written_down() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=pod("plain").by(DEFAULT).asking(cpu="1"))
        await world.settled()
        assert await kube.bind("a", "n1") == ""
        assert world.where() == {"a": "n1"}
        assert not any(
            key.startswith(names.PREFIX) for key in kube.manifest("a")["metadata"].get("annotations", {})
        )
        assert not any(path.startswith(RECORDS) for path in world.server.objects)
        assert "does not exist" in await kube.bind("b", "n1")


async def test_a_pod_that_reads_no_cards_from_its_environment_is_not_bound() -> None:
    async with World(nodes=(gpu_node("n1"),), delivering=frozenset({DEFAULT})) as world:
        kube = await start(world)
        world.pod("blind", group="", like=SLICE)
        world.pod("told", group="", like=SLICE.told())
        await world.settled()
        assert "NVIDIA_VISIBLE_DEVICES is not read from" in await kube.bind("blind", "n1")
        assert await kube.bind("told", "n1") == ""
        told = kube.manifest("told")["metadata"]["annotations"]
        assert told[names.env_key("main", names.VISIBLE_DEVICES)] == card("n1", 0)
        assert world.where() == {"told": "n1"}


async def test_whole_cards_of_a_device_plugin_are_counted_and_recorded() -> None:
    whole = pod("whole").by(DEFAULT).asking(gpu=1)
    async with World(nodes=(gpu_node("n1").owned_by("device-plugin"),)) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=whole)
        await world.settled()
        assert await kube.bind("a", "n1") == ""
        await world.settled()
        (entry,) = record_of(world, "a")["status"]["pods"]
        assert (entry["node"], entry["gpuCounts"]) == ("n1", {"main": 1})
        assert await kube.bind("b", "n1") == "node n1 has too few free whole GPUs (1 needed on one node)"


async def test_the_cards_of_extender_and_of_gangs_are_the_same_cards() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("gang", group="", like=LARGE.by("alnair"))
        world.pod("a", group="", like=LARGE)
        await world.settled()
        assert world.where() == {"gang": "n1"}
        assert await kube.passing("a") == []
        assert "has no card with 6 GiB free" in await kube.bind("a", "n1")
