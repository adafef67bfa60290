"""The proxy between one operator and the apiserver: TLS in, TLS out, every call shown to whoever may meddle with it.

A `Door` is one operator's way to the apiserver, so that it is known whose call it is. Calls are handed to `meet` with
a `forward` that carries them out; what `meet` returns is what the operator hears, and nothing at all is a cut
connection. A call that was forwarded is carried out to its end, whether or not its operator still lives: that is how
writes land late.

Watches are passed on as they come. They can be cut, held back in silence, or told once more from an older version (as
an apiserver that lags behind would); a list can be made one of an older version. All of that comes from the real
apiserver's own history, in its own order.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final
from urllib.parse import urlsplit

from chaos.calls import Call, named
from chaos.wire import MOST_HEAD, Answer, NotUnderstood, Request, read_answer, read_request, refusal

Forward = Callable[[], Awaitable[Answer]]
Meet = Callable[["Door", Call, Forward], Awaitable[Answer | None]]

IDLE_SECONDS: Final = 20.0
BROKEN: Final = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, NotUnderstood, ValueError)
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def pass_on(door: Door, call: Call, forward: Forward) -> Answer | None:
    return await forward()


class Upstream:
    """Connections to the apiserver, kept between calls."""

    def __init__(self, server: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(server)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._tls = tls
        self._idle: list[tuple[float, Stream]] = []

    async def call(self, request: Request) -> Answer:
        reader, writer = await self._stream()
        try:
            writer.write(request.bytes())
            answer = await read_answer(reader)
        except BaseException:
            writer.close()
            raise
        if answer.keeps:
            self._idle.append((time.monotonic(), (reader, writer)))
        else:
            writer.close()
        return answer

    async def open(self) -> Stream:
        return await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=MOST_HEAD)

    def close(self) -> None:
        for _, (_, writer) in self._idle:
            writer.close()
        self._idle.clear()

    async def _stream(self) -> Stream:
        while self._idle:
            since, (reader, writer) = self._idle.pop()
            if time.monotonic() - since < IDLE_SECONDS and not (reader.at_eof() or writer.is_closing()):
                return reader, writer
            writer.close()
        return await self.open()


class Door:
    """One operator's. `open` says at which port."""

    def __init__(self, upstream: Upstream, tls: ssl.SSLContext | None, meet: Meet = pass_on) -> None:
        self._upstream = upstream
        self._tls = tls
        self._meet = meet
        self._server: asyncio.Server | None = None
        self._watches: set[_Watch] = set()
        self._rewound: dict[str, str] = {}  # path -> version from which its next watch is told
        self._stale: dict[str, str] = {}  # path -> version of which its next list is
        self._flow = asyncio.Event()
        self._flow.set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.port = 0

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls, limit=MOST_HEAD)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    async def state(self) -> str:
        """For the reader of a failure: whether an operator would still come in by it."""
        serving = self._server is not None and self._server.is_serving()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError as problem:
            return f"refuses at port {self.port} ({problem}), serving: {serving}"
        writer.close()
        return f"listens at port {self.port}, serving: {serving}, {len(self._watches)} watches"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- meddling with watches and lists

    @property
    def watched(self) -> set[str]:
        """The collections that are watched right now."""
        return {watch.path for watch in self._watches}

    def cut_watches(self) -> None:
        for watch in list(self._watches):
            watch.cut()

    def hold_watches(self, seconds: float) -> None:
        """Nothing comes for a while, and nothing says so; then all of it does."""
        self._flow.clear()
        self.spawn(self._release(seconds))

    def rewind_watches(self, version: str) -> None:
        """Every watch is cut, and when it is made again, it tells everything since that version once more."""
        for watch in list(self._watches):
            self._rewound[watch.path] = version
            watch.cut()

    def lag(self, path: str, version: str) -> None:
        """The collection's watch is cut and cannot be gone on with (410), and the list that follows is an old one."""
        self._stale[path] = version
        for watch in list(self._watches):
            if watch.path == path:
                watch.cut()

    async def _release(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._flow.set()

    # -- serving

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while (request := await read_request(reader)) is not None:
                if request.watching and request.path not in self._stale:
                    await self._pass_watch(request, reader, writer)
                    return
                answer = await self._answer(request)
                if answer is None:
                    return
                writer.write(answer.raw)
                await writer.drain()
                if not answer.keeps:
                    return
        except BROKEN:
            pass  # the operator hears of it by its connection's end, as it would
        except asyncio.CancelledError:
            pass  # the door is closed; the server's own callback would complain of a cancelled task
        finally:
            writer.close()

    async def _answer(self, request: Request) -> Answer | None:
        if request.watching:
            return refusal(410)
        if request.method == "GET" and request.path in self._stale:
            request = request.asking(
                resourceVersion=self._stale.pop(request.path), resourceVersionMatch="Exact"
            )
        forwarded = request

        async def forward() -> Answer:
            return await self._upstream.call(forwarded)

        call = named(request)
        # Carried to its end even if the operator hangs up meanwhile.
        return await asyncio.shield(asyncio.ensure_future(self._meet(self, call, forward)))

    async def _pass_watch(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if (version := self._rewound.pop(request.path, None)) is not None:
            request = request.asking(resourceVersion=version)
        there, asking = await self._upstream.open()
        watch = _Watch(request.path, writer)
        self._watches.add(watch)
        gone = asyncio.ensure_future(reader.read())
        coming = asyncio.ensure_future(self._pump(there, writer))
        try:
            # Whatever the answer is: what comes after it on this connection would not be read by anybody.
            asking.write(request.alone().bytes())
            await asyncio.wait({gone, coming}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._watches.discard(watch)
            for end in (gone, coming):
                end.cancel()
            asking.close()
            await asyncio.gather(gone, coming, return_exceptions=True)

    async def _pump(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(65536):
            await self._flow.wait()
            writer.write(data)
            await writer.drain()


class _Watch:
    def __init__(self, path: str, writer: asyncio.StreamWriter) -> None:
        self.path = path
        self._writer = writer

    def cut(self) -> None:
        self._writer.transport.abort()
