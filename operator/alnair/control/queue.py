"""Who is tried next: by priority, as the profile has it, by age; and who need not be, for nothing that it lacks came.

A gang is tried when something about itself changed, and after a refusal only when room came back on a node that one
of its pods would accept. Nothing is tried on a timer, and nobody who waits stands in the way of those behind: the
queue holds gangs, never capacity. (Quotas and fair shares belong here: they decide the rank.)
"""

from __future__ import annotations

import heapq

from alnair.control.gangs import Gang, Key
from alnair.control.profiles import Profiles
from alnair.control.room import Room
from alnair.kube.clock import Clock
from alnair.scheduling.guard import RuleFailed
from alnair.scheduling.plugins.interface import Waiting
from alnair.scheduling.profile import Profile
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

Rank = tuple[int, float, str, Key]

UNDECIDED_SECONDS = 30.0  # after room came, for who is undecided: a search may take ten


class Queue:
    """`touch` whom something happened to, `next` for the best of them, `wait_for_room` after a refusal."""

    def __init__(self, state: ClusterState, profiles: Profiles, clock: Clock) -> None:
        self._state = state
        self._profiles = profiles
        self._clock = clock
        self._touched: dict[Key, Gang] = {}
        self._ranked: list[tuple[Rank, int, Gang]] = []
        self._queued: dict[Key, Gang] = {}
        self._waiting: dict[Key, Gang] = {}
        self._pushed = 0
        self._looked_at = 0

    def touch(self, gang: Gang) -> None:
        """Something about the gang changed: it is worth a try."""
        if not gang.pods:
            self.forget(gang)  # now: a successor of its name may stand in its place when it is its turn
        if gang.pods or gang.key not in self._touched:  # an empty one never hides its successor of that name
            self._touched[gang.key] = gang

    def wait_for_room(self, gang: Gang, wanted: tuple[PodClass, ...], *, since: int) -> None:
        """It does not fit the books of version `since`. `wanted`: one pod of each shape that is to be placed."""
        gang.refused_at, gang.wanted = since, wanted
        self._waiting[gang.key] = gang
        self._looked_at = min(self._looked_at, since)

    def forget(self, gang: Gang) -> None:
        """It waits for nothing any more, or not for room."""
        if self._waiting.get(gang.key) is gang:
            del self._waiting[gang.key]

    def waiting_for_room(self) -> list[Gang]:
        """Who was found not to fit, in order."""
        return sorted((gang for gang in self._waiting.values() if gang.pods), key=self._order)

    def others_wait(self, gang: Gang) -> bool:
        """Somebody else is to be placed, or was found not to fit."""
        return any(
            other is not gang and other.pods
            for kept in (self._touched, self._queued, self._waiting)
            for other in kept.values()
            if kept is self._waiting or any(pod.waiting for pod in other.pods.values())
        )

    def before(self, one: Gang, other: Gang) -> bool:
        return self._order(one) < self._order(other)

    def _order(self, gang: Gang) -> Rank:
        """Who comes first. Quotas and fair shares belong here."""
        return (-gang.priority, self._rank(gang), gang.created, gang.key)

    def next(self) -> Gang | None:
        """The best gang that may be tried now."""
        if max(self._state.freed, self._state.arrived) > self._looked_at:
            self._looked_at = self._state.version
            self._look_at_those_waiting()
        self._rank_touched()
        while self._ranked:
            _, _, gang = heapq.heappop(self._ranked)
            if self._queued.get(gang.key) is not gang:
                continue  # another gang has its name by now, and an entry of its own
            del self._queued[gang.key]
            if not (gang.busy or gang.pondering) and gang.pods and self._clock.now() >= gang.retry_after:
                return gang
        return None

    def _rank_touched(self) -> None:
        for key, gang in self._touched.items():
            if not gang.pods:
                self.forget(gang)
            elif self._queued.get(key) is not gang:
                self._pushed += 1
                heapq.heappush(self._ranked, (self._order(gang), self._pushed, gang))
                self._queued[key] = gang
        self._touched.clear()

    def _rank(self, gang: Gang) -> float:
        """By the profile's own order; 0 where it has none."""
        profile = self._profiles.get(gang.scheduler)
        if profile is None or profile.sorter is None:
            return 0.0
        waiting = Waiting(
            namespace=gang.key[0],
            name=str(gang).partition("/")[2],
            priority=gang.priority,
            created=gang.created,
            needed=gang.min_member,
            pods=tuple(guest(pod) for pod in gang.waiting()),
        )
        try:
            return profile.sorter.rank(waiting)
        except RuleFailed as failure:
            self._profiles.failed(gang.scheduler, failure)
            return 0.0

    # -- room ----------------------------------------------------------------------------------------------------

    def _look_at_those_waiting(self) -> None:
        waiting = [(gang, self._profiles.get(gang.scheduler)) for gang in self._waiting.values() if gang.pods]
        with self._state.draft() as draft:
            room = Room(draft, self._state.freed_at)
            for gang, profile in waiting:
                if profile is not None and gang.refused_at < self._state.freed:
                    room.awaited(profile, gang.wanted, since=gang.refused_at)
            for gang, profile in waiting:
                if gang.refused_at < self._state.freed:
                    if self._has_hope(gang, profile, draft, room):
                        # Who is undecided is asked another question now, and need not sleep as long as for the same.
                        gang.retry_after = min(gang.retry_after, self._clock.now() + UNDECIDED_SECONDS)
                        self.touch(gang)
                    gang.refused_at = self._state.version
                elif gang.refused_at < self._state.arrived and self._awaits_company(gang, profile, draft):
                    self.touch(gang)
                    gang.refused_at = self._state.version

    def _has_hope(self, gang: Gang, profile: Profile | None, draft: Draft, room: Room) -> bool:
        """Whether a node that changed since the refusal would take one of its pods. Rules about other pods can change
        their mind anywhere, so where they had a say, or have one now, there is always hope."""
        if gang.minds_company or gang.short_since is not None:
            return (
                True  # a kept place is taken in the books, and no rule about free room tells that it opened
            )
        if self._may_have_moved(gang):
            return True
        if profile is None:
            return False
        try:
            return any(
                any(rule.concerns(pod, draft) for rule in profile.wide_filters)
                or room.takes(profile, pod, since=gang.refused_at)
                for pod in gang.wanted
            )
        except RuleFailed:
            return True  # whoever plans it finds out again, and says so

    @staticmethod
    def _awaits_company(gang: Gang, profile: Profile | None, draft: Draft) -> bool:
        """A pod that comes can be what it waits for, as the rules about other pods have it."""
        if profile is None:
            return False
        try:
            return any(profile.awaits_company(pod, draft) for pod in gang.wanted)
        except RuleFailed:
            return True

    def _may_have_moved(self, gang: Gang) -> bool:
        """Its members are to be in one domain, and a node where it has some changed: it may be in another by now, with
        room on nodes that did not change at all."""
        wish = gang.wish
        if wish is None or not wish.required:
            return False
        rows = {self._state.row(pod.node) for pod in gang.pods.values() if pod.node and not pod.terminal}
        return any(row is not None and self._state.freed_at[row] > gang.refused_at for row in rows)
