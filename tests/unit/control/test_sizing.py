"""What is known of an elastic gang's size: what may change when, what a hand has set, what people read."""

from __future__ import annotations

import pytest

from alnair.api.config import Elastic as Settings
from alnair.api.podgroup import Elastic
from alnair.control.elastic.scale import Scale
from alnair.control.elastic.sizing import BY_HAND, NOT_STARTED, TARGET_REFUSED, Sizing
from unit.builders import HandClock

SETTINGS = Settings(stabilization_seconds=60, hand_seconds=100)
ELASTIC = Elastic.model_validate(
    {"min": 2, "max": 5, "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s"}}
)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.mark.parametrize("grown", [True, False])
def test_a_change_is_not_undone_within_the_stabilisation_time_and_may_be_carried_further(
    clock: HandClock, grown: bool
) -> None:
    sizing = Sizing()
    sizing.changed(grown=grown, clock=clock, settings=SETTINGS)
    clock.pass_(59)
    may = {True: sizing.may_grow, False: sizing.may_shrink}
    assert not may[not grown](clock.now(), SETTINGS)
    assert may[grown](clock.now(), SETTINGS)
    clock.pass_(2)
    assert may[not grown](clock.now(), SETTINGS)


def test_a_hands_number_is_held_until_its_time_is_over(clock: HandClock) -> None:
    sizing = Sizing()
    sizing.set_by_hand(3, clock=clock, settings=SETTINGS)
    clock.pass_(99)
    assert sizing.held_by_hand(clock.now())
    clock.pass_(2)
    assert not sizing.held_by_hand(clock.now())
    assert sizing.status(ELASTIC, size=3)["byHand"] is None


def test_a_successor_finds_what_was_written(clock: HandClock) -> None:
    first = Sizing()
    first.changed(grown=True, clock=clock, settings=SETTINGS)
    first.set_by_hand(4, clock=clock, settings=SETTINGS)
    written = {key: value for key, value in first.status(ELASTIC, size=4).items() if value is not None}
    clock.pass_(30)
    second = Sizing()
    second.recall(written, clock, SETTINGS)
    assert second.held_by_hand(clock.now())
    assert not second.may_shrink(clock.now(), SETTINGS)
    clock.pass_(31)
    assert second.may_shrink(clock.now(), SETTINGS)
    clock.pass_(40)
    assert not second.held_by_hand(clock.now())


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"changedAt": "yesterday", "byHand": 3, "byHandUntil": "tomorrow"},
        {"changedAt": 5, "byHand": "many", "byHandUntil": None},
        {"byHand": 3, "byHandUntil": "2020-01-01T00:00:00Z"},
    ],
)
def test_what_makes_no_sense_says_nothing(clock: HandClock, status: dict[str, object]) -> None:
    sizing = Sizing()
    sizing.recall(status, clock, SETTINGS)
    assert not sizing.held_by_hand(clock.now())
    assert sizing.may_grow(clock.now(), SETTINGS)


def test_a_hand_that_wrote_a_far_day_into_the_status_is_held_no_longer_than_others(clock: HandClock) -> None:
    sizing = Sizing()
    sizing.recall({"byHand": 3, "byHandUntil": "2099-01-01T00:00:00Z"}, clock, SETTINGS)
    clock.pass_(101)
    assert not sizing.held_by_hand(clock.now())


def test_failures_wait_longer_each_time(clock: HandClock) -> None:
    sizing = Sizing()
    waits = []
    for _ in range(8):
        sizing.failed(TARGET_REFUSED, "no", clock=clock)
        waits.append(sizing.retry_after - clock.now())
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]


def test_the_status_has_every_field_and_no_pods_means_no_wishes(clock: HandClock) -> None:
    sizing = Sizing(wants=4, reserved=1)
    sizing.set_by_hand(4, clock=clock, settings=SETTINGS)
    sizing.say_by_hand()
    status = sizing.status(ELASTIC, size=3)
    assert (status["size"], status["wants"], status["reserved"], status["min"], status["max"]) == (
        3,
        4,
        1,
        2,
        5,
    )
    assert (status["reason"], status["byHand"]) == (BY_HAND, 4)
    assert "4 members set by hand; left alone until 2026-" in status["message"]
    sizing.has_no_pods()
    assert sizing.status(ELASTIC, size=0)["reason"] == NOT_STARTED
    assert sizing.told()[:2] == (0, 0)


@pytest.mark.parametrize(
    ("selector", "labels", "selects"),
    [
        ("app=train", {"app": "train", "more": "x"}, True),
        ("app=train", {"app": "db"}, False),
        ("app==train,tier=gpu", {"app": "train", "tier": "gpu"}, True),
        ("app=train,tier=gpu", {"app": "train"}, False),
        ("app=", {"app": ""}, True),
        ("", {"app": "db"}, True),
        ("tier in (a,b),app=train", {"app": "train"}, True),
        ("tier in (a,b),app=train", {"app": "db"}, False),
    ],
)
def test_a_target_tells_its_replicas_by_their_labels(
    selector: str, labels: dict[str, str], selects: bool
) -> None:
    assert Scale(1, "1", "/", selector).selects(labels) is selects
