"""What really fits, as the allocator asks for it: sizes of elastic gangs, tried out in a draft by the gang search."""

from __future__ import annotations

from collections.abc import Sequence

from alnair.api.nearness import BadLevel
from alnair.control.asking import Asker, sample
from alnair.control.elastic.members import Sized, take_out
from alnair.control.profiles import Profiles
from alnair.scheduling import search
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.holding import Holding


class Seats:
    """Nothing may wait between its first and its last answer: it scribbles on the books."""

    def __init__(
        self, gangs: Sequence[Sized], *, asker: Asker, profiles: Profiles, state: ClusterState, draft: Draft
    ) -> None:
        self._gangs = gangs
        self._asker = asker
        self._profiles = profiles
        self._state = state
        self._draft = draft
        self._mark = len(draft.journal)
        self._left = [0] * len(gangs)  # members taken out
        self._found: list[list[Holding]] = [[] for _ in gangs]  # places for more
        self.why: dict[int, str] = {}  # why a gang found no more

    def fits(self, sizes: Sequence[int]) -> bool:
        left = [max(0, sized.size - size) for sized, size in zip(self._gangs, sizes, strict=True)]
        more = [max(0, size - sized.size) for sized, size in zip(self._gangs, sizes, strict=True)]
        if left != self._left or any(len(have) > want for have, want in zip(self._found, more, strict=True)):
            self._start_over(left)
        return all(self._seat(at, number) for at, number in enumerate(more))

    def places(self, at: int) -> list[Holding]:
        """For the members that this gang has more, in the last answer that was yes."""
        return list(self._found[at])

    def _start_over(self, left: list[int]) -> None:
        self._draft.wipe(keep=self._mark)
        self._found = [[] for _ in self._gangs]
        self._left = left
        for sized, number in zip(self._gangs, left, strict=True):
            for member in sized.leaving()[:number]:
                take_out(member, self._state, self._draft)

    def _seat(self, at: int, number: int) -> bool:
        """So many places in all for this gang."""
        gang, found = self._gangs[at].gang, self._found[at]
        missing = number - len(found)
        if missing <= 0:
            return True
        try:
            nodes = (holding.node for holding in found)
            asked = self._asker.searched_more(gang, sample(gang), missing, nodes, needed=missing)
        except BadLevel as error:
            self.why[at] = str(error)
            return False
        verdict = search.place(asked, self._profiles[gang.scheduler], self._draft)
        if not isinstance(verdict, search.Plan):
            self.why[at] = verdict.message
            return False
        found += [holding for _, holding in verdict.placements]
        return True
