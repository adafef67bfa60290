"""A trace: which machines there are, and which jobs come.

The card of a trace is a card of 1,000 MiB, and a slice of so many thousandths of it has so many MiB: exact, and nothing
in the books has to know that it is a simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from alnair.api import names
from alnair.api.gpurequest import NO_GPU, CardChoice, CardDemand, GpuRequest
from alnair.scheduling.elastic.curves import Curve
from alnair.state.nodes import Node
from alnair.state.shapes import PodShape

CARD = 1000  # thousandths, and MiB
ROOMY = 1_000_000  # pods on a node: traces do not limit them
CONTAINER = "main"


class BadTrace(ValueError):
    """A trace that cannot be read; the message names the file, the line, the field and the value."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of the trace: cpu in thousandths, memory in MiB, equal cards."""

    name: str
    cpu: int
    memory_mib: int
    cards: int
    model: str = ""

    def node(self) -> Node:
        labels = {names.GPU_OWNER: names.OWNED_BY_ALNAIR}
        if self.cards:
            labels |= {
                names.GFD_COUNT: str(self.cards),
                names.GFD_MEMORY: str(CARD),
                names.GFD_PRODUCT: self.model,
            }
        there = {"cpu": self.cpu, "memory": self.memory_mib << 20, "pods": ROOMY}
        return Node(
            name=self.name,
            uid=self.name,
            labels=labels,
            annotations=(),
            taints=(),
            unschedulable=False,
            ready=True,
            allocatable=tuple(sorted(there.items())),
        )


@dataclass(frozen=True, slots=True)
class Elastic:
    """The job may run with so many pods, and is as fast with each number as the curve says."""

    least: int
    most: int
    curve: Curve


@dataclass(frozen=True, slots=True)
class Job:
    """Equal pods that start together. Cpu in thousandths, memory in MiB, the GPU in thousandths of each of `cards`.

    `arrives` and `lasts` are in seconds; a job that lasts None never ends. An elastic job lasts so long with `pods`.
    """

    name: str
    cpu: int
    memory_mib: int
    cards: int = 0
    gpu: int = 0
    models: tuple[str, ...] = ()
    pods: int = 1
    arrives: float = 0.0
    lasts: float | None = None
    elastic: Elastic | None = None
    shape: PodShape = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        gpu = NO_GPU
        if self.cards:
            whole = self.gpu >= CARD
            gpu = GpuRequest(
                (CardDemand(CONTAINER, self.cards, 0 if whole else self.gpu, 0, whole=whole),),
                CardChoice(models=self.models),
            )
        asked = {"cpu": self.cpu, "memory": self.memory_mib << 20, "pods": 1}
        requests = tuple(sorted((name, amount) for name, amount in asked.items() if amount))
        object.__setattr__(self, "shape", PodShape(requests=requests, gpu=gpu))

    @property
    def gpu_milli(self) -> int:
        """All that it asks of cards, in thousandths of one."""
        return self.pods * self.cards * self.gpu


@dataclass(frozen=True, slots=True)
class Trace:
    machines: tuple[Machine, ...]
    jobs: tuple[Job, ...]

    @property
    def gpu_milli(self) -> int:
        """All cards of all machines."""
        return CARD * sum(machine.cards for machine in self.machines)
