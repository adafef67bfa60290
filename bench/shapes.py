"""The work: how many gangs of how many pods on how many nodes. A shape's name says all of it.

    gang-625x8-1000n         625 gangs of 8 one-GPU pods, 1,000 nodes
    single-5000x1-1000n      5,000 pods of no gang
    gang-mixed-500x10-1000n  each gang a launcher, two parameter servers, the rest workers; 500x10 if not said
    gang-infeasible-625x8-1000n  every fifth gang asks for more GPUs a pod than any node has, the rate is that of
                             the others; 625x8 if not said
    gang-torn-625x8-1000n    every fifth gang has one such pod, so a scheduler of pods would bind the rest of it; for
                             tests that gangs are scheduled as gangs, not for rates: kube-gang never rests on these
    latency-100x8-5000n      one gang at a time on an idle cluster; 100x8 if not said
    rss-20000p-5000n         625x8 where other pods are bound already, so that there are 20,000 in the end

Any numbers do, so tests use the same code with tiny ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gang", "single", "mixed", "infeasible", "torn", "latency", "rss"]

CARDS = 8
"""GPUs of a node."""

INFEASIBLE_EVERY = 5
"""Every fifth gang of an infeasible or torn shape fits nowhere."""

_USUAL: dict[Kind, tuple[int, int]] = {
    "mixed": (500, 10),
    "infeasible": (625, 8),
    "torn": (625, 8),
    "latency": (100, 8),
    "rss": (625, 8),
}

_NAME = re.compile(
    r"(?P<kind>gang-mixed|gang-infeasible|gang-torn|gang|single|latency|rss)"
    r"(?:-(?P<gangs>\d+)x(?P<size>\d+))?(?:-(?P<total>\d+)p)?-(?P<nodes>\d+)n"
)


class BadShape(ValueError):
    """A shape's name that cannot be read."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One piece of work."""

    name: str
    kind: Kind
    gangs: int
    size: int
    nodes: int
    filler: int = 0
    """Pods of nobody's that are bound before the run."""

    @property
    def pods(self) -> int:
        return self.gangs * self.size

    @property
    def feasible(self) -> int:
        """How many pods can be bound at all."""
        return sum(self.size for gang in range(self.gangs) if not self.impossible(gang))

    def impossible(self, gang: int) -> bool:
        return self.kind in ("infeasible", "torn") and gang % INFEASIBLE_EVERY == INFEASIBLE_EVERY - 1


def shape(name: str) -> Shape:
    """The shape of that name."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise BadShape(f"{name!r} is no shape; write one like gang-625x8-1000n, see bench/shapes.py")
    kind: Kind = found["kind"].removeprefix("gang-")  # type: ignore[assignment]  # the pattern allows no other
    gangs, size = _USUAL.get(kind, (0, 0))
    if found["gangs"] is not None:
        gangs, size = int(found["gangs"]), int(found["size"])
    nodes = int(found["nodes"])
    filler = int(found["total"]) - gangs * size if found["total"] is not None else 0
    made = Shape(name=name, kind=kind, gangs=gangs, size=size, nodes=nodes, filler=filler)
    _check(made, totalled=found["total"] is not None)
    return made


def _check(made: Shape, *, totalled: bool) -> None:
    if not made.pods or not made.nodes:
        raise BadShape(f"{made.name!r} has no pods or no nodes; write one like gang-625x8-1000n")
    if made.kind == "single" and made.size != 1:
        raise BadShape(
            f"{made.name!r}: single pods are gangs of 1, so write single-{made.pods}x1-{made.nodes}n"
        )
    if made.kind == "mixed" and made.size < 4:
        raise BadShape(
            f"{made.name!r}: a mixed gang has at least 4 members, a launcher, two servers, a worker"
        )
    if totalled != (made.kind == "rss") or made.filler < 0:
        raise BadShape(
            f"{made.name!r}: rss, and only rss, says how many pods there are in the end: rss-20000p-5000n"
        )
    if made.pods + made.filler > made.nodes * CARDS:
        raise BadShape(
            f"{made.name!r} has {made.pods + made.filler} pods with a GPU each, {made.nodes} nodes have"
            f" {made.nodes * CARDS}: ask for more nodes"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """A shape, who does it, and how often."""

    shape: Shape
    contestant: str
    rounds: int


GANGS = ("kube-gang", "alnair")
EVERYBODY = ("ceiling", "kube", "kube-gang", "alnair")

_ROUNDS = {"gang-625x8-1000n": 3, "gang-625x8-5000n": 2, "gang-10x500-1000n": 2, "single-5000x1-1000n": 2}

WHOLE = (
    "gang-625x8-1000n",
    "gang-10x500-1000n",
    "single-5000x1-1000n",
    "gang-mixed-1000n",
    "gang-infeasible-1000n",
    "latency-1000n",
    "gang-625x8-5000n",
    "latency-5000n",
    "rss-20000p-5000n",
)
"""What `make bench` does when nothing is said; within 40 minutes on two cores."""


def contestants_of(made: Shape) -> tuple[str, ...]:
    """Who can do this work, and whose figure says something about it."""
    match made.kind:
        case "single":
            return ("ceiling", "kube", "alnair")
        case "rss":
            return ("alnair",)
        case "latency":
            return ("kube", "kube-gang", "alnair")
        case "gang" if made.size == 8:
            return EVERYBODY
        case _:
            return GANGS


def plans(names: tuple[str, ...], *, rounds: int | None, only: tuple[str, ...] | None) -> list[Plan]:
    """The work of these names; `only` leaves some contestants out, `rounds` is for every throughput shape."""
    made = []
    for name in names:
        one = shape(name)
        times = 1 if one.kind in ("latency", "rss") else rounds or _ROUNDS.get(name, 1)
        for who in contestants_of(one):
            if only is None or who in only:
                # Of gangs no ratio is to kube-scheduler without them: once is enough, if nothing else is said.
                once = who == "kube" and one.kind == "gang" and rounds is None
                made.append(Plan(one, who, 1 if once else times))
    return made
