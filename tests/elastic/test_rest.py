"""The judge of a cluster at rest finds what is idle, half, short and badly explained, and nothing else."""

from __future__ import annotations

import pytest

from elastic.findings import BELOW_MIN, IDLE, STARVED, UNEXPLAINED
from elastic.tale import HAND_SECONDS, Tale
from witness.findings import HALF_GANG
from witness.requests import Ask
from witness.words import NODES, Object

SLICE = Ask("main", memory_mib=8 * 1024, compute=30)


def test_a_gang_that_fills_the_cluster_is_at_rest(tale: Tale) -> None:
    tale.running("g", "ab", least=1, most=4)
    assert tale.at_rest() == []
    assert tale.judgement().idle_fraction == 0


# -- idle ----------------------------------------------------------------------------------------------------------


def test_a_free_card_beside_a_gang_that_could_have_it(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=4)
    assert (IDLE, "ns/g") in tale.at_rest()
    assert tale.judgement().idle_fraction == pytest.approx(1 / 4), "one of two and two counted ones"


def test_a_free_card_beside_a_gang_at_its_most_is_nobodys(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=1)
    assert tale.at_rest() == []


def test_a_card_that_is_kept_for_a_member_to_come_is_not_idle(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=4)
    tale.holding("g", {"g-0": "a", "+1": "b"})
    assert tale.at_rest() == []


def test_a_card_of_a_cordoned_node_or_a_lost_one_is_not_idle(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=4)
    tale.node("own", "a", "b", unschedulable=True)
    assert tale.at_rest() == []
    tale.change(NODES, "own", None)
    assert tale.at_rest() == []


def test_cards_of_a_device_plugin_are_for_those_that_may_go_there(tale: Tale) -> None:
    tale.running("g", "ab", least=1, most=4)
    tale.node("plug", gpus=8)
    assert tale.at_rest() == []


def test_a_gang_that_a_hand_holds_leaves_cards_idle_until_the_hand_is_forgotten(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=4)
    tale.scaled("g", 2, by_hand=True)
    tale.scaled("g", 1, by_hand=True)
    tale.explained("g", "ByHand")
    assert tale.at_rest() == []
    tale.wait(HAND_SECONDS + 1)
    assert (IDLE, "ns/g") in tale.at_rest()


def test_a_part_of_a_card_that_a_member_would_fit_into(tale: Tale) -> None:
    """Three slices of 8 GiB are a card by memory, and by 30 per cent of compute each."""
    tale.gang("s", least=1, most=6, replicas=5, ask=SLICE)
    slices = [("a", 3), ("b", 2)]
    entries: list[Object] = []
    for card, number in slices:
        for _ in range(number):
            name = f"s-{len(entries)}"
            given = {"gpu": card, "memoryMiB": 8 * 1024, "computePercent": 30}
            entries.append(
                {
                    "uid": f"{name}!",
                    "node": "own",
                    "containers": [{"name": "main", "slices": [given]}],
                }
            )
            tale.pod(name, gang="s", node="own", ask=SLICE)
    record = {
        "metadata": {"uid": "s=", "namespace": "ns"},
        "spec": {"owner": {"kind": "PodGroup", "name": "s", "uid": "s?"}},
        "status": {"phase": "Bound", "pods": entries},
    }
    tale.change("gpuallocations", "ns/s", record)
    tale.explained("s", "TooSoon")
    assert tale.at_rest() == [(IDLE, "ns/s")]
    assert tale.judgement().idle_fraction == pytest.approx((1 / 3) / 4, abs=1e-3)


def test_a_gang_that_waits_though_all_that_it_needs_is_free(tale: Tale) -> None:
    tale.gang("g", least=2, most=4, replicas=2)
    tale.explained("g", "Waiting")
    assert (IDLE, "ns/g") in tale.at_rest()
    tale.gang("h", least=3, most=4, replicas=3)
    tale.explained("h", "NoRoom")
    assert (IDLE, "ns/h") not in tale.at_rest(), "two of three are not enough"


def test_a_rigid_gang_and_a_lone_pod_that_wait_though_they_would_fit(tale: Tale) -> None:
    tale.gang("r", least=2)
    for name in ("r0", "r1"):
        tale.pod(name, gang="r")
    assert tale.at_rest() == [(IDLE, "ns/r")]
    tale.deleted("r1")
    assert tale.at_rest() == [], "a gang that lacks a pod waits for it"
    tale.pod("lone")
    assert tale.at_rest() == [(IDLE, "ns/lone")]


