"""filter, prioritize and preempt: the same rules and words as for gangs, node by node."""

from __future__ import annotations

import pytest

from alnair.api import names
from alnair.extender.wire import ExtenderArgs, ExtenderPreemptionArgs
from harness.builders import PodBuilder, node, pod
from unit.control.world import World
from unit.extender.kube_scheduler import DEFAULT, SLICE, gpu_node, heard, said, start

LARGE = SLICE.slice(memory_gib=6)
PLAIN = pod("plain").by(DEFAULT).asking(cpu="100m")


async def test_nodes_with_room_on_one_card_pass_and_the_others_say_why() -> None:
    nodes = (gpu_node("full"), gpu_node("free"), node("bare"), gpu_node("plugin").owned_by("device-plugin"))
    async with World(nodes=nodes) as world:
        kube = await start(world)
        world.pods("a", "b", group="", like=LARGE)
        await world.settled()
        assert await kube.bind("a", "full") == ""
        answer = await kube.filter("b")
        assert answer["NodeNames"] == ["free"]
        assert answer["FailedNodes"] == {
            "full": "has no card with 6 GiB free, the largest free slice is 2 GiB on node full",
            "bare": "has no GPUs",
            "plugin": "has its GPUs owned by a device plugin, which gives no slices",
        }
        assert answer["Error"] == ""


async def test_nodes_that_fail_alike_say_it_in_the_same_words_so_that_they_are_counted() -> None:
    async with World(nodes=[gpu_node(f"n{number}", gib=2 + number) for number in range(3)]) as world:
        kube = await start(world)
        world.pod("a", group="", like=LARGE)
        await world.settled()
        assert (await kube.filter("a"))["FailedNodes"] == dict.fromkeys(
            ("n0", "n1", "n2"), "have no card with 6 GiB free, the largest free slice is 4 GiB on node n2"
        )


async def test_what_no_preemption_can_change_is_said_to_be_so() -> None:
    told = LARGE.told()
    nodes = (gpu_node("own"), gpu_node("plugin").owned_by("device-plugin"))
    async with World(nodes=nodes, delivering=frozenset({DEFAULT})) as world:
        kube = await start(world)
        world.pod("a", group="", like=told)
        await world.settled()
        answer = await kube.filter("a")
        assert (answer["NodeNames"], answer["FailedNodes"]) == (["own"], {})
        assert answer["FailedAndUnresolvableNodes"] == {
            "plugin": "has its GPUs owned by a device plugin, which gives no slices"
        }


