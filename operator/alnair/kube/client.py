"""One pooled HTTP/1.1 session to the apiserver, in raw JSON.

Two things can go wrong with a call, and they must never be mixed up:
`Refused` - the apiserver answered, and nothing was changed;
`Unanswered` - nobody knows whether it was applied (time-out, cut connection, 429, 5xx), so the caller has to look.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import aiohttp
import orjson

from alnair.api.text import one_line
from alnair.kube.connection import Connection
from alnair.kube.http import Pool

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

# A call that takes longer than this is treated as unanswered; the apiserver's own limit is 60 s.
CALL_SECONDS = 10.0
# As many requests as the apiserver answers at once on a small machine; more only queue there.
POOL = 64
PAGE = 500  # objects of a list in one answer
LONGEST_MESSAGE = 1000  # of a refusal, as it is repeated
TOKEN_SECONDS = 5.0  # how long a token is used before it is looked up anew; a 401 is looked into at once


class Refused(Exception):
    """The apiserver said no. `reason` is its machine-readable word (NotFound, Conflict, Invalid, …)."""

    def __init__(self, *, call: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{call}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Unanswered(Exception):
    """Nobody can tell whether the call took effect. `retry_after` is the apiserver's wish in seconds, if any."""

    def __init__(self, *, call: str, why: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(f"{call}: {why}")
        self.status = status
        self.retry_after = retry_after


# Told of every finished call: verb, resource, status (0 = no answer).
CallObserver = Callable[[str, str, int], None]


class Client:
    """The only way to the apiserver. Safe for concurrent use; never repeats a call except after a 401."""

    def __init__(
        self, connection: Connection, *, observer: CallObserver | None = None, pool: int = POOL
    ) -> None:
        self._connection = connection
        # Waiting for a turn is not waiting for an answer: the gate is before the clock of a call starts.
        self._gate = asyncio.Semaphore(pool)
        self._observe = observer or (lambda verb, resource, status: None)
        self._pool: Pool | None = None
        self._session: aiohttp.ClientSession | None = None  # for watches
        self._authorization: str | None = None
        self._authorized_until = 0.0

    async def __aenter__(self) -> Client:
        tls = self._connection.tls()
        self._pool = Pool(self._connection.server, tls)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.close()
        if self._session is not None:
            await self._session.close()

    # -- verbs ---------------------------------------------------------------------------------------------------

    async def get(
        self, path: str, *, params: Mapping[str, str] | None = None, seconds: float = CALL_SECONDS
    ) -> dict[str, Any]:
        return _object(await self.call("GET", path, params=params, seconds=seconds))

    async def items(self, path: str, *, labels: str = "") -> list[dict[str, Any]]:
        """All objects of a collection, page by page, as of one moment: a page that comes too late is refused (410)."""
        return [thing async for page in self.pages(path, labels=labels) for thing in page]

    async def pages(self, path: str, *, labels: str = "") -> AsyncGenerator[list[dict[str, Any]]]:
        """The same, for who does not need all of them at once."""
        params = {"limit": str(PAGE), **({"labelSelector": labels} if labels else {})}
        while True:
            page = await self.get(path, params=params)
            yield page["items"]
            if not page["metadata"].get("continue"):
                return
            params["continue"] = page["metadata"]["continue"]

    async def create(self, path: str, body: object) -> dict[str, Any]:
        return _object(await self.call("POST", path, body=body))

    async def patch(self, path: str, body: object, *, kind: str = MERGE_PATCH) -> dict[str, Any]:
        return _object(await self.call("PATCH", path, body=body, content_type=kind))

    async def replace(self, path: str, body: object, *, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        return _object(await self.call("PUT", path, body=body, seconds=seconds))

    async def delete(self, path: str, body: object | None = None) -> dict[str, Any]:
        """The object as it was left (a finalizer may hold it), or the apiserver's word that it is gone."""
        return _object(await self.call("DELETE", path, body=body))

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        seconds: float = CALL_SECONDS,
    ) -> bytes:
        payload = orjson.dumps(body) if body is not None else None
        for attempt in (1, 2):
            try:
                async with self._gate, asyncio.timeout(seconds):
                    answer = await self._calls().request(
                        method,
                        path,
                        params=params,
                        headers=self._headers(content_type if payload is not None else None),
                        body=payload,
                    )
            except (TimeoutError, OSError) as error:
                self._observe(method, resource_of(path), 0)
                raise Unanswered(call=f"{method} {path}", why=repr(error)) from error
            self._observe(method, resource_of(path), answer.status)
            if answer.status < 300:
                return answer.body
            if answer.status == 401 and attempt == 1:
                self._authorized_until = 0.0
                continue  # the token may have rotated between reading it and using it; the next try reads it anew
            raise _failure(f"{method} {path}", answer.status, answer.body, answer.retry_after)
        raise AssertionError("unreachable: the second attempt returns or raises")

    async def watch(
        self, path: str, *, params: Mapping[str, str], idle_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch. Ends when the server closes it; raises Unanswered when it falls silent or is cut."""
        call = f"WATCH {path}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CALL_SECONDS, sock_read=idle_seconds)
        try:
            async with self._http().get(
                self._connection.server + path, params=params, headers=self._headers(None), timeout=timeout
            ) as response:
                self._observe("WATCH", resource_of(path), response.status)
                if response.status >= 300:
                    raise _failure(call, response.status, await response.read(), None)
                rest = b""
                async for chunk in response.content.iter_any():
                    lines = (rest + chunk).split(b"\n")
                    rest = lines.pop()
                    for line in lines:
                        yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._observe("WATCH", resource_of(path), 0)
            raise Unanswered(call=call, why=repr(error)) from error

    # -- inside --------------------------------------------------------------------------------------------------

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is used outside of its 'async with'")
        return self._session

    def _calls(self) -> Pool:
        if self._pool is None:
            raise RuntimeError("the client is used outside of its 'async with'")
        return self._pool

    def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {"Accept": JSON, "User-Agent": "alnair"}
        if content_type:
            headers["Content-Type"] = content_type
        now = time.monotonic()
        if now >= self._authorized_until:
            self._authorization = self._connection.authorization()
            self._authorized_until = now + TOKEN_SECONDS
        if self._authorization:
            headers["Authorization"] = self._authorization
        return headers


def _object(text: bytes) -> dict[str, Any]:
    """An answer that is no JSON object comes from something in between: what became of the call is unknown."""
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        raise Unanswered(call="the answer", why=f"is no JSON object: {text[:80]!r}")
    return parsed


def _failure(call: str, status: int, text: bytes, retry_after: str | None) -> Refused | Unanswered:
    reason, message = "", text[:500].decode(errors="replace")
    try:
        parsed = orjson.loads(text)
        reason, message = str(parsed.get("reason") or ""), str(parsed.get("message") or "")
    except (ValueError, AttributeError):
        pass  # a proxy's or a dying server's plain text; shown as it is
    # Others' text (a webhook's, say) goes into our log, and into conditions.
    reason, message = one_line(reason, most=64), one_line(message, most=LONGEST_MESSAGE)
    if status == 429 or status >= 500:
        wish = float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else None
        return Unanswered(call=call, why=f"{status} {reason}: {message}", status=status, retry_after=wish)
    return Refused(call=call, status=status, reason=reason, message=message)


def resource_of(path: str) -> str:
    """`pods/binding` out of `/api/v1/namespaces/x/pods/y/binding`: the label of the call metric."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) >= 2 and rest[0] == "namespaces":
        rest = rest[2:] or ["namespaces"]
    return "/".join(rest[:1] + rest[2:3])