def test_a_gang_that_has_failed_for_good_is_left_alone(tale: Tale) -> None:
    tale.gang("g", least=2, most=4, replicas=2)
    tale.phase("g", "Failed")
    assert tale.at_rest() == []


# -- starved -------------------------------------------------------------------------------------------------------


def test_a_lone_pod_waits_for_what_an_elastic_gang_has_beyond_its_least(tale: Tale) -> None:
    tale.running("g", "ab", least=1, most=4)
    tale.pod("lone")
    assert tale.at_rest() == [(STARVED, "ns/lone")]


def test_a_gang_waits_for_what_elastic_gangs_have_beyond_their_least(tale: Tale) -> None:
    tale.node("own", "a", "b", "c", "d")
    tale.running("g", "ab", least=1, most=2)
    tale.running("h", "cd", least=1, most=2)
    tale.gang("r", least=2)
    for name in ("r0", "r1"):
        tale.pod(name, gang="r")
    assert tale.at_rest() == [(STARVED, "ns/r")]


def test_a_gang_that_would_not_fit_even_so_waits_rightly(tale: Tale) -> None:
    tale.running("g", "ab", least=1, most=4)
    tale.gang("r", least=2)
    for name in ("r0", "r1"):
        tale.pod(name, gang="r")
    assert tale.at_rest() == []


# -- too few -------------------------------------------------------------------------------------------------------


def test_a_started_gang_below_its_least_though_there_is_room(tale: Tale) -> None:
    tale.running("g", "ab", least=2, most=2)
    tale.deleted("g-1")
    tale.holding("g", {"g-0": "a"})
    tale.explained("g", "NoRoom")
    assert (BELOW_MIN, "ns/g") in tale.at_rest()


def test_a_started_gang_below_its_least_that_nobody_asks_more_for(tale: Tale) -> None:
    tale.running("g", "ab", least=2, most=2)
    tale.deleted("g-1")
    tale.node("own", "a", "b", unschedulable=True)
    tale.explained("g", "NoRoom")
    assert tale.at_rest() == [], "it lost a member and there is no room"
    assert tale.judgement().short == 1
    tale.scaled("g", 1, by_hand=True)
    tale.explained("g", "NoRoom")
    assert tale.at_rest() == [(BELOW_MIN, "ns/g")]


def test_half_a_gang_that_was_never_whole(tale: Tale) -> None:
    tale.gang("r", least=2)
    tale.pod("r0", gang="r", node="own")
    tale.pod("r1", gang="r")
    tale.holding("r", {"r0": "a"})
    assert (HALF_GANG, "ns/r") in tale.at_rest()


def test_half_an_elastic_gang_that_was_never_whole(tale: Tale) -> None:
    tale.gang("g", least=3, most=4, replicas=3)
    for name in ("g-0", "g-1"):
        tale.pod(name, gang="g", node="own")
    tale.holding("g", {"g-0": "a", "g-1": "b"})
    tale.explained("g", "NoRoom")
    assert tale.at_rest() == [(HALF_GANG, "ns/g")]


def test_a_gang_that_lost_a_member_was_whole_once(tale: Tale) -> None:
    tale.gang("r", least=2)
    for name in ("r0", "r1"):
        tale.pod(name, gang="r", node="own")
    tale.holding("r", {"r0": "a", "r1": "b"})
    tale.deleted("r1")
    assert tale.at_rest() == []


# -- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": ""},
        {"reason": ""},
        {"reason": "AtMax"},
        {"reason": "ByHand"},
        {"size": 3},
        {"wants": 3},
        {"max": 3},
        {"min": 2},
    ],
)
def test_words_that_are_missing_or_not_so(tale: Tale, wrong: dict[str, object]) -> None:
    tale.running("g", "ab", least=1, most=4)
    right = {"size": 2, "wants": 2, "min": 1, "max": 4, "reason": "NoRoom", "message": "no card is free"}
    tale.told("g", **right)
    assert tale.at_rest() == []
    tale.told("g", **{**right, **wrong})
    assert tale.at_rest() == [(UNEXPLAINED, "ns/g")]


def test_no_room_is_said_though_there_is(tale: Tale) -> None:
    tale.running("g", "a", least=1, most=4)
    assert tale.at_rest() == [(UNEXPLAINED, "ns/g"), (IDLE, "ns/g")]


def test_a_gang_at_its_most_need_not_say_why(tale: Tale) -> None:
    tale.running("g", "ab", least=1, most=2)
    tale.told("g", size=2, wants=2, min=1, max=2)
    assert tale.at_rest() == []
