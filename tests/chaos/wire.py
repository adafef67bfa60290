"""HTTP/1.1 as far as a proxy has to understand it: requests and answers as bytes that know where they end.

What must never happen here: a message that ends somewhere else than its sender meant. What is not understood is an
error, and the connection's end.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

END: Final = b"\r\n\r\n"
MOST_HEAD: Final = 1024 * 1024


class NotUnderstood(Exception):
    """These bytes are no HTTP/1.1 that we know the end of."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: bytes
    """All lines after the first, as they came."""
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def watching(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in ("1", "true")

    def asking(self, **query: str) -> Request:
        """The same with other parameters; an empty one is left out."""
        asked = {key: value for key, value in {**self.query, **query}.items() if value}
        return replace(self, target=self.path + (f"?{urlencode(asked)}" if asked else ""))

    def alone(self) -> Request:
        """The same, on a connection that is not used again."""
        kept = [line for line in self.headers.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        return replace(self, headers=b"\r\n".join([*kept, b"Connection: close"]))

    def bytes(self) -> bytes:
        return f"{self.method} {self.target} HTTP/1.1\r\n".encode("latin-1") + self.headers + END + self.body


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    raw: bytes
    """All of it, as it goes over the wire."""
    keeps: bool = True
    """The connection may be used again."""

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


def refusal(status: int, *, retry_after: int | None = None) -> Answer:
    """What an apiserver would say, without asking it."""
    said = HTTPStatus(status)
    reasons = {401: "Unauthorized", 403: "Forbidden", 409: "Conflict", 410: "Expired", 422: "Invalid"}
    body = json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reasons.get(status, said.phrase.replace(" ", "")),
            "message": f"chaos: {said.phrase}",
            "code": status,
        }
    ).encode()
    wish = f"Retry-After: {retry_after}\r\n" if retry_after is not None else ""
    head = (
        f"HTTP/1.1 {status} {said.phrase}\r\n"
        f"Content-Type: application/json\r\n{wish}Content-Length: {len(body)}\r\n\r\n"
    )
    return Answer(status, head.encode() + body)


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """None: the client is done."""
    try:
        head = await reader.readuntil(END)
    except asyncio.IncompleteReadError as ended:
        if ended.partial:
            raise NotUnderstood(f"a request ends after {ended.partial[:80]!r}") from None
        return None
    first, _, rest = head[: -len(END)].partition(b"\r\n")
    words = first.decode("latin-1").split(" ")
    if len(words) != 3 or words[2] != "HTTP/1.1":
        raise NotUnderstood(f"a request begins with {first[:80]!r}")
    headers = _headers(rest)
    if "transfer-encoding" in headers:
        raise NotUnderstood("a request in chunks")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(words[0], words[1], rest, body)


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    while True:
        head = await reader.readuntil(END)
        first, _, rest = head[: -len(END)].partition(b"\r\n")
        words = first.split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise NotUnderstood(f"an answer begins with {first[:80]!r}")
        status = int(words[1])
        if status >= 200:
            break
    headers = _headers(rest)
    keeps = headers.get("connection", "").lower() != "close"
    if status in (204, 304):
        return Answer(status, head, keeps)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Answer(status, head + await _chunks(reader), keeps)
    if "content-length" in headers:
        return Answer(status, head + await reader.readexactly(int(headers["content-length"])), keeps)
    return Answer(status, head + await reader.read(), keeps=False)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    read = bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        read += line
        size = int(line.split(b";", 1)[0], 16)
        if size == 0:
            break
        read += await reader.readexactly(size + 2)
    while True:  # trailers, until an empty line
        line = await reader.readuntil(b"\r\n")
        read += line
        if line == b"\r\n":
            return bytes(read)


def _headers(lines: bytes) -> dict[str, str]:
    found = {}
    for line in lines.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(":")
        found[name.strip().lower()] = value.strip()
    return found
