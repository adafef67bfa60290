"""What a pod is told of its cards is what its record says, whoever carries the record out."""

from __future__ import annotations

import pytest

from alnair.api import names
from alnair.ledger.records import COMMITTED
from alnair.state.holding import Slice
from harness.builders import PodBuilder, node
from unit.builders import card, holds, part
from unit.control.world import PODS, WORKER, World

DELIVERING = frozenset({"alnair"})
WHOLE = Slice(card("n1", 0), 24576, 100, whole=True)


async def test_a_gang_that_a_predecessor_committed_is_told_its_cards_by_the_record() -> None:
    async with World(min_member=2, nodes=[node("n1").with_cards(2)]) as world:
        world.pods("a", "b")
        given = {name: holds("n1", part("n1", index, 6144, 30)) for index, name in enumerate("ab")}
        world.wrote(COMMITTED, "a", "b", min_member=2, holdings=given)
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1", "b": "n1"}
        for index, name in enumerate("ab"):
            annotations = world.server.objects[f"{PODS}/{name}"]["metadata"]["annotations"]
            assert annotations["main.env.ai.centaurus.io/visible-devices"] == card("n1", index)
            assert annotations["main.env.ai.centaurus.io/memory-limit-0"] == "6144m"
            assert annotations[names.GPU_ID] == card("n1", index)


@pytest.mark.parametrize(
    ("like", "piece"),
    [
        pytest.param(WORKER.slice(memory_gib=6), part("n1", 0, 6144), id="a slice"),
        pytest.param(WORKER.asking(gpu=1), WHOLE, id="a whole card"),
    ],
)
async def test_a_pod_from_before_the_policy_is_not_bound_to_cards_by_a_record_from_before_it(
    like: PodBuilder, piece: Slice
) -> None:
    async with World(nodes=[node("n1").with_cards(2)], delivering=DELIVERING) as world:
        world.pods("a", like=like)
        world.wrote(COMMITTED, "a", min_member=1, holding=holds("n1", piece))
        await world.start()
        await world.settled()
        assert world.where() == {}, "its container would see whatever its image asks for"
        assert world.listed() == {}


async def test_a_pod_that_reads_its_cards_is_bound_by_a_predecessors_record() -> None:
    async with World(nodes=[node("n1").with_cards(2)], delivering=DELIVERING) as world:
        world.pods("a", like=WORKER.slice(memory_gib=6).told())
        world.wrote(COMMITTED, "a", min_member=1, holding=holds("n1", part("n1", 0, 6144)))
        await world.start()
        await world.settled()
        assert world.where() == {"a": "n1"}
