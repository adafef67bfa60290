"""Pods that reach the kubelet at about the same time, in an order that nobody knows.

Which NUMA nodes are left for a pod hangs on who came before it, so several pods fit on a node together only if each is
admitted in every order. Equal pods are all one; of unequal ones every order is gone through, as far as is affordable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from math import prod

from alnair.scheduling.numa.admit import admit
from alnair.state.alignment import Alignment
from alnair.state.machine import Machine, Rules

# Beyond these the answer is no: pods on their way to one node, and parts of that crowd to be gone through.
MOST_PODS = 128
MOST_GATHERINGS = 500

Crowd = frozenset[tuple[Alignment, int]]  # each kind of pod, and how many of it
End = tuple[
    Machine, frozenset[str]
]  # a machine with pods on it, and the devices of which it is left to chance where


def crowd(pods: Iterable[Alignment]) -> Crowd:
    return frozenset(Counter(pods).items())


def all_admitted(machine: Machine, rules: Rules, pods: Crowd) -> bool:
    """In whatever order they come."""
    counts = [count for _, count in pods]
    if sum(counts) > MOST_PODS or prod(count + 1 for count in counts) > MOST_GATHERINGS:
        return False
    return ends(machine, rules, pods) is not None


@lru_cache(maxsize=1 << 13)
def ends(machine: Machine, rules: Rules, pods: Crowd) -> frozenset[End] | None:
    """How the machine may look when all are there; None if one is, or may be, refused in some order."""
    if not pods:
        return frozenset([(machine, frozenset())])
    found: set[End] = set()
    for last, _ in pods:
        before = ends(machine, rules, without(pods, last))
        if before is None:
            return None
        for so_far, unsettled in before:
            if unsettled and not unsettled.isdisjoint(devices(last)):
                return None
            verdict = admit(last, so_far, rules)
            if not verdict.admitted or not verdict.certain:
                return None
            found.add((verdict.machine, unsettled | verdict.unsettled))
    return frozenset(found)


def masks(machine: Machine, rules: Rules, others: Crowd, pod: Alignment) -> set[tuple[int | None, ...]]:
    """Where its containers may be if it comes after all the others; empty if any of them may be refused."""
    if not all_admitted(machine, rules, others):
        return set()
    verdicts = [admit(pod, so_far, rules) for so_far, _ in ends(machine, rules, others) or ()]
    return {verdict.masks for verdict in verdicts if verdict.admitted}


def without(pods: Crowd, one: Alignment) -> Crowd:
    return frozenset((kind, count - (kind == one)) for kind, count in pods if kind != one or count > 1)


def devices(pod: Alignment) -> set[str]:
    return {name for each in pod.containers for name, _ in each.devices}
