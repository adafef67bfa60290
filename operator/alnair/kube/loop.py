"""The event loop that every thread of the operator runs on: uvloop's, with one hole closed."""

from __future__ import annotations

import socket
from typing import Any

import uvloop


class Loop(uvloop.Loop):
    """A connection that fails closes no other connection's descriptor.

    aiohttp makes the socket and hands it to the loop. If it is reset in the middle of its handshake, as many are when
    an apiserver dies, uvloop (0.23) closes the descriptor and lets the socket believe that it still has it: when the
    socket is thrown away, whatever was opened under that number meanwhile is closed, the stream of pods, say.
    """

    async def create_connection(
        self, *args: Any, sock: socket.socket | None = None, **options: Any
    ) -> tuple[Any, Any]:
        try:
            return await super().create_connection(*args, sock=sock, **options)
        except BaseException:
            if sock is not None:
                sock.detach()  # libuv has it, and closes it
            raise
