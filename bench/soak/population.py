"""Who comes and goes: gangs and lone pods, with whole cards and with slices, and some that fit nowhere. Pure.

Half of the nodes have cards of a device plugin's, half have cards of Alnair's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from alnair.api import names
from alnair.sandbox.fleet import Owner, gpu_node
from bench.manifests import NAMESPACE, Manifest, node_name

CARDS: Final = 8
CARD_MIB: Final = 40960
TOO_MANY: Final = CARDS + 1


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    size: int
    requests: dict[str, str]
    weight: float
    alike: bool = True
    """Else each crowd asks for another amount of memory, so that nothing learned of one is of use for the next."""

    @property
    def fits(self) -> bool:
        return self.requests.get(names.NVIDIA_GPU) != str(TOO_MANY)


KINDS: Final = (
    Kind("whole-8", 8, {names.NVIDIA_GPU: "1"}, 4),
    Kind("slices-4", 4, {names.VGPU_MEMORY: "10", names.VGPU_COMPUTE: "25"}, 12),
    Kind("slices-16", 16, {names.VGPU_MEMORY: "5"}, 4),
    Kind("lone-slice", 1, {names.VGPU_MEMORY: "8"}, 16),
    Kind("cpu-2", 2, {}, 4),
    Kind("never", 2, {names.NVIDIA_GPU: str(TOO_MANY)}, 1),
)
NEVER: Final = KINDS[-1]
NEVER_ALIKE: Final = replace(NEVER, name="never-alike", alike=False)
"""As many shapes as gangs."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """A gang, or a pod that is alone."""

    name: str
    kind: Kind
    number: int

    @property
    def pod_names(self) -> list[str]:
        return [f"{self.name}-{member}" for member in range(self.kind.size)]

    @property
    def is_gang(self) -> bool:
        return self.kind.size > 1

    def group(self) -> Manifest:
        return {
            "apiVersion": names.API_PODGROUP,
            "kind": names.KIND_PODGROUP,
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {"minMember": self.kind.size},
        }

    def pods(self) -> Iterator[Manifest]:
        asked = self.kind.requests
        memory_mib = 128 if self.kind.alike else 128 + self.number
        resources = {"requests": {"cpu": "100m", "memory": f"{memory_mib}Mi", **asked}, "limits": asked}
        labels = {"app": "soak", **({names.POD_GROUP_LABEL: self.name} if self.is_gang else {})}
        for name in self.pod_names:
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
                "spec": {
                    "schedulerName": names.PROFILE_DEFAULT,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [
                        {"name": "main", "image": "registry.example/trainer:1", "resources": resources}
                    ],
                },
            }


class Population:
    """Draws from a seed; the same seed, the same crowds in the same order."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"soak/{seed}")
        self._number = 0
        self.there: list[Crowd] = []
        self.settlers = 0
        """How many of `there`, from its beginning, go before anybody else does."""

    @property
    def pods(self) -> int:
        return sum(crowd.kind.size for crowd in self.there)

    def comes(self, kind: Kind | None = None) -> Crowd:
        self._number += 1
        drawn = kind or self._chance.choices(KINDS, [each.weight for each in KINDS])[0]
        crowd = Crowd(f"{drawn.name}-{self._number:06d}", drawn, self._number)
        self.there.append(crowd)
        return crowd

    def settle(self) -> None:
        """All who are there now came at once: they go first, in any order."""
        self.settlers = len(self.there)

    def goes(self) -> Crowd:
        """One of the settlers while there are any, then anybody."""
        there = self.there
        among = self.settlers or len(there)
        at = self._chance.randrange(among)
        gone = there[at]
        there[at] = there[among - 1]  # the settlers stay in front
        there[among - 1] = there[-1]
        there.pop()
        self.settlers = max(0, self.settlers - 1)
        return gone


def node(number: int) -> Manifest:
    """One of two has a device plugin; 300 pods fit, so that cards are what is short."""
    owner: Owner = "device-plugin" if number % 2 else "alnair"
    return gpu_node(node_name(number), model="A100", cards=CARDS, memory_mib=CARD_MIB, owner=owner, pods=300)
