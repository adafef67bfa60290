"""One run: a scenario in a namespace of its own, faults at its calls, and what came of it.

    the nodes are there, one operator leads, another stands by
    the steps, each waiting for its own; the faults meet the calls as these go by
    at rest: what the scenario says is bound, the records say the same, nobody writes any more
    everybody leaves; no record stays

What did not come within the patience is a failure of the run, and so is whatever the checker found about it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from chaos.calls import BINDING, Call
from chaos.court import Court
from chaos.faults import Fault, History
from chaos.meddling import meddle
from chaos.proxy import BROKEN, Forward
from chaos.replica import Replica
from chaos.scenario import During
from chaos.scenarios import SCENARIOS
from chaos.slot import REPLICAS, Slot
from chaos.stage import PATIENCE_SECONDS, Stage
from chaos.wire import Answer, refusal
from harness.api import NotInTime, Refused
from witness.findings import Finding
from witness.stations import Station

CALM_SECONDS: Final = 1.5
SILENT_SECONDS: Final = 1.0
"""At rest, nothing is written for so long, and nobody may begin."""
HEARING_SECONDS: Final = 1.0
"""Until an operator has heard of what others did, and has written what it has to say of it."""
REPORTS: Final = ("podgroups/status", "pods/status")
REPEATED_SECONDS: Final = 6.0
"""What an operator says of a gang, and is not heard, it says again five seconds later: a write to come."""
FORBIDDEN: Final = 403
ITSELF: Final = "the run itself failed"
"""How a finding begins that is about the harness, and not about an operator."""


@dataclass(slots=True)
class Outcome:
    history: History
    calls: int
    """Counted ones, in all."""
    met: list[Fault]
    """The faults whose call came, and that did something to it."""
    findings: list[Finding]
    recoveries: list[float] = field(default_factory=list)
    """Seconds from each kill or pause to the next bind or word of the ledger's; where nothing was left to do, to the
    next leader."""
    told: list[str] = field(default_factory=list)
    """The calls by number, with the replica that made each; of a run that failed, then what etcd says of it."""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return bool(self.findings)


class Run:
    def __init__(self, slot: Slot, history: History, court: Court) -> None:
        self.slot = slot
        self.history = history
        self.scenario = SCENARIOS[history.scenario]
        self.namespace = slot.namespace()
        self.pool = slot.pool(self.scenario)
        self.stations: list[Station] = list(self.scenario.settled(self.pool))
        self.stage = Stage(self)
        self.calls = 0
        self.told: list[str] = []
        self.last_call = 0.0
        self._under_way = 0
        self._calm_from = 0.0
        self.version = ""
        self.durings: list[During] = []
        self.happened = asyncio.Event()
        """A `During` has had its call, and its steps are done."""
        self.refused: dict[str, int] = {}
        """Pod -> how many of its Bindings more are refused."""
        self.ending = False
        self._court = court
        self._now = {station.name: station for station in self.stations}
        self._due = {fault.at: fault for fault in history.faults}
        self._met: list[Fault] = []
        self._struck: tuple[Replica, float] | None = None
        self._recoveries: list[float] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._vital: set[asyncio.Task[Any]] = set()
        self._wrong: list[str] = []

    async def carry_out(self) -> Outcome:
        began = time.monotonic()
        slot = self.slot
        try:
            _, wrong, _ = await asyncio.gather(slot.furnish(self.scenario), slot.ready(), self._settle_in())
            self._wrong += wrong
            self._court.trail.keep(self.namespace)
            slot.guest = self
            self.last_call = time.monotonic()
            for step in self.scenario.steps:
                await self.stage.do(step)
            await self._recovered()
            await self._silent()
            self.ending = True
            await self.stage.clear()
            await self._recovered()
        except (NotInTime, TimeoutError) as late:
            self._wrong.append(f"does not converge: {late!s:.3000}")
        except (Refused, aiohttp.ClientError) as problem:
            self._wrong.append(f"{ITSELF}: {problem!r}")
        finally:
            slot.guest = None
            for task in self._tasks - self._vital:
                task.cancel()
            for result in await asyncio.gather(*self._tasks, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(result, BROKEN):
                    self._wrong.append(f"{ITSELF}: {result!r}")
        self._wrong += await slot.bury()
        findings = await self._court.verdict(self.namespace, self.pool, self._wrong)
        trail = self._court.trail.take(self.namespace)
        if findings:
            self.told += trail
            self.told += [f"the door of {each.name} {await each.door.state()}" for each in slot.replicas]
            await slot.start_anew()
        return Outcome(
            self.history,
            self.calls,
            self._met,
            findings,
            self._recoveries,
            self.told,
            time.monotonic() - began,
        )

    async def _settle_in(self) -> None:
        api = self.slot.api
        made = await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        await self.slot.hands.call("POST", account, {"metadata": {"name": "default"}})
        self.version = made["metadata"]["resourceVersion"]

    # -- calls ---------------------------------------------------------------------------------------------------

    async def meet(self, replica: Replica, call: Call, forward: Forward) -> Answer | None:
        if not self._concerns(call):
            return await forward()
        self._under_way += 1
        try:
            return await self._meet(replica, call, forward)
        finally:
            self._under_way -= 1

    async def _meet(self, replica: Replica, call: Call, forward: Forward) -> Answer | None:
        self.calls += 1
        number = self.calls
        self.last_call = time.monotonic()
        line = f"{number} {replica.name}: {call}"
        self.told.append(line)
        admitted = self._admit(call, forward)
        await self._during(call)
        fault = self._due.pop(number, None)
        answer: Answer | None = None
        try:
            if fault is not None:
                self._met.append(fault)
                answer = await meddle(self, replica, fault, admitted)
            else:
                answer = await admitted()
        finally:  # the apiserver may be away
            said = answer.status if answer is not None else "no answer"
            self.told[number - 1] = f"{line} -> {said}" + (f"  [{fault.word}]" if fault else "")
            self.last_call = time.monotonic()
            if call.resource in REPORTS and (answer is None or not answer.good):
                self.disturb(REPEATED_SECONDS)
        if answer is not None and answer.good and call.places:
            self._served(replica)
        return answer

    def _concerns(self, call: Call) -> bool:
        """Only what it writes about this run has a number: other runs' nodes are seen by all operators."""
        return call.counted and (
            call.namespace == self.namespace if call.namespace else call.name in self._now
        )

    def _admit(self, call: Call, forward: Forward) -> Forward:
        if call.resource == BINDING and self.refused.get(call.name, 0) > 0:
            self.refused[call.name] -= 1

            async def refuse() -> Answer:
                return refusal(FORBIDDEN)

            return refuse
        return forward

    async def _during(self, call: Call) -> None:
        for during in list(self.durings):
            if during.resource == call.resource and during.name in (call.name, call.owner):
                self.durings.remove(during)
                for step in during.steps:
                    await self.stage.do(step)
                self.happened.set()

    # -- what faults do to the run

    def spared(self, fault: Fault) -> None:
        """Its call came, and there was nothing for it to do."""
        self._met.remove(fault)

    def struck(self, replica: Replica) -> None:
        """It is dead, or as good as that."""
        self._struck = (replica, time.monotonic())
        more = any(fault.word.startswith(("kill", "pause")) for fault in self._due.values())
        if more or not self.slot.has_another(replica):
            self.spawn(self.slot.start_one())

    def _served(self, replica: Replica) -> None:
        if self._struck is not None and replica is not self._struck[0]:
            self._recoveries.append(time.monotonic() - self._struck[1])
            self._struck = None
            self._refill()

    async def _recovered(self) -> None:
        """Where nothing was left to do, it is enough that somebody leads."""
        if self._struck is not None:
            replica, at = self._struck
            successor = await self.slot.successor(replica)
            self._struck = None
            self._recoveries.append(max(0.0, successor.led_at - at))
            self._refill()

    def _refill(self) -> None:
        """The next run needs a stand-by: it comes up while this one waits for silence."""
        if sum(each.running and not each.may_end for each in self.slot.replicas) < REPLICAS:
            self.spawn(self.slot.start_one())

    async def befall(self, name: str, after: Station) -> None:
        before, self._now[name] = self._now[name], after
        await self.slot.hands.befall(before, after)

    def mend(self, seconds: float, deed: Callable[[], Awaitable[None]]) -> None:
        async def later() -> None:
            await asyncio.sleep(seconds)
            await deed()
            self.disturb(HEARING_SECONDS)

        self.spawn(later())

    def spawn(self, work: Coroutine[Any, Any, Any], *, vital: bool = False) -> None:
        """`vital`: others need what it does; the run does not end before it has."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        if vital:
            self._vital.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._tasks.discard(task)
            self._vital.discard(task)

    def unsettled(self) -> bool:
        """Something that a fault took away has not come back yet, be it the leader."""
        return self.slot.leader() is None or any(not task.done() for task in self._tasks)

    @property
    def quiet(self) -> float:
        """Seconds since anybody wrote anything, or came to lead, or could hear again what there is. A call that is held
        up is a write to come."""
        if self._under_way:
            return 0.0
        leader = self.slot.leader()
        led = leader.led_at if leader is not None else 0.0
        return time.monotonic() - max(self.last_call, led, self._calm_from)

    def disturb(self, seconds: float) -> None:
        """For so long an operator may not have heard of everything: what it writes then is no restlessness."""
        self._calm_from = max(self._calm_from, time.monotonic() + seconds)

    async def _silent(self) -> None:
        """A busy machine is given a moment more than between two steps, before silence is insisted on."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (left := CALM_SECONDS - self.quiet) > 0:
            if time.monotonic() > deadline:
                raise NotInTime(f"{self.namespace} is never quiet; last was {self.told[-3:]}")
            await asyncio.sleep(left)
        await self._court.rests(self.namespace)
        await asyncio.sleep(SILENT_SECONDS)
        await self._court.stirs(self.namespace)
