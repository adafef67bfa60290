"""List, then watch, for ever: the feed of Pods and Nodes.

Kopf's own watching costs about a millisecond of CPU an event, too much for ten thousand pods. This one decodes
each object once, straight into the caller's types.

What must never happen here: an event is lost silently. Every gap (410, a version too old, an unreadable event)
ends in a fresh list, and the sink is told the whole truth by `replace`. A silent watch is cut after `idle_seconds`:
the apiserver sends a bookmark about once a minute, so silence means a dead connection.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Generic, Protocol, TypeVar

import msgspec

from alnair.kube.client import Client, Refused, Unanswered

log = logging.getLogger(__name__)

# What msgspec raises: also for bytes that are no UTF-8, and for what is nested beyond reason.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")

PAGE = 500
IDLE_SECONDS = 80.0
SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Sink(Protocol[T]):
    """Who is fed. All three are plain calls: a slow sink slows the stream, it never reorders it."""

    def replace(self, objects: list[T]) -> None: ...
    def put(self, thing: T) -> None: ...
    def drop(self, thing: T) -> None: ...


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] = []


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _VersionedMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct):
    metadata: _VersionedMeta = msgspec.field(default_factory=_VersionedMeta)
    code: int = 0
    message: str = ""


class _Gap(Exception):
    """The watch cannot go on from where it was: list again."""


class Stream(Generic[T]):
    """Feeds one sink with one collection. Run `run()` as a task; it ends only by cancellation."""

    def __init__(
        self,
        client: Client,
        path: str,
        kind: type[T],
        sink: Sink[T],
        *,
        params: dict[str, str] | None = None,
        idle_seconds: float = IDLE_SECONDS,
        name: str = "",
    ) -> None:
        self._client = client
        self._path = path
        self._sink = sink
        self._params = params or {}
        self._idle_seconds = idle_seconds
        self._object = msgspec.json.Decoder(kind)
        self._page = msgspec.json.Decoder(_Page)
        self._event = msgspec.json.Decoder(_Event)
        self._versioned = msgspec.json.Decoder(_Versioned)
        self.name = name or kind.__name__
        self._version = ""  # where the watch goes on from; empty = list first
        self._again = asyncio.Event()

    def list_again(self) -> None:
        """Soon: the sink reads objects in another way now, and wants all of them once more."""
        self._again.set()

    async def run(self) -> None:
        pause = SHORTEST_PAUSE
        while True:
            try:
                if not self._version:
                    self._version = await self._list()
                    pause = SHORTEST_PAUSE
                await self._watch_until_asked()
                await asyncio.sleep(SHORTEST_PAUSE)  # a server that ends every watch at once is not hammered
            except _Gap as gap:
                log.info("%s stream: %s; listing again", self.name, gap)
                self._version = ""
                pause = await self._rest(pause)
            except Unanswered as error:
                log.warning("%s stream: %s; going on in %.1f s", self.name, error, pause)
                pause = await self._rest(pause)
            except (Refused, *UNREADABLE) as error:
                # A version too old is not told from other refusals: listing again is right after all of them.
                log.warning("%s stream: %s; listing again in %.1f s", self.name, error, pause)
                self._version = ""
                pause = await self._rest(pause)

    async def _rest(self, pause: float) -> float:
        await asyncio.sleep(pause * random.uniform(0.7, 1.3))
        return min(pause * 2, LONGEST_PAUSE)

    async def _list(self) -> str:
        """The next page is on its way while one is decoded."""
        objects: list[T] = []
        coming = asyncio.create_task(self._ask(""), name=f"list {self.name}")
        try:
            while True:
                page = self._page.decode(await coming)
                if token := page.metadata.continue_:
                    coming = asyncio.create_task(self._ask(token), name=f"list {self.name}")
                    await asyncio.sleep(0)  # so that it is sent
                objects.extend(thing for raw in page.items if (thing := self._decode(raw)) is not None)
                if not token:
                    break
        finally:
            coming.cancel()
        self._sink.replace(objects)
        return page.metadata.resource_version

    async def _ask(self, token: str) -> bytes:
        params = {**self._params, "limit": str(PAGE), **({"continue": token} if token else {})}
        return await self._client.call("GET", self._path, params=params)

    async def _watch_until_asked(self) -> None:
        watching = asyncio.create_task(self._watch(), name=f"watch {self.name}")
        asked = asyncio.create_task(self._again.wait(), name=f"list {self.name} again")
        try:
            await asyncio.wait({watching, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (watching, asked):
                task.cancel()
            await asyncio.gather(watching, asked, return_exceptions=True)
        if self._again.is_set():
            self._again.clear()
            raise _Gap("asked to")
        watching.result()

    async def _watch(self) -> None:
        params = {
            **self._params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            # Spread the ends of watches so that many replicas do not reconnect at one moment.
            "timeoutSeconds": str(random.randint(290, 590)),
        }
        async for line in self._client.watch(self._path, params=params, idle_seconds=self._idle_seconds):
            event = self._event.decode(line)
            if event.type == "ERROR":
                status = self._versioned.decode(event.object)
                raise _Gap(f"{status.code} {status.message}")
            if event.type != "BOOKMARK":
                thing = self._decode(event.object)
                if event.type != "DELETED":
                    if thing is not None:
                        self._sink.put(thing)
                elif thing is None:
                    raise _Gap("something was deleted that cannot be read")
                else:
                    self._sink.drop(thing)
            self._version = self._versioned.decode(event.object).metadata.resource_version or self._version

    def _decode(self, raw: msgspec.Raw) -> T | None:
        try:
            return self._object.decode(raw)
        except UNREADABLE as error:
            # One object that does not look like its kind must not stop the feed of all the others.
            log.error("%s stream: an object was skipped, it cannot be read: %s", self.name, error)
            return None
