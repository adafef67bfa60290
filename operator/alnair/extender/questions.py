"""Which nodes have the cards, how good they are, and whether a preemption would help. Answers only: nothing is written,
and nothing is kept free for the one who asked. Between this answer and the Binding others may take the cards; then the
Binding is refused, and kube-scheduler asks again.

A pod that is on its way to a node by its record may go there and nowhere else, whoever asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from alnair.api import names
from alnair.api.extender import Extender
from alnair.control.gangs import Roster
from alnair.extender.rules import beside_kube_scheduler
from alnair.extender.wire import HIGHEST_SCORE, MetaVictims
from alnair.ledger.ledger import Ledger
from alnair.scheduling.board import Boards
from alnair.scheduling.cards import pick
from alnair.scheduling.explain import first_reasons
from alnair.scheduling.plugins.interface import Floats, Scope
from alnair.scheduling.profile import NOWHERE, Profile
from alnair.scheduling.words import agree
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft, Ints
from alnair.state.holding import Holding
from alnair.state.pods import Pod
from alnair.state.shapes import PodClass

UNKNOWN_NODE = "is not known to Alnair yet"
UNSAID = "does not pass a rule that gives no reason"
NOT_TOGETHER = "has no cards that fit all containers of the pod together"
AT_ONCE = 64  # nodes whose cards are dealt out on trial before others get a turn


@dataclass(slots=True)
class Answer:
    """Why nodes will not do, by name; the others will. `for_good`: nor would they if other pods went away."""

    failed: dict[str, str] = field(default_factory=dict)
    for_good: dict[str, str] = field(default_factory=dict)


class Questions:
    """`terms` say whose pods are asked for and by which profile; both may change while we run."""

    def __init__(
        self,
        *,
        state: ClusterState,
        ledger: Ledger,
        roster: Roster,
        profiles: Mapping[str, Profile],
        terms: Extender | None,
    ) -> None:
        self.terms = terms
        self._state = state
        self._ledger = ledger
        self._roster = roster
        self._profiles = profiles
        self._whole: Profile | None = None
        self._asked: Profile | None = None
        self._boards = Boards()

    @property
    def profile(self) -> Profile:
        """The rules that are asked here."""
        whole = self._profiles[self.profile_name]
        if self._asked is None or whole is not self._whole:
            self._whole, self._asked = whole, beside_kube_scheduler(whole)
        return self._asked

    @property
    def profile_name(self) -> str:
        return self.terms.profile if self.terms is not None else ""

    def concerns(self, pod: Pod) -> bool:
        """It is one of kube-scheduler's that wants cards."""
        return (
            self.terms is not None
            and pod.scheduler in self.terms.scheduler_names
            and bool(pod.shape.gpu.demands)
        )

    def objection(self, pod: Pod) -> str:
        """Why this pod is not ours to place, on no node; empty if it is."""
        if self.terms is None:
            return "the extender was switched off in Alnair's config"
        if pod.scheduler not in self.terms.scheduler_names:
            ours = ", ".join(self.terms.scheduler_names)
            return f"schedulerName {pod.scheduler} is none of extender.schedulerNames ({ours})"
        if pod.problem:
            return pod.problem
        if not pod.group or not pod.shape.gpu.demands:
            return ""
        group = self._roster.group(pod.namespace, pod.group)
        if group is None:
            what = "does not exist"
        elif group.problem:
            what = f"cannot be read ({group.problem})"
        elif group.min_member > 1:
            what = f"needs {group.min_member} members at once"
        else:
            return ""
        return (
            f"PodGroup {pod.group} {what}, and kube-scheduler places pods one by one; "
            f"use schedulerName {self.terms.profile}, or remove the pod's label {names.POD_GROUP_LABEL}"
        )

    # -- filter --------------------------------------------------------------------------------------------------

    async def filter(self, pod: Pod, nodes: Sequence[str]) -> Answer:
        if why := self.objection(pod):
            return Answer(for_good=dict.fromkeys(nodes, f"cannot be used: {why}"))
        if not pod.shape.gpu.demands:
            return Answer()
        if (place := self._on_its_way(pod)) is not None:
            others = [name for name in nodes if name != place]
            return Answer(failed=_told(f"is not the node {place}, where the pod's record has put it", others))
        answer, left = self._by_rules(pod, nodes)
        if len(pod.shape.gpu.demands) > 1:
            for start in range(0, len(left), AT_ONCE):
                crowded = self._without_cards(pod, left[start : start + AT_ONCE])
                answer.failed |= _told(NOT_TOGETHER, crowded)
                await asyncio.sleep(0)
        return answer

    def _on_its_way(self, pod: Pod) -> str | None:
        record = self._ledger.record_of(pod.uid)
        holding = self._state.holdings.get(pod.uid)
        return holding.node if record is not None and holding is not None else None

    def _by_rules(self, pod: Pod, nodes: Sequence[str]) -> tuple[Answer, list[str]]:
        """And the nodes that pass."""
        answer = Answer()
        known = [name for name in nodes if self._state.row(name) is not None]
        answer.failed |= _told(UNKNOWN_NODE, [name for name in nodes if self._state.row(name) is None])
        with self._state.draft() as draft:
            rows, kind = self._rows(known), guest(pod)
            failed = self._rated(kind, draft)[rows] == NOWHERE
            for rule, phrase, where in first_reasons(kind, self.profile.filters, draft, rows[failed]):
                told = answer.for_good if rule.scope is Scope.FIXED else answer.failed
                told |= _told(phrase, [draft.names[row] for row in where])
        left = [name for name, bad in zip(known, failed, strict=True) if not bad]
        spoken_of = {*left, *answer.failed, *answer.for_good}
        answer.failed |= _told(UNSAID, [name for name in known if name not in spoken_of])
        return answer, left

    def _without_cards(self, pod: Pod, nodes: Iterable[str]) -> list[str]:
        """Those that pass every rule, and yet lack cards for all containers together."""
        with self._state.draft() as draft:
            return [
                name
                for name in nodes
                if (row := self._state.row(name)) is not None
                and pick(guest(pod), draft, row, self.profile.picker) is None
            ]

    # -- prioritize ----------------------------------------------------------------------------------------------

    async def prioritize(self, pod: Pod, nodes: Sequence[str]) -> dict[str, int]:
        """From 0 to 10. The best of these nodes has 10 and the worst 0: in tenths of what a scorer can say at most, two
        nodes that differ by one slice would be equal."""
        scores = dict.fromkeys(nodes, 0)
        known = [name for name in nodes if self._state.row(name) is not None]
        if not pod.shape.gpu.demands or not known:
            return scores
        with self._state.draft() as draft:
            rated = self._rated(guest(pod), draft)[self._rows(known)]
        fitting = rated[rated != NOWHERE]
        if not len(fitting) or np.ptp(fitting) == 0:
            return scores
        stretched = (np.where(rated == NOWHERE, fitting.min(), rated) - fitting.min()) / np.ptp(fitting)
        return scores | dict(zip(known, np.rint(stretched * HIGHEST_SCORE).astype(int).tolist(), strict=True))

    # -- preempt -------------------------------------------------------------------------------------------------

    async def preempt(self, pod: Pod, victims: dict[str, MetaVictims]) -> dict[str, MetaVictims]:
        """Of the nodes where kube-scheduler would preempt, those that then have the cards; with its own victims."""
        if self.objection(pod) or self._on_its_way(pod) is not None:
            return {}
        if not pod.shape.gpu.demands:
            return victims
        return {
            node: leaving
            for node, leaving in victims.items()
            if self._fits_without(pod, node, [each.uid for each in leaving.pods or []])
        }

    def _fits_without(self, pod: Pod, node: str, victims: Iterable[str]) -> bool:
        row = self._state.row(node)
        if row is None:
            return False
        with self._state.draft() as draft:
            for uid in victims:
                holding = self._state.holdings.get(uid)
                if holding is not None and holding.node == node:
                    draft.hand_out(row, holding.containers, -1)
            return not isinstance(self.fit(pod, row, draft), str)

    # -- one node ------------------------------------------------------------------------------------------------

    def place(self, pod: Pod, node: str) -> Holding | str:
        """What the pod gets on that node as things are, or why nothing."""
        row = self._state.row(node)
        if row is None:
            return f"node {node} {UNKNOWN_NODE}"
        with self._state.draft() as draft:
            return self.fit(pod, row, draft)

    def fit(self, pod: Pod, row: int, draft: Draft) -> Holding | str:
        kind, one = guest(pod), draft.only(row)
        for _, phrase, _ in first_reasons(kind, self.profile.filters, one, np.array([0])):
            return f"node {draft.names[row]} {phrase}"
        containers = pick(kind, draft, row, self.profile.picker)
        return (
            Holding(draft.names[row], containers)
            if containers is not None
            else f"node {draft.names[row]} {NOT_TOGETHER}"
        )

    # -- inside --------------------------------------------------------------------------------------------------

    def _rated(self, kind: PodClass, draft: Draft) -> Floats:
        """N: the score where the pod may go, NOWHERE elsewhere."""
        local = self._boards.rated(kind, self.profile, draft)
        company = self.profile.rated_by_company(kind, draft)
        return local if company is None else local + company

    def _rows(self, nodes: Iterable[str]) -> Ints:
        rows = (self._state.row(name) for name in nodes)
        return np.array([row for row in rows if row is not None], dtype=np.int64)


def _told(phrase: str, nodes: Sequence[str]) -> dict[str, str]:
    """kube-scheduler counts equal texts and puts their number before them: `3 have no GPUs`."""
    _, _, told = agree(len(nodes), phrase).partition(" ")
    return dict.fromkeys(nodes, told)
