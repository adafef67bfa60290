"""Sizing elastic gangs, one decision at a time.

Every second: read what hands have done to targets, make room for gangs that wait where that suffices, else let gangs
grow into capacity that stays idle, else move members where they are worth more. Each decision is made on the books as
they are and takes what it gives at once, before anything is written, like every placement. So a growing gang can no
more race with another one's bind than two binds can.

Order and limits come from elsewhere and meet here: who waits, and in which order, is the queue's (`waiting_for_room`);
how far a gang may go is in `_floor` and `_ceiling`. Quotas and fair shares belong into these.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Container, Sequence

from alnair.api.allocation import GROWTH
from alnair.api.config import Elastic as Settings
from alnair.control.asking import Question, sample
from alnair.control.elastic import sizing as words
from alnair.control.elastic.carrying import Carrier, Change
from alnair.control.elastic.hope import Hope, worth_exchanging
from alnair.control.elastic.members import Sized, still_shrinking, take_out
from alnair.control.elastic.overseer import Overseer
from alnair.control.elastic.seats import Seats
from alnair.control.elastic.turns import Turns
from alnair.control.gangs import Gang, Roster
from alnair.control.loop import Loop
from alnair.control.metrics import Metrics
from alnair.control.profiles import Profiles
from alnair.control.reports import Reports
from alnair.kube import Client
from alnair.kube.clock import Clock
from alnair.ledger import places
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import Member
from alnair.scheduling import search
from alnair.scheduling.elastic.allocator import allocate
from alnair.scheduling.guard import RuleFailed
from alnair.scheduling.words import count
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.holding import Holding
from alnair.state.pods import Pod

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
MOST_TRIED = 16  # waiting gangs that there is hope for, in one go
MOST_LOOKS = 64  # at the room, for one allocation
FEW_LOOKS = 24  # where members leave as well, which costs more to try out
AT_ONCE = 32  # members that a gang grows by; the next look gives it more
FEW = 16  # members that leave: so many are tried first
MOST_SPARED = 16  # members that are tried to be left after all


class Elastic:
    def __init__(
        self,
        client: Client,
        *,
        state: ClusterState,
        ledger: Ledger,
        roster: Roster,
        loop: Loop,
        profiles: Profiles,
        reports: Reports,
        metrics: Metrics,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._loop = loop
        self._profiles = profiles
        self._metrics = metrics
        self._clock = clock
        self._carrier = Carrier(
            client, ledger=ledger, reports=reports, metrics=metrics, clock=clock, settings=settings
        )
        self._overseer = Overseer(
            self._carrier,
            state=state,
            ledger=ledger,
            roster=roster,
            asker=loop.asker,
            reports=reports,
            clock=clock,
            settings=settings,
        )
        self._hope = Hope(state=state, asker=loop.asker, profiles=profiles, promises=loop.promises)
        self._changes: deque[float] = deque()  # when
        self._turns = Turns()
        self._idle_since: float | None = None  # something fits, ever since
        self._balanced_at = words.LONG_AGO
        self.adopt(settings)

    def adopt(self, settings: Settings) -> None:
        self._settings = self._carrier.settings = self._overseer.settings = settings
        self._loop.place_seconds = settings.place_seconds

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                with self._metrics.sizing_seconds.time():
                    self.look()
            except RuleFailed as failure:
                log.warning("elastic gangs are not sized for now: %s", failure)  # the loop stands it down
            except Exception:
                log.exception("elastic gangs could not be sized")

    def look(self) -> None:
        """Decide what there is to decide now, and say why the rest is as it is."""
        sized = self._overseer.gangs()
        self._turns.forget_who_left()
        if sized and not self._spent():
            self._decide(sized)
        self._overseer.report()

    def _decide(self, sized: Sequence[Sized]) -> None:
        able = [(each, ceiling) for each in sized if (ceiling := self._ceiling(each)) > each.size]
        waits = self._help_who_waits(sized)
        if waits is not None:
            self._idle_since = None
            for each, _ in able:
                if not each.sizing.changing:
                    each.sizing.say(words.OTHERS_WAIT, f"{called(waits, each)} waits for room")
        elif not self._grow(able):
            self._balance(sized)

    # -- limits --------------------------------------------------------------------------------------------------

    def _floor(self, each: Sized) -> int:
        """The fewest members that it may be left with now."""
        now = self._clock.now()
        fixed = each.sizing.held_by_hand(now) or not each.sizing.may_shrink(now, self._settings)
        return each.size if fixed else each.elastic.min

    def _ceiling(self, each: Sized) -> int:
        """The most members that it may be given now."""
        now = self._clock.now()
        if each.sizing.held_by_hand(now):
            each.sizing.say_by_hand()
            return each.size
        if each.size >= each.elastic.max:
            each.sizing.say(words.AT_MAX, f"it has all that it may have: elastic.max is {each.elastic.max}")
        elif now < each.sizing.retry_after:
            return each.size
        elif not each.sizing.may_grow(now, self._settings):
            until = each.sizing.may_change_stamp
            each.sizing.say(words.TOO_SOON, f"it shrank a moment ago; it may grow from {until} on")
            return each.size
        return each.elastic.max

    def _spent(self) -> bool:
        """So many changes were made within a minute that no more are, for now."""
        now = self._clock.now()
        while self._changes and now - self._changes[0] > 60.0:
            self._changes.popleft()
        return len(self._changes) >= self._settings.changes_per_minute

    # -- who waits -----------------------------------------------------------------------------------------------

    def _help_who_waits(self, sized: Sequence[Sized]) -> Gang | None:
        """Who waits and fits, now or later, where members of others leave: then nobody grows."""
        every = self._leavers(sized, at_once=False)
        if not every:
            return None
        made_to = self._loop.promises.made_to
        waiting = [gang for gang in self._loop.waiting_for_room() if not made_to(gang)]
        due = self._turns.due(waiting, (self._state.version, len(every)))
        answers = self._hope.to_be_helped(due, every, again=self._turns.hopes) if due else {}
        self._turns.answered(answers)
        hopeful = [gang for gang in waiting if self._turns.hopes(gang)]
        for gang in hopeful[:MOST_TRIED]:
            if (question := answers.get(gang)) is None:
                return gang  # the next look asks about it, and whoever is behind it has to wait for that
            if self._room_by(gang, question, every) is None:
                self._turns.in_vain(gang)  # others must not shrink in vain
                continue
            leavers = self._leavers(sized, at_once=True)
            if (found := self._fewest(gang, question, leavers)) is not None:
                leaving, placements = found
                if leaving:
                    self._shrink(leaving, "fits by it", who=gang)
                    self._loop.promises.make(gang, placements, still_shrinking(leaving, self._state))
                else:
                    self._loop.touch(gang)  # it fits as it is
            return gang
        return None

    def _leavers(self, sized: Sequence[Sized], *, at_once: bool) -> list[tuple[Sized, Member]]:
        """Members beyond the least, in the order of what they are worth. `at_once`: those that may go now."""
        ranked: list[tuple[float, int, int, Sized, Member]] = []
        for number, each in enumerate(sized):
            if each.record.live() != each.size:
                continue  # some are on their way, and nobody knows who would leave
            by_hand = each.sizing.held_by_hand(self._clock.now())  # for longer than anybody should wait
            floor = self._floor(each) if at_once or by_hand else each.elastic.min
            for left, member in enumerate(each.leaving()[: each.size - floor]):
                ranked.append((each.loss(each.size - left), left, number, each, member))
        return [(each, member) for _, _, _, each, member in sorted(ranked, key=lambda entry: entry[:3])]

    def _fewest(
        self, gang: Gang, question: Question, leavers: list[tuple[Sized, Member]]
    ) -> tuple[list[tuple[Sized, Member]], list[tuple[Pod, Holding]]] | None:
        """Who has to leave so that the gang fits: as few of these as it takes, those worth least."""
        low, high = 0, min(FEW, len(leavers))
        while (found := self._room_by(gang, question, leavers[:high])) is None:
            if high == len(leavers):
                return None
            low, high = high, min(4 * high, len(leavers))
        # With `high` of them it fits, with `low` it does not.
        while high - low > 1:
            middle = (low + high) // 2
            placements = self._room_by(gang, question, leavers[:middle])
            low, high, found = (low, middle, placements) if placements is not None else (middle, high, found)
        chosen = leavers[:high]
        near = _near(chosen, {holding.node for _, holding in found})
        if len(near) < len(chosen) and (placements := self._room_by(gang, question, near)) is not None:
            chosen, found = near, placements
        for candidate in list(reversed(chosen))[:MOST_SPARED]:
            if any(
                other is candidate[0] and member is not candidate[1]
                for other, member in _after(chosen, candidate)
            ):
                continue  # a StatefulSet's member leaves only after those behind it
            fewer = [each for each in chosen if each is not candidate]
            placements = self._room_by(gang, question, fewer)
            if placements is not None:
                chosen, found = fewer, placements
        return chosen, found

    def _room_by(
        self, gang: Gang, question: Question, leavers: Sequence[tuple[Sized, Member]]
    ) -> list[tuple[Pod, Holding]] | None:
        """Where the gang would go if these had left; None if it still does not fit."""
        with self._state.draft() as draft:
            self._loop.promises.keep(draft, gang)
            for _, member in leavers:
                take_out(member, self._state, draft)
            pods = question.waiting[: question.missing] if gang.elastic is not None else question.waiting
            asked = self._loop.asker.searched(gang, question, pods)
            verdict = search.place(asked, self._profiles[gang.scheduler], draft)
        if not isinstance(verdict, search.Plan):
            return None
        return [(gang.pods[member.uid], holding) for member, holding in verdict.placements]

    def _shrink(
        self, leaving: Sequence[tuple[Sized, Member]], because: str, *, who: Gang | None = None
    ) -> None:
        """`who`: the gang that the reason is told of."""
        by_gang: dict[Sized, list[Member]] = {}
        for each, member in leaving:
            by_gang.setdefault(each, []).append(member)
        for each, members in by_gang.items():
            why = f"{called(who, each)} {because}" if who is not None else because
            each.sizing.say(words.SHRINKING, f"it gives {count(len(members), 'member')} up: {why}")
            self._change(each, Change(each.size - len(members), why, leaving=members))

    # -- idle capacity -------------------------------------------------------------------------------------------

    def _grow(self, able: Sequence[tuple[Sized, int]]) -> bool:
        """Whether there is anything to grow into, for these gangs with the most that each may have."""
        able = self._hope.to_grow(able)
        if not able:
            self._idle_since = None
            return False
        gangs = [each for each, _ in able]
        jobs = [
            each.job(floor=each.size, ceiling=min(ceiling, each.size + AT_ONCE)) for each, ceiling in able
        ]
        with self._state.draft() as draft:
            seats = self._seats(gangs, draft)
            allocation = allocate(jobs, seats, most_looks=MOST_LOOKS)
            growing = allocation.fits and seats.fits(allocation.sizes)
            places = [seats.places(at) if growing else [] for at in range(len(gangs))]
        for at, each in enumerate(gangs):
            if not places[at]:
                each.sizing.say(*self._why_not(each, seats.why.get(at)))
        if not any(places):
            self._idle_since = None
            return False
        now = self._clock.now()
        self._idle_since = now if self._idle_since is None else self._idle_since
        idle = now - self._idle_since
        for each, holdings in zip(gangs, places, strict=True):
            if not holdings or self._spent():
                continue
            if idle < self._settings.grow_after_seconds:
                wait = self._settings.grow_after_seconds
                each.sizing.say(words.TOO_SOON, f"room for more has to stay idle for {wait:g} s first")
                continue
            self._grow_by(each, holdings)
        return True

    def _why_not(self, each: Sized, refusal: str | None) -> tuple[str, str]:
        if refusal is not None:
            return words.NO_ROOM, f"one more member finds no place: {refusal}"
        if each.curve.gain(each.size) <= 0:
            return words.NO_GAIN, "more members would not make it faster, as far as is known"
        return words.NO_ROOM, "what is free is worth more to other gangs"

    def _grow_by(self, each: Sized, holdings: list[Holding]) -> None:
        until = self._clock.stamp(after=self._settings.place_seconds)
        taken = places.reserve(
            self._ledger, each.record, holdings, pod=sample(each.gang), reason=GROWTH, until=until
        )
        each.sizing.say(words.GROWING, f"{count(len(taken), 'member')} on the way")
        self._change(each, Change(each.size + len(taken), "capacity stays idle", places=taken))

    def _seats(self, gangs: Sequence[Sized], draft: Draft) -> Seats:
        self._loop.promises.keep(draft)
        return Seats(gangs, asker=self._loop.asker, profiles=self._profiles, state=self._state, draft=draft)

    # -- between gangs -------------------------------------------------------------------------------------------

    def _balance(self, sized: Sequence[Sized]) -> None:
        """Members leave where they are worth less than they would be elsewhere, if that pays for the change. Who gains
        by it grows when they are gone."""
        now = self._clock.now()
        if len(sized) < 2 or now - self._balanced_at < self._settings.stabilization_seconds:
            return
        self._balanced_at = now
        able = [(each, ceiling) for each in sized if (ceiling := self._ceiling(each)) > each.size]
        spare = [(each, floor) for each in sized if (floor := self._floor(each)) < each.size]
        sized = worth_exchanging(able, spare)
        if not sized:
            return
        jobs = [
            each.job(
                floor=self._floor(each),
                ceiling=self._ceiling(each),
                change_cost=each.change_cost(self._settings),
            )
            for each in sized
        ]
        with self._state.draft() as draft:
            allocation = allocate(jobs, self._seats(sized, draft), most_looks=FEW_LOOKS)
        if not allocation.fits or not any(
            size > each.size for each, size in zip(sized, allocation.sizes, strict=True)
        ):
            return
        for each, size in zip(sized, allocation.sizes, strict=True):
            if size < each.size and not self._spent():
                leaving = each.leaving()[: each.size - size]
                self._shrink([(each, member) for member in leaving], "its members are worth more elsewhere")

    def _change(self, each: Sized, change: Change) -> None:
        self._changes.append(self._clock.now())
        self._overseer.start(each.gang, each.elastic, each.sizing, each.record, change)


def called(gang: Gang, by: Sized) -> str:
    """What it is called where tenants of the other gang's namespace read it."""
    return str(gang) if gang.key[0] == by.gang.key[0] else "a gang of another namespace"


def _near(chosen: Sequence[tuple[Sized, Member]], nodes: Container[str]) -> list[tuple[Sized, Member]]:
    """Those on these nodes, and those of their gangs who leave before them."""
    last = {each: at for at, (each, member) in enumerate(chosen) if member.holding.node in nodes}
    return [(each, member) for at, (each, member) in enumerate(chosen) if at <= last.get(each, -1)]


def _after(
    chosen: Sequence[tuple[Sized, Member]], one: tuple[Sized, Member]
) -> Sequence[tuple[Sized, Member]]:
    return chosen[chosen.index(one) + 1 :]
