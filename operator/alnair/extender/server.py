"""The door: who may come in, in which form, and who answers.

Everybody who is not kube-scheduler is turned away before anything is read: on a loopback address by a secret, elsewhere
by a client certificate (see `door`). One bad request is that caller's alone: it gets a sentence, and the others notice
nothing. Only the leader has answers.

Whoever is let in gets status 200, and what is wrong stands in the answer. kube-scheduler drops the body of any other
answer, and writes the address that it called, with the secret in it, into the pod's events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from alnair.control.metrics import Metrics
from alnair.extender.door import Door
from alnair.extender.verbs import Verbs
from alnair.extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    Unreadable,
    read,
)
from alnair.ledger.lease import LeadershipLost

log = logging.getLogger(__name__)

LARGEST_BODY = 32 << 20  # whole objects of thousands of nodes; by name it is a hundredth of that
BODY_SECONDS = 10.0
KEPT_SECONDS = 600.0  # an idle connection; Go keeps its end for 90
GRACE_SECONDS = 1.0
NOT_LEADING = "this replica of Alnair does not lead, or has not caught up yet; ask again"
MISTAKE = "Alnair failed to answer; its log says why"

Q = TypeVar("Q")


class Server:
    """Listens from `start` to `stop`; answers while `verbs` is there."""

    def __init__(self, door: Door, metrics: Metrics) -> None:
        self._door = door
        self._metrics = metrics
        self._runner: web.AppRunner | None = None
        self.verbs: Verbs | None = None
        self.port = 0  # known once started; a wanted port 0 means any free one

    async def start(self) -> None:
        app = web.Application(middlewares=[self._let_in], client_max_size=LARGEST_BODY)
        app.router.add_post("/filter", self._filter)
        app.router.add_post("/prioritize", self._prioritize)
        app.router.add_post("/preempt", self._preempt)
        app.router.add_post("/bind", self._bind)
        self._runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=KEPT_SECONDS, shutdown_timeout=GRACE_SECONDS
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._door.host, self._door.port, ssl_context=self._door.tls())
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        log.info("the extender listens on %s:%d", self._door.host, self.port)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    # -- the verbs -----------------------------------------------------------------------------------------------

    async def _filter(self, request: web.Request) -> web.Response:
        return await self._answer(
            request,
            ExtenderArgs,
            lambda verbs, asked: verbs.filter(asked),
            lambda why: ExtenderFilterResult(error=why),
        )

    async def _prioritize(self, request: web.Request) -> web.Response:
        # There is no place for a word of why, and a score less is no harm.
        nothing: list[HostPriority] = []
        return await self._answer(
            request, ExtenderArgs, lambda verbs, asked: verbs.prioritize(asked), lambda _: nothing
        )

    async def _preempt(self, request: web.Request) -> web.Response:
        # Nor is there here: nobody is preempted.
        return await self._answer(
            request,
            ExtenderPreemptionArgs,
            lambda verbs, asked: verbs.preempt(asked),
            lambda _: ExtenderPreemptionResult(),
        )

    async def _bind(self, request: web.Request) -> web.Response:
        return await self._answer(
            request,
            ExtenderBindingArgs,
            lambda verbs, asked: verbs.bind(asked),
            lambda why: ExtenderBindingResult(error=why),
        )

    # -- around them ---------------------------------------------------------------------------------------------

    @web.middleware
    async def _let_in(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not self._door.admits(request.headers.get("Authorization", "")):
            self._metrics.extender_requests.labels(_verb(request), "unauthorized").inc()
            return _says(401, "the secret is missing or wrong; it belongs into urlPrefix, as a password")
        return await handler(request)

    async def _answer(
        self,
        request: web.Request,
        kind: type[Q],
        answer: Callable[[Verbs, Q], Awaitable[object]],
        sorry: Callable[[str], object],
    ) -> web.Response:
        verb, began, outcome = _verb(request), time.monotonic(), "answered"
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
            asked = read(body, kind)
        except Unreadable as error:
            self._metrics.extender_requests.labels(verb, "unreadable").inc()
            return _says(400, f"the body is not what kube-scheduler sends to {request.path}: {error}")
        except TimeoutError:
            self._metrics.extender_requests.labels(verb, "unreadable").inc()
            return _says(408, f"the body did not come within {BODY_SECONDS:g} s")
        said: object
        try:
            if self.verbs is None:
                outcome, said = "not-leading", sorry(NOT_LEADING)
            else:
                said = await answer(self.verbs, asked)
        except LeadershipLost:
            outcome, said = "not-leading", sorry(NOT_LEADING)
        except Exception:
            log.exception("extender: %s failed", verb)
            outcome, said = "failed", sorry(MISTAKE)
        self._metrics.extender_requests.labels(verb, outcome).inc()
        self._metrics.extender_seconds.labels(verb).observe(time.monotonic() - began)
        return web.Response(body=msgspec.json.encode(said), content_type="application/json")


def _verb(request: web.Request) -> str:
    """The metric's label: not whatever somebody writes into a path."""
    known = ("/filter", "/prioritize", "/preempt", "/bind")
    return request.path[1:] if request.path in known else "other"


def _says(status: int, sentence: str) -> web.Response:
    return web.Response(status=status, text=f"{sentence}\n")