async def test_rules_of_kube_schedulers_own_are_not_asked_again() -> None:
    picky = SLICE.asking(cpu="1000").selecting(pool="nowhere")
    async with World(nodes=(gpu_node("n1").tainted("keep", "off"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=picky)
        await world.settled()
        assert await kube.passing("a") == ["n1"]


async def test_a_pod_without_a_gpu_request_passes_everywhere_and_scores_nothing() -> None:
    async with World(nodes=(gpu_node("n1"), node("n2"))) as world:
        kube = await start(world)
        world.pod("a", group="", like=PLAIN)
        await world.settled()
        assert await kube.passing("a") == ["n1", "n2"]
        assert await kube.scores("a") == {"n1": 0, "n2": 0}


async def test_a_node_that_the_books_do_not_know_does_not_do() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        await world.settled()
        answer = await kube.filter("a", "n1", "n9")
        assert answer["NodeNames"] == ["n1"]
        assert answer["FailedNodes"] == {"n9": "is not known to Alnair yet"}
        assert await kube.scores("a", "n1", "n9") == {"n1": 0, "n9": 0}


@pytest.mark.parametrize(
    ("asking", "why"),
    [
        (SLICE.by("other"), "schedulerName other is none of extender.schedulerNames (default-scheduler)"),
        (
            SLICE.in_group("g"),
            "PodGroup g needs 2 members at once, and kube-scheduler places pods one by one",
        ),
        (SLICE.in_group("none"), "PodGroup none does not exist, and kube-scheduler places pods one by one"),
        (pod("x").by(DEFAULT).asking(resources={names.VGPU_MEMORY: "0"}), names.VGPU_MEMORY),
    ],
)
async def test_a_pod_that_is_not_the_extenders_is_refused_everywhere_with_the_reason(
    asking: PodBuilder, why: str
) -> None:
    async with World(min_member=2, nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", group="", like=asking)
        await world.settled()
        answer = await kube.filter("a")
        assert answer["NodeNames"] == []
        assert why in answer["FailedAndUnresolvableNodes"]["n1"]
        assert why in await kube.bind("a", "n1")
        assert await kube.preempt("a", {"n1": ["b"]}) == {}
        assert world.where() == {}


async def test_a_group_of_one_is_no_gang() -> None:
    async with World(min_member=1, nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pod("a", like=SLICE)
        await world.settled()
        assert await kube.passing("a") == ["n1"]


async def test_whole_nodes_come_back_whole() -> None:
    async with World(nodes=(gpu_node("n1"), node("n2"))) as world:
        kube = await start(world)
        world.pod("a", group="", like=SLICE)
        await world.settled()
        objects = [world.server.objects[f"/api/v1/nodes/{name}"] for name in ("n1", "n2")]
        body = {"Pod": kube.manifest("a"), "Nodes": {"metadata": {}, "items": objects}, "NodeNames": None}
        answer = said(await kube.verbs.filter(heard(body, ExtenderArgs)))
        assert (answer["Nodes"]["items"], answer["NodeNames"]) == ([objects[0]], None)
        scores = said(await kube.verbs.prioritize(heard(body, ExtenderArgs)))
        assert [each["Host"] for each in scores] == ["n1", "n2"]


async def test_the_best_node_has_10_points_and_the_worst_0_by_the_profile() -> None:
    async with World(nodes=[gpu_node(name, gib=40) for name in ("full", "used", "empty")]) as world:
        kube = await start(world)
        world.pods("a", "b", "c", "d", group="", like=SLICE)
        await world.settled()
        assert await kube.scores("d") == {"full": 0, "used": 0, "empty": 0}
        for name, place in (("a", "full"), ("b", "full"), ("c", "used")):
            assert await kube.bind(name, place) == ""
        assert await kube.scores("d") == {"full": 10, "used": 5, "empty": 0}
        kube.asks_by(names.PROFILE_HIGH_PERFORMANCE)
        assert await kube.scores("d") == {"full": 0, "used": 5, "empty": 10}


async def test_containers_that_fit_alone_but_not_together_find_no_node() -> None:
    two = SLICE.slice(memory_gib=6).with_container("second").slice(memory_gib=6)
    async with World(nodes=(gpu_node("one"), gpu_node("two", cards=2))) as world:
        kube = await start(world)
        world.pod("a", group="", like=two)
        await world.settled()
        answer = await kube.filter("a")
        assert answer["NodeNames"] == ["two"]
        assert answer["FailedNodes"] == {"one": "has no cards that fit all containers of the pod together"}
        assert "together" in await kube.bind("a", "one")
        assert await kube.bind("a", "two") == ""


async def test_a_preemption_is_wanted_only_where_its_victims_make_room_for_the_cards() -> None:
    async with World(nodes=(gpu_node("n1"), gpu_node("n2"), gpu_node("n3"))) as world:
        kube = await start(world)
        world.pods("a", "b", "new", group="", like=LARGE)
        world.pod("cpu", on="n2", group="", like=PLAIN)
        await world.settled()
        assert [await kube.bind("a", "n1"), await kube.bind("b", "n2")] == ["", ""]
        await world.settled()
        victims = {"n1": ["a"], "n2": ["cpu"], "n3": ["cpu"], "n9": ["x"]}
        assert await kube.preempt("new", victims) == {"n1": ["a"], "n3": ["cpu"]}
        assert await kube.passing("new") == ["n3"], "it was a question: nothing is free because of it"


async def test_victims_may_come_as_whole_pods() -> None:
    async with World(nodes=(gpu_node("n1"),)) as world:
        kube = await start(world)
        world.pods("a", "new", group="", like=LARGE)
        await world.settled()
        assert await kube.bind("a", "n1") == ""
        victims = {"n1": {"Pods": [kube.manifest("a")], "NumPDBViolations": 2}}
        body = {"Pod": kube.manifest("new"), "NodeNameToVictims": victims, "NodeNameToMetaVictims": None}
        answer = said(await kube.verbs.preempt(heard(body, ExtenderPreemptionArgs)))
        assert answer == {
            "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 2}}
        }


async def test_a_pod_that_says_too_much_for_us_is_kube_schedulers_business_alone() -> None:
    many = [{"containerPort": each + 1, "hostPort": each + 1} for each in range(300)]
    async with World(nodes=[gpu_node("n")]) as world:
        kube = await start(world)
        verbose = PLAIN.with_(lambda it: it["spec"]["containers"][0].update(ports=many))
        world.pod("a", group="", like=verbose)
        await world.settled()
        assert (await kube.filter("a"))["FailedAndUnresolvableNodes"] == {}
        assert await kube.bind("a", "n") == ""
