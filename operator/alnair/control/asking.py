"""What has to be found for a gang: places for how many of which pods, near whom.

One place turns a gang as it stands (pods, record, group) into the question that the search is asked, for whoever asks:
the loop that places it, and the sizing of elastic gangs, which asks whether it would fit if others had left.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from alnair.api.config import Level
from alnair.api.nearness import BadLevel, find_level
from alnair.control.gangs import MEMBER_FAILED, Gang
from alnair.ledger.ledger import Ledger
from alnair.ledger.records import ROLLING_BACK, Record, record_key
from alnair.scheduling import search
from alnair.scheduling.classes import Member
from alnair.scheduling.domains import Together
from alnair.state.cluster import ClusterState
from alnair.state.pods import Pod
from alnair.state.shapes import PodClass


@dataclass(frozen=True, slots=True)
class Question:
    """Of `waiting` at least `missing` must find a place. `placed` members have theirs, or are done with it; `outside`
    of them are in another record than the gang's own. `whole`: the gang runs, and these join it."""

    record: Record | None
    waiting: list[Pod]
    placed: int
    outside: int
    whole: bool
    missing: int
    together: Together | None


@dataclass(frozen=True, slots=True)
class NotNow:
    """Nothing is to be found for it now; without a `reason` there is nothing to say about that."""

    reason: str = ""
    message: str = ""


def is_whole(record: Record) -> bool:
    """It was whole once, and something of it is left."""
    return record.satisfied and any(member.bound and not member.gone for member in record.members.values())


def _stays(pod: Pod, record: Record | None) -> bool:
    """It is not on its way out, nor may it be sent there with all that its record lists, which has to be whole."""
    secure = record is None or (record.satisfied and record.phase != ROLLING_BACK)
    return secure and not pod.terminating


def sample(gang: Gang) -> PodClass:
    """A pod like those that more members would be. Volumes are each pod's own: nobody knows those of one to come."""
    pods = gang.present() or list(gang.pods.values())
    one = gang.kind(min(pods, key=lambda pod: (pod.created, pod.name)))
    shape = replace(one.shape, claims=()) if one.shape.claims else one.shape
    return replace(one, shape=shape, terminating=False)


