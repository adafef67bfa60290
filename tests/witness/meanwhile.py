"""What goes on beside a run: the reading of the history, and the clock that it is told by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from harness.api import at
from witness.hands import Hands
from witness.plane import Plane

TICK_SECONDS: Final = 0.25
CLOCK: Final = "clock"
"""The Lease that the history's clock is told by."""


@asynccontextmanager
async def beside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[Callable[[], None]]:
    """These go on meanwhile; the function that is given raises what one of them raised."""
    tasks = [asyncio.create_task(work) for work in works]

    def check() -> None:
        for task in tasks:
            if task.done():
                task.result()

    try:
        yield check
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def tick(plane: Plane) -> None:
    """The history's clock: a Lease of our own, renewed a few times a second, each time after the last was answered."""
    hands = Hands(plane.api)
    namespace = plane.operator.release.namespace
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": CLOCK},
        "spec": {},
    }
    await hands.create(lease, namespace)
    while True:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await hands.call("PATCH", at("leases", namespace, CLOCK), {"spec": {"renewTime": now}})
        await asyncio.sleep(TICK_SECONDS)
