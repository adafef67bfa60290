"""The proxy by itself, in front of a small server that writes down what reaches it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from chaos.calls import Call, named
from chaos.proxy import Door, Forward, Meet, Upstream, pass_on
from chaos.wire import Answer, Request, read_answer, read_request, refusal
from harness.certificates import Authority

POD = "/api/v1/namespaces/ns/pods/x"


class Server:
    """Answers every call with its number; a watch with the version it was asked from, and then what `say` is given."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.chunked = False
        self.refusing = False
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            if request.watching and self.refusing:
                closes = b"connection: close" in request.headers.lower()
                last = b"Connection: close\r\n" if closes else b""
                writer.write(b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\n" + last + b"\r\n")
                if closes:
                    break
                continue
            if request.watching:
                await self._watch(request, writer)
                return
            self.heard.append(f"{request.method} {request.target} {request.body.decode()}".strip())
            body = str(len(self.heard)).encode()
            if self.chunked:
                writer.write(
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n" + body + b"\r\n0\r\n\r\n"
                )
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    async def _watch(self, request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nfrom %b\n" % request.query["resourceVersion"].encode())
        while True:
            writer.write(await self.events.get() + b"\n")


@asynccontextmanager
async def between(server: Server, meet: Meet = pass_on) -> AsyncIterator[tuple[Door, aiohttp.ClientSession]]:
    upstream = Upstream(await server.open(), None)
    door = Door(upstream, None, meet)
    port = await door.open()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield door, session
    await door.close()
    upstream.close()


async def say(session: aiohttp.ClientSession, method: str = "POST", path: str = POD) -> tuple[int, str]:
    async with session.request(method, path, data=b"hello") as answer:
        return answer.status, await answer.text()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.01)


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "call", "counted"),
    [
        ("POST", f"{POD}/binding", Call("POST", "pods/binding", "ns", "x"), True),
        (
            "PUT",
            "/apis/ai.centaurus.io/v1alpha1/namespaces/ns/gpuallocations/x/status",
            Call("PUT", "gpuallocations/status", "ns", "x"),
            True,
        ),
        ("DELETE", "/api/v1/nodes/n", Call("DELETE", "nodes", "", "n"), True),
        ("POST", "/api/v1/namespaces", Call("POST", "namespaces", "", ""), True),
        ("GET", "/api/v1/pods", Call("GET", "pods", "", ""), False),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l",
            Call("PUT", "leases", "ns", "l"),
            False,
        ),
        (
            "POST",
            "/apis/events.k8s.io/v1/namespaces/ns/events",
            Call("POST", "events", "ns", ""),
            False,
        ),
    ],
)
def test_calls_are_named_and_counted_by_what_they_write(
    method: str, path: str, call: Call, counted: bool
) -> None:
    found = named(Request(method, f"{path}?limit=5", b"", b""))
    assert (found, found.counted) == (call, counted)


# -- calls ---------------------------------------------------------------------------------------------------------


async def test_a_door_says_whether_anybody_gets_in() -> None:
    async with between(Server()) as (door, _):
        assert (await door.state()).startswith("listens")
    assert (await door.state()).startswith("refuses")


@pytest.mark.parametrize("chunked", [False, True])
async def test_calls_pass_with_their_bodies_and_connections_are_kept(chunked: bool) -> None:
    server = Server()
    server.chunked = chunked
    async with between(server) as (_, session):
        assert await say(session) == (200, "1")
        assert await say(session, "PATCH", f"{POD}?a=b%20c") == (200, "2")
    assert server.heard == [f"POST {POD} hello", f"PATCH {POD}?a=b%20c hello"]


async def test_a_call_can_be_refused_without_the_server_hearing_of_it() -> None:
    async def meet(door: Door, call: Call, forward: Forward) -> Answer | None:
        return refusal(429, retry_after=7)

    server = Server()
    async with between(server, meet) as (_, session), session.post(POD, data=b"hello") as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert json.loads(await answer.text())["code"] == 429
    assert server.heard == []


@pytest.mark.parametrize("status", [401, 403, 409, 410, 422, 429, 500, 503, 504])
async def test_every_refusal_is_an_answer_that_ends_where_it_says(status: int) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(refusal(status).raw + b"more")
    answer = await read_answer(reader)
    assert answer.status == status
    assert await reader.readexactly(4) == b"more"


