"""The bench's own client: creates objects by the thousand, cleans them away, watches binds. JSON over one session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Self

import aiohttp
import orjson

from alnair.sandbox.access import Access

AT_ONCE = 48
SLOW = aiohttp.ClientTimeout(total=120)
MERGE_PATCH = "application/merge-patch+json"


class Refused(Exception):
    """The apiserver said no."""

    def __init__(self, call: str, status: int, said: bytes) -> None:
        super().__init__(f"{call}: {status}: {said[:500].decode('utf-8', 'replace')}")
        self.status = status


class Api:
    """As administrator. Every call waits for its answer; none is repeated."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = self._access.session(SLOW)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http().close()

    async def call(
        self,
        verb: str,
        path: str,
        body: object | None = None,
        *,
        params: dict[str, str] | None = None,
        content: str = "application/json",
    ) -> bytes:
        async with self._http().request(
            verb,
            path,
            data=orjson.dumps(body) if body is not None else None,
            params=params,
            headers={"Content-Type": content},
        ) as answer:
            said = await answer.read()
        if answer.status >= 300:
            raise Refused(f"{verb} {path}", answer.status, said)
        return said

    async def get(self, path: str, **params: str) -> Any:
        return orjson.loads(await self.call("GET", path, params=params))

    async def each(
        self, verb: str, calls: Iterable[tuple[str, object]], *, content: str = "application/json"
    ) -> None:
        """Many calls of one verb, AT_ONCE at a time; the first failure ends it."""
        todo = iter(calls)

        async def work() -> None:
            for path, body in todo:
                await self.call(verb, path, body, content=content)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(AT_ONCE):
                    tasks.create_task(work())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None

    async def create_all(self, path: str, manifests: Iterable[object]) -> None:
        await self.each("POST", ((path, manifest) for manifest in manifests))

    async def delete_all(self, path: str, **selectors: str) -> None:
        """Returns when the collection is empty, so nothing in it may have a finalizer."""
        while (await self.get(path, limit="1", **selectors))["items"]:
            try:
                await self.call("DELETE", path, {"gracePeriodSeconds": 0}, params=selectors)
            except Refused as refused:
                if refused.status != 504:  # the apiserver ends a long deletion half-way; it is asked again
                    raise

    async def watch(self, path: str, **params: str) -> AsyncIterator[bytes]:
        """The lines of a watch, chunk by chunk as they come."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        params = {"watch": "1", "timeoutSeconds": "3600", **params}
        async with self._http().get(path, params=params, timeout=timeout) as answer:
            if answer.status != 200:
                raise Refused(f"WATCH {path}", answer.status, await answer.read())
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is used outside of its 'async with'")
        return self._session
