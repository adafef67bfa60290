"""Cards that fail under running pods: the record keeps them, says what happened, and says when it is over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alnair.api import names
from alnair.ledger.records import BOUND
from harness.builders import NodeBuilder, node
from unit.builders import card, holds, part
from unit.control.world import WORKER, World, record_name, record_writes

GIB = 1024


def hami(*changed: dict[str, Any] | None) -> NodeBuilder:
    """Node n1 with two cards of 24 GiB, each changed so; None for one that is not there."""
    good = {"count": 8, "devmem": 24 * GIB, "devcore": 100, "health": True}
    entries = [
        {"id": card("n1", index), "index": index, **good, **each}
        for index, each in enumerate(changed)
        if each is not None
    ]
    return node("n1").annotated({names.HAMI_REGISTER: json.dumps(entries)})


SICK: dict[str, Any] = {"health": False}
HOLDINGS = {"a": holds("n1", part("n1", 0, 12 * GIB)), "b": holds("n1", part("n1", 1, 8 * GIB))}


def world() -> World:
    return World(nodes=[hami({}, {})])


async def running(there: World, *, holdings: dict[str, Any] = HOLDINGS) -> None:
    there.pods(*holdings, on="n1")
    there.wrote(BOUND, *holdings, min_member=1, complete=True, holdings=holdings)
    await there.start()
    await there.settled()


def condition(there: World) -> dict[str, Any]:
    conditions = there.said().get("conditions") or []
    return next((each for each in conditions if each["type"] == "CardsHealthy"), {})


def summary(there: World) -> tuple[str, str]:
    return condition(there).get("status", ""), condition(there).get("reason", "")


@pytest.mark.parametrize(
    ("after", "reason", "saying"),
    [
        pytest.param((SICK, {}), "CardUnhealthy", "is unhealthy; held by a", id="unhealthy"),
        pytest.param((None, {}), "CardGone", "is gone; held by a", id="gone"),
        pytest.param(({"devmem": 10 * GIB}, {}), "CardShrunk", "has only 10240 MiB now", id="too small"),
        pytest.param(({"mode": "mig"}, {}), "CardUnhealthy", "mode 'mig'", id="cut up"),
        pytest.param(({"count": 0}, {}), "CardUnhealthy", "count is 0", id="without slots"),
        pytest.param(({"devmem": 10 * GIB}, None), "CardGone", "has only", id="the worst is the reason"),
    ],
)
async def test_a_card_that_fails_is_a_condition_that_names_card_node_and_pod(
    after: tuple[dict[str, Any] | None, ...], reason: str, saying: str
) -> None:
    async with world() as there:
        await running(there)
        kept = there.said()["pods"]
        there.node(hami(*after))
        await there.settled()
        assert summary(there) == ("False", reason)
        assert saying in condition(there)["message"]
        assert card("n1", 0) in condition(there)["message"]
        assert "node n1" in condition(there)["message"]
        assert there.said()["pods"] == kept, "what runs keeps its record"


async def test_a_card_with_fewer_slots_than_users_is_said_to_lack_those() -> None:
    async with world() as there:
        both = {name: holds("n1", part("n1", 0, GIB)) for name in "ab"}
        await running(there, holdings=both)
        there.node(hami({"count": 1}, {}))
        await there.settled()
        assert summary(there) == ("False", "CardShrunk")
        assert "has only 1 slots now, less than is held on it; held by a, b" in condition(there)["message"]


async def test_recovery_says_so_and_keeps_the_time_of_each_turn() -> None:
    async with world() as there:
        await running(there)
        there.node(hami(SICK, {}))
        await there.settled()
        first = condition(there)["lastTransitionTime"]
        there.clock.pass_(60)
        there.node(hami(SICK, SICK))
        await there.settled()
        assert condition(there)["lastTransitionTime"] == first, "only the words changed"
        there.node(hami({}, {}))
        await there.settled()
        assert summary(there) == ("True", "CardsRecovered")
        assert condition(there)["lastTransitionTime"] != first


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(({"devmem": 20 * GIB}, {}), id="smaller, and yet large enough"),
        pytest.param(({"devmem": 40 * GIB}, {}), id="larger"),
        pytest.param(({}, {}, {"id": "GPU-new"}), id="one more card"),
    ],
)
async def test_what_does_not_hurt_those_who_run_is_not_written(after: tuple[dict[str, Any], ...]) -> None:
    async with world() as there:
        await running(there)
        before = len(there.written())
        there.node(hami(*after))
        await there.settled()
        assert there.written()[before:] == []


async def test_at_rest_nothing_is_written() -> None:
    async with world() as there:
        await running(there)
        there.node(hami(SICK, {}))
        await there.settled()
        before = len(there.written())
        there.node(hami(SICK, {}).labelled(rack="7"))
        await there.settled()
        await there.leader.lists_again()
        await there.settled()
        assert there.written()[before:] == []


async def test_the_record_the_pod_and_the_node_are_told_once() -> None:
    async with world() as there:
        await running(there)
        there.node(hami(SICK, {}))
        await there.until(lambda: there.news("n1") and there.news(record_name()) and there.news("a"))
        there.node(hami({}, {}))
        await there.until(lambda: "CardRecovered" in there.news("n1") and len(there.news(record_name())) == 2)
        there.node(hami(SICK, {}))
        await there.settled()
        assert there.news("n1") == ["CardUnhealthy", "CardRecovered"], (
            "said again within minutes, it is no news"
        )
        assert there.news(record_name()) == ["CardUnhealthy", "CardsRecovered"]
        assert there.news("a")[0] == "CardUnhealthy"
        assert "CardUnhealthy" not in there.news("b")


async def test_an_unhealthy_card_gets_nothing_new_and_a_recovered_one_does() -> None:
    async with world() as there:
        await running(there, holdings={"a": holds("n1", part("n1", 0, GIB))})
        there.node(hami(SICK, SICK))
        there.pod("late", like=WORKER.slice(memory_gib=2))
        await there.settled()
        assert "late" not in there.where()
        there.node(hami(SICK, {}))
        await there.until(lambda: "late" in there.where())
        await there.settled()
        (late,) = [each for each in there.said()["pods"] if each["name"] == "late"]
        assert late["containers"][0]["slices"][0]["gpu"] == card("n1", 1)
        assert summary(there) == ("False", "CardUnhealthy"), "a member joined, and a's card is still sick"


# -- restarts, releases, races -----------------------------------------------------------------------------------


async def test_a_card_that_failed_while_nobody_led_is_found_at_the_start() -> None:
    async with world() as there:
        await running(there)
        await there.leader.dies()
        there.node(hami(None, {}))
        await there.restart()
        await there.settled()
        assert summary(there) == ("False", "CardGone")


async def test_a_restart_concludes_the_same_and_writes_no_more_than_its_stamp() -> None:
    async with world() as there:
        await running(there)
        there.node(hami(SICK, {}))
        await there.settled()
        said = condition(there)
        await there.leader.dies()
        before = len(there.written())
        await there.restart()
        await there.settled()
        assert condition(there) == said
        assert there.written()[before:] == [f"PATCH {record_name()}/status"]
        there.node(hami({}, {}))
        await there.settled()
        assert summary(there)[0] == "True"


async def test_when_the_pod_on_the_failed_card_ends_the_others_record_is_well_again() -> None:
    async with world() as there:
        await running(there)
        there.node(hami(SICK, {}))
        await there.settled()
        there.ends("a")
        await there.settled()
        assert summary(there) == ("True", "CardsRecovered")


async def test_a_shrunk_card_that_has_room_again_is_no_trouble() -> None:
    async with world() as there:
        await running(there, holdings={name: holds("n1", part("n1", 0, 8 * GIB)) for name in ("a", "b")})
        there.node(hami({"devmem": 10 * GIB}, {}))
        await there.settled()
        assert summary(there) == ("False", "CardShrunk")
        there.ends("b")
        await there.settled()
        assert summary(there)[0] == "True"


async def test_a_record_that_goes_with_its_pods_is_not_written_once_more() -> None:
    async with world() as there:
        await running(there)
        there.leader.puts_errands_off()
        there.node(hami(SICK, {}))
        there.deletes("a", "b")
        await there.until(lambda: there.listed() == {})
        there.leader.runs_errands()
        await there.settled()
        assert there.listed() == {}


async def test_a_card_that_fails_while_its_gang_is_bound_is_told_after_the_binds() -> None:
    async with world() as there:
        bind = there.server.delays("POST a/binding")
        there.pod("a", like=WORKER.slice(memory_gib=20))
        await there.start()
        await there.until(lambda: any(call.name == "POST a/binding" for call in there.server.calls))
        there.node(hami(SICK, SICK))
        await there.until(lambda: not there.leader.state.inventories["n1"].cards[0].healthy)
        bind.set()
        await there.until(lambda: summary(there) == ("False", "CardUnhealthy"))
        assert there.where() == {"a": "n1"}, "what was decided is carried out"


async def test_a_conflict_with_a_hand_is_settled_by_version() -> None:
    """The condition goes through the ledger's compare-and-swap: an edit in between is read first, then put right."""
    async with world() as there:
        await running(there)
        path = next(path for path in there.server.objects if path.endswith(record_name()))

        def edit() -> None:
            it = there.server.objects[path]
            there.server.put(path, {**it, "status": {**it["status"], "scheduled": 7}})

        there.server.first(f"PUT {record_name()}/status", edit)
        there.node(hami(SICK, {}))
        await there.until(lambda: summary(there) == ("False", "CardUnhealthy"))
        await there.settled()
        assert there.said()["scheduled"] == 2


@pytest.mark.parametrize("status", [403, 422])
async def test_what_became_of_cards_is_said_again_while_the_apiserver_refuses_it(status: int) -> None:
    async with world() as there:
        await running(there)
        with there.server.refusing(record_writes, status) as refused:
            there.node(hami(SICK, {}))
            await there.until(lambda: len(refused) > 7)
            assert condition(there) == {}
        await there.until(lambda: condition(there))
        assert summary(there) == ("False", "CardUnhealthy")


async def test_names_that_change_under_the_pods_are_said_to_be_other_names() -> None:
    async with world() as there:
        await running(there)
        labels = {names.GFD_COUNT: "2", names.GFD_MEMORY: str(24 * GIB), names.GPU_OWNER: "alnair"}
        there.node(node("n1").labelled(labels))
        await there.settled()
        assert summary(there) == ("False", "CardGone")
        assert "is called otherwise by labels now" in condition(there)["message"]
        there.node(hami({}, {}))
        await there.settled()
        assert summary(there)[0] == "True"


async def test_a_node_that_goes_says_nothing_about_cards() -> None:
    async with world() as there:
        await running(there)
        there.server.remove("/api/v1/nodes/n1")
        await there.settled()
        assert condition(there) == {}
