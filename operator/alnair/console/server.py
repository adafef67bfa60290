"""`/metrics` for Prometheus, `/readyz` for the kubelet."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from alnair.control.metrics import Metrics


class Console:
    def __init__(self, metrics: Metrics, *, ready: Callable[[], bool], host: str, port: int) -> None:
        self._metrics = metrics
        self._ready = ready
        self._host = host
        self._wanted_port = port
        self._runner: web.AppRunner | None = None
        self.port = 0  # known once started; a wanted port 0 means any free one

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_get("/readyz", self._serve_ready)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._wanted_port)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _serve_ready(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n") if self._ready() else web.Response(status=503, text="not ready\n")
