"""The ear at kube-scheduler's door: it is told which nodes passed all filters, and lets none of them through.

kube-scheduler calls an extender's filter with every node that its own filters let pass. We write them down by the
pod's UID and answer that none will do, so that nothing is ever bound. When no node passed there is no call.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web


class _Metadata(msgspec.Struct):
    uid: str


class _Pod(msgspec.Struct):
    metadata: _Metadata


class _Arguments(msgspec.Struct, rename="pascal"):
    """What kube-scheduler sends. Its field names are those of Go."""

    pod: _Pod
    node_names: list[str]


_decoder = msgspec.json.Decoder(_Arguments)


class Extender:
    """`passed` has the nodes that a pod's filters let through, the latest attempt's."""

    def __init__(self) -> None:
        self.passed: dict[str, frozenset[str]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("127.0.0.1", 0))
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        """Known at once, so that it can be written into kube-scheduler's configuration."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=16 << 20)
        app.router.add_post("/filter", self._filter)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _filter(self, request: web.Request) -> web.Response:
        said = _decoder.decode(await request.read())
        self.passed[said.pod.metadata.uid] = frozenset(said.node_names)
        return web.json_response({"NodeNames": [], "FailedNodes": {}})
