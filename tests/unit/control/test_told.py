"""What a pod is told of its cards is what its record says, whoever carries the record out."""

from __future__ import annotations

from alnair.api import names
from alnair.ledger.records import COMMITTED
from harness.builders import node
from unit.builders import card, holds, part
from unit.control.world import PODS, World


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
