"""The console: nothing behind its door changes anything, and elsewhere than on loopback the metrics ask who comes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from alnair.console.certificate import BadCertificate, serving_tls
from alnair.console.readers import LONGEST_TOKEN, Readers
from alnair.console.server import Console
from alnair.control.metrics import Metrics
from harness.certificates import Authority
from unit.builders import HandClock

EVERYWHERE = "0.0.0.0"


class Strangers:
    """Whom the apiserver does not know, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def create(self, path: str, body: object) -> dict[str, Any]:
        self.asked += 1
        return {"status": {"authenticated": False}}

    def readers(self) -> Readers:
        return Readers(self.create, clock=HandClock())


@asynccontextmanager
async def listening(
    host: str = "127.0.0.1", readers: Readers | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Its address."""
    console = Console(Metrics(), ready=lambda: True, host=host, port=0, readers=readers, tls=tls)
    await console.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{console.port}"
    finally:
        await console.stop()


async def get(address: str, *authorizations: str) -> tuple[int, str, str]:
    headers = [("Authorization", each) for each in authorizations]
    async with aiohttp.ClientSession() as session, session.get(address, headers=headers) as answer:
        return answer.status, await answer.text(), answer.headers.get("WWW-Authenticate", "")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_it_answers_to_reading_alone(method: str) -> None:
    async with listening() as address, aiohttp.ClientSession(address) as session:
        for path in ("/metrics", "/readyz"):
            async with session.request(method, path, data=b"x") as answer:
                assert answer.status == 405
            async with session.get(path) as answer:
                assert answer.status == 200
        async with session.request(method, "/") as answer:
            assert answer.status == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_on_loopback_nobody_is_asked_about(host: str) -> None:
    strangers = Strangers()
    async with listening(host, strangers.readers()) as address:
        assert (await get(f"{address}/metrics"))[0] == 200
    assert strangers.asked == 0


async def test_elsewhere_the_metrics_are_for_those_who_are_let_in_and_readiness_for_all() -> None:
    strangers = Strangers()
    async with listening(EVERYWHERE, strangers.readers()) as address:
        assert await get(f"{address}/readyz") == (200, "ok\n", "")
        for shown, asked in ((), 0), (("Basic YTpi",), 0), (("Bearer nonsense",), 1):
            status, text, challenge = await get(f"{address}/metrics", *shown)
            assert (status, challenge, "alnair_" in text) == (401, 'Bearer realm="alnair"', False)
            assert strangers.asked == asked


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (("Bearer a", "Bearer b"), "more than one Authorization header"),
        (("Bearer " + "x" * (LONGEST_TOKEN + 1),), "longer than 8192 bytes"),
        (("Bearer " + "x" * (9 * LONGEST_TOKEN),), ""),
    ],
    ids=["two", "long", "absurd"],
)
async def test_absurd_requests_are_refused_without_asking(shown: Sequence[str], why: str) -> None:
    strangers = Strangers()
    async with listening(EVERYWHERE, strangers.readers()) as address:
        status, text, _ = await get(f"{address}/metrics", *shown)
        assert (status, strangers.asked) == (400, 0)
        assert why in text


async def test_who_switches_it_off_is_told_so_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(EVERYWHERE) as address:
        assert (await get(f"{address}/metrics"))[0] == 200
    assert "are for everybody who reaches them" in caplog.text


async def test_with_a_certificate_it_speaks_tls_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    pair = authority.signs("127.0.0.1")
    async with listening(tls=serving_tls(pair.certificate, pair.key)) as address:
        trust = ssl.create_default_context(cafile=str(authority.certificate))
        async with aiohttp.ClientSession() as session:
            for path in ("/metrics", "/readyz"):
                async with session.get(f"{address}{path}", ssl=trust) as answer:
                    assert answer.status == 200
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"{address.replace('https', 'http')}/metrics")


def test_certificate_and_key_go_together_and_must_be_usable(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("no certificate")
    assert serving_tls(None, None) is None
    for certificate, key in ((file, None), (None, file)):
        with pytest.raises(BadCertificate, match="go together"):
            serving_tls(certificate, key)
    for path in (file, tmp_path / "none"):
        with pytest.raises(BadCertificate, match="cannot be used"):
            serving_tls(path, path)
