"""The trace's cluster: the books of the scheduler, filled from machines and from what it places itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alnair.scheduling.board import Boards
from alnair.scheduling.classes import Member
from alnair.scheduling.elastic.leaving import leaving
from alnair.scheduling.plugins.baselines import KIND, kind_of
from alnair.scheduling.search import Gang, Plan, place
from alnair.simulate.policies import Policy
from alnair.simulate.trace import CARD, Job, Machine
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.pods import Pod
from alnair.state.shapes import PodClass, PodShape, room_of


class SimulatedCluster:
    """Places jobs, whole or not at all, lets some of their pods come and go, and takes them away again."""

    def __init__(self, machines: Iterable[Machine], policy: Policy) -> None:
        self.state = ClusterState(sharers=CARD)
        for machine in machines:
            self.state.put_node(machine.node())
        self._policy = policy
        self._boards = Boards()
        self._shapes: dict[PodShape, tuple[PodShape, dict[str, str]]] = {}
        self._placed: dict[str, list[str]] = {}
        self._named: dict[str, int] = {}  # pods of each job so far: none has the name of another
        self._refused: dict[tuple[PodShape, int], int] = {}

    def arrived(self, job: Job) -> None:
        """It came, and may be started once or tried often: policies learn from arrivals, not from tries."""
        for _ in range(job.pods):
            self._policy.arrived(PodClass(job.shape))

    def start(self, job: Job, pods: int | None = None) -> bool:
        """Whether it found a place for all its pods, or for so many, and has it."""
        return self.grow(job, job.pods if pods is None else pods)

    def grow(self, job: Job, more: int) -> bool:
        """So many pods more, all of them or none."""
        shape, labels = self._known(job)
        # What did not fit does not fit while nothing is given back: pods only ever use more of a node.
        if self._refused.get((shape, more), -1) == self.state.freed:
            return False
        first = self._named.get(job.name, 0)
        pods = [_pod(f"{job.name}/{number}", shape, labels) for number in range(first, first + more)]
        with self.state.draft() as draft:
            verdict = place(_gang(pods), self._policy.profile, draft, self._boards)
        if not isinstance(verdict, Plan):
            self._refused[shape, more] = self.state.freed
            return False
        holdings = {member.uid: holding for member, holding in verdict.placements}
        for pod in pods:
            self.state.holdings[pod.uid] = holdings[pod.uid]  # one charge, not two
            self.state.put_pod(pod)
        self._placed.setdefault(job.name, []).extend(holdings)
        self._named[job.name] = first + more
        return True

    def shrink(self, job: Job, fewer: int) -> None:
        self._drop(job, self._leaving(job, fewer))

    def end(self, job: Job) -> None:
        self._drop(job, list(self._placed[job.name]))
        del self._placed[job.name]
        self._named.pop(job.name, None)

    def size(self, job: Job) -> int:
        """Its pods that have a place."""
        return len(self._placed.get(job.name, ()))

    def fits(self, changes: Iterable[tuple[Job, int]]) -> bool:
        """Whether all these jobs could have so many pods more, or fewer, at once; nothing is changed."""
        leave, come = [], []
        for job, change in changes:
            if change < 0:
                leave += self._leaving(job, -change)
            elif change > 0:
                shape, labels = self._known(job)
                come += [_pod(f"{job.name}/may-{number}", shape, labels) for number in range(change)]
        if not come:
            return True
        with self.state.draft() as draft:
            for uid in leave:
                holding = self.state.holdings[uid]
                row = self.state.row(holding.node)
                assert row is not None
                draft.put_back(row, room_of(guest(self.state.pods[uid])), holding.containers)
            return isinstance(place(_gang(come), self._policy.profile, draft, self._boards), Plan)

    def allocated(self) -> int:
        """Thousandths of cards that are taken, counted from the books."""
        return int(sum(used for *_, used, _ in self.state.card_usage()))

    def _known(self, job: Job) -> tuple[PodShape, dict[str, str]]:
        """The one shape of all pods that look like this job's."""
        return self._shapes.setdefault(job.shape, (job.shape, _labels(job.shape)))

    def _leaving(self, job: Job, fewer: int) -> list[str]:
        return leaving({uid: self.state.holdings[uid].node for uid in self._placed[job.name]}, fewer)

    def _drop(self, job: Job, uids: Iterable[str]) -> None:
        for uid in uids:
            self._placed[job.name].remove(uid)
            self.state.holdings.pop(uid, None)
            self.state.drop_pod(uid)


def _gang(pods: Sequence[Pod]) -> Gang:
    members = tuple(Member(pod.uid, pod.name, guest(pod)) for pod in pods)
    return Gang(members, needed=len(members))


def _pod(uid: str, shape: PodShape, labels: dict[str, str]) -> Pod:
    return Pod(uid=uid, namespace="trace", name=uid, version="1", scheduler="", shape=shape, labels=labels)


def _labels(shape: PodShape) -> dict[str, str]:
    kind = kind_of(shape)
    return {KIND: kind} if kind else {}
