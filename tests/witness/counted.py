"""Whole cards of nodes that advertise them, as their kubelets count: what bound pods ask for, and what is promised.

A promise is what a record says: to a pod that is not bound yet, or of a place for a member to come. What somebody else
binds counts when it has been there for a while: no operator can know of it at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from witness.seen import PLACE, Node, Pod
from witness.uses import Given


class Counted:
    def __init__(self) -> None:
        self._told: dict[str, list[tuple[float, Node | None]]] = {}  # node -> since when it says what
        self._bound: dict[str, dict[str, int]] = {}  # node -> UID of a bound pod that lives, or may -> cards
        self._promised: dict[str, dict[str, int]] = {}  # node -> UID, or place -> cards
        self._foreign: dict[str, float] = {}  # UID of a pod that somebody else bound -> when

    def node(self, name: str, node: Node | None, at: float) -> None:
        self._told.setdefault(name, []).append((at, node))

    def bound(self, pod: Pod, at: float) -> None:
        self._bound.setdefault(pod.node, {})[pod.uid] = pod.whole_cards
        if not pod.ours:
            self._foreign[pod.uid] = at

    def ended(self, pod: Pod) -> None:
        self._bound.get(pod.node, {}).pop(pod.uid, None)
        self._foreign.pop(pod.uid, None)

    def freed(self, uid: str) -> None:
        """It may have run on where no kubelet could stop it, and does so no more."""
        for bound in self._bound.values():
            bound.pop(uid, None)

    def promise(self, uid: str, entries: Iterable[Given]) -> None:
        """What the records say of this pod or place now."""
        for promised in self._promised.values():
            promised.pop(uid, None)
        for entry in entries:
            if entry.counts:
                cards = sum(number for _, number in entry.counts)
                self._promised.setdefault(entry.node, {})[uid] = cards

    def too_many(self, name: str, living: Mapping[str, Pod], *, since: float) -> str:
        """What is wrong with the node, which has the most that it had at some time since then; empty if nothing is."""
        most: int | None = None
        for at, node in reversed(self._told.get(name, [])):
            if node is not None and node.gpus is not None:
                most = max(most or 0, node.gpus)
            if at <= since:
                break
        bound, promised = self._bound.get(name, {}), self._promised.get(name, {})
        taken = sum(cards for uid, cards in bound.items() if self._foreign.get(uid, since) <= since)
        to_come = 0
        for uid in promised.keys() - bound.keys():
            if uid in living:
                to_come += living[uid].whole_cards  # containers that run one after the other share theirs
            elif uid.startswith(PLACE):
                to_come += promised[uid]
        if most is None or taken + to_come <= most:
            return ""
        return f"pods on {name} ask for {taken} whole cards, {to_come} are promised, it has {most}"
