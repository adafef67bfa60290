"""The words in which kinds of request are drawn: what a kind is, and what it may speak of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from alnair.sandbox import fleet
from conformance.drawing.dice import Dice
from harness.builders import PodBuilder
from witness.requests import Asked

MODELS = (fleet.A100_80, fleet.A100_40, fleet.A10, fleet.L4, fleet.T4, fleet.V100)
LARGEST_GIB = max(kind.memory_mib for kind in MODELS) // 1024
MAIN = "main"

Drawn = tuple[PodBuilder, Asked | None]
"""The pod with its request, and what it must be given; None if it must never be bound."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a request may speak of."""

    cards: tuple[str, ...] = ()
    """Names of cards that may be given by name."""


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    weight: float
    draw: Callable[[Dice, PodBuilder, Scene], Drawn]
