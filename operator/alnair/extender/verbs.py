"""The four verbs of a leader: wire in, books and ledger, wire out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from alnair.api.config import Config
from alnair.control.gangs import Roster
from alnair.control.hooks import Hooks
from alnair.control.profiles import Profiles
from alnair.extender import waiting
from alnair.extender.binding import Bindings
from alnair.extender.questions import Questions
from alnair.extender.waiting import Waiting
from alnair.extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    filtered,
)
from alnair.kube import Client
from alnair.kube.clock import Clock
from alnair.ledger.ledger import Ledger
from alnair.scheduling.guard import RuleFailed
from alnair.state.cluster import ClusterState
from alnair.state.pods import Pod, PodReader

log = logging.getLogger(__name__)

T = TypeVar("T")

STRAYS_SECONDS = 60.0  # between looks for bound pods that no record knows


class Verbs:
    """For as long as a process leads; `run` beside it."""

    def __init__(
        self,
        config: Config,
        *,
        client: Client,
        state: ClusterState,
        ledger: Ledger,
        roster: Roster,
        profiles: Profiles,
        clock: Clock,
    ) -> None:
        self._profiles = profiles
        self._questions = Questions(
            state=state, ledger=ledger, roster=roster, profiles=profiles, terms=config.extender
        )
        self._bindings = Bindings(
            client=client, state=state, ledger=ledger, questions=self._questions, hooks=Hooks(profiles)
        )
        self._waiting = Waiting(client, state=state, questions=self._questions, clock=clock)
        self.adopt(config)

    def adopt(self, config: Config) -> None:
        """Another config from now on."""
        self._questions.terms = config.extender
        self._reader = PodReader(delivering=config.delivering())

    def concerns(self, pod: Pod) -> bool:
        """It is kube-scheduler's, and gets its cards here."""
        return self._questions.concerns(pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._again_and_again(self._tell_who_waits, waiting.ROUND_SECONDS))
            tasks.create_task(self._again_and_again(self._adopt_strays, STRAYS_SECONDS))

    async def _again_and_again(self, work: Callable[[], Awaitable[None]], pause: float) -> None:
        """Neither is worth the operator's life: what goes wrong is said, and tried again."""
        while True:
            try:
                await self._standing_in(work)
            except Exception:
                log.exception("extender: a round failed")
            await asyncio.sleep(pause)

    async def _tell_who_waits(self) -> None:
        await self._waiting.tell()

    async def _adopt_strays(self) -> None:
        self._bindings.adopt_strays()

    # -- the verbs -----------------------------------------------------------------------------------------------

    async def filter(self, asked: ExtenderArgs) -> ExtenderFilterResult:
        pod, nodes = self._reader.read(asked.pod), asked.names()
        await self._bindings.room()
        answer = await self._standing_in(lambda: self._questions.filter(pod, nodes))
        if answer.failed and len(answer.failed) + len(answer.for_good) == len(nodes):
            self._waiting.refused(pod)
        return filtered(asked, answer.failed, answer.for_good)

    async def prioritize(self, asked: ExtenderArgs) -> list[HostPriority]:
        pod, nodes = self._reader.read(asked.pod), asked.names()
        scores = await self._standing_in(lambda: self._questions.prioritize(pod, nodes))
        return [HostPriority(name, score) for name, score in scores.items()]

    async def preempt(self, asked: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        pod = self._reader.read(asked.pod)
        left = await self._standing_in(lambda: self._questions.preempt(pod, asked.victims()))
        return ExtenderPreemptionResult(left)

    async def bind(self, asked: ExtenderBindingArgs) -> ExtenderBindingResult:
        """Raises LeadershipLost."""
        why = await self._standing_in(lambda: self._bindings.bind(asked))
        return ExtenderBindingResult(error=why)

    async def _standing_in(self, answer: Callable[[], Awaitable[T]]) -> T:
        """Where a third party's rule breaks, the profile's fallback is asked the same."""
        try:
            return await answer()
        except RuleFailed as failure:
            self._profiles.failed(self._questions.profile_name, failure)
            return await answer()
