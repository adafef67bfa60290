"""What third parties do around a placement: before anything is written, before a Binding, after it.

A rule that says no raises `Veto`, and its text is told to people. A rule that fails or takes too long is broken, and
its profile's fallback, which has no such rules, stands in: the placement goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from alnair.control.profiles import Profiles
from alnair.ledger.records import Member
from alnair.ledger.together import together
from alnair.scheduling.guard import Guarded
from alnair.scheduling.plugins.interface import Placement, Veto
from alnair.state.holding import Holding
from alnair.state.pods import Pod

WAIT_SECONDS = 30.0  # for one rule and one pod

Planned = Sequence[tuple[Pod, Holding]]


@dataclass(frozen=True, slots=True)
class Reservation:
    """The rules that said yes to a plan. They are told if it comes to nothing, they and nobody else, whoever stands in
    for their profile by then."""

    scheduler: str = ""
    rules: tuple[Guarded, ...] = ()


class Hooks:
    """By schedulerName, as the profiles stand now."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    def reserve(self, scheduler: str, planned: Planned) -> Reservation | str:
        """Or why one of the rules says no. Those that were asked before it are told then."""
        asked: list[Guarded] = []
        rules = self._rules(scheduler, "reserve")
        placements = _placements(planned) if rules else ()
        for rule in rules:
            try:
                with self._watched(scheduler, rule, "reserve"):
                    rule.ask(partial(rule.rule.reserve, placements))
                    asked.append(rule)
            except Veto as veto:
                self.unreserve(Reservation(scheduler, tuple(asked)), planned)
                return _told(rule, veto)
        return Reservation(scheduler, tuple(asked))

    def unreserve(self, reservation: Reservation, planned: Planned) -> None:
        """It came to nothing for these."""
        if not planned or not reservation.rules:
            return
        placements = _placements(planned)
        for rule in reservation.rules:
            with self._watched(reservation.scheduler, rule, "unreserve", may_refuse=False):
                rule.ask(partial(rule.rule.unreserve, placements))

    async def before_bind(self, scheduler: str, namespace: str, members: Sequence[Member]) -> dict[str, str]:
        """Those that must not be bound where they are to be: UID -> why."""
        if not self._rules(scheduler, "pre_bind"):
            return {}
        whys = await together(self._veto(scheduler, namespace, member) for member in members)
        return {member.uid: why for member, why in zip(members, whys, strict=True) if why}

    async def _veto(self, scheduler: str, namespace: str, member: Member) -> str:
        for rule in self._rules(scheduler, "pre_bind"):
            place = _placement(namespace, member.name, member.uid, member.holding)
            try:
                with self._watched(scheduler, rule, "pre_bind"):
                    await _in_time(rule, partial(rule.rule.pre_bind, place))
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
                await _in_time(rule, partial(rule.rule.post_bind, place))

    def _rules(self, scheduler: str, point: str) -> Sequence[Guarded]:
        profile = self._profiles.get(scheduler)
        return () if profile is None else getattr(profile, point)

    @contextmanager
    def _watched(
        self, scheduler: str, rule: Guarded, point: str, *, may_refuse: bool = True
    ) -> Iterator[None]:
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:
            if isinstance(error, Veto) and may_refuse:
                raise
            failure = rule.failed(point, error)
            failure.__cause__ = error
            self._profiles.failed(scheduler, failure)


class Forsaken(Exception):
    """Somebody else's code gave up waiting for work of its own that was cancelled."""


async def _in_time(rule: Guarded, begin: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await _Stepwise(rule, begin)
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise  # it is us who are stopped
        raise Forsaken("what it waited for was cancelled") from error


class _Stepwise:
    """Awaits the rule's work, each step of it in the time that there is: between two steps it may wait, but within one
    nobody else gets a turn."""

    def __init__(self, rule: Guarded, begin: Callable[[], Awaitable[None]]) -> None:
        self._rule = rule
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._rule.ask(lambda: self._begin().__await__())
        step: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                waits_for = self._rule.ask(step)
            except StopIteration:
                return
            try:
                yield waits_for
                step = partial(next, steps)
            except BaseException as error:  # noqa: BLE001 - cancelled while it waits: the rule is to hear of it
                step = partial(steps.throw, error)


def _told(rule: Guarded, veto: Veto) -> str:
    return f"{rule.name}: {veto}"[:500]


def _placement(namespace: str, pod: str, uid: str, holding: Holding) -> Placement:
    return Placement(namespace, pod, uid, holding.node, tuple(holding.cards))


def _placements(planned: Planned) -> tuple[Placement, ...]:
    return tuple(_placement(pod.namespace, pod.name, pod.uid, holding) for pod, holding in planned)
