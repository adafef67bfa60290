"""Speed-up curves: how many times as fast as one member are n members?

A curve is concave, never falls, and is 1 at one member. Whatever it is made of (points of a spec, measured throughput,
the default) is put under its upper hull first: an allocator that goes by marginal gain may then trust that the next
member is never worth more than the last one. Beyond what is known a curve is flat: nobody has promised more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

MOST_MEMBERS = 10_000  # of a curve: a point beyond is not believed

# What the default curve assumes. SERIAL: the part of the work that more members do not speed up. The others: seconds of
# communication for a second of computing, by the slowest link that the members share.
SERIAL = 0.005
WITHIN_LINK, WITHIN_NODE, WITHIN_RACK, BEYOND = 0.05, 0.15, 0.35, 0.7


@dataclass(frozen=True, slots=True)
class Curve:
    """`speeds[n]` is the speed-up of n members; speeds[0] = 0, speeds[1] = 1. Made by `hull`, not by hand."""

    speeds: tuple[float, ...]

    def at(self, members: int) -> float:
        return self.speeds[min(max(members, 0), len(self.speeds) - 1)]

    def gain(self, members: int) -> float:
        """What one more member adds."""
        return self.at(members + 1) - self.at(members)


LINEAR = Curve(tuple(float(members) for members in range(MOST_MEMBERS + 1)))


def hull(points: Iterable[tuple[int, float]]) -> Curve:
    """The least concave curve that never falls and lies on or above the points; linear between its corners.

    n members are never more than n times as fast as one, so higher points are cut to that.
    """
    best: dict[int, float] = {0: 0.0, 1: 1.0}
    for members, speed in points:
        if 1 < members <= MOST_MEMBERS and math.isfinite(speed):
            best[members] = max(best.get(members, 0.0), min(speed, float(members)))
    corners: list[tuple[int, float]] = []
    for point in sorted(best.items()):
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-1], point):
            corners.pop()
        corners.append(point)
    while len(corners) > 2 and corners[-1][1] <= corners[-2][1]:
        corners.pop()
    speeds = [0.0]
    for before, after in itertools.pairwise(corners):
        slope = _slope(before, after)
        speeds += [before[1] + slope * step for step in range(1, after[0] - before[0])]
        speeds.append(after[1])
    return Curve(tuple(speeds))


def from_points(points: Iterable[tuple[int, float]]) -> Curve:
    """The curve of a spec. If it tells the speed of one member, the others are divided by it."""
    known = {members: speed for members, speed in points if members >= 1}
    one = known.get(1, 1.0)
    if not (math.isfinite(one) and one > 0):
        one = 1.0
    return hull((members, speed / one) for members, speed in known.items())


def default(most: int, *, link: int = 0, node: int = 8, rack: int = 0) -> Curve:
    """Amdahl's law with communication. `link`, `node`, `rack`: how many members an NVLink set, a node, a rack holds
    (0: there is no such thing, or it holds none). The corners of the hull lie where one of them is full, so counts that
    fill it win over those that spill into the next. These are worth something nevertheless: the hull is taken beyond
    `most`, or the first members on the next node would seem to slow the work down, and cards stay idle for that."""
    farthest = 2 * max(most, link, node, rack, 1)
    whole = hull((members, _assumed(members, link, node, rack)) for members in range(1, farthest + 1))
    return Curve(whole.speeds[: max(most, 1) + 1])


def fitted(measured: Iterable[tuple[int, float]], prior: Curve) -> Curve:
    """From throughput at several sizes, in any unit. It keeps the prior's shape, with the overhead that was measured.

    Let d(n) = n / prior(n), how many times as slow as alone each member is. Each then takes A + B (d(n) - 1) for a unit
    of work; A and B >= 0 are the least squares over the median at each size. From one size alone nothing can be said
    of the shape: the prior stands.
    """
    at_size: dict[int, list[float]] = {}
    for members, throughput in measured:
        if 1 <= members <= MOST_MEMBERS and math.isfinite(throughput) and throughput > 0:
            at_size.setdefault(members, []).append(throughput)
    if len(at_size) < 2:
        return prior
    slowness = {members: members / prior.at(members) - 1.0 for members in at_size}
    alone, overhead = _line([(slowness[n], n / median(each)) for n, each in at_size.items()])
    if alone <= 0:
        return prior
    most = max(len(prior.speeds) - 1, *at_size)
    return hull(
        (n, n / (1.0 + overhead / alone * (n / prior.at(n) - 1.0)))
        for n in range(1, min(most, MOST_MEMBERS) + 1)
    )


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Least squares y = A + B x with B >= 0; A weighs relative errors equally enough, as y changes little."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread > 0 else 0.0
    slope = max(slope, 0.0)
    return mean_y - slope * mean_x, slope


def _slope(before: tuple[int, float], after: tuple[int, float]) -> float:
    return (after[1] - before[1]) / (after[0] - before[0])


def _assumed(members: int, link: int, node: int, rack: int) -> float:
    talk: Mapping[int, float] = {link: WITHIN_LINK, node: WITHIN_NODE, rack: WITHIN_RACK}
    share = min((cost for holds, cost in talk.items() if members <= holds), default=BEYOND)
    each = 1.0 - SERIAL + share * (members - 1) / members
    return 1.0 / (SERIAL + each / members)
