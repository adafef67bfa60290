"""From Kopf's thread to the loop that owns the state.

Kopf runs on an event loop and a thread of its own: it cancels every task that was started during its life when it
ends, and it ends on errors that we want to survive. A bind half-way is no task to be cancelled by accident.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")


class Handover(Generic[T]):
    """Calls meant for one object, made on its own loop, in order.

    Before the object is open for them they are dropped: a stand-by would hoard them, and whoever opens lists anyway.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self.target: T | None = None

    def call(self, function: Callable[Concatenate[T, P], Any], *args: P.args, **kwargs: P.kwargs) -> None:
        """From any thread. What the function raises is logged: one object's trouble stops nobody."""

        def work(target: T) -> None:
            try:
                function(target, *args, **kwargs)
            except Exception:
                log.exception("%s: an event could not be handled", self._name)

        try:
            self._loop.call_soon_threadsafe(self._do, work)
        except RuntimeError:
            log.debug("%s: the loop is closed, an event is dropped", self._name)

    def open(self, target: T) -> None:
        """On the loop: from now on calls reach the object. List what it is about after this, not before."""
        self.target = target

    def _do(self, work: Callable[[T], None]) -> None:
        if self.target is not None:
            work(self.target)
