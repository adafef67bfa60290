"""Events (events.k8s.io/v1) for people: each told once, not once a retry.

An event that says again what was said of the same object a few minutes ago is swallowed. Writing never blocks
scheduling: events wait in a bounded queue, and when it is full they are dropped and counted, for they are news, not
records.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass
from datetime import datetime

from alnair.api.text import one_line
from alnair.control.metrics import Metrics
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.clock import Clock, micro_stamp
from alnair.kube.lull import Lull

log = logging.getLogger(__name__)

MEMORY_SECONDS = 300.0  # at least; twice as long at most
MOST_REMEMBERED = 20_000  # and as many of the minutes before
MOST_WAITING = 20_000
WRITERS = 4
LONGEST_NOTE = 1024  # bytes, as the apiserver counts them
CONTROLLER = "alnair"


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    """What was said, and when: by the calendar, for people, and by the clock, for how long it has waited."""

    about: Regarding
    reason: str
    note: str
    action: str
    warning: bool
    at: datetime
    since: float

    @property
    def namespace(self) -> str:
        return self.about.namespace or "default"

    def manifest(self, identity: str) -> dict[str, object]:
        about = self.about
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name[:200].rstrip('.-')}.{secrets.token_hex(8)}",
                "namespace": self.namespace,
            },
            "eventTime": micro_stamp(self.at),
            "reportingController": CONTROLLER,
            "reportingInstance": identity,
            "action": self.action,
            "reason": self.reason,
            "note": self.note,
            "type": "Warning" if self.warning else "Normal",
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "uid": about.uid,
                **({"namespace": about.namespace} if about.namespace else {}),
            },
        }


class Events:
    """`say` from anywhere; `run` as a task while leading."""

    def __init__(self, client: Client, *, clock: Clock, metrics: Metrics, identity: str, lull: Lull) -> None:
        self._client = client
        self._clock = clock
        self._metrics = metrics
        self._identity = identity[:128]
        self._lull = lull
        self._queue: asyncio.Queue[_Told] = asyncio.Queue(MOST_WAITING)
        # Hashes of what was said: the words of some minutes are megabytes where thousands of pods come and go.
        self._said: set[int] = set()
        self._said_before: set[int] = set()
        self._period = 0

    def say(self, about: Regarding, *, reason: str, note: str, action: str, warning: bool = False) -> None:
        note = shortened(note)
        if self._repeats(about.uid, reason, note):
            return
        told = _Told(about, reason, note, action, warning, self._clock.wall(), self._clock.now())
        try:
            self._queue.put_nowait(told)
        except asyncio.QueueFull:
            self._metrics.events_dropped.inc()

    async def run(self) -> None:
        await asyncio.gather(*(self._write() for _ in range(WRITERS)))

    @property
    def remembered(self) -> int:
        """How much of what was said is known still."""
        return len(self._said) + len(self._said_before)

    def _repeats(self, uid: str, reason: str, note: str) -> bool:
        self._forget()
        key = hash((uid, reason, note))
        if key in self._said or key in self._said_before:
            return True
        self._said.add(key)
        return False

    def _forget(self) -> None:
        """What was said before the last period, or before so much else."""
        period = int(self._clock.now() // MEMORY_SECONDS)
        if period != self._period or len(self._said) >= MOST_REMEMBERED:
            recent = self._said if period <= self._period + 1 else set()
            self._said, self._said_before, self._period = set(), recent, period

    async def _write(self) -> None:
        while True:
            told = await self._queue.get()
            event = told.manifest(self._identity)
            for pause in (0.2, 1.0, 5.0):
                try:
                    async with self._lull.errand(since=told.since):
                        path = f"/apis/events.k8s.io/v1/namespaces/{told.namespace}/events"
                        await self._client.create(path, event)
                    break
                except Refused as refused:
                    log.info("event not written: %s", refused)  # a namespace on its way out, most often
                    break
                except Unanswered:
                    await asyncio.sleep(pause)
            else:
                self._metrics.events_dropped.inc()


def shortened(note: str) -> str:
    """The note in one line, as far as the apiserver takes it, never cut within a character."""
    note = one_line(note)
    text = note.encode()
    if len(text) <= LONGEST_NOTE:
        return note
    return text[: LONGEST_NOTE - 3].decode(errors="ignore") + "…"
