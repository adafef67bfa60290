"""Gangs that must be together, from the wish to the bind: joins, replacements, refusals, and what wakes them."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

import pytest

from alnair.api import names
from alnair.api.config import DEFAULT_TOPOLOGY, Level
from alnair.api.nearness import BadLevel, Wish, find_level, wish_in
from alnair.control.gangs import read_group
from alnair.ledger.records import BOUND
from alnair.scheduling.domains import Together
from alnair.scheduling.vacancy import kept_together
from alnair.state.holding import Holding
from harness.builders import NodeBuilder, node
from unit.control.world import GROUPS, WORKER, World

RACK = "topology.kubernetes.io/rack"
IN_A_RACK = WORKER.annotated({names.TOPOLOGY_REQUIRED: "rack"})


def racked(name: str, rack: str | None, pods: int) -> NodeBuilder:
    """Room for so many workers."""
    made = node(name).holding(cpu=f"{pods}00m")
    return made.labelled({RACK: rack}) if rack is not None else made


def asks(world: World, *, annotations: dict[str, str] | None = None, **topology: str) -> None:
    """The group g is edited: its annotations without a new generation, its spec with one."""
    path = f"{GROUPS}/g"
    manifest = deepcopy(world.server.objects[path])
    manifest["metadata"]["annotations"] = annotations or {}
    if topology:
        manifest["spec"]["topology"] = topology
        manifest["metadata"]["generation"] += 1
    world.server.put(path, manifest)


def racks(world: World) -> Counter[str]:
    return Counter(name.partition("-")[0] for name in world.where().values())


TWO_RACKS = [racked("a-1", "a", 1), racked("a-2", "a", 1), racked("b-1", "b", 2), racked("b-2", "b", 1)]


# -- how it is said ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "topology"),
    [
        ({}, {"required": "rack"}),
        ({}, {"required": RACK}),
        ({names.TOPOLOGY_REQUIRED: "rack"}, {}),
        ({names.KUEUE_REQUIRED_TOPOLOGY: RACK}, {}),
        ({names.KAI_REQUIRED_TOPOLOGY: RACK, names.KAI_PREFERRED_TOPOLOGY: "zone"}, {}),
        ({names.TOPOLOGY_REQUIRED: "zone"}, {"required": "rack"}),  # fields go first
    ],
)
async def test_a_group_says_it_by_field_or_annotation(
    annotations: dict[str, str], topology: dict[str, str]
) -> None:
    async with World(min_member=3, nodes=TWO_RACKS) as world:
        asks(world, annotations=annotations, **topology)
        world.pods("x", "y", "z")
        await world.start()
        await world.settled()
        assert racks(world) == {"b": 3}


async def test_pods_say_it_where_their_group_does_not() -> None:
    async with World(min_member=3, nodes=TWO_RACKS) as world:
        world.pods("x", "y", like=IN_A_RACK)
        world.pod("z")  # has no opinion
        await world.start()
        await world.settled()
        assert racks(world) == {"b": 3}


async def test_a_pod_alone_needs_a_node_that_is_in_a_rack() -> None:
    async with World(nodes=[racked("bare", None, 9)]) as world:
        world.pod("x", group="", like=IN_A_RACK)
        await world.start()
        await world.settled()
        assert world.where() == {}
        world.node(racked("a-1", "a", 1))
        await world.settled()
        assert world.where() == {"x": "a-1"}


async def test_pods_that_say_different_things_are_told_so() -> None:
    async with World(min_member=2, nodes=TWO_RACKS) as world:
        world.pod("x", like=IN_A_RACK)
        world.pod("y", like=WORKER.annotated({names.TOPOLOGY_PREFERRED: "zone"}))
        await world.start()
        await world.settled()
        gang = world.leader.gang()
        assert gang.refusal_reason == "Invalid"
        assert gang.refusal == (
            f"pod y: metadata.annotations[{names.TOPOLOGY_PREFERRED}]: 'zone' is not what pod x asks for "
            f"(metadata.annotations[{names.TOPOLOGY_REQUIRED}]: 'rack'); a gang is in one place, so say the same on "
            "all its pods"
        )


async def test_an_unknown_level_is_told_and_mending_it_is_enough() -> None:
    async with World(min_member=3, nodes=TWO_RACKS) as world:
        asks(world, annotations={names.TOPOLOGY_REQUIRED: "rak"})
        world.pods("x", "y", "z")
        await world.start()
        await world.settled()
        gang = world.leader.gang()
        assert (gang.refusal_reason, world.where()) == ("Invalid", {})
        assert gang.refusal == (
            f"metadata.annotations[{names.TOPOLOGY_REQUIRED}]: 'rak' is no level of topology.levels (there are zone, "
            "block, rack, nvlink); name one of those, or a node label such as topology.kubernetes.io/zone"
        )
        asks(world, annotations={names.TOPOLOGY_REQUIRED: "rack"})
        await world.settled()
        assert racks(world) == {"b": 3}


@pytest.mark.parametrize(
    ("level", "found"),
    [
        ("rack", (RACK, "rack")),
        (RACK, (RACK, "rack")),
        ("nvlink", ("nvidia.com/gpu.clique", "nvlink")),
        ("kubernetes.io/hostname", ("kubernetes.io/hostname", "domain of kubernetes.io/hostname")),
        ("shelf", None),
        ("", None),
        ("/", None),
        ("a b/c", None),
        ("x/" + "y" * 400, None),
    ],
)
def test_a_level_is_a_name_or_a_label(level: str, found: tuple[str, str] | None) -> None:
    wish = Wish(level, required=True, field="f")
    if found is not None:
        assert find_level(wish, DEFAULT_TOPOLOGY.levels) == found
        return
    with pytest.raises(BadLevel, match=r"^f: '.* is no level of topology.levels") as told:
        find_level(wish, DEFAULT_TOPOLOGY.levels)
    assert len(str(told.value)) < 1000


def test_a_level_may_have_a_label_without_a_slash() -> None:
    wish = Wish("rack", required=True, field="f")
    assert find_level(wish, [Level(name="shelf", label="rack")]) == ("rack", "shelf")
    with pytest.raises(BadLevel, match="there are none"):
        find_level(wish, [])


def test_annotations_of_others_say_nothing() -> None:
    assert wish_in({}) is None
    assert wish_in({"kai.scheduler/topology": "cluster"}) is None


@pytest.mark.parametrize("topology", [{}, {"required": "rack", "preferred": "zone"}])
def test_a_group_that_wants_both_or_neither_has_a_problem(topology: dict[str, Any]) -> None:
    meta = {"namespace": "t", "name": "g", "uid": "u"}
    read = read_group({"metadata": meta, "spec": {"topology": topology}})
    assert read.problem == "spec.topology: exactly one of required and preferred must be given"


# -- who comes later ---------------------------------------------------------------------------------------------


async def test_a_refused_gang_wakes_when_room_comes_in_any_rack() -> None:
    async with World(min_member=3, nodes=[*TWO_RACKS, racked("bare", None, 9)]) as world:
        world.pods("old", group="", on="b-1")
        world.pods("x", "y", "z", like=IN_A_RACK)
        await world.start()
        await world.settled()
        gang = world.leader.gang()
        assert gang.refusal.startswith(
            "No rack holds the whole gang; of 2 the best is a: 2 of 3 members fit. "
        )
        world.deletes("old")
        await world.settled()
        assert racks(world) == {"b": 3}


async def test_a_refused_gang_wakes_when_a_node_is_put_into_a_rack() -> None:
    async with World(min_member=3, nodes=[racked("a-1", "a", 2), racked("a-2", None, 2)]) as world:
        world.pods("x", "y", "z", like=IN_A_RACK)
        await world.start()
        await world.settled()
        assert world.where() == {}
        world.node(racked("a-2", "a", 2))
        await world.settled()
        assert racks(world) == {"a": 3}


async def test_who_joins_later_goes_where_the_gang_is() -> None:
    nodes = [racked("a-1", "a", 1), racked("b-1", "b", 3)]
    async with World(min_member=2, nodes=nodes) as world:
        world.pods("x", "y", like=IN_A_RACK)
        await world.start()
        await world.settled()
        assert racks(world) == {"b": 2}
        world.pod("z", like=IN_A_RACK)
        await world.settled()
        assert racks(world) == {"b": 3}, "a-1 is the snugger rack, and the wrong one"
        world.pod("late", like=IN_A_RACK)
        await world.settled()
        assert world.leader.gang().refusal.startswith("The gang is in rack b and stays there: ")
        world.deletes("x")
        await world.settled()
        assert racks(world) == {"b": 3}
        assert "late" in world.where()


async def test_a_replacement_joins_after_a_restart_where_the_gang_is() -> None:
    nodes = [racked("a-1", "a", 9), racked("b-1", "b", 1), racked("b-2", "b", 2)]
    async with World(min_member=2, nodes=nodes) as world:
        world.pods("x", "y", like=IN_A_RACK, on="b-2")
        world.wrote(BOUND, "x", "y", min_member=2, complete=True)
        await world.start()
        await world.settled()
        world.deletes("x")
        world.pod("new", like=IN_A_RACK)
        await world.settled()
        assert racks(world) == {"b": 2}


async def test_a_gang_that_is_gone_altogether_may_go_elsewhere() -> None:
    async with World(min_member=2, nodes=[racked("a-1", "a", 2)]) as world:
        world.pods("x", "y", like=IN_A_RACK)
        await world.start()
        await world.settled()
        world.deletes("x", "y")
        world.node(racked("a-1", "a", 1))
        world.node(racked("b-1", "b", 2))
        world.pods("v", "w", like=IN_A_RACK)
        await world.settled()
        assert racks(world) == {"b": 2}


def test_kept_places_count_in_one_domain_only() -> None:
    vacant = {f"u{number}": Holding(name) for number, name in enumerate(("a-1", "b-1", "b-2", "bare"))}

    def domain(holding: Holding) -> str | None:
        return holding.node[0] if "-" in holding.node else None

    rack = Together(RACK, "rack", required=True)
    assert set(kept_together(vacant, rack, domain)) == {"u1", "u2"}
    assert set(kept_together(vacant, Together(RACK, "rack", required=True, home=("a",)), domain)) == {"u0"}
    assert kept_together({}, rack, domain) == {}
