from __future__ import annotations

import asyncio
import gc
import os
import socket
import ssl
import struct
from collections.abc import Callable

import pytest

from alnair.kube.loop import Loop

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: no good-bye


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    return near, far


def reset(far: socket.socket) -> None:
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    far.close()


def talk_nonsense(far: socket.socket) -> None:
    far.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def handshake(near: socket.socket) -> None:
    await asyncio.get_running_loop().create_connection(
        asyncio.Protocol, sock=near, ssl=ssl.create_default_context(), server_hostname="apiserver"
    )


def opened_until(number: int) -> list[int]:
    """Descriptors, the last of which has this number."""
    found: list[int] = []
    while not found or found[-1] < number:
        found.append(os.open(os.devnull, os.O_RDONLY))
    assert found[-1] == number, "it was not closed"
    return found


def are_open_still(others: list[int]) -> None:
    gc.collect()
    for other in others:
        os.fstat(other)
        os.close(other)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (reset, ConnectionResetError),
        (socket.socket.close, ConnectionResetError),
        (talk_nonsense, ssl.SSLError),
    ],
)
def test_a_handshake_that_fails_closes_its_own_descriptor_and_no_other(
    end: Callable[[socket.socket], None], error: type[Exception]
) -> None:
    async def main() -> None:
        near, far = connected()
        number = near.fileno()
        end(far)
        with pytest.raises(error):
            await handshake(near)
        await asyncio.sleep(0.05)  # the loop closes it by and by
        others = opened_until(number)
        del near
        are_open_still(others)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())


def test_nor_does_one_that_is_given_up() -> None:
    async def main() -> None:
        near, far = connected()
        number = near.fileno()
        waiting = asyncio.create_task(handshake(near))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0.05)
        del waiting
        others = opened_until(number)
        del near
        are_open_still(others)
        far.close()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())
