"""Those for whom no node would do, and the word that makes kube-scheduler try them again.

kube-scheduler tries a pod that an extender refused again at any event that it hears of. That a pod is gone it hears
when we do, and asks at once; but the cards are free only when the record says so, a moment later, and of that it hears
nothing. Where nothing else happens the pod would wait for minutes. So a condition is written on the pod itself, which
is such an event, once there is room on a node that it would accept.

A few at a time: with room for one, hundreds may hope. Who is told and finds no room after all comes back by being
refused again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any

import numpy as np

from alnair.api import names
from alnair.extender.questions import Questions
from alnair.kube import Client, Refused, Unanswered
from alnair.kube.client import STRATEGIC_PATCH
from alnair.kube.clock import Clock
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.pods import Pod
from alnair.state.shapes import PodShape

log = logging.getLogger(__name__)

ROUND_SECONDS = 0.5
TOLD_AT_ONCE = 8
MOST_WAITING = 10_000


class Waiting:
    """`refused` from the filter; `tell` again and again while leading."""

    def __init__(self, client: Client, *, state: ClusterState, questions: Questions, clock: Clock) -> None:
        self._client = client
        self._state = state
        self._questions = questions
        self._clock = clock
        self._refused: OrderedDict[str, int] = OrderedDict()  # pod UID -> version of the books then
        self._looked_at = 0

    def refused(self, pod: Pod) -> None:
        """No node would do, as the books are now."""
        self._refused[pod.uid] = self._state.version
        self._looked_at = min(self._looked_at, self._state.version)
        while len(self._refused) > MOST_WAITING:
            self._refused.popitem(last=False)

    async def tell(self) -> None:
        """One round."""
        for pod in self.hopeful(most=TOLD_AT_ONCE):
            await self._tell(pod)

    def hopeful(self, *, most: int) -> list[Pod]:
        """Up to so many for whom room has come since they were refused, the most important first. They are forgotten,
        and so are those who are gone or bound."""
        found: list[Pod] = []
        if self._state.freed <= self._looked_at or self._questions.terms is None:
            return found
        known: dict[tuple[PodShape, int], bool] = {}
        with self._state.draft() as draft:
            for pod in self._still_waiting():
                if self._has_hope(pod, draft, known):
                    del self._refused[pod.uid]
                    found.append(pod)
                    if len(found) == most:
                        return found
        self._looked_at = self._state.version
        return found

    def _still_waiting(self) -> list[Pod]:
        pods = {uid: self._state.pods.get(uid) for uid in self._refused}
        waiting = [pod for pod in pods.values() if pod is not None and pod.waiting]
        for uid in pods.keys() - {pod.uid for pod in waiting}:
            del self._refused[uid]
        return sorted(waiting, key=lambda pod: -pod.priority)

    def _has_hope(self, pod: Pod, draft: Draft, known: dict[tuple[PodShape, int], bool]) -> bool:
        """Whether a node that changed since would take it. Rules of its own kube-scheduler asks itself."""
        version = self._refused[pod.uid]
        key = (pod.shape, version)
        if key not in known:
            rows = np.flatnonzero(self._state.freed_at > version)
            profile, kind = self._questions.profile, guest(pod)
            known[key] = bool(profile.pass_all(profile.filters, kind, draft.at(rows)).any())
        return known[key]

    async def _tell(self, pod: Pod) -> None:
        condition: dict[str, Any] = {
            "type": names.CARDS_FREED,
            "status": "True",
            "reason": "CardsFreed",
            "message": f"cards came free on a node that passes (books {self._state.version}); to be tried again",
            "lastTransitionTime": self._clock.stamp(),
        }
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        try:
            await self._client.patch(path, body, kind=STRATEGIC_PATCH)
        except (Refused, Unanswered) as error:
            log.info("pod %s: not told that there is room: %s", pod, error)
