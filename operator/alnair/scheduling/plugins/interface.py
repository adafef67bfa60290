"""What a rule looks like.

A rule is a pure function from (shape of pods, draft of the cluster) to one value a node. It is asked once a shape for
all nodes, and again for a single node after a member of the gang was put there, so it must not compare nodes with
each other: what it says of a node depends on that node alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from alnair.api.gpurequest import CardDemand
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.pods import PodShape

Floats = NDArray[np.float64]


class Filter(Protocol):
    """May a pod of this shape go to a node?"""

    name: str
    follows_usage: bool
    """Whether the answer changes as pods are placed. One that does not is asked once a shape."""

    def passes(self, shape: PodShape, draft: Draft) -> Bools:
        """One answer a node."""

    def reasons(self, shape: PodShape, draft: Draft, failed: Ints) -> Sequence[tuple[str, int]]:
        """Why these rows failed: (phrase that starts with is, has or does, how many nodes)."""


class Scorer(Protocol):
    """How good is a node that passed? From 0 (worst) to 1 (best)."""

    name: str

    def score(self, shape: PodShape, draft: Draft) -> Floats: ...


class Picker(Protocol):
    """Which cards of the chosen node? The candidates in order of preference."""

    name: str

    def order(self, demand: CardDemand, draft: Draft, row: int, candidates: Ints) -> Ints: ...
