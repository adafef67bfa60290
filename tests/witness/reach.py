"""Pods that were deleted by force where no kubelet could stop them: they may still run on their cards.

Nobody may have what they hold before their node is ready again, or gone. The operator hears of a node a moment later:
only one that was out of reach for a while already is meant.
"""

from __future__ import annotations

from witness.seen import Node


class Reach:
    def __init__(self) -> None:
        self._away: dict[str, float] = {}  # node that is not ready -> since when
        self._held: dict[str, str] = {}  # UID -> its node

    def node(self, name: str, node: Node | None, at: float) -> list[str]:
        """Returns the pods that are really gone now."""
        if node is not None and not node.ready:
            self._away.setdefault(name, at)
            return []
        self._away.pop(name, None)
        free = [uid for uid, where in self._held.items() if where == name]
        for uid in free:
            del self._held[uid]
        return free

    def lost(self, uid: str, node: str, *, since: float) -> bool:
        """A pod vanished from that node; whether it counts as still there."""
        if self._away.get(node, since) >= since:
            return False
        self._held[uid] = node
        return True

    def held(self, uid: str) -> bool:
        return uid in self._held

    def let_go(self, uid: str) -> str | None:
        """Its record lets go of it: the node that it may still run on, if there is one."""
        return self._held.pop(uid, None)
