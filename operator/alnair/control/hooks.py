"""What third parties do around a placement: before anything is written, before a Binding, after it.

A rule that says no raises `Veto`, and its text is told to people. A rule that fails or takes too long is broken, and
its profile's fallback, which has no such rules, stands in: the placement goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from alnair.control.profiles import Profiles
from alnair.ledger.records import Member
from alnair.scheduling.guard import Guarded
from alnair.scheduling.plugins.interface import Placement, Veto
from alnair.state.holding import Holding
from alnair.state.pods import Pod

WAIT_SECONDS = 30.0  # for one rule and one pod

Planned = Sequence[tuple[Pod, Holding]]


class Hooks:
    """By schedulerName, as the profiles stand now."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    def reserve(self, scheduler: str, planned: Planned) -> str:
        """Why one of the rules says no, empty if none does. Whoever was asked is told if another one refuses."""
        if not (rules := self._rules(scheduler, "reserve")):
            return ""
        placements = _placements(planned)
        for rule in rules:
            try:
                with self._watched(scheduler, rule, "reserve"):
                    rule.ask(partial(rule.rule.reserve, placements))
            except Veto as veto:
                self.unreserve(scheduler, planned)
                return _told(rule, veto)
        return ""

    def unreserve(self, scheduler: str, planned: Planned) -> None:
        """It came to nothing for these."""
        if not planned or not (rules := self._rules(scheduler, "reserve")):
            return
        placements = _placements(planned)
        for rule in rules:
            with self._watched(scheduler, rule, "unreserve", may_refuse=False):
                rule.ask(partial(rule.rule.unreserve, placements))

    async def before_bind(self, scheduler: str, namespace: str, member: Member) -> str:
        """Why the pod must not be bound there, empty if it may."""
        for rule in self._rules(scheduler, "pre_bind"):
            place = _placement(namespace, member.name, member.uid, member.holding)
            try:
                with self._watched(scheduler, rule, "pre_bind"):
                    await _in_time(rule.rule.pre_bind(place))
            except Veto as veto:
                return _told(rule, veto)
        return ""

    def told_after_bind(self, scheduler: str) -> bool:
        """Whether anybody wants to know."""
        return bool(self._rules(scheduler, "post_bind"))

    async def after_bind(self, scheduler: str, pod: Pod, holding: Holding) -> None:
        for rule in self._rules(scheduler, "post_bind"):
            place = _placement(pod.namespace, pod.name, pod.uid, holding)
            with self._watched(scheduler, rule, "post_bind", may_refuse=False):
                await _in_time(rule.rule.post_bind(place))

    def _rules(self, scheduler: str, point: str) -> Sequence[Guarded]:
        profile = self._profiles.get(scheduler)
        return () if profile is None else getattr(profile, point)

    @contextmanager
    def _watched(
        self, scheduler: str, rule: Guarded, point: str, *, may_refuse: bool = True
    ) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if isinstance(error, Veto) and may_refuse:
                raise
            failure = rule.failed(point, error)
            failure.__cause__ = error
            self._profiles.failed(scheduler, failure)


async def _in_time(work: Awaitable[None]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        await work


def _told(rule: Guarded, veto: Veto) -> str:
    return f"{rule.name}: {veto}"[:500]


def _placement(namespace: str, pod: str, uid: str, holding: Holding) -> Placement:
    return Placement(namespace, pod, uid, holding.node, tuple(holding.cards))


def _placements(planned: Planned) -> tuple[Placement, ...]:
    return tuple(_placement(pod.namespace, pod.name, pod.uid, holding) for pod, holding in planned)
