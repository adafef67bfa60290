"""A scenario as it grows while it is drawn: the objects, and what is left on each node.

What is left is counted here by the drawer's own simple means (it knows what it gave out), only to aim at the edge.
No verdict ever comes from it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from conformance.drawing.dice import Dice
from conformance.drawing.words import Manifest


@dataclass
class Place:
    """A node while it is drawn. `left` in the smallest units: thousandths of a cpu, bytes, pieces."""

    manifest: Manifest
    left: Counter[str] = field(default_factory=Counter)
    promised: Counter[str] = field(default_factory=Counter)
    """What nominated pods would take."""

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.manifest["metadata"]["labels"]
        return labels

    @property
    def taints(self) -> list[dict[str, str]]:
        taints: list[dict[str, str]] = self.manifest["spec"].get("taints", [])
        return taints


@dataclass
class World:
    dice: Dice
    prefix: str
    """Starts the name of every object without a namespace, so that two scenarios never meet in one."""
    places: list[Place] = field(default_factory=list)
    objects: list[Manifest] = field(default_factory=list)
    """Everything that is neither a node nor a pod."""
    existing: list[Manifest] = field(default_factory=list)
    nominated: list[Manifest] = field(default_factory=list)
    crowd: tuple[str, str] = ("red", "web")
    """Namespace and app of the many equal pods that spread rules count."""
    counters: Counter[str] = field(default_factory=Counter)

    def fresh(self, kind: str) -> str:
        """A name that nothing else has: `s4-pv-7`."""
        self.counters[kind] += 1
        return f"{self.prefix}-{kind}-{self.counters[kind]}"

    def fresh_number(self, kind: str) -> int:
        self.counters[kind] += 1
        return self.counters[kind]
