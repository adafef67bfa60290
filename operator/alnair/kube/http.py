"""HTTP/1.1 calls with a body in and a body out, over connections that are kept: what a thousand Bindings a second need.

aiohttp serves everything else (watches, the console). For short calls half of its time goes into things that an
apiserver never asks for: cookies, redirects, proxies, content codings, tracing. Here a request is one write, an answer
one future.

What must never happen here: an answer taken for another request's. A connection has one request at a time, and is
thrown away whenever anything about an answer is not understood, or the caller stopped waiting for it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlencode, urlsplit

MOST_HEAD = 64 * 1024
IDLE_SECONDS = 30.0  # the apiserver closes idle connections too; ours must be the first to go


class BadAnswer(OSError):
    """What came back, or what is to be sent, is no HTTP that we understand."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    retry_after: str | None = None


class Pool:
    """Connections to one server. Callers limit how many there are by how many calls they make at once."""

    def __init__(self, server: str, tls: ssl.SSLContext | bool) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path.rstrip("/")
        self._tls = tls if isinstance(tls, ssl.SSLContext) else None
        self._authority = parts.netloc
        self._idle: deque[tuple[float, _Channel]] = deque()  # since when, the longest first
        self._open: set[_Channel] = set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Answer:
        """Raises OSError when the connection fails; the caller sets the time limit by cancelling."""
        target = self._prefix + path + (f"?{urlencode(params)}" if params else "")
        if not target.isprintable() or " " in target:
            raise BadAnswer(f"{target!r} is no path: it would end the request's first line")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        channel = await self._channel()
        try:
            answer = await channel.ask(head + body if body else head)
        except BaseException:
            self._drop(channel)
            raise
        if channel.reusable:
            self._idle.append((time.monotonic(), channel))
            self._tidy()
        else:
            self._drop(channel)
        return answer

    def _tidy(self) -> None:
        """Close whom nobody needed for long: TLS takes a quarter of a MiB for each, and the last used is used next."""
        while self._idle and time.monotonic() - self._idle[0][0] >= IDLE_SECONDS:
            self._drop(self._idle.popleft()[1])

    def close(self) -> None:
        for channel in list(self._open):
            self._drop(channel)

    async def _channel(self) -> _Channel:
        while self._idle:
            since, channel = self._idle.pop()
            if channel.reusable and time.monotonic() - since < IDLE_SECONDS:
                return channel
            self._drop(channel)
        _, protocol = await asyncio.get_running_loop().create_connection(
            _Channel, self._host, self._port, ssl=self._tls
        )
        self._open.add(protocol)
        return protocol

    def _drop(self, channel: _Channel) -> None:
        self._open.discard(channel)
        channel.abandon()


class _Channel(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._received = bytearray()
        self._head: _Head | None = None
        self._chunks = _Chunks()
        self.reusable = False

    async def ask(self, request: bytes) -> Answer:
        if self._transport is None or self._transport.is_closing():
            raise _cut_off()
        self.reusable = False
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiter

    def abandon(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- called by the loop --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class
        self.reusable = True

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._waiter is None or self._waiter.done():
            self._fail(BadAnswer("bytes that nobody asked for"))
            return
        try:
            self._read()
        except (ValueError, BadAnswer) as error:
            self._fail(BadAnswer(f"an answer that is no HTTP: {error}"))

    def eof_received(self) -> bool:
        if self._head is not None and self._head.until_close:
            self._finish(bytes(self._received), reusable=False)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        self._fail(error or _cut_off())

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        while self._head is None:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                if len(self._received) > MOST_HEAD:
                    raise BadAnswer("its head does not end")
                return
            head = _Head.parse(bytes(self._received[:end]))
            del self._received[: end + 4]
            if head.status >= 200:  # anything below only announces the answer
                self._head = head
        head = self._head
        if head.chunked:
            if self._chunks.read(self._received):
                body, self._chunks = b"".join(self._chunks.parts), _Chunks()
                self._finish(body, reusable=head.keeps and not self._received)
        elif not head.until_close and len(self._received) >= head.length:
            body = bytes(self._received[: head.length])
            del self._received[: head.length]
            self._finish(body, reusable=head.keeps and not self._received)

    def _finish(self, body: bytes, *, reusable: bool) -> None:
        head, waiter = self._head, self._waiter
        assert head is not None
        self._head, self._waiter, self.reusable = None, None, reusable  # no idle channel keeps an answer
        if waiter is not None and not waiter.done():
            waiter.set_result(Answer(head.status, body, head.retry_after))

    def _fail(self, error: Exception) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


@dataclass(frozen=True, slots=True)
class _Head:
    status: int
    length: int
    chunked: bool
    until_close: bool
    keeps: bool
    retry_after: str | None

    @classmethod
    def parse(cls, text: bytes) -> _Head:
        first, *lines = text.decode("latin-1").split("\r\n")
        version, status = first.split(" ", 2)[:2]
        if (
            not version.startswith("HTTP/1.")
            or len(status) != 3
            or not (status.isascii() and status.isdigit())
        ):
            raise BadAnswer(f"it begins with {first[:80]!r}")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        code = int(status)
        length = headers.get("content-length")
        if length is not None and not (length.isascii() and length.isdigit()):
            raise BadAnswer(f"its length is {length[:20]!r}")
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        bodiless = code in (204, 304)
        return cls(
            status=code,
            length=0 if bodiless else int(length or 0),
            chunked=chunked and not bodiless,
            until_close=not (chunked or bodiless) and length is None,
            keeps=version == "HTTP/1.1" and headers.get("connection", "").lower() != "close",
            retry_after=headers.get("retry-after"),
        )


class _Chunks:
    """A body in chunks, taken out of what is received as it comes: each byte is looked at once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._left = 0  # of the chunk that is being read, with the line end after it
        self._trailing = False

    def read(self, received: bytearray) -> bool:
        """Whether the body is complete."""
        while received:
            if self._left:
                if not self._take(received):
                    return False
                continue
            line = received.find(b"\r\n")
            if line < 0:
                return False
            text = bytes(received[:line])
            del received[: line + 2]
            if self._trailing:
                if not text:
                    return True
            elif (size := int(text.split(b";", 1)[0], 16)) > 0:
                self._left = size + 2
            else:
                self._trailing = True  # lines until an empty one
        return False

    def _take(self, received: bytearray) -> bool:
        """As much of the chunk as is there; whether that was all of it."""
        if self._left > 2:
            part = bytes(received[: self._left - 2])
            self.parts.append(part)
            self._left -= len(part)
            del received[: len(part)]
        if self._left > 2 or len(received) < 2:
            return False
        if received[:2] != b"\r\n":
            raise BadAnswer("a chunk does not end where it should")
        del received[:2]
        self._left = 0
        return True


def _cut_off() -> ConnectionResetError:
    return ConnectionResetError("the connection was closed before the answer came")
