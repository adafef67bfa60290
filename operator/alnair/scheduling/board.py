"""Remembered answers: what a profile's rules say of every node to a shape, kept from one plan to the next.

Between two plans a few nodes change out of thousands, so only those are asked again. Only rules whose answer hangs on
the node alone are remembered (FIXED and ROW); those that speak of other pods are asked anew each time. Measured loads
change all the time: only a profile with a scorer that looks at them (`reads_load`) asks again for their sake.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from alnair.scheduling.plugins.interface import Floats
from alnair.scheduling.profile import Profile
from alnair.state.draft import Draft, Ints
from alnair.state.shapes import PodClass, PodShape

MOST_BOARDS = 256


class _Board(NamedTuple):
    profile: Profile
    version: int
    """Of the books."""
    measured: int
    """The version of the loads."""
    ratings: Floats


class Boards:
    """One for each (profile, shape, named node, state of its storage), the one asked for longest ago forgotten first.

    A profile that was made anew, as one that goes by the pods that come is every few minutes, is another one: what was
    remembered of the old one gives way to it.
    Asked only while nothing is scribbled on the draft: what is remembered must be true of the books.
    """

    def __init__(self) -> None:
        self._boards: OrderedDict[tuple[str, PodShape, str, int], _Board] = OrderedDict()

    def rated(self, pod: PodClass, profile: Profile, draft: Draft) -> Floats:
        """The local rating of every node; not to be written to."""
        stores = bool(pod.shape.claims or pod.shape.disks)
        key = (profile.name, pod.shape, pod.node_name, draft.volumes.version if stores else 0)
        board = self._boards.get(key)
        if board is None or board.profile is not profile or len(board.ratings) != len(draft.names):
            ratings = profile.rated_locally(pod, draft)
        else:
            ratings, rows = board.ratings, _changed(draft, board)
            if len(rows):
                ratings[rows] = profile.rated_locally(pod, draft.glance(rows))
        self._boards[key] = _Board(profile, draft.version, draft.load.version, ratings)
        self._boards.move_to_end(key)
        if len(self._boards) > MOST_BOARDS:
            self._boards.popitem(last=False)
        return ratings


def _changed(draft: Draft, board: _Board) -> Ints:
    """The rows of which something is new since the board was made."""
    changed = np.zeros(len(draft.names), dtype=np.bool_)
    if board.version < draft.version:
        changed = draft.changed_at > board.version
    if board.measured < draft.load.version and any(
        getattr(scorer, "reads_load", False) for scorer, _ in board.profile.local_scorers
    ):
        changed = changed | (draft.load.changed_at > board.measured)
    return np.flatnonzero(changed)
