"""Which rule decided? The one without which the answer would be another.

Two ways to tell, both by our own filters alone: a filter decided where it is the only one that refuses the node; and a
rule in a manifest decided where the answer flips once it is taken out of the manifest (out of the pod's, or of what
is in the cluster). `count` does both for a scenario.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import orjson

from conformance.drawing.words import Manifest
from conformance.ours import Books, Opinion
from conformance.rules.in_cluster import IN_CLUSTER
from conformance.rules.in_pod import IN_POD
from conformance.rules.in_volumes import IN_VOLUMES
from conformance.stage import World

T = TypeVar("T")
Judged = Sequence[tuple[Manifest, Opinion]]


def names() -> tuple[str, ...]:
    return (*IN_POD, *IN_VOLUMES, *IN_CLUSTER)


def count(world: World, books: Books, judged: Judged, decided: Counter[str]) -> None:
    nodes = [node["metadata"]["name"] for node in world["Node"]]
    for pod, opinion in judged:
        for node in nodes:
            deciders = opinion.deciders(node)
            if len(deciders) == 1:
                decided[deciders[0]] += 1
        for name, without in IN_POD.items():
            _count_pod(name, without, pod, opinion, books, decided)
        if "volumes" in pod["spec"]:
            for name, without_volume in IN_VOLUMES.items():
                _count_pod(name, partial(without_volume, world=world), pod, opinion, books, decided)
    for name, (change, concerns) in IN_CLUSTER.items():
        if not any(concerns(pod) for pod, _ in judged):
            continue
        changed = _copy(world)
        if not change(changed):
            continue
        other = Books(changed)
        for pod, opinion in judged:
            if concerns(pod):
                decided[name] += len(opinion.nodes ^ other.fits(pod))


def _count_pod(
    name: str,
    without: Callable[[Manifest], bool],
    pod: Manifest,
    opinion: Opinion,
    books: Books,
    decided: Counter[str],
) -> None:
    changed = _copy(pod)
    if without(changed):
        decided[name] += len(opinion.nodes ^ books.fits(changed))


def _copy(thing: T) -> T:
    copied: T = orjson.loads(orjson.dumps(thing))
    return copied
