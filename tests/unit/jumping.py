"""A world without sockets and without waiting: an event loop whose time jumps, and a network whose troubles are dealt.

`JumpingLoop` never waits: when nobody has anything to do, its time is that of the next timer. Minutes of back-off pass
in no time, and two runs of one history are the same to the last call.

`Network` is what lies between clients and the store: each call takes `LATENCY` on its way there and back, and the
call of a given number meets its `Fate`: its answer is lost, it is refused, it is late (its sender has long stopped
waiting, or is dead, when it takes effect), or its sender dies with it. Above it is the real client, time-outs and all.
"""

from __future__ import annotations

import asyncio
import enum
import selectors
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import orjson
from kubernetes.client import Configuration

from alnair.kube import Client, Connection
from alnair.kube.clock import Clock
from alnair.kube.http import Answer
from unit.apiserver import Call, Manifest, Store, refusal, reply

LATENCY = 0.01
LATEST = 59.0  # the apiserver gives up on a request after a minute


class _Selector(selectors.SelectSelector):
    """Nothing ever comes from outside: to wait is to be later."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing will ever happen")
        self.passed += max(timeout, 0.0)
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._waits = _Selector()
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.passed


class LoopClock(Clock):
    """The time of the loop that is running, also for whoever asks the module `time`."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    monotonic = now

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now())


class Fate(enum.Enum):
    """What becomes of a call."""

    LOST = "never arrives; the sender sees its connection break"
    UNANSWERED = "takes effect, and the connection breaks before the answer"
    FORBIDDEN = "403"
    CONFLICT = "409, for no reason"
    BUSY = "429"
    FAILED = "500"
    LATE = "takes effect when its sender has stopped waiting"
    LATEST = "takes effect as late as an apiserver lets it"
    FATAL_BEFORE = "its sender dies, and it never arrives"
    FATAL_AFTER = "it takes effect, and its sender dies before the answer"
    FATAL_LATE = "its sender dies, and it takes effect much later"


DELAYS = {Fate.LATE: 12.0, Fate.LATEST: LATEST, Fate.FATAL_LATE: 20.0}
REFUSALS = {
    Fate.FORBIDDEN: (403, "Forbidden"),
    Fate.CONFLICT: (409, "Conflict"),
    Fate.BUSY: (429, "TooManyRequests"),
    Fate.FAILED: (500, "InternalError"),
}


class QuietStore(Store):
    """The store, asked by function call. Events are taken and forgotten; an evicted pod that is bound is told to go,
    as a kubelet would have to let it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def serve(self, call: Call) -> Answer:
        said = reply(201, call.body) if "/events" in call.path else self._serve(call)
        body = said.body
        assert isinstance(body, bytes)
        return Answer(said.status, body)

    def _evict(self, call: Call) -> Any:
        path = call.path.removesuffix("/eviction")
        pod = self.objects.get(path)
        if pod is None or not pod["spec"].get("nodeName"):
            return super()._evict(call)
        if stale := self._stale(pod, call.body.get("deleteOptions", {})):
            return stale
        if not pod["metadata"].get("deletionTimestamp"):
            self._keep(path, {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "now"}})
        return reply(201, {"kind": "Status", "status": "Success"})


class Network:
    """Every call passes here, in the order in which it was sent."""

    def __init__(self, store: QuietStore) -> None:
        self.store = store
        self.fates: dict[int, Fate] = {}  # number of a call -> what becomes of it
        self.meanwhile: dict[int, Callable[[Call], None]] = {}  # what happens just before a call takes effect
        self.number = 0  # of the next call that changes something; events aside
        self.writes: list[str] = []  # all that were sent, with their sender
        self.dead: set[str] = set()
        self.on_death: Callable[[str], None] = lambda sender: None

    def client(self, sender: str) -> Client:
        configuration = Configuration()
        configuration.host = "http://nowhere"
        client = Client(Connection(configuration))
        client._pool = _Line(self, sender)  # type: ignore[assignment]
        return client

    async def carry(self, sender: str, call: Call) -> Answer:
        if sender in self.dead:
            raise asyncio.CancelledError
        happens = self.meanwhile.pop(self.number, None) if _counts(call) else None
        fate = self._fate(call)
        if call.method != "GET":
            self.writes.append(f"{sender}: {call.name}{f' ({fate.name})' if fate else ''}")
        if fate in (Fate.FATAL_BEFORE, Fate.FATAL_LATE):
            if fate is Fate.FATAL_LATE:
                asyncio.get_running_loop().call_later(DELAYS[fate], self.store.serve, call)
            await self._die(sender)
        await asyncio.sleep(LATENCY)
        if happens is not None:
            happens(call)
        if fate in (Fate.LATE, Fate.LATEST):
            return await self._late(call, DELAYS[fate])
        if fate is Fate.LOST:
            raise ConnectionResetError("the call was lost")
        if fate in REFUSALS:
            status, reason = REFUSALS[fate]
            said = refusal(status, reason)
            assert isinstance(said.body, bytes)
            return Answer(said.status, said.body)
        answer = self.store.serve(call)
        if fate is Fate.UNANSWERED:
            raise ConnectionResetError("the answer was lost")
        if fate is Fate.FATAL_AFTER:
            await self._die(sender)
        await asyncio.sleep(LATENCY)
        return answer

    def _fate(self, call: Call) -> Fate | None:
        if not _counts(call):
            return None
        self.number += 1
        return self.fates.pop(self.number - 1, None)

    async def _late(self, call: Call, seconds: float) -> Answer:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()

        def land() -> None:
            said = self.store.serve(call)
            if not answer.done():
                answer.set_result(said)

        loop.call_later(seconds, land)
        return await answer

    async def _die(self, sender: str) -> None:
        self.dead.add(sender)
        self.on_death(sender)
        await asyncio.get_running_loop().create_future()


def _counts(call: Call) -> bool:
    return call.method != "GET" and "/events" not in call.path


class _Line:
    """What the client takes for its pool of connections."""

    def __init__(self, network: Network, sender: str) -> None:
        self._network = network
        self._sender = sender

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Answer:
        parsed: Manifest | None = orjson.loads(body) if body else None
        call = Call(method, path, dict(params or {}), dict(headers), parsed, None)  # type: ignore[arg-type]
        return await self._network.carry(self._sender, call)

    def close(self) -> None:
        return None
