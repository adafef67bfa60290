"""Remembered answers: what a profile's rules say of every node to a shape, kept from one plan to the next.

Between two plans a few nodes change out of thousands, so only those are asked again. Only rules whose answer hangs on
the node alone are remembered (FIXED and ROW); those that speak of other pods are asked anew each time.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from alnair.scheduling.plugins.interface import Floats
from alnair.scheduling.profile import Profile
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass, PodShape

MOST_BOARDS = 256


class Boards:
    """One for each (profile, shape, named node, state of its storage), the one asked for longest ago forgotten first.

    A profile that was made anew is another one: what was remembered of the old one is no longer asked for.
    Asked only while nothing is scribbled on the draft: what is remembered must be true of the books.
    """

    def __init__(self) -> None:
        self._boards: OrderedDict[tuple[Profile, PodShape, str, int], tuple[int, Floats]] = OrderedDict()

    def rated(self, pod: PodClass, profile: Profile, draft: Draft) -> Floats:
        """The local rating of every node; not to be written to."""
        stores = bool(pod.shape.claims or pod.shape.disks)
        key = (profile, pod.shape, pod.node_name, draft.volumes.version if stores else 0)
        version, ratings = self._boards.get(key, (-1, None))
        if ratings is None or len(ratings) != len(draft.names):
            ratings = profile.rated_locally(pod, draft)
        elif version < draft.version:
            rows = np.flatnonzero(draft.changed_at > version)
            if len(rows):
                ratings[rows] = profile.rated_locally(pod, draft.at(rows))
        self._boards[key] = (draft.version, ratings)
        self._boards.move_to_end(key)
        if len(self._boards) > MOST_BOARDS:
            self._boards.popitem(last=False)
        return ratings
