"""List, then watch: no event is lost silently, and every gap ends in the whole truth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from alnair.kube import Client, Stream
from alnair.kube import stream as stream_module
from alnair.state import wire
from unit.apiserver import Apiserver, Call, refusal, reply

Manifest = dict[str, Any]
Script = list[Callable[[Call], Any]]


class Told:
    """A sink that remembers, and can be waited on."""

    def __init__(self) -> None:
        self.news: list[tuple[str, Any]] = []
        self._more = asyncio.Event()

    def replace(self, objects: list[wire.Pod]) -> None:
        self._add("replace", [pod.metadata.name for pod in objects])

    def put(self, thing: wire.Pod) -> None:
        self._add("put", thing.metadata.name)

    def drop(self, thing: wire.Pod) -> None:
        self._add("drop", thing.metadata.name)

    def _add(self, what: str, who: Any) -> None:
        self.news.append((what, who))
        self._more.set()

    async def until(self, *news: tuple[str, Any]) -> None:
        async with asyncio.timeout(5):
            while self.news[-len(news) :] != list(news):
                self._more.clear()
                await self._more.wait()


def pod(name: str, version: str = "1") -> Manifest:
    return {"metadata": {"name": name, "resourceVersion": version}}


def listed(*names: str, version: str = "10", more: str = "") -> Callable[[Call], Any]:
    page = {
        "metadata": {"resourceVersion": version, "continue": more},
        "items": [pod(name) for name in names],
    }
    return lambda _: reply(200, page)


def event(kind: str, thing: Manifest) -> bytes:
    return orjson.dumps({"type": kind, "object": thing}) + b"\n"


def watched(*lines: bytes, then: str = "hang") -> Callable[[Call], Any]:
    """A watch that tells these lines, and then hangs, ends or is cut."""

    async def answer(call: Call) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(call.request)
        for line in lines:
            await response.write(line)
        if then == "cut":
            call.cut()
        elif then == "hang":
            await asyncio.sleep(30)
        return response

    return answer


@asynccontextmanager
async def playing(script: Script, *, idle_seconds: float = 5) -> AsyncIterator[tuple[Told, Apiserver]]:
    """A stream of pods against an apiserver that plays the script, call by call."""
    left = list(script)

    async def answer(call: Call) -> web.StreamResponse:
        if not left:
            await asyncio.sleep(30)
        made = left.pop(0)(call)
        return made if isinstance(made, web.StreamResponse) else await made

    told = Told()
    async with Apiserver(answer) as server, Client(server.connection()) as client:
        stream = Stream(
            client, "/api/v1/pods", wire.Pod, told, params={"fieldSelector": "x"}, idle_seconds=idle_seconds
        )
        task = asyncio.create_task(stream.run())
        try:
            yield told, server
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "SHORTEST_PAUSE", 0.01)


def watches(server: Apiserver) -> list[Call]:
    return [call for call in server.calls if call.query.get("watch")]


async def test_a_list_is_told_whole_and_the_watch_goes_on_from_its_version() -> None:
    changes = watched(
        event("ADDED", pod("b", "11")), event("MODIFIED", pod("a", "12")), event("DELETED", pod("b", "13"))
    )
    async with playing([listed("a", version="10"), changes]) as (told, server):
        await told.until(("replace", ["a"]), ("put", "b"), ("put", "a"), ("drop", "b"))
    (watch,) = watches(server)
    assert watch.query["resourceVersion"] == "10"
    assert watch.query["allowWatchBookmarks"] == "true"
    assert 290 <= int(watch.query["timeoutSeconds"]) <= 590
    assert [call.query["fieldSelector"] for call in server.calls] == ["x", "x"]


async def test_pages_are_one_list() -> None:
    async with playing([listed("a", more="next"), listed("b", "c", version="20"), watched()]) as (
        told,
        server,
    ):
        await told.until(("replace", ["a", "b", "c"]))
        assert server.calls[1].query["continue"] == "next"
    assert told.news == [("replace", ["a", "b", "c"])]


async def test_pages_that_expire_are_listed_from_the_start() -> None:
    script = [listed("a", more="next"), lambda _: refusal(410, "Expired"), listed("b"), watched()]
    async with playing(script) as (told, server):
        await told.until(("replace", ["b"]))
    assert told.news == [("replace", ["b"])]
    assert "continue" not in server.calls[2].query


async def test_a_watch_that_ends_goes_on_from_the_last_version() -> None:
    script = [
        listed(version="10"),
        watched(event("ADDED", pod("a", "11")), then="end"),
        watched(event("ADDED", pod("b", "12"))),
    ]
    async with playing(script) as (told, server):
        await told.until(("put", "a"), ("put", "b"))
    assert [call.query["resourceVersion"] for call in watches(server)] == ["10", "11"]
    assert told.news[0] == ("replace", [])


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(watched(event("ADDED", pod("a", "11")), then="cut"), id="cut"),
        pytest.param(
            watched(event("ADDED", pod("a", "11")), event("ADDED", pod("x", "12"))[:20], then="cut"),
            id="mid-line",
        ),
    ],
)
async def test_a_cut_watch_goes_on_from_the_last_version(fault: Callable[[Call], Any]) -> None:
    async with playing([listed(version="10"), fault, watched(event("ADDED", pod("b", "12")))]) as (
        told,
        server,
    ):
        await told.until(("put", "a"), ("put", "b"))
    assert [call.query["resourceVersion"] for call in watches(server)] == ["10", "11"]
    assert [what for what, _ in told.news].count("replace") == 1


async def test_a_bookmark_moves_the_version_and_tells_nobody() -> None:
    script = [
        listed(version="10"),
        watched(event("BOOKMARK", pod("", "500")), then="end"),
        watched(event("ADDED", pod("b", "501"))),
    ]
    async with playing(script) as (told, server):
        await told.until(("put", "b"))
    assert told.news == [("replace", []), ("put", "b")]
    assert watches(server)[1].query["resourceVersion"] == "500"


GONE = event(
    "ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
)


@pytest.mark.parametrize(
    "gap",
    [
        pytest.param(watched(GONE), id="told in the watch"),
        pytest.param(lambda _: refusal(410, "Expired"), id="told instead of the watch"),
        pytest.param(lambda _: refusal(400, "BadRequest"), id="any other refusal"),
        pytest.param(watched(b"{not json\n"), id="a line that is no event"),
        pytest.param(watched(b'{"type": "ADDED"}\n'), id="an event without an object"),
    ],
)
async def test_after_a_gap_the_sink_is_told_the_whole_truth(gap: Callable[[Call], Any]) -> None:
    script = [listed("a", "b", version="10"), gap, listed("b", version="900"), watched()]
    async with playing(script) as (told, server):
        await told.until(("replace", ["a", "b"]), ("replace", ["b"]))
        await server.until(lambda: len(watches(server)) == 2)
        assert watches(server)[-1].query["resourceVersion"] == "900"


async def test_a_silent_watch_is_cut_and_goes_on() -> None:
    script = [listed(version="10"), watched(), watched(event("ADDED", pod("a", "11")))]
    async with playing(script, idle_seconds=0.1) as (told, server):
        await told.until(("put", "a"))
        assert [call.query["resourceVersion"] for call in watches(server)[:2]] == ["10", "10"]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_list_that_fails_is_tried_again(status: int) -> None:
    script = [lambda _: refusal(status, "Busy"), lambda _: refusal(status, "Busy"), listed("a"), watched()]
    async with playing(script) as (told, _):
        await told.until(("replace", ["a"]))


async def test_a_watch_that_is_put_off_is_tried_again_without_a_new_list() -> None:
    script = [listed(version="10"), lambda _: refusal(429, "Busy"), watched(event("ADDED", pod("a", "11")))]
    async with playing(script) as (told, _):
        await told.until(("put", "a"))
    assert told.news == [("replace", []), ("put", "a")]


async def test_an_object_that_does_not_look_like_its_kind_is_skipped_and_the_rest_told() -> None:
    odd = {"metadata": {"name": 7, "resourceVersion": "11"}}
    page = {"metadata": {"resourceVersion": "10"}, "items": [pod("a"), odd, pod("b")]}
    script = [
        lambda _: reply(200, page),
        watched(event("ADDED", odd), event("ADDED", pod("c", "12")), then="end"),
        watched(),
    ]
    async with playing(script) as (told, _):
        await told.until(("replace", ["a", "b"]), ("put", "c"))


async def test_a_skipped_object_moves_the_version_on() -> None:
    odd = {"metadata": {"name": 7, "resourceVersion": "11"}}
    script = [
        listed(version="10"),
        watched(event("ADDED", odd), then="end"),
        watched(event("ADDED", pod("a", "12"))),
    ]
    async with playing(script) as (told, server):
        await told.until(("put", "a"))
    assert watches(server)[1].query["resourceVersion"] == "11"


async def test_an_object_nested_beyond_reason_does_not_end_the_stream() -> None:
    """msgspec raises RecursionError for it, which is no MsgspecError."""
    deep = b'{"type": "ADDED", "object": {"metadata": {"name": "x"}, "y": %s%s}}\n' % (
        b"[" * 5000,
        b"]" * 5000,
    )
    async with playing([listed("a"), watched(deep), listed("a", "b"), watched()]) as (told, _):
        await told.until(("replace", ["a", "b"]))


async def test_bytes_that_are_no_text_do_not_end_the_stream() -> None:
    """msgspec raises UnicodeDecodeError for them, which is no MsgspecError."""
    half = b'{"type": "ADDED", "object": {"metadata": {"name": "\xf7", "resourceVersion": "11"}}}\n'
    async with playing([listed("a"), watched(half, event("ADDED", pod("b", "12")))]) as (told, _):
        await told.until(("put", "b"))
