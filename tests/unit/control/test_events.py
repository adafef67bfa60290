"""Events: each is told once, not once a retry; a full queue drops news and never blocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from alnair.control import events as events_module
from alnair.control.events import Events, Regarding
from alnair.control.metrics import Metrics
from alnair.kube import Client
from alnair.kube.lull import Lull
from unit.apiserver import Store
from unit.builders import HandClock

POD = Regarding("v1", "Pod", "p", "uid-p", "team")
POST = "POST team/events"


class Paper:
    def __init__(self, server: Store, client: Client) -> None:
        self.server = server
        self.clock = HandClock()
        self.metrics = Metrics()
        self.events = Events(
            client, clock=self.clock, metrics=self.metrics, identity="alnair-0", lull=Lull(self.clock)
        )

    def say(
        self, note: str, *, about: Regarding = POD, reason: str = "Scheduled", warning: bool = False
    ) -> None:
        self.events.say(about, reason=reason, note=note, action="Binding", warning=warning)

    async def written(self, count: int) -> list[dict[str, Any]]:
        """Let the writers run until so many events were sent."""
        task = asyncio.create_task(self.events.run())
        try:
            await self.server.until(lambda: len(self.server.calls) >= count)
            await asyncio.sleep(0.02)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return [call.body for call in self.server.calls]

    @property
    def dropped(self) -> float:
        return float(self.metrics.registry.get_sample_value("alnair_events_dropped_total") or 0)


@asynccontextmanager
async def paper() -> AsyncIterator[Paper]:
    async with Store() as server, Client(server.connection()) as client:
        yield Paper(server, client)


async def test_an_event_says_who_what_and_about_whom() -> None:
    async with paper() as there:
        there.say("bound to n1")
        (event,) = await there.written(1)
    assert event["metadata"]["name"].startswith("p.")
    assert event["metadata"]["namespace"] == "team"
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "uid": "uid-p",
        "namespace": "team",
    }
    assert (event["reason"], event["action"], event["type"]) == ("Scheduled", "Binding", "Normal")
    assert (event["reportingController"], event["reportingInstance"]) == ("alnair", "alnair-0")
    assert event["eventTime"] == "2026-01-01T00:16:40.000000Z"


async def test_an_event_about_a_node_lies_in_the_default_namespace() -> None:
    async with paper() as there:
        there.say("odd", about=Regarding("v1", "Node", "n", "uid-n"), warning=True)
        (event,) = await there.written(1)
    assert (event["metadata"]["namespace"], event["type"]) == ("default", "Warning")
    assert "namespace" not in event["regarding"]


async def test_the_same_again_is_swallowed_until_it_is_forgotten() -> None:
    async with paper() as there:
        for _ in range(3):
            there.say("no place")
            there.clock.pass_(250)
        there.say("no place")
        assert len(await there.written(2)) == 2


async def test_another_note_reason_or_object_is_another_event() -> None:
    async with paper() as there:
        there.say("no place")
        there.say("no place at all")
        there.say("no place", reason="Timeout")
        there.say("no place", about=Regarding("v1", "Pod", "p", "uid-of-its-namesake", "team"))
        assert len(await there.written(4)) == 4


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "MOST_REMEMBERED", 2)
    async with paper() as there:
        for note in ("a", "b", "c", "a", "d", "e", "a"):
            there.say(note)
        assert there.events.remembered <= 4
        assert [event["note"] for event in await there.written(6)] == ["a", "b", "c", "d", "e", "a"]


async def test_what_was_said_long_ago_is_not_kept() -> None:
    async with paper() as there:
        for number in range(100):
            there.say(f"bound to n{number}")
        assert there.events.remembered == 100
        there.clock.pass_(2 * events_module.MEMORY_SECONDS)
        there.say("bound to n1")
        assert there.events.remembered == 1


async def test_a_full_queue_drops_news_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "MOST_WAITING", 2)
    async with paper() as there:
        for number in range(5):
            there.say(f"note {number}")
        assert there.dropped == 3
        assert len(await there.written(2)) == 2


async def test_an_event_that_is_put_off_is_written_later() -> None:
    async with paper() as there:
        there.server.refuses(POST, 503)
        there.say("bound")
        calls = await there.written(2)
        assert len(calls) == 2
        assert calls[0] == calls[1], "the same event, by the same name: never told twice"
        assert there.dropped == 0


async def test_an_event_that_is_refused_is_let_go_and_the_next_one_written() -> None:
    async with paper() as there:
        there.server.refuses(POST, 404, "NotFound")
        there.say("first")
        there.say("second")
        assert sorted(event["note"] for event in await there.written(2)) == ["first", "second"]


async def test_a_long_note_is_cut_to_what_the_apiserver_takes() -> None:
    """1024 bytes, as the apiserver counts: one more and the whole event is refused."""
    async with paper() as there:
        there.say("x" * 3000)
        there.say("größer … " * 400)
        for event in await there.written(2):
            assert len(event["note"].encode()) <= 1024


async def test_the_name_of_an_event_is_valid_whatever_the_objects_name_is_cut_to() -> None:
    async with paper() as there:
        there.say("x", about=Regarding("v1", "Pod", "a" * 199 + "." + "b" * 50, "u", "team"))
        (event,) = await there.written(1)
        assert ".." not in event["metadata"]["name"]
        assert len(event["metadata"]["name"]) <= 253


async def test_words_of_others_stay_in_one_line() -> None:
    async with paper() as it:
        it.say("annotation says \ud800\n\x1b[2Kall is well")
        (event,) = await it.written(1)
        assert event["note"] == "annotation says \\ud800\\n\\x1b[2Kall is well"
