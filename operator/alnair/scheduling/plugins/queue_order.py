"""Sorters: who is tried first among gangs of one priority. Between equals the older one goes first."""

from __future__ import annotations

from alnair.scheduling.plugins.interface import Waiting


def cards_asked(gang: Waiting) -> int:
    """Cards that the gang holds at least a part of when all of it is placed."""
    return sum(max((demand.cards for demand in pod.shape.gpu.demands), default=0) for pod in gang.pods)


class FewestCards:
    """Small gangs slip in before large ones: shorter queues, and large ones wait longer."""

    name = "FewestCards"

    def rank(self, gang: Waiting) -> float:
        return cards_asked(gang)


class MostCards:
    """Large gangs first, while there is room for them."""

    name = "MostCards"

    def rank(self, gang: Waiting) -> float:
        return -cards_asked(gang)
