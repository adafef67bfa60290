"""The scheduling loop: which gang next, does it fit, carry it out.

Nothing is held while a gang waits: a plan that does not come off leaves no trace, so two gangs cannot block each other
with halves. A refused gang is tried again when something that it may have lacked changes (capacity came back, a node
changed, its own pods or group changed) and not before, and not on a timer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from alnair.api.allocation import GROWTH
from alnair.api.config import DEFAULT_TOPOLOGY, Elastic, Level
from alnair.control.asking import Asker, NotNow, Question, sample
from alnair.control.gangs import Gang, Roster
from alnair.control.hooks import Hooks, Reservation
from alnair.control.metrics import Metrics
from alnair.control.ponder import Solver
from alnair.control.profiles import Profiles
from alnair.control.promises import Promises
from alnair.control.queue import Queue
from alnair.control.reports import Reports
from alnair.kube.clock import Clock
from alnair.ledger import places, recovery
from alnair.ledger.binding import Verdict
from alnair.ledger.errors import CommitRefused, RecordMoved
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import Member as RecordMember
from alnair.ledger.records import Owner, Record
from alnair.ledger.writer import LANDING_SECONDS
from alnair.scheduling import exact, search
from alnair.scheduling.board import Boards
from alnair.scheduling.exact import Problem, Solution
from alnair.scheduling.guard import RuleFailed
from alnair.scheduling.vacancy import kept_together, match_vacancies
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.holding import Holding
from alnair.state.pods import Pod

log = logging.getLogger(__name__)

IN_FLIGHT = 64  # plans being carried out at once; the apiserver is the limit long before
BUSY = 4  # under way at once: everything that can wait waits
MOST_MORE = 256  # members beyond its pods that an elastic gang starts with; it grows by others later
SLOT_SECONDS = 5.0  # a plan that takes longer (a webhook that fails, say) no longer counts against that
PATIENCE = 3  # exact searches in a row whose answer came too late for the books
EXACT_SECONDS = 10.0  # for one gang; then it is undecided, and tried again later
HEARING_SECONDS, LOOK_SECONDS = 5.0, 0.02  # for a change that is there to come through the stream
MOST_CHANGES = 3  # of a lone pod between plan and bind; then it gets a record first
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 10.0, 300.0  # after the apiserver refused a record or a Binding


class Loop:
    """One per process, running while it leads."""

    def __init__(
        self,
        *,
        state: ClusterState,
        ledger: Ledger,
        roster: Roster,
        profiles: Profiles,
        levels: Sequence[Level] = DEFAULT_TOPOLOGY.levels,
        reports: Reports,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._roster = roster
        self._profiles = profiles
        self._hooks = Hooks(profiles)
        ledger.before_bind = self._hooks.before_bind
        self.asker = Asker(state=state, ledger=ledger, levels=levels)
        self._reports = reports
        self._metrics = metrics
        self._clock = clock
        self._boards = Boards()
        self._queue = Queue(state, profiles, clock)
        self.promises = Promises(state=state, clock=clock, before=self._queue.before)
        self._solver = Solver(EXACT_SECONDS)
        self._wake = asyncio.Event()
        self._in_flight: dict[Gang, asyncio.TimerHandle] = {}  # each with the end of its slot
        self.rested = (
            asyncio.Event()
        )  # everybody who was there at the beginning was tried, and what came of it is done
        self._off_duty: frozenset[str] = frozenset()  # profiles whose fallback stood in when we last looked
        self._alone: set[str] = set()  # UIDs of pods that are being bound without a record
        self.place_seconds = Elastic().place_seconds
        # A member of a whole gang went and another one came: whether the gang stops for that.
        self.on_return: Callable[[Gang, Record], bool] = lambda gang, record: False

    def wake(self) -> None:
        """Room may have come for somebody."""
        self._wake.set()

    def adopt(self, levels: Sequence[Level]) -> None:
        """The profiles or the levels are others now: everybody gets another chance."""
        self.asker.levels = levels
        for gang in list(self._roster.gangs.values()):
            gang.retry_after = 0.0  # who said no may be gone
            self.touch(gang)

    def notice_who_stands_in(self) -> None:
        """A profile went off duty, or is back: whoever was refused under the one gets a chance under the other."""
        off_duty = self._profiles.off_duty()
        changed, self._off_duty = off_duty ^ self._off_duty, off_duty
        if changed:
            for gang in list(self._roster.gangs.values()):
                if gang.pods and gang.scheduler in changed:
                    self.touch(gang)

    def touch(self, gang: Gang) -> None:
        """Something about this gang changed: try it."""
        self._queue.touch(gang)
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            # When too many are under way, whoever finishes wakes us.
            while len(self._in_flight) < IN_FLIGHT and (gang := self._queue.next()) is not None:
                self._try(gang)
                await asyncio.sleep(0)  # events first: the next gang is planned on what is known by then
            if not self._in_flight:
                self.rested.set()

    # -- one gang ------------------------------------------------------------------------------------------------

    def _try(self, gang: Gang, solution: Solution | None = None) -> None:
        """Plan one gang against the books as they are, and start to carry the plan out."""
        self._queue.forget(gang)
        try:
            self._plan(gang, solution)
        except RuleFailed as failure:
            self._profiles.failed(gang.scheduler, failure)
            self._reports.rule_failed(gang, str(failure))
            self.touch(gang)  # the fallback plans it
        except Exception:
            # One gang's surprise must not stop the others; it is tried again when something changes.
            log.exception("gang %s: planning failed", gang)
            self._metrics.plan_errors.inc()
            self.retry_later(gang, "Alnair failed to plan this gang; its log says why", reason="Failed")

    def _plan(self, gang: Gang, solution: Solution | None) -> None:
        if gang.scheduler not in self._profiles:
            return  # the profile was taken out of the config a moment ago
        question = self.asker.ask(gang, beside=self._alone)
        if isinstance(question, NotNow):
            if question.reason:
                self._refuse(gang, question.message, reason=question.reason)
            return
        if (
            question.whole
            and question.record is not None
            and gang.lost
            and self.on_return(gang, question.record)
        ):
            return  # it starts anew, or has failed
        if gang.ready_since is None:
            gang.ready_since = self._clock.now()
        with self._state.draft() as draft:
            self.promises.keep(draft, gang)
            placements, replaces = self._fill_vacancies(gang, question, draft)
            rest = [pod for pod in question.waiting if pod.uid not in replaces]
            if rest:
                asked = self.asker.searched(gang, question, rest, [holding.node for _, holding in placements])
                with self._metrics.plan_seconds.time():
                    verdict = self._search(gang, asked, draft, solution)
                if isinstance(verdict, search.Plan):
                    placements += [(gang.pods[member.uid], holding) for member, holding in verdict.placements]
                elif len(placements) < question.missing:
                    self._find_no_place(gang, asked, verdict, draft, solution)
                    return
            more = self._more_at_the_start(gang, question, placements, draft)
        reserved = self._hooks.reserve(gang.scheduler, placements)
        if isinstance(reserved, str):
            self.retry_later(gang, reserved, reason="ReserveRefused")
            return
        least = max(1, gang.min_member - question.outside)
        self._start(gang, placements, replaces, reserved, more, least=least)

    def _search(
        self, gang: Gang, asked: search.Gang, draft: Draft, solution: Solution | None
    ) -> search.Plan | search.Refusal | search.Unsure:
        """By greedy placement, or by what the exact search has found for the very same question."""
        profile = self._profiles[gang.scheduler]
        if solution is not None and solution.answers(asked, profile):
            return exact.conclude(solution, profile, draft)
        return search.place(asked, profile, draft, self._boards)

    def _more_at_the_start(
        self, gang: Gang, question: Question, placements: list[tuple[Pod, Holding]], draft: Draft
    ) -> list[Holding]:
        """Places for members that do not exist yet: an elastic gang starts with what is free, unless others wait."""
        if gang.elastic is None or question.record is not None or self._queue.others_wait(gang):
            return []  # who joins does not change what was decided on
        number = min(gang.elastic.max - question.placed - len(placements), MOST_MORE)
        if number <= 0:
            return []
        found = [holding.node for _, holding in placements]
        asked = self.asker.searched_more(gang, sample(gang), number, found)
        verdict = search.place(asked, self._profiles[gang.scheduler], draft)
        return [holding for _, holding in verdict.placements] if isinstance(verdict, search.Plan) else []

    def waiting_for_room(self) -> list[Gang]:
        """Gangs that were found not to fit, in their turn."""
        return [gang for gang in self._queue.waiting_for_room() if not (gang.busy or gang.pondering)]

    def _find_no_place(
        self,
        gang: Gang,
        asked: search.Gang,
        verdict: search.Refusal | search.Unsure,
        draft: Draft,
        solution: Solution | None,
    ) -> None:
        if solution is not None and not solution.answers(asked, self._profiles[gang.scheduler]):
            solution = (
                None  # it answers another question: members came or went meanwhile, or the rules are others
            )
        if isinstance(verdict, search.Unsure) and solution is None:
            self._ponder(gang, exact.formulate(asked, self._profiles[gang.scheduler], draft))
        elif isinstance(verdict, search.Unsure) and self._moved_on(solution) and gang.pondered < PATIENCE:
            gang.pondered += 1
            self.touch(gang)
        else:
            if isinstance(verdict, search.Unsure):
                # Its time ran out, or what it found breaks a rule that it does not know.
                gang.pondered = 0
                self.retry_later(gang, verdict.message, reason="Undecided")
            else:
                self._refuse(gang, verdict.message)
            wanted = tuple({member.shape: member.pod for member in asked.members}.values())
            gang.minds_company = any(
                rule.concerns(member.pod, draft)
                for rule in self._profiles[gang.scheduler].wide_filters
                for member in asked.members
            )
            since = solution.problem.version if solution is not None else self._state.version
            self._queue.wait_for_room(gang, wanted, since=since)

    def _moved_on(self, solution: Solution | None) -> bool:
        """The books, under the solver."""
        return solution is not None and self._state.version > solution.problem.version

    def _ponder(self, gang: Gang, problem: Problem) -> None:
        """Let the exact search decide. Nothing is held meanwhile, and nobody waits for it but this gang."""
        gang.pondering = True
        self._ledger.spawn(self._decide(gang, problem), f"ponder {gang}", can_wait=True)

    async def _decide(self, gang: Gang, problem: Problem) -> None:
        try:
            solution = await self._solver.solve(problem)
        except Exception:
            log.exception("gang %s: the exact search failed", gang)
            self.retry_later(gang, "The exact search failed; the log says why.", reason="Undecided")
            return
        finally:
            gang.pondering = False
            if not gang.pods:
                self._roster.forget(gang)
        if gang.pods and not gang.busy:
            self._try(gang, solution)

    def _fill_vacancies(
        self, gang: Gang, question: Question, draft: Draft
    ) -> tuple[list[tuple[Pod, Holding]], dict[str, str]]:
        """Members to come and replacements first take the places that are kept for them."""
        record, together = question.record, question.together
        if record is None or (record.short_since is None and not record.places):
            return [], {}
        # A member that succeeded was not lost: it counts, and nobody has to take its place.
        vacant = {
            member.uid: member.holding
            for member in record.members.values()
            if record.short_since is not None and member.gone and not self._succeeded(member.uid)
        }
        vacant |= {key: place.holding for key, place in record.places.items()}
        if together is not None and together.required:
            vacant = kept_together(
                vacant, together, lambda holding: self.asker.domain(together.label, holding.node)
            )
        pairs = match_vacancies(
            [(pod.uid, gang.kind(pod)) for pod in question.waiting],
            vacant,
            profile=self._profiles[gang.scheduler],
            draft=draft,
            expected=self.asker.expected(gang),
            roomy={key: place.pod for key, place in record.places.items() if place.pod is not None},
        )
        return [(gang.pods[uid], vacant[old]) for uid, old in pairs.items()], pairs

    def _succeeded(self, uid: str) -> bool:
        pod = self._state.pods.get(uid)
        return pod is not None and pod.phase == "Succeeded"

    # -- carrying it out -----------------------------------------------------------------------------------------

    def _start(
        self,
        gang: Gang,
        placements: list[tuple[Pod, Holding]],
        replaces: dict[str, str],
        reserved: Reservation,
        more: list[Holding],
        *,
        least: int,
    ) -> None:
        """`more`: places for members that an elastic gang is to have beyond these."""
        gang.busy, gang.refusal, gang.refusal_reason, gang.pondered = True, "", "", 0
        self.promises.end(gang)
        loop = asyncio.get_running_loop()
        self._in_flight[gang] = loop.call_later(SLOT_SECONDS, self._give_slot_back, gang)
        self._note_how_busy()
        if not gang.is_group and self._needs_no_commit(gang, *placements[0]):
            pod, holding = placements[0]
            self._state.hold(pod.uid, holding)
            self._alone.add(pod.uid)
            work = self._bind_alone(gang, pod, holding, reserved, owner=gang.owner, scheduler=gang.scheduler)
            self._ledger.spawn(work, f"bind {pod}")
            return
        record = self._ledger.assume(
            gang.owner, scheduler=gang.scheduler, min_member=least, placements=placements, replaces=replaces
        )
        if more:
            until = self._clock.stamp(after=self.place_seconds)
            places.reserve(self._ledger, record, more, pod=sample(gang), reason=GROWTH, until=until)
        if gang.elastic is not None and not record.exists:
            record.size = len(placements) + len(more)
        self._reports.gang_changed(gang)
        self._ledger.spawn(self._carry_out(gang, record, placements, reserved), f"carry out {record}")

    async def _carry_out(
        self, gang: Gang, record: Record, placements: list[tuple[Pod, Holding]], reserved: Reservation
    ) -> None:
        try:
            await self._ledger.carry_out(record, least=lambda: self.asker.least(gang, record))
        except RecordMoved:
            log.info("gang %s: its record moved while the plan waited; planning again", gang)
        except CommitRefused as error:
            self.retry_later(gang, f"the record was refused: {error}", reason="RecordRefused")
        finally:
            # Who is in the record is bound, or will be, by us or by the next leader; unless it is gone.
            kept = {uid for uid, member in record.members.items() if member.bound or not member.gone}
            lost = [(pod, holding) for pod, holding in placements if pod.uid not in kept]
            self._hooks.unreserve(reserved, lost)
            self._finished(gang)

    def _needs_no_commit(self, gang: Gang, pod: Pod, holding: Holding) -> bool:
        """A lone pod without slices. If it holds cards the next leader has to know of whom such Bindings are: by what
        the Lease tells, and what it sees of the pod itself, which therefore has to be left as it is meanwhile."""
        told = pod.scheduler in self._ledger.lease.serving and recovery.bound_without_commit(pod)
        left_alone = gang.changes < MOST_CHANGES
        return not any(holding.slices()) and (not holding.containers or (told and left_alone))

    async def _bind_alone(
        self, gang: Gang, pod: Pod, holding: Holding, reserved: Reservation, *, owner: Owner, scheduler: str
    ) -> None:
        """A lone pod without slices: its bind is atomic by itself and needs no commit. One with whole cards of a device
        plugin's choice is recorded afterwards."""
        bound = changed = False
        try:
            member = RecordMember(pod.uid, pod.name, holding, version=pod.version)
            unready = await self._ledger.volumes.prepare(pod.namespace, [member], spare=0)
            if unready:
                self.retry_later(gang, unready[pod.uid], reason="VolumesFailed")
                return
            if vetoes := await self._hooks.before_bind(scheduler, pod.namespace, [member]):
                self.retry_later(gang, vetoes[pod.uid], reason="PreBindRefused")
                return
            lease = self._ledger.lease
            await (lease.confirm() if holding.containers else lease.ensure())
            as_planned = bool(holding.containers)
            verdict = await self._ledger.binder.bind(pod.namespace, member, as_planned=as_planned)
            if verdict is Verdict.REFUSED:
                verdict = await self._fenced(pod.namespace, member)
            if bound := verdict is Verdict.BOUND:
                self.now_bound(pod.uid, holding, scheduler)
                gang.observe_bind_time(self._clock.now(), self._metrics.bind_seconds.observe)
                if holding.containers:
                    recording = recovery.record_later(
                        self._ledger, owner, scheduler=scheduler, pod=pod, holding=holding
                    )
                    self._ledger.spawn(recording, f"record {pod}")
            elif verdict is Verdict.REFUSED:
                self.retry_later(gang, "the apiserver refuses the Binding", reason="BindingRefused")
            elif verdict is Verdict.CHANGED:
                changed, gang.changes = True, gang.changes + 1
                await self._hears_more(pod.uid, member.version)
            else:
                self.now_lost(pod.uid)
        finally:
            self._alone.discard(pod.uid)
            if not bound:
                self._hooks.unreserve(reserved, [(pod, holding)])
            if self._state.holdings.get(pod.uid) is holding:
                self._state.release(pod.uid)  # from here on the pod itself says where it is
            self._finished(gang)
            if changed and (its := self._roster.gang_of(pod.uid)) is not None:
                self.touch(its)  # it may be another's by now

    async def _hears_more(self, uid: str, version: str) -> None:
        """Until the books know of another version of the pod, if they come to."""
        deadline = self._clock.now() + HEARING_SECONDS
        while (live := self._state.pods.get(uid)) is not None and live.version == version:
            if self._clock.now() > deadline:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _fenced(self, namespace: str, member: RecordMember) -> Verdict:
        """What became of a pod whose Binding was refused. Only once it was changed can no earlier try land; or when the
        apiserver has given up on that."""
        patience = time.monotonic() + LANDING_SECONDS
        fence = self._ledger.binder.fence
        return await fence(namespace, member, "the Binding was refused", patience=patience) or Verdict.REFUSED

    def now_bound(self, uid: str, holding: Holding, scheduler: str) -> None:
        """The apiserver accepted the Binding: know it at once, the pod stream will say the same a moment later.
        `scheduler`: the profile that placed it; the extender's pods have another name themselves."""
        pod = self._state.pods.get(uid)
        if pod is not None:
            pod.node = holding.node
            self._state.put_pod(pod)
            self._reports.pod_scheduled(pod, holding)
            if self._hooks.told_after_bind(scheduler):
                self._ledger.spawn(
                    self._hooks.after_bind(scheduler, pod, holding), f"after the bind of {pod}"
                )

    def now_lost(self, uid: str) -> None:
        """The apiserver says that the pod is gone or somebody else's: do not plan it again until its event comes, which
        says what it is. If that came first there is nothing to be afraid of, and nobody would take the mark off."""
        pod = self._state.pods.get(uid)
        if pod is not None and pod.waiting:
            pod.terminating = True

    def _finished(self, gang: Gang) -> None:
        gang.busy = False
        if (end_of_slot := self._in_flight.pop(gang, None)) is not None:
            end_of_slot.cancel()  # or it would end the slot of the gang's next plan
        self._note_how_busy()
        self._reports.gang_changed(gang)
        if not gang.pods:
            self._roster.forget(gang)
        self.touch(gang)

    def _give_slot_back(self, gang: Gang) -> None:
        self._in_flight.pop(gang, None)
        self._note_how_busy()
        self.wake()

    def _note_how_busy(self) -> None:
        """Errands wait while more gangs are under way than an apiserver serves with one hand."""
        self._ledger.lull.busy(len(self._in_flight) > BUSY)

    def _refuse(self, gang: Gang, message: str, *, reason: str = "Unschedulable") -> None:
        if reason != gang.refusal_reason:
            gang.refused_since = self._clock.now()
        gang.refusal, gang.refusal_reason = message, reason
        self._metrics.refusals.labels(reason).inc()
        self._reports.gang_changed(gang)

    def retry_later(self, gang: Gang, message: str, *, reason: str) -> None:
        """The apiserver said no, which nothing in the books can change: try again after a growing while."""
        gang.refusals += 1
        wait = min(RETRY_SECONDS * 2 ** min(gang.refusals - 1, 5), LONGEST_RETRY_SECONDS)
        gang.retry_after = self._clock.now() + wait
        self._refuse(gang, message, reason=reason)

    # -- at the start --------------------------------------------------------------------------------------------

    def adopt_strays(self) -> None:
        """Bound pods of ours that no record knows: their record was lost while nobody led."""
        for gang in list(self._roster.gangs.values()):
            strays = [
                pod
                for pod in gang.pods.values()
                if pod.node
                and not pod.terminal
                and self._ledger.record_of(pod.uid) is None
                and pod.uid not in self._ledger.recording
            ]
            if (
                strays
                and not gang.busy
                and gang.needs_record
                and (gang.group is not None or not gang.is_group)
            ):
                self._ledger.spawn(
                    recovery.adopt(
                        self._ledger,
                        gang.owner,
                        scheduler=gang.scheduler,
                        min_member=gang.min_member,
                        pods=strays,
                    ),
                    f"adopt {gang}",
                    can_wait=True,
                )
