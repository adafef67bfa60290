"""Elastic gangs as the sizing sees them: bounds of this moment, speed-up, and in which order members leave.

Who leaves first is the owner's choice where it makes one: a StatefulSet takes its highest ordinals. ReplicaSets go by
the cost of deleting a pod, which is ours to set: those leave first that stand alone on their node, so that the rest is
on few nodes. Pods without a place go before all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice

from alnair.api.config import Elastic as Settings
from alnair.api.podgroup import Elastic
from alnair.control.asking import sample
from alnair.control.elastic.extent import Extent
from alnair.control.elastic.sizing import Sizing
from alnair.control.gangs import Gang
from alnair.ledger.records import Member, Record
from alnair.scheduling.elastic import curves
from alnair.scheduling.elastic.allocator import Job
from alnair.scheduling.elastic.curves import Curve
from alnair.scheduling.elastic.leaving import leaving
from alnair.scheduling.elastic.throughput import measurements
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.shapes import room_of


@dataclass(frozen=True, slots=True, eq=False)
class Sized:
    """A running elastic gang. `size`: members that it is to have, places for those to come included."""

    gang: Gang
    record: Record
    elastic: Elastic
    sizing: Sizing
    size: int
    curve: Curve

    def job(self, *, floor: int, ceiling: int, change_cost: float = 0.0) -> Job:
        low, high = self.elastic.min, self.elastic.max
        return Job(
            key=str(self.gang),
            least=low,
            most=high,
            has=max(self.size, 1),
            curve=self.curve,
            weight=self.elastic.weight or 1.0,
            change_cost=change_cost,
            floor=floor,
            ceiling=ceiling,
        )

    def loss(self, size: int) -> float:
        """What the last of so many members is worth."""
        return (self.elastic.weight or 1.0) * self.curve.gain(size - 1)

    def leaving(self) -> list[Member]:
        """Its members in the order in which they leave."""
        pods = self.gang.pods
        members = [
            member
            for member in self.record.members.values()
            if not member.gone and (pod := pods.get(member.uid)) is not None and not pod.terminating
        ]
        if all(pods[member.uid].ordinal is not None for member in members):
            return sorted(members, key=lambda member: -(pods[member.uid].ordinal or 0))
        by_uid = {member.uid: member for member in members}
        order = leaving({uid: member.holding.node for uid, member in by_uid.items()}, len(by_uid))
        return [by_uid[uid] for uid in order]

    def change_cost(self, settings: Settings) -> float:
        """What the work that stands still is worth, over the time in which a change has to pay."""
        seconds = self.elastic.restart_seconds
        still = settings.restart_seconds if seconds is None else float(seconds)
        return (self.elastic.weight or 1.0) * self.curve.at(self.size) * still / settings.horizon_seconds


MOST_MEASURED = 1024  # measurements of one gang: more tell nothing new


@lru_cache(maxsize=32)
def _usual(most: int, extent: Extent) -> Curve:
    return curves.default(most, link=extent.link, node=extent.node, rack=extent.rack)


def curve_of(gang: Gang, elastic: Elastic, sizing: Sizing, extent: Extent) -> Curve:
    """From the spec, from what was measured, or else as such work usually speeds up. `extent`: of the cluster.

    It is asked for every second, so `sizing` keeps it with what it was made of: it goes with its gang."""
    points = tuple((point.members, point.speedup) for point in elastic.speedup or ())
    cards = max(1, sum(demand.cards for demand in sample(gang).shape.gpu.demands))
    holds = extent.in_members(cards)
    present = gang.present()
    told = (measurements(pod.throughput, size=len(present)) for pod in present if pod.throughput)
    measured = tuple(islice(chain.from_iterable(told), MOST_MEASURED)) if not points else ()
    made_of = points, measured, elastic.max, holds
    if sizing.curve is None or sizing.curve[0] != made_of:
        if points:
            curve = curves.from_points(points)
        else:
            usual = _usual(elastic.max, holds)
            curve = curves.fitted(measured, usual) if measured else usual
        sizing.curve = made_of, curve
    return sizing.curve[1]


def take_out(member: Member, state: ClusterState, draft: Draft) -> None:
    """As if it had left. What rules say about its company still holds: they are asked again when it has."""
    pod, row = state.pods.get(member.uid), state.row(member.holding.node)
    if pod is not None and row is not None:
        draft.put_back(row, room_of(guest(pod)), member.holding.containers)


def still_shrinking(leaving: Iterable[tuple[Sized, Member]], state: ClusterState) -> Callable[[], bool]:
    """Whether the gangs that give these members up still hold more than they are to have: who leaves in the end is not
    ours to say, and a slice is held until its record has dropped it."""
    fewer = Counter(each for each, _ in leaving)
    holding = {each: (each.size - number, tuple(each.record.members)) for each, number in fewer.items()}

    def shrinks(each: Sized, size: int, members: Iterable[str]) -> bool:
        if each.sizing.changing:
            return True
        wanted = each.record.size if each.sizing.record is each.record else None
        if wanted is None or wanted > size:
            return False  # it ends or starts anew, or a hand has made it larger
        return sum(uid in state.holdings for uid in members) > size

    return lambda: any(shrinks(each, *then) for each, then in holding.items())