class Asker:
    def __init__(self, *, state: ClusterState, ledger: Ledger, levels: Sequence[Level]) -> None:
        self._state = state
        self._ledger = ledger
        self.levels = levels

    def ask(self, gang: Gang, *, beside: Container[str] = ()) -> Question | NotNow:
        """`beside`: UIDs of pods that are on their way without a record."""
        if problem := gang.problem():
            return NotNow("Invalid", problem)
        if gang.failed:
            return NotNow(MEMBER_FAILED, gang.failed)
        try:
            together = self.together(gang)
        except BadLevel as error:
            return NotNow("Invalid", str(error))
        # A pod that a record lists is on its way, whatever the pod stream has shown of it so far.
        waiting = [
            pod for pod in gang.waiting() if self._ledger.record_of(pod.uid) is None and pod.uid not in beside
        ]
        record = self.record(gang)
        if record is not None and record.lock.locked():
            return NotNow()  # being written; whoever writes it wakes us
        if waiting and record is not None and record.phase == ROLLING_BACK:
            return NotNow(
                "Unschedulable", "the gang is being rolled back; it is tried again when its old pods are gone"
            )
        if record is not None and any(member.uncertain for member in record.members.values()):
            return NotNow()  # whether its members are gone is being asked; the answer wakes us
        placed, outside = self.count(gang, record)
        if gang.elastic is not None:
            # Beyond what it is to have, or the most that it may have, nobody is placed: they are on their way out.
            most = gang.elastic.max if record is None or record.size is None else record.size
            leaving = sum(
                pod.terminating and not pod.terminal and bool(pod.node) and self._is_in(record, pod)
                for pod in gang.pods.values()
            )
            waiting = waiting[: max(0, most - placed + leaving)]
        if not waiting:
            return NotNow()
        whole = record is not None and is_whole(record)
        missing = 1 if whole else max(1, gang.min_member - placed)
        if len(waiting) < missing:
            there = placed + len(waiting)
            return NotNow(
                "WaitingForMembers",
                f"waiting for members: {there} of at least {gang.min_member} pods exist",
            )
        return Question(record, waiting, placed, outside, whole, missing, together)

    def record(self, gang: Gang) -> Record | None:
        return self._ledger.records.get(record_key(gang.owner)) if gang.needs_record else None

    def searched(
        self, gang: Gang, question: Question, pods: Sequence[Pod], found: Sequence[str] = ()
    ) -> search.Gang:
        """The question to the search, for these of the pods; for others places were `found` already, on these nodes."""
        return search.Gang(
            members=tuple(Member(pod.uid, pod.name, gang.kind(pod), pod.nominated) for pod in pods),
            needed=question.missing - len(found),
            present=question.placed + len(found),
            expected=self.expected(gang),
            together=self.at_home(question.together, found),
        )

    def searched_more(
        self, gang: Gang, pod: PodClass, number: int, found: Iterable[str] = (), *, needed: int = 1
    ) -> search.Gang:
        """For so many members that do not exist yet, like this pod."""
        return search.Gang(
            members=tuple(Member(f"+{each}", f"+{each}", pod) for each in range(number)),
            needed=needed,
            present=len(gang.pods),
            expected=self.expected(gang),
            together=self.at_home(self.together(gang), found),
        )

    def together(self, gang: Gang) -> Together | None:
        """What the gang asks about being together, with the domains where it has members. Raises BadLevel."""
        wish = gang.wish
        if wish is None:
            return None
        label, level = find_level(wish, self.levels)
        nodes = (self._node_of(pod) for pod in gang.pods.values() if not (pod.terminal or pod.terminating))
        return self.at_home(Together(label, level, wish.required), nodes)

    def _node_of(self, pod: Pod) -> str:
        """Where it is, or is on its way to."""
        holding = self._state.holdings.get(pod.uid)
        return pod.node or (holding.node if holding is not None else "")

    def at_home(self, together: Together | None, nodes: Iterable[str]) -> Together | None:
        """At home on these nodes too. Members on nodes that are in no domain, or gone, say nothing."""
        if together is None:
            return None
        there = (self.domain(together.label, node) for node in nodes)
        home = {*together.home, *(name for name in there if name is not None)}
        return replace(together, home=tuple(sorted(home)))

    def domain(self, label: str, node: str) -> str | None:
        known = self._state.nodes.get(node)
        return known.labels.get(label) if known is not None else None

    def expected(self, gang: Gang) -> tuple[tuple[int, PodClass], ...]:
        """Pods of others that a preemption made room for and that go before this gang."""
        return tuple(self._state.expected(priority=gang.priority, beside=gang.pods))

    def count(self, gang: Gang, own: Record | None) -> tuple[int, int]:
        """How many members have their place or are done with it, and how many of those are not in its own record.

        The others are in the record of an earlier group of that name, or were released when they succeeded. Of an
        earlier group's, those on their way out are nobody's members any more, and those whose record is not whole are
        not yet: the gang would start with the few that find a place beside them, and be left with these. (What its own
        record loses, that record makes good.)
        """
        placed = outside = 0
        for pod in gang.pods.values():
            record = self._ledger.record_of(pod.uid)
            inside = self._is_in(own, pod)
            there = not pod.terminal and (bool(pod.node) or record is not None)
            if pod.phase == "Succeeded" or (there and (inside or _stays(pod, record))):
                placed += 1
                outside += not inside
        return placed, outside

    def _is_in(self, record: Record | None, pod: Pod) -> bool:
        return record is not None and self._ledger.record_of(pod.uid) is record

    def least(self, gang: Gang, record: Record) -> int:
        """How many members the gang's own record needs: those that are done, or in another record, count for it."""
        if gang.is_group and gang.group is None:
            return record.min_member  # the group is gone, and nobody says otherwise any more
        return max(1, gang.min_member - self.count(gang, record)[1])
