"""Asking kube-scheduler: which nodes does this pod fit?

The pod is created and nothing else: kube-scheduler tries it, tells the extender which nodes passed, is told that
none will do, and writes the condition PodScheduled=False. That condition is waited for in every case; if the
extender was not called before it, no node passed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from conformance.drawing.words import SCHEDULER, Manifest
from conformance.kinds import everywhere, path_of
from conformance.plane import Plane
from conformance.stage import create, was_tried

TRIED_WITHIN_SECONDS = 120


@dataclass(frozen=True)
class Answer:
    """One pod's: the nodes it fits, and what kube-scheduler said. `pod` is as the apiserver keeps it."""

    pod: Manifest
    nodes: frozenset[str]
    reason: str
    message: str


async def ask(plane: Plane, pods: list[Manifest]) -> dict[str, Answer]:
    """By name. The pods stay, unbound; ask again after `forget`."""
    made = await asyncio.gather(*(create(plane.api, pod) for pod in pods))
    by_uid = {pod["metadata"]["uid"]: pod for pod in made}
    conditions: dict[str, Manifest] = {}

    def all_tried(seen: list[Manifest]) -> bool:
        for pod in seen:
            uid = pod["metadata"]["uid"]
            if uid in by_uid and (condition := was_tried(pod)) is not None:
                conditions[uid] = condition
        return len(conditions) == len(by_uid)

    await plane.api.until_all(
        everywhere("Pod"),
        all_tried,
        fields=f"spec.schedulerName={SCHEDULER}",
        timeout=TRIED_WITHIN_SECONDS,
        what="kube-scheduler's verdicts",
    )
    return {
        pod["metadata"]["name"]: Answer(
            pod=pod,
            nodes=plane.extender.passed.pop(uid, frozenset()),
            reason=conditions[uid].get("reason", ""),
            message=conditions[uid].get("message", ""),
        )
        for uid, pod in by_uid.items()
    }


async def forget(plane: Plane, pods: list[Manifest]) -> None:
    """Takes pods under test away again."""
    await asyncio.gather(*(plane.api.delete(path_of(pod), grace=0) for pod in pods))
