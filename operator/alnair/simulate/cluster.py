"""The trace's cluster: the books of the scheduler, filled from machines and from what it places itself."""

from __future__ import annotations

from collections.abc import Iterable

from alnair.scheduling.board import Boards
from alnair.scheduling.classes import Member
from alnair.scheduling.plugins.baselines import KIND, kind_of
from alnair.scheduling.search import Gang, Plan, place
from alnair.simulate.policies import Policy
from alnair.simulate.trace import CARD, Job, Machine
from alnair.state.cluster import ClusterState, guest
from alnair.state.pods import Pod
from alnair.state.shapes import PodClass, PodShape


class SimulatedCluster:
    """Places jobs, whole or not at all, and takes them away again."""

    def __init__(self, machines: Iterable[Machine], policy: Policy) -> None:
        self.state = ClusterState(sharers=CARD)
        for machine in machines:
            self.state.put_node(machine.node())
        self._policy = policy
        self._boards = Boards()
        self._shapes: dict[PodShape, tuple[PodShape, dict[str, str]]] = {}
        self._placed: dict[str, tuple[str, ...]] = {}
        self._refused: dict[tuple[PodShape, int], int] = {}

    def arrived(self, job: Job) -> None:
        """It came, and may be started once or tried often: policies learn from arrivals, not from tries."""
        for _ in range(job.pods):
            self._policy.arrived(PodClass(job.shape))

    def start(self, job: Job) -> bool:
        """Whether it found a place, and has it."""
        shape, labels = self._shapes.setdefault(job.shape, (job.shape, _labels(job.shape)))
        # What did not fit does not fit while nothing is given back: pods only ever use more of a node.
        if self._refused.get((shape, job.pods), -1) == self.state.freed:
            return False
        pods = [_pod(f"{job.name}/{number}", shape, labels) for number in range(job.pods)]
        members = tuple(Member(pod.uid, pod.name, guest(pod)) for pod in pods)
        with self.state.draft() as draft:
            verdict = place(Gang(members, needed=len(members)), self._policy.profile, draft, self._boards)
        if not isinstance(verdict, Plan):
            self._refused[shape, job.pods] = self.state.freed
            return False
        holdings = {member.uid: holding for member, holding in verdict.placements}
        for pod in pods:
            self.state.holdings[pod.uid] = holdings[pod.uid]  # one charge, not two
            self.state.put_pod(pod)
        self._placed[job.name] = tuple(holdings)
        return True

    def end(self, job: Job) -> None:
        for uid in self._placed.pop(job.name):
            self.state.holdings.pop(uid, None)
            self.state.drop_pod(uid)

    def allocated(self) -> int:
        """Thousandths of cards that are taken, counted from the books."""
        return int(sum(used for *_, used, _ in self.state.card_usage()))


def _pod(uid: str, shape: PodShape, labels: dict[str, str]) -> Pod:
    return Pod(uid=uid, namespace="trace", name=uid, version="1", scheduler="", shape=shape, labels=labels)


def _labels(shape: PodShape) -> dict[str, str]:
    kind = kind_of(shape)
    return {KIND: kind} if kind else {}
