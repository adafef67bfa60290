"""Short calls over kept connections: every shape of answer, cut anywhere, and never one request's answer to another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from alnair.kube import http
from alnair.kube.http import Answer, Pool

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
TRAILERS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nhello"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
ANNOUNCED = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


class Script:
    """A server that answers each request with the next text, in pieces of `step` bytes, and notes what it read."""

    def __init__(self, *answers: bytes, step: int = 1 << 20, hang_up: bool = False) -> None:
        self._answers = list(answers)
        self._step = step
        self._hang_up = hang_up
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length")
                    ),
                    0,
                )
                self.requests.append(head + await reader.readexactly(length))
                answer = self._answers.pop(0)
                for at in range(0, len(answer), self._step):
                    writer.write(answer[at : at + self._step])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._hang_up or (
                    b"Content-Length" not in answer and b"hunked" not in answer and b"204" not in answer
                ):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def calling(script: Script) -> AsyncIterator[Pool]:
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    pool = Pool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/prefix", False)
    try:
        yield pool
    finally:
        pool.close()
        server.close()


async def get(pool: Pool, path: str = "/x") -> Answer:
    async with asyncio.timeout(5):
        return await pool.request("GET", path, headers={}, body=None)


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("text", "status", "body"),
    [
        (PLAIN, 200, b"hello"),
        (CHUNKED, 201, b"hello"),
        (TRAILERS, 200, b"hello"),
        (UNTIL_CLOSE, 200, b"hello"),
        (CLOSING, 200, b"hello"),
        (ANNOUNCED, 200, b"hello"),
        (EMPTY, 204, b""),
    ],
)
async def test_every_shape_of_answer_is_read_however_it_is_cut(
    text: bytes, status: int, body: bytes, step: int
) -> None:
    async with calling(Script(text, step=step)) as pool:
        assert await get(pool) == Answer(status, body)


async def test_a_request_is_what_it_should_be() -> None:
    script = Script(PLAIN, PLAIN)
    async with calling(script) as pool:
        await pool.request("POST", "/a", headers={"Content-Type": "application/json"}, body=b"{}")
        await pool.request("GET", "/b", headers={}, params={"limit": "5", "x": "ä&b"}, body=None)
    assert script.requests[0].startswith(b"POST /prefix/a HTTP/1.1\r\nHost: 127.0.0.1:")
    assert script.requests[0].endswith(b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    assert script.requests[1].startswith(b"GET /prefix/b?limit=5&x=%C3%A4%26b HTTP/1.1\r\n")


async def test_a_connection_is_used_again_and_one_that_closes_is_not() -> None:
    script = Script(PLAIN, CHUNKED, CLOSING, PLAIN)
    async with calling(script) as pool:
        answers = [await get(pool) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 201, 200, 200]
    assert script.connections == 2


async def test_connections_that_a_rush_needed_are_closed_when_it_is_long_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.5)
    async with calling(Script(*[PLAIN] * 100)) as pool:
        await asyncio.gather(*(get(pool) for _ in range(8)))
        rush, over = set(pool._open), time.monotonic() + 0.6
        assert len(rush) == 8
        while time.monotonic() < over:
            await get(pool)
            await asyncio.sleep(0.01)
        assert len(pool._open) == len(pool._idle) == 1


async def test_a_process_that_was_stopped_for_long_has_its_answer_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.0)
    async with calling(Script(PLAIN)) as pool:
        assert (await get(pool)).status == 200
        assert not pool._open


async def test_a_connection_that_waits_to_be_used_again_keeps_no_answer() -> None:
    async with calling(Script(PLAIN, CHUNKED)) as pool:
        for _ in range(2):
            await get(pool)
            ((_, channel),) = pool._idle
            assert channel._waiter is None
            assert not channel._received


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
        b"x" * (70 * 1024),
    ],
)
async def test_nonsense_is_an_error_and_ends_the_connection(text: bytes) -> None:
    script = Script(text, PLAIN, hang_up=True)
    async with calling(script) as pool:
        with pytest.raises(OSError, match="no HTTP"):
            await get(pool)
        assert (await get(pool)).body == b"hello"
    assert script.connections == 2


@pytest.mark.parametrize("cut", [0, 10, len(PLAIN) - 1])
async def test_an_answer_cut_short_is_an_error(cut: int) -> None:
    async with calling(Script(PLAIN[:cut], hang_up=True)) as pool:
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on where the cut was
            await get(pool)


async def test_bytes_that_nobody_asked_for_are_nobodys_answer() -> None:
    late = Script(PLAIN + PLAIN.replace(b"hello", b"wrong"), PLAIN)
    async with calling(late) as pool:
        assert (await get(pool)).body == b"hello"
        assert (await get(pool)).body == b"hello"
    assert late.connections == 2


async def test_who_stops_waiting_leaves_no_answer_behind_for_the_next() -> None:
    script = Script(PLAIN[:-2], PLAIN)
    async with calling(script) as pool:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.request("GET", "/slow", headers={}, body=None)
        assert (await get(pool)).body == b"hello"
    assert script.connections == 2


@pytest.mark.parametrize("path", ["/a b", "/a\r\nHost: evil", "/a\nb", "/a\x00"])
async def test_a_path_that_would_end_the_line_is_not_sent(path: str) -> None:
    script = Script(PLAIN)
    async with calling(script) as pool:
        with pytest.raises(OSError, match="is no path"):
            await get(pool, path)
    assert script.requests == []
