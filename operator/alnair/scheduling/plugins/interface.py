"""What a rule looks like.

A rule is a pure function from (class of pods, draft of the cluster) to one value a node. Its `scope` says what a
placement can change about the answer, and so how often it is asked while a gang is placed:

    FIXED    nothing: once a class
    ROW      the answer for the node where a pod was put: again for that one
    DOMAIN   the answer anywhere, because it speaks of other pods: again for all nodes

What a FIXED or ROW rule says of a node depends on that node alone; only a DOMAIN rule may compare nodes.

A rule is a class. Each profile that names it makes one object of it: without arguments, or, where the class has an
attribute `Options` (a pydantic model whose fields all have defaults), with the options that the profile gives. One
class may serve several points, a scorer that picks cards too, say: then a profile has one object for all of them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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

    def reasons(self, pod: PodClass, draft: Draft, failed: Ints) -> Sequence[tuple[str, Ints]]:
        """Why these rows failed: (phrase that starts with is, has or does, those of them that it is true of)."""


def by_phrase(rows: Ints, phrase: Callable[[int], str]) -> list[tuple[str, Ints]]:
    """Rows of which the same is to be said, the most common first; an empty phrase says nothing."""
    found: dict[str, list[int]] = {}
    for row in rows.tolist():
        found.setdefault(phrase(row), []).append(row)
    found.pop("", None)
    most_common = sorted(found.items(), key=lambda pair: -len(pair[1]))
    return [(told, np.array(there, dtype=np.int64)) for told, there in most_common]


def without(rows: Ints, others: Ints) -> Ints:
    """Those of the rows that are not among the others. (`np.setdiff1d` sorts both first: a dozen of these were most of
    what a refusal takes.)"""
    return rows[np.isin(rows, others, invert=True)]


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


@runtime_checkable
class Awaiting(Protocol):
    """A DOMAIN filter that knows when one more pod in the cluster can turn its no into a yes. Of one without this it is
    taken that any can, wherever the rule concerns the pod: who waits is tried again with every pod that comes."""

    def awaits(self, pod: PodClass, draft: Draft) -> bool: ...


class Scorer(Protocol):
    """How good is a node that passed? From 0 (worst) to 1 (best).

    One that looks at `draft.load`, what was measured, has an attribute `reads_load = True`: otherwise its scores are
    remembered while loads change.
    """

    name: str
    scope: Scope

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        """False: all nodes are equally good to it. Of a FIXED or ROW scorer it hangs on the pod alone: its scores are
        remembered, and one that is asked from some moment on would favour the nodes that changed since."""

    def score(self, pod: PodClass, draft: Draft) -> Floats: ...


class NodePicker(Protocol):
    """Which of the nodes that passed? Without one, the first of those with the highest score."""

    name: str

    def choose(self, pod: PodClass, draft: Draft, rows: Ints, scores: Floats) -> int:
        """A position in `rows`, the nodes of the draft that passed; there is at least one."""


class Picker(Protocol):
    """Which cards of the chosen node?"""

    name: str

    def keys(self, pod: PodClass, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints:
        """One for each candidate: smaller is better, equal is as good. Links decide between those, see links."""


@runtime_checkable
class Learner(Protocol):
    """A rule that goes by what has come so far."""

    def arrived(self, pod: PodClass) -> bool:
        """Told once of every pod that comes to any profile. True: what it said of nodes before holds no more."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang that waits for its turn. `created` as Kubernetes writes it: text that sorts by time."""

    namespace: str
    name: str
    priority: int
    created: str
    needed: int
    pods: tuple[PodClass, ...]


class Sorter(Protocol):
    """Who is tried first? Only among gangs of one priority, and between equals the older one goes first."""

    name: str

    def rank(self, gang: Waiting) -> float:
        """Smaller goes first. Asked when something happens to the gang, not all the time."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One pod's place. `cards` by name; empty where it has none, or a device plugin picks."""

    namespace: str
    pod: str
    uid: str
    node: str
    cards: tuple[str, ...]


class Veto(Exception):
    """A rule around the placement says no. The text is told to people, and the gang is tried again after a while."""


class Reserve(Protocol):
    """Asked with a whole plan before anything is written: a budget, a licence server's books. Must not wait."""

    name: str

    def reserve(self, placements: Sequence[Placement]) -> None:
        """Raises Veto: nothing is placed."""

    def unreserve(self, placements: Sequence[Placement]) -> None:
        """It came to nothing for these after all; also told where it was another rule that said no."""


class PreBind(Protocol):
    """What must be done between the decision and the Binding, for one pod. The decision is recorded by then: after a
    crash it is asked again."""

    name: str

    async def pre_bind(self, placement: Placement) -> None:
        """Raises Veto: the pod is not bound there, and its gang is planned again."""


class PostBind(Protocol):
    """Told of each pod that was bound; whatever it does, the pod stays bound."""

    name: str

    async def post_bind(self, placement: Placement) -> None: ...
