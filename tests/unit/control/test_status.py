"""What a PodGroup's status says of a gang, for every state of its pods."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.api import names
from alnair.control.gangs import Gang, Group
from alnair.control.reports import _only_words, status_of
from harness.builders import pod
from unit.builders import as_pod

NOW = "2026-01-01T00:00:00Z"
EARLIER = "2025-12-31T00:00:00Z"


def gang_of(*states: str, least: int = 2, status: dict[str, Any] | None = None, **fields: Any) -> Gang:
    """Pods by state: waiting, gated, bound, running, succeeded, failed."""
    group = Group("team", "g", "u", generation=7, created=EARLIER, min_member=least, status=status or {})
    gang = Gang(("team", "PodGroup", "g"), group=group, **fields)
    for number, state in enumerate(states):
        sentence = pod(f"p{number}").gated() if state == "gated" else pod(f"p{number}")
        on = "" if state in ("waiting", "gated") else "n"
        phase = {"bound": "Pending", "running": "Running", "succeeded": "Succeeded", "failed": "Failed"}.get(
            state, ""
        )
        made = as_pod(sentence, on=on, phase=phase)
        gang.pods[made.uid] = made
    return gang


def told(gang: Gang) -> dict[str, Any]:
    assert gang.group is not None
    return status_of(gang, gang.group, now=NOW)


def condition(gang: Gang) -> dict[str, Any]:
    (only,) = (each for each in told(gang)["conditions"] if each["type"] == "Scheduled")
    return dict(only)


@pytest.mark.parametrize(
    ("gang", "phase"),
    [
        pytest.param(gang_of("waiting"), "Pending", id="too few members"),
        pytest.param(gang_of("waiting", "waiting"), "Pending", id="complete, without a place"),
        pytest.param(gang_of("gated", "gated"), "Pending", id="gated"),
        pytest.param(gang_of("waiting", "waiting", busy=True), "Scheduling", id="a plan is being carried out"),
        pytest.param(gang_of("bound", "waiting", busy=True), "Scheduling", id="half bound"),
        pytest.param(gang_of("bound", "waiting", short_since=1.0), "Scheduling", id="waiting for replacements"),
        pytest.param(gang_of("bound", "bound"), "Scheduled", id="bound"),
        pytest.param(gang_of("bound", "running"), "Scheduled", id="not all run yet"),
        pytest.param(gang_of("running", "running"), "Running", id="all run"),
        pytest.param(gang_of("running", "running", "waiting"), "Running", id="enough run, one more waits"),
        pytest.param(gang_of("running", "succeeded"), "Running", id="one is done, one runs"),
        pytest.param(gang_of("running", "failed"), "Unknown", id="part of it is gone"),
        pytest.param(gang_of("succeeded", "succeeded"), "Finished", id="done"),
        pytest.param(gang_of("succeeded", "succeeded", "failed"), "Finished", id="enough are done"),
        pytest.param(gang_of("failed", "failed"), "Failed", id="failed"),
        pytest.param(gang_of("succeeded", "failed"), "Failed", id="not enough are done and nobody is left"),
        pytest.param(gang_of("failed", "waiting"), "Pending", id="a replacement waits"),
        pytest.param(gang_of(), "Pending", id="no pods yet"),
        pytest.param(gang_of(status={"phase": "Finished"}), "Finished", id="its pods were cleaned up after the end"),
        pytest.param(gang_of(status={"phase": "Running"}), "Pending", id="its pods are gone before the end"),
    ],
)  # fmt: skip
def test_the_phase(gang: Gang, phase: str) -> None:
    assert told(gang)["phase"] == phase


def test_the_counts() -> None:
    status = told(gang_of("waiting", "bound", "running", "running", "succeeded", "failed"))
    assert {key: status[key] for key in ("members", "scheduled", "running", "succeeded", "failed")} == {
        "members": 6,
        "scheduled": 3,
        "running": 2,
        "succeeded": 1,
        "failed": 1,
    }
    assert status["observedGeneration"] == 7


REFUSED: dict[str, Any] = {"refusal": "1 of 2 members fit", "refusal_reason": "Unschedulable"}


@pytest.mark.parametrize(
    ("gang", "status", "reason", "message"),
    [
        pytest.param(gang_of("bound", "bound"), "True", "Scheduled", "2 members bound or done.", id="placed"),
        pytest.param(gang_of("bound", least=1), "True", "Scheduled", "1 member bound or done.", id="one placed"),
        pytest.param(
            gang_of("bound", "bound", "waiting", **REFUSED),
            "True",
            "Scheduled",
            "2 members bound or done; 1 member still without a place: 1 of 2 members fit.",
            id="placed, and one more refused",
        ),
        pytest.param(
            gang_of("waiting", "waiting", busy=True, **REFUSED),
            "False",
            "Scheduling",
            "A place was found and is being taken.",
            id="being placed",
        ),
        pytest.param(
            gang_of("waiting", "waiting", **REFUSED), "False", "Unschedulable", "1 of 2 members fit.", id="refused"
        ),
        pytest.param(
            gang_of("bound", "waiting", short_since=1.0),
            "False",
            "WaitingForReplacements",
            "1 of 2 members are bound; the places of lost members are kept for replacements.",
            id="short",
        ),
        pytest.param(
            gang_of("waiting", "waiting"), "Unknown", "Queued", "Waiting for its turn.", id="not tried yet"
        ),
        pytest.param(
            gang_of(), "False", "WaitingForMembers", "Waiting for members: 0 of at least 2 pods exist.", id="no pods"
        ),
    ],
)  # fmt: skip
def test_the_condition(gang: Gang, status: str, reason: str, message: str) -> None:
    made = condition(gang)
    assert (made["status"], made["reason"], made["message"]) == (status, reason, message)
    assert made["observedGeneration"] == 7


def test_a_group_that_timed_out_says_so_and_why() -> None:
    gang = gang_of("waiting", "waiting", timed_out=True, **REFUSED)
    assert gang.group is not None
    gang.group.timeout_seconds = 30
    assert condition(gang)["reason"] == "Timeout"
    assert condition(gang)["message"] == "not scheduled within 30 s. 1 of 2 members fit.".capitalize()


def test_the_time_of_a_condition_is_when_its_status_changed_not_its_words() -> None:
    before = {
        "type": "Scheduled",
        "status": "False",
        "reason": "Queued",
        "message": "x",
        "lastTransitionTime": EARLIER,
    }
    status = {"conditions": [before]}
    assert condition(gang_of("waiting", "waiting", status=status, **REFUSED))["lastTransitionTime"] == EARLIER
    assert condition(gang_of("bound", "bound", status=status))["lastTransitionTime"] == NOW


def test_conditions_of_others_are_kept() -> None:
    theirs = {"type": "Theirs", "status": "True", "reason": "X", "lastTransitionTime": EARLIER}
    assert theirs in told(gang_of("waiting", status={"conditions": [theirs]}))["conditions"]


def test_the_start_is_when_the_gang_was_first_complete() -> None:
    assert "scheduleStartTime" not in told(gang_of("waiting"))
    assert told(gang_of("waiting", "waiting", ready_since=1.0))["scheduleStartTime"] == NOW
    assert told(gang_of("bound", status={"scheduleStartTime": EARLIER}))["scheduleStartTime"] == EARLIER


def test_saying_it_again_changes_nothing() -> None:
    for states in (["waiting", "waiting"], ["bound", "bound"], ["succeeded", "succeeded"], []):
        first = told(gang_of(*states, **REFUSED))
        assert told(gang_of(*states, status=first, **REFUSED)) == first


def test_a_long_story_is_cut() -> None:
    gang = gang_of("waiting", "waiting", refusal="x" * 5000, refusal_reason="Unschedulable")
    assert len(condition(gang)["message"]) == 2000


NO_ROOM = {"size": 2, "wants": 2, "reason": "NoRoom", "message": "one more finds no place"}


@pytest.mark.parametrize(
    ("changed", "only_words"),
    [
        ({"elastic": {**NO_ROOM, "message": "another node is the fullest now"}}, True),
        ({"elastic": {**NO_ROOM, "reason": "OthersWait", "byHand": None}}, True),
        ({"elastic": {**NO_ROOM, "wants": 3}}, False),
        ({"elastic": {**NO_ROOM, "byHand": 2}}, False),
        ({"elastic": {**NO_ROOM, "reason": "OthersWait"}, "running": 1}, False),
    ],
)
def test_why_an_elastic_gang_has_no_more_is_words(changed: dict[str, Any], only_words: bool) -> None:
    assert _only_words(changed, {"elastic": NO_ROOM}) is only_words


def test_a_group_that_is_elastic_no_more_says_nothing_of_sizes() -> None:
    group = Group("team", "g", "u", 2, "", status={"elastic": {"size": 3}})
    gang = Gang(("team", names.KIND_PODGROUP, "g"), group=group)
    assert status_of(gang, group, now="2026-01-01T00:00:00Z")["elastic"] is None
