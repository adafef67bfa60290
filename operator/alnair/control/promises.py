"""Room that comes free for a gang when members of others have left.

Members of elastic gangs that leave for a waiting gang are gone some seconds later. Until then nothing is held in the
books, but whoever is planned behind that gang finds its places taken. A promise is over when its gang has been planned
or is gone, and a moment after nobody is leaving for it any more: what was made room for fits by then, or not at all.
Who leaves in the end may be others than were asked to, or nobody: that is their controllers' choice, and hands'.
Whoever was turned away for its sake is looked at again when it is over, for nothing else need change then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from alnair.control.gangs import Gang, Key
from alnair.kube.clock import Clock
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.holding import Holding
from alnair.state.pods import Pod
from alnair.state.shapes import PodClass, room_of

PROMISE_SECONDS = 120.0
MOMENT_SECONDS = 3.0


@dataclass(slots=True)
class _Promise:
    gang: Gang
    rooms: list[tuple[Holding, PodClass]]
    leaving: Callable[[], bool]  # whether anybody is still on the way out
    until: float


class Promises:
    def __init__(self, *, state: ClusterState, clock: Clock, before: Callable[[Gang, Gang], bool]) -> None:
        """`before`: whether the one gang's turn is before the other's."""
        self._state = state
        self._clock = clock
        self._before = before
        self._made: dict[Key, _Promise] = {}

    def make(self, gang: Gang, placements: list[tuple[Pod, Holding]], leaving: Callable[[], bool]) -> None:
        self.end(gang)  # whom an earlier one turned away may be helped by this one
        rooms = [(holding, gang.kind(pod)) for pod, holding in placements]
        until = self._clock.now() + PROMISE_SECONDS
        self._made[gang.key] = _Promise(gang, rooms, leaving, until)

    def end(self, gang: Gang) -> None:
        if self._made.pop(gang.key, None) is not None:
            self._state.free_everywhere()

    def pass_time(self) -> None:
        over = [key for key, promise in self._made.items() if self._is_over(promise)]
        for key in over:
            del self._made[key]
        if over:
            self._state.free_everywhere()

    def made_to(self, gang: Gang) -> bool:
        promise = self._made.get(gang.key)
        return promise is not None and not self._is_over(promise)

    def _is_over(self, promise: _Promise) -> bool:
        now = self._clock.now()
        if not promise.leaving():
            promise.until = min(promise.until, now + MOMENT_SECONDS)
        return now > promise.until or not any(pod.waiting for pod in promise.gang.pods.values())

    def keep(self, draft: Draft, gang: Gang | None = None) -> None:
        """Write into the draft what was promised to those before this gang; without a gang, to all."""
        for promise in self._made.values():
            if self._is_over(promise):
                continue
            if gang is None or (promise.gang is not gang and self._before(promise.gang, gang)):
                for holding, pod in promise.rooms:
                    if (row := self._state.row(holding.node)) is not None:
                        draft.take(row, room_of(pod), holding.containers)
