"""When each pod was bound, as one plain watcher sees it: the same for every contestant.

Only bound pods are asked for (a field selector), so it costs little; of each only name and node are decoded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import msgspec

from bench.api import Api
from bench.manifests import PODS

BOUND = "spec.nodeName!="


class Stalled(Exception):
    """No pod was bound for a long time, though some should have been."""


class WatchCut(Exception):
    """The bench's own watch cannot go on: what it did not see cannot be measured."""


class _Meta(msgspec.Struct):
    name: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class BindWatcher:
    """`at` and `node` of each bound pod by its name. The clock is time.monotonic()."""

    def __init__(self, api: Api, *, leaving: bool = False) -> None:
        """`leaving`: pods may be deleted meanwhile, and are forgotten; else that is an error of the run."""
        self._api = api
        self._expected = {"ADDED", "MODIFIED"} | ({"DELETED"} if leaving else set())
        self._decode = msgspec.json.Decoder(_Event).decode
        self._awaited: set[str] = set()
        self._none_awaited = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.at: dict[str, float] = {}
        self.node: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """From now on every bind is seen; what is bound already is not."""
        version = (await self._api.get(PODS, limit="1"))["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._watch(version), name="bind watcher")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, version: str) -> None:
        """Goes on where it was cut: the apiserver ends the watch of a client that reads too slowly for a moment."""
        while True:
            async for line in self._api.watch(PODS, resourceVersion=version, fieldSelector=BOUND):
                now = time.monotonic()
                event = self._decode(line)
                if event.type not in self._expected:
                    raise WatchCut(f"the bench's own watch says what it must not: {line[:300]!r}")
                version = event.object.metadata.version
                if event.type == "DELETED":
                    self._forget(event.object.metadata.name)
                else:
                    self._see(event.object.metadata.name, event.object.spec.node, now)

    def _see(self, name: str, node: str, now: float) -> None:
        if name in self.at:
            return
        self.at[name] = now
        self.node[name] = node
        self._awaited.discard(name)
        if not self._awaited:
            self._none_awaited.set()

    def _forget(self, name: str) -> None:
        """Names are not used twice, and hours of them would make the bench itself slower and slower."""
        self.at.pop(name, None)
        self.node.pop(name, None)

    def expect(self, names: Iterable[str]) -> None:
        """These are waited for by `done`."""
        self._awaited = set(names) - self.at.keys()
        self._none_awaited = asyncio.Event()
        if not self._awaited:
            self._none_awaited.set()

    async def done(self, *, stall_seconds: float) -> None:
        """Returns when all that were expected are bound."""
        assert self._task is not None, "use `async with BindWatcher(...)`"
        while True:
            seen = len(self.at)
            waiting = asyncio.create_task(self._none_awaited.wait())
            await asyncio.wait(
                {waiting, self._task}, timeout=stall_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            waiting.cancel()
            if self._none_awaited.is_set():
                return
            if self._task.done():
                self._task.result()
            if len(self.at) == seen:
                some = ", ".join(sorted(self._awaited)[:3])
                raise Stalled(
                    f"no pod was bound for {stall_seconds:g} s; {len(self.at)} are, {len(self._awaited)} are not"
                    f" ({some}, …)"
                )
