"""Reading etcd's history: every revision once, in order, and a clock out of what it tells."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from witness.history import LONGEST_STEP, Gap, History
from witness.words import LEASES, PODS, Change


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    made = History(tmp_path / "etcd.sock")
    yield made
    await made.close()


def event(revision: int, key: str, value: Any = None) -> dict[str, Any]:
    entry = {"key": base64.b64encode(key.encode()).decode(), "mod_revision": str(revision)}
    if value is None:
        return {"type": "DELETE", "kv": entry}
    return {"kv": {**entry, "value": base64.b64encode(json.dumps(value).encode()).decode()}}


def lease(revision: int, time: str) -> dict[str, Any]:
    return event(revision, "/registry/leases/ns/x", {"spec": {"renewTime": f"2026-01-01T00:{time}Z"}})


def read(history: History, *events: dict[str, Any]) -> list[Change]:
    return history._read({"events": list(events)})


async def test_objects_of_interest_come_with_kind_and_key_and_everything_is_counted(history: History) -> None:
    changes = read(
        history,
        event(5, "/registry/pods/ns/a", {"metadata": {"name": "a"}}),
        event(6, "/registry/events/ns/b", {}),
        event(7, "/registry/pods/ns/a"),
    )
    assert [(change.revision, change.kind, change.key) for change in changes] == [
        (5, PODS, "ns/a"),
        (7, PODS, "ns/a"),
    ]
    assert [change.object for change in changes] == [{"metadata": {"name": "a"}}, None]
    assert (history.revision, history.count) == (7, 3)


async def test_several_keys_of_one_revision_are_no_gap_and_a_missing_revision_is(history: History) -> None:
    read(history, event(5, "/registry/a", {}), event(5, "/registry/b", {}), event(6, "/registry/c", {}))
    with pytest.raises(Gap, match="revision 8 came after 6"):
        read(history, event(8, "/registry/d", {}))


async def test_a_watch_that_etcd_ends_is_a_gap(history: History) -> None:
    with pytest.raises(Gap, match="compacted"):
        history._read({"canceled": True, "compact_revision": "9"})


async def test_the_clock_is_the_leases_never_goes_back_and_leaps_over_silence(history: History) -> None:
    changes = read(history, lease(1, "00:10.5"), lease(2, "00:11.5"), lease(3, "00:11.0"), lease(4, "05:00"))
    assert {change.kind for change in changes} == {LEASES}
    first, second, third, last = (change.at for change in changes)
    assert second - first == 1.0
    assert third == second
    assert last - third == LONGEST_STEP
