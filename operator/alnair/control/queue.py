"""Who is tried next: by priority, then age; and who need not be tried because nothing that it lacks has come.

A gang is tried when something about itself changed, and after a refusal only when room came back on a node that one
of its pods would accept. Nothing is tried on a timer, and nobody who waits stands in the way of those behind: the
queue holds gangs, never capacity. (Quotas and fair shares belong here: they decide the rank.)
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np

from alnair.control.gangs import Gang, Key
from alnair.kube.clock import Clock
from alnair.scheduling.profile import Profile
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass, PodShape

Rank = tuple[int, str, Key]


class Queue:
    """`touch` whom something happened to, `next` for the best of them, `wait_for_room` after a refusal."""

    def __init__(self, state: ClusterState, profiles: Mapping[str, Profile], clock: Clock) -> None:
        self._state = state
        self._profiles = profiles
        self._clock = clock
        self._touched: dict[Key, Gang] = {}
        self._ranked: list[tuple[Rank, int, Gang]] = []
        self._queued: set[Key] = set()
        self._waiting: dict[Key, Gang] = {}
        self._pushed = 0
        self._looked_at = 0

    def touch(self, gang: Gang) -> None:
        """Something about the gang changed: it is worth a try."""
        self._touched[gang.key] = gang

    def wait_for_room(self, gang: Gang, wanted: tuple[PodClass, ...], *, since: int) -> None:
        """It does not fit the books of version `since`. `wanted`: one pod of each shape that is to be placed."""
        gang.refused_at, gang.wanted = since, wanted
        self._waiting[gang.key] = gang
        self._looked_at = min(self._looked_at, since)

    def forget(self, gang: Gang) -> None:
        """It waits for nothing any more, or not for room."""
        self._waiting.pop(gang.key, None)

    def next(self) -> Gang | None:
        """The best gang that may be tried now."""
        if self._state.freed > self._looked_at:
            self._looked_at = self._state.version
            self._look_at_those_waiting()
        self._rank_touched()
        while self._ranked:
            _, _, gang = heapq.heappop(self._ranked)
            self._queued.discard(gang.key)
            if not (gang.busy or gang.pondering) and gang.pods and self._clock.now() >= gang.retry_after:
                return gang
        return None

    def _rank_touched(self) -> None:
        for key, gang in self._touched.items():
            if not gang.pods:
                self._waiting.pop(key, None)
            elif key not in self._queued:
                self._pushed += 1
                rank = (-gang.priority, gang.created, key)
                heapq.heappush(self._ranked, (rank, self._pushed, gang))
                self._queued.add(key)
        self._touched.clear()

    # -- room ----------------------------------------------------------------------------------------------------

    def _look_at_those_waiting(self) -> None:
        known: dict[tuple[str, PodShape, int], bool] = {}
        with self._state.draft() as draft:
            for gang in self._waiting.values():
                if gang.refused_at < self._state.freed and gang.pods:
                    if self._has_hope(gang, draft, known):
                        self.touch(gang)
                    gang.refused_at = self._state.version

    def _has_hope(self, gang: Gang, draft: Draft, known: dict[tuple[str, PodShape, int], bool]) -> bool:
        """Whether a node that changed since the refusal would take one of its pods. Rules about other pods can change
        their mind anywhere, so with them there is always hope."""
        profile = self._profiles[gang.scheduler]
        for pod in gang.wanted:
            if any(rule.concerns(pod, draft) for rule in profile.wide_filters):
                return True
            key = (profile.name, pod.shape, gang.refused_at)
            if key not in known:
                rows = np.flatnonzero(self._state.freed_at > gang.refused_at)
                known[key] = bool(profile.pass_all(profile.local_filters, pod, draft.at(rows)).any())
            if known[key]:
                return True
        return False
