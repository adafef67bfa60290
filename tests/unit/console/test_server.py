"""The console's door has no lock, so nothing behind it may change anything: it is read, and that is all."""

from __future__ import annotations

import aiohttp
import pytest

from alnair.console.server import Console
from alnair.control.metrics import Metrics


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_it_answers_to_reading_alone(method: str) -> None:
    console = Console(Metrics(), ready=lambda: True, host="127.0.0.1", port=0)
    await console.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{console.port}") as session:
            for path in ("/metrics", "/readyz"):
                async with session.request(method, path, data=b"x") as answer:
                    assert answer.status == 405
                async with session.get(path) as answer:
                    assert answer.status == 200
            async with session.request(method, "/") as answer:
                assert answer.status == 404
    finally:
        await console.stop()
