"""The client: what was refused is never mixed up with what nobody knows, and nothing is repeated but a 401."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from aiohttp import web

from alnair.kube import Client, Refused, Unanswered
from alnair.kube import client as client_module
from alnair.kube.client import MERGE_PATCH, resource_of
from unit.apiserver import Apiserver, Call, refusal, reply


def answering(*answers: Callable[[Call], web.StreamResponse]) -> Apiserver:
    """Each call gets the next answer; the last one is repeated."""
    left = list(answers)

    async def answer(call: Call) -> web.StreamResponse:
        return (left.pop(0) if len(left) > 1 else left[0])(call)

    return Apiserver(answer)


def test_a_client_is_used_inside_its_with() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(Client(Apiserver().connection()).get("/api"))


async def test_verbs_speak_json() -> None:
    async with (
        answering(lambda call: reply(200, {"got": call.body})) as server,
        Client(server.connection()) as client,
    ):
        assert await client.get("/api/v1/pods", params={"limit": "5"}) == {"got": None}
        assert await client.create("/api/v1/pods", {"a": 1}) == {"got": {"a": 1}}
        assert await client.replace("/x", {"a": 1}) == {"got": {"a": 1}}
        assert await client.patch("/x", {"a": None}) == {"got": {"a": None}}
        await client.delete("/x", {"preconditions": {"uid": "u"}})
    assert [call.method for call in server.calls] == ["GET", "POST", "PUT", "PATCH", "DELETE"]
    assert server.calls[0].query == {"limit": "5"}
    assert server.calls[3].headers["Content-Type"] == MERGE_PATCH
    assert server.calls[4].body == {"preconditions": {"uid": "u"}}


async def test_a_list_is_read_page_by_page() -> None:
    first = {"items": [{"n": 1}], "metadata": {"continue": "there"}}
    last = {"items": [{"n": 2}], "metadata": {}}
    async with (
        answering(lambda _: reply(200, first), lambda _: reply(200, last)) as server,
        Client(server.connection()) as client,
    ):
        assert await client.items("/x") == [{"n": 1}, {"n": 2}]
    assert [call.query.get("continue") for call in server.calls] == [None, "there"]


@pytest.mark.parametrize("status", [400, 403, 404, 405, 409, 410, 413, 422])
async def test_a_4xx_is_a_refusal_with_the_apiservers_word(status: int) -> None:
    async with (
        answering(lambda _: refusal(status, "Word", "because")) as server,
        Client(server.connection()) as client,
    ):
        with pytest.raises(Refused, match=f"GET /x: {status} Word: because") as caught:
            await client.get("/x")
    assert (caught.value.status, caught.value.reason) == (status, "Word")
    assert len(server.calls) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_429_or_5xx_leaves_open_what_happened_and_is_not_repeated(status: int) -> None:
    async with answering(lambda _: refusal(status, "Busy")) as server, Client(server.connection()) as client:
        with pytest.raises(Unanswered, match=f"{status} Busy") as caught:
            await client.create("/x", {})
    assert (caught.value.status, caught.value.retry_after) == (status, None)
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("wish", "heard"), [("3", 3.0), ("0", 0.0), ("soon", None), ("-1", None), ("²", None), ("", None)]
)
async def test_the_apiservers_wish_for_a_pause_is_heard_where_it_is_a_number(
    wish: str, heard: float | None
) -> None:
    busy = answering(lambda _: refusal(429, "Busy", "no", **{"Retry-After": wish}))
    async with busy as server, Client(server.connection()) as client:
        with pytest.raises(Unanswered) as caught:
            await client.get("/x")
    assert caught.value.retry_after == heard


async def test_plain_text_of_a_dying_server_is_shown_as_it_is() -> None:
    dying = answering(lambda _: web.Response(status=503, text="no backend " + "x" * 900))
    async with dying as server, Client(server.connection()) as client:
        with pytest.raises(Unanswered, match="no backend xxx") as caught:
            await client.get("/x")
    assert len(str(caught.value)) < 600


async def test_a_call_that_takes_too_long_is_unanswered() -> None:
    async def never(_: Call) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError

    async with Apiserver(never) as server, Client(server.connection()) as client:
        with pytest.raises(Unanswered, match="POST /x: TimeoutError"):
            await client.call("POST", "/x", body={}, seconds=0.1)


async def test_a_cut_connection_is_unanswered_and_not_repeated() -> None:
    def cut(call: Call) -> web.StreamResponse:
        call.cut()
        return reply(200)

    async with answering(cut) as server, Client(server.connection()) as client:
        with pytest.raises(Unanswered):
            await client.create("/x", {})
    assert len(server.calls) == 1


async def test_nobody_listening_is_unanswered() -> None:
    async with answering(lambda _: reply(200, {})) as server:
        connection = server.connection()
    async with Client(connection) as client:
        with pytest.raises(Unanswered):
            await client.get("/x")


async def test_a_401_is_tried_once_more_with_a_fresh_token() -> None:
    tokens = iter(["old", "new"])

    def check(call: Call) -> web.StreamResponse:
        return (
            reply(200, {}) if call.headers["Authorization"] == "Bearer new" else refusal(401, "Unauthorized")
        )

    async with answering(check) as server, Client(server.connection(tokens=lambda: next(tokens))) as client:
        assert await client.get("/x") == {}
    assert [call.headers["Authorization"] for call in server.calls] == ["Bearer old", "Bearer new"]


async def test_a_second_401_is_a_refusal() -> None:
    async with (
        answering(lambda _: refusal(401, "Unauthorized")) as server,
        Client(server.connection()) as client,
    ):
        with pytest.raises(Refused, match="401"):
            await client.get("/x")
    assert len(server.calls) == 2


async def test_every_finished_call_is_counted() -> None:
    counted: list[tuple[str, str, int]] = []

    def cut(call: Call) -> web.StreamResponse:
        call.cut()
        return reply(200)

    def observe(verb: str, resource: str, status: int) -> None:
        counted.append((verb, resource, status))

    answers = answering(lambda _: reply(200, {}), lambda _: refusal(404, "NotFound"), cut)
    async with answers as server, Client(server.connection(), observer=observe) as client:
        await client.get("/api/v1/namespaces/x/pods/y")
        for _ in range(2):
            with pytest.raises((Refused, Unanswered)):
                await client.create("/api/v1/namespaces/x/pods/y/binding", {})
    assert counted == [("GET", "pods", 200), ("POST", "pods/binding", 404), ("POST", "pods/binding", 0)]


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces/x/pods/y", "pods"),
        ("/api/v1/namespaces/x/pods/y/binding", "pods/binding"),
        ("/api/v1/nodes/n", "nodes"),
        ("/api/v1/namespaces/x", "namespaces"),
        ("/apis/ai.centaurus.io/v1alpha1/namespaces/x/gpuallocations/y/status", "gpuallocations/status"),
        ("/apis/coordination.k8s.io/v1/namespaces/x/leases/y", "leases"),
    ],
)
def test_metrics_know_calls_by_resource_never_by_name(path: str, resource: str) -> None:
    assert resource_of(path) == resource


# -- watching ----------------------------------------------------------------------------------------------------


async def _lines(client: Client, *, idle_seconds: float = 5) -> list[bytes]:
    return [line async for line in client.watch("/api/v1/pods", params={}, idle_seconds=idle_seconds)]


def streaming(*chunks: bytes, then: Callable[[Call], Any] | None = None) -> Apiserver:
    async def answer(call: Call) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(call.request)
        for chunk in chunks:
            await stream.write(chunk)
            await asyncio.sleep(0)
        if then is not None and (wait := then(call)) is not None:
            await wait
        return stream

    return Apiserver(answer)


async def test_a_watch_gives_whole_lines_however_they_are_cut_into_chunks() -> None:
    async with streaming(b"one\ntw", b"o\nthr", b"ee\n") as server, Client(server.connection()) as client:
        assert await _lines(client) == [b"one", b"two", b"three"]


async def test_a_silent_watch_is_cut() -> None:
    silent = streaming(b"one\n", then=lambda _: asyncio.sleep(30))
    async with silent as server, Client(server.connection()) as client:
        with pytest.raises(Unanswered, match="WATCH /api/v1/pods"):
            await _lines(client, idle_seconds=0.1)


async def test_a_watch_that_is_cut_is_unanswered_and_its_half_line_not_told() -> None:
    seen: list[bytes] = []

    async def listen(client: Client) -> None:
        async for line in client.watch("/api/v1/pods", params={}, idle_seconds=5):
            seen.append(line)  # noqa: PERF401 - what came before the cut is what matters

    cut_short = streaming(b"one\nha", then=lambda call: call.cut())
    async with cut_short as server, Client(server.connection()) as client:
        with pytest.raises(Unanswered):
            await listen(client)
    assert seen == [b"one"]


@pytest.mark.parametrize(
    ("status", "kind"), [(410, Refused), (403, Refused), (429, Unanswered), (500, Unanswered)]
)
async def test_a_watch_that_is_not_granted_says_why(status: int, kind: type[Exception]) -> None:
    async with answering(lambda _: refusal(status, "Word")) as server, Client(server.connection()) as client:
        with pytest.raises(kind, match=f"{status} Word"):
            await _lines(client)


def test_a_refusal_repeats_others_words_in_one_line_and_not_without_end() -> None:
    """A webhook chooses its reason and its message."""
    body = orjson.dumps({"reason": "No\n2026 INFO all is well", "message": "x\r" * 100_000})
    told = str(client_module._failure("POST /x", 403, body, None))
    assert told.isprintable()
    assert len(told) < 1200
