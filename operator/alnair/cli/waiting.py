"""Waiting until a cluster looks as expected: by watches, never by asking again and again.

    async with watched(kubeconfig, {"pods": "/api/v1/namespaces/demo/pods"}) as view:
        await view.until(lambda objects: [] if objects["pods"] else ["no pods yet"], timeout=60)

A check returns what is still missing, in words, so that a time-out can say what was waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

Object = dict[str, Any]
Objects = Mapping[str, list[Object]]
Check = Callable[[Objects], list[str]]

LOOK_SECONDS = 1.0  # between looks at what no watch tells, such as whether the operator still runs


class NotReached(Exception):
    """What was waited for did not come. The message lists what was still missing."""


class Shelf:
    """The objects of one collection, as a stream shows them."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._objects: dict[str, Object] = {}
        self._changed = changed
        self.listed = False

    def objects(self) -> list[Object]:
        return sorted(self._objects.values(), key=lambda each: str(each["metadata"]["name"]))

    def replace(self, objects: list[Object]) -> None:
        self._objects = {each["metadata"]["uid"]: each for each in objects}
        self.listed = True
        self._changed.set()

    def put(self, thing: Object) -> None:
        self._objects[thing["metadata"]["uid"]] = thing
        self._changed.set()

    def drop(self, thing: Object) -> None:
        self._objects.pop(thing["metadata"]["uid"], None)
        self._changed.set()


class View:
    """Some collections, kept up to date while `watched` is open."""

    def __init__(self, collections: Mapping[str, str]) -> None:
        self.changed = asyncio.Event()
        self.shelves = {name: Shelf(self.changed) for name in collections}

    async def until(
        self, check: Check, *, timeout: float, alive: Callable[[], object] = lambda: None
    ) -> None:
        """Returns when the check has nothing to say. `alive` may raise to end the waiting early."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        while True:
            self.changed.clear()
            missing = ["the apiserver has not answered yet"]
            if all(shelf.listed for shelf in self.shelves.values()):
                missing = check({name: shelf.objects() for name, shelf in self.shelves.items()})
            if not missing:
                return
            alive()
            left = deadline - clock()
            if left <= 0:
                raise NotReached(f"after {timeout:.0f} s: " + "; ".join(missing))
            try:
                await asyncio.wait_for(self.changed.wait(), min(left, LOOK_SECONDS))
            except TimeoutError:
                continue


@asynccontextmanager
async def watched(kubeconfig: Path, collections: Mapping[str, str]) -> AsyncIterator[View]:
    """Lists and watches the collections (name -> path) until left."""
    from alnair.kube import Client, Stream
    from alnair.kube.connection import connect

    view = View(collections)
    async with Client(connect(kubeconfig=kubeconfig)) as client:
        streams = [
            asyncio.create_task(
                Stream(client, path, dict[str, Any], view.shelves[name]).run(), name=f"watch {name}"
            )
            for name, path in collections.items()
        ]
        try:
            yield view
        finally:
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)
