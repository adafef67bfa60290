"""`/metrics` for Prometheus, `/readyz` for the kubelet.

Where only this host reaches it, the metrics are for whoever asks; elsewhere for those whom `readers` lets in. `/readyz`
says one word and is for everybody: a kubelet's probe shows no token.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from alnair.console.readers import LONGEST_TOKEN, Readers
from alnair.control.metrics import Metrics

log = logging.getLogger(__name__)

GRACE_SECONDS = 1.0


class Console:
    def __init__(
        self,
        metrics: Metrics,
        *,
        ready: Callable[[], bool],
        host: str,
        port: int,
        readers: Readers | None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Without `readers` everybody is one."""
        self._metrics = metrics
        self._ready = ready
        self._host = host
        self._wanted_port = port
        self._readers = readers
        self._tls = tls
        self._on_loopback = False  # until it is known
        self._runner: web.AppRunner | None = None
        self.port = 0  # known once started; a wanted port 0 means any free one

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_get("/readyz", self._serve_ready)
        # A token that is too long is to be told so, by us.
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=GRACE_SECONDS, max_field_size=2 * LONGEST_TOKEN
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._wanted_port, ssl_context=self._tls)
        await site.start()
        addresses = self._runner.addresses
        self._on_loopback = all(ipaddress.ip_address(each[0]).is_loopback for each in addresses)
        self.port = int(addresses[0][1])
        if self._readers is None and not self._on_loopback:
            log.warning("the metrics on %s:%d are for everybody who reaches them", self._host, self.port)

    async def stop(self) -> None:
        if self._readers is not None:
            await self._readers.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        if self._readers is not None and not self._on_loopback:
            verdict = await self._readers.judge(request.headers.getall("Authorization", []))
            if not verdict.lets_in:
                challenge = {"WWW-Authenticate": 'Bearer realm="alnair"'} if verdict.status == 401 else None
                return web.Response(status=verdict.status, text=f"{verdict.why}\n", headers=challenge)
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _serve_ready(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n") if self._ready() else web.Response(status=503, text="not ready\n")