@pytest.mark.parametrize("applied", [False, True])
async def test_a_call_can_be_cut_before_it_is_applied_or_after(applied: bool) -> None:
    async def meet(door: Door, call: Call, forward: Forward) -> Answer | None:
        if applied:
            await forward()
        return None

    server = Server()
    async with between(server, meet) as (_, session):
        with pytest.raises(aiohttp.ClientError):
            await say(session)
    assert len(server.heard) == applied


async def test_a_call_whose_caller_is_gone_is_carried_out_all_the_same() -> None:
    go = asyncio.Event()

    async def meet(door: Door, call: Call, forward: Forward) -> Answer | None:
        await go.wait()
        return await forward()

    server = Server()
    async with between(server, meet) as (_, session):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(say(session), 0.2)
        assert server.heard == []
        go.set()
        await until(lambda: server.heard)


async def test_a_call_can_be_carried_out_twice_and_the_first_answer_counts() -> None:
    async def meet(door: Door, call: Call, forward: Forward) -> Answer | None:
        answer = await forward()
        await forward()
        return answer

    server = Server()
    async with between(server, meet) as (_, session):
        assert await say(session) == (200, "1")
    assert server.heard == [f"POST {POD} hello"] * 2


async def test_a_call_can_land_long_after_its_connection_was_cut() -> None:
    async def later(forward: Forward) -> None:
        await asyncio.sleep(0.2)
        await forward()

    async def meet(door: Door, call: Call, forward: Forward) -> Answer | None:
        door.spawn(later(forward))
        return None

    server = Server()
    async with between(server, meet) as (_, session):
        with pytest.raises(aiohttp.ClientError):
            await say(session)
        assert server.heard == []
        await until(lambda: server.heard)


# -- watches and lists ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def watching(
    session: aiohttp.ClientSession, version: str = "9"
) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    async with session.get(f"/api/v1/pods?watch=1&resourceVersion={version}") as answer:

        async def line() -> str:
            async with asyncio.timeout(10):
                return (await answer.content.readline()).decode().strip()

        yield line


async def test_watches_pass_as_they_come_and_can_be_cut() -> None:
    server = Server()
    async with between(server) as (door, session), watching(session) as line:
        assert await line() == "from 9"
        await server.events.put(b"one")
        assert await line() == "one"
        assert door.watched == {"/api/v1/pods"}
        door.cut_watches()
        await server.events.put(b"two")
        assert await line() == "", "it ends"
        await until(lambda: not door.watched)


async def test_after_a_watch_that_is_refused_calls_are_heard_as_before() -> None:
    server = Server()
    server.refusing = True
    async with between(server) as (_, session):
        async with session.get("/api/v1/pods?watch=1&resourceVersion=9") as answer:
            assert answer.status == 429
        async with asyncio.timeout(10):
            assert await say(session) == (200, "1")


async def test_watches_can_be_silent_for_a_while_and_then_tell_all() -> None:
    server = Server()
    async with between(server) as (door, session), watching(session) as line:
        assert await line() == "from 9"
        door.hold_watches(0.3)
        await server.events.put(b"one")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(line(), 0.1)
        assert await line() == "one"


async def test_a_watch_can_be_made_to_tell_the_past_again_once() -> None:
    server = Server()
    async with between(server) as (door, session):
        async with watching(session) as line:
            assert await line() == "from 9"
            door.rewind_watches("4")
            await until(lambda: not door.watched)
        for version in ("4", "9"):
            async with watching(session) as line:
                assert await line() == f"from {version}"


async def test_a_list_can_be_made_an_old_one_after_the_watch_was_refused() -> None:
    server = Server()
    async with between(server) as (door, session):
        door.lag("/api/v1/pods", "4")
        async with session.get("/api/v1/pods?watch=1&resourceVersion=9") as answer:
            assert answer.status == 410
        await say(session, "GET", "/api/v1/pods?limit=2")
        await say(session, "GET", "/api/v1/pods?limit=2")
    assert [line.removesuffix(" hello") for line in server.heard] == [
        "GET /api/v1/pods?limit=2&resourceVersion=4&resourceVersionMatch=Exact",
        "GET /api/v1/pods?limit=2",
    ]


async def test_calls_go_through_tls_on_both_sides(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "chaos")
    pair = authority.signs("127.0.0.1")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair.certificate, pair.key)
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    server = Server()
    far = Door(Upstream(await server.open(), None), serving)
    near = Door(Upstream(f"https://127.0.0.1:{await far.open()}", trusting), serving)
    port = await near.open()
    connector = aiohttp.TCPConnector(ssl=trusting)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
        assert await say(session) == (200, "1")
    await near.close()
    await far.close()
