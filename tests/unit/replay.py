"""A pod's life, lived through: which containers run when, and the most that they ever take of each card.

A second opinion on `Holding.footprint`: it starts and stops containers one by one, and shares no code with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alnair.state.holding import ContainerShare


@dataclass
class Peak:
    """The most at any moment, of one card."""

    memory: int = 0
    compute: int = 0
    users: int = 0
    whole: int = 0


def peaks(containers: Iterable[ContainerShare]) -> dict[str, Peak]:
    """Card -> the most that this pod, lived through from its first container to its last, has of it."""
    seen: defaultdict[str, Peak] = defaultdict(Peak)
    running: list[ContainerShare] = []
    for each in containers:
        if each.stage:
            running.append(each)
            _look(running, seen)
            if each.stage == "Init":
                running.remove(each)
    for each in containers:
        if not each.stage:
            running.append(each)
            _look(running, seen)
    return dict(seen)


def _look(running: Sequence[ContainerShare], seen: defaultdict[str, Peak]) -> None:
    now: defaultdict[str, Peak] = defaultdict(Peak)
    for each in running:
        for piece in each.slices:
            on_it = now[piece.card]
            on_it.memory += piece.memory_mib
            on_it.compute += piece.compute_percent
            on_it.users += 1
            on_it.whole += piece.whole
    for card, most in now.items():
        peak = seen[card]
        for what in ("memory", "compute", "users", "whole"):
            setattr(peak, what, max(getattr(peak, what), getattr(most, what)))
