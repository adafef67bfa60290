"""What a rule looks like.

A rule is a pure function from (class of pods, draft of the cluster) to one value a node. Its `scope` says what a
placement can change about the answer, and so how often it is asked while a gang is placed:

    FIXED    nothing: once a class
    ROW      the answer for the node where a pod was put: again for that one
    DOMAIN   the answer anywhere, because it speaks of other pods: again for all nodes

What a FIXED or ROW rule says of a node depends on that node alone; only a DOMAIN rule may compare nodes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from alnair.api.gpurequest import CardDemand
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.shapes import PodClass

if TYPE_CHECKING:
    from alnair.scheduling.classes import MemberClass
    from alnair.scheduling.model import Model

Floats = NDArray[np.float64]


class Scope(enum.Enum):
    FIXED = "fixed"
    ROW = "row"
    DOMAIN = "domain"


class Filter(Protocol):
    """May a pod of this class go to a node?"""

    name: str
    scope: Scope

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        """False: every node passes, there is nothing to ask. Cheap, and sure: in doubt True."""

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        """One answer a node."""

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        """Why these rows failed: (phrase that starts with is, has or does, how many nodes)."""


@runtime_checkable
class Linear(Protocol):
    """A filter that also says itself in rows of numbers, for the exact search (see scheduling/model).

    A filter without this is asked once, with no member placed yet, and must be one that other members can only turn
    from yes to no. What members do to each other under such a rule is looked at when the solver is done, and then
    it is too late to try something else: the verdict is `Unsure`.
    """

    def possible(self, pod: PodClass, draft: Draft) -> Bools:
        """N: whether a member of this class could ever stand there, whatever the other members do."""

    def traits(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        """N each: what the rows look at. Nodes that are alike in all of it can stand in for one another."""

    def stock(self, classes: Sequence[MemberClass], draft: Draft) -> Iterable[Ints]:
        """N each: what they look at too, but where a node with more can stand in for one with less."""

    def constrain(self, model: Model) -> None:
        """Add the rows. They hold exactly where each member passes beside all the others."""


class Scorer(Protocol):
    """How good is a node that passed? From 0 (worst) to 1 (best)."""

    name: str
    scope: Scope

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        """False: all nodes are equally good to it. Of a FIXED or ROW scorer it hangs on the pod alone: its scores are
        remembered, and one that is asked from some moment on would favour the nodes that changed since."""

    def score(self, pod: PodClass, draft: Draft) -> Floats: ...


class Picker(Protocol):
    """Which cards of the chosen node?"""

    name: str

    def keys(self, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        """One for each candidate: smaller is better, equal is as good. Links decide between those, see links."""
