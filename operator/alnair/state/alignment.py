"""What a pod asks of the kubelet's CPU, memory and device managers, container by container.

Only what they align with NUMA nodes is kept, by the kubelet's own rules: exclusive CPUs and pinned memory are for pods
of QoS class Guaranteed, CPUs only in whole numbers; devices are for everybody. A pod that asks for none of it has no
`Alignment`, and no rule about NUMA nodes concerns it. Read with every event of every pod, so the way out is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alnair.api import names
from alnair.api.quantity import BILLION, nano, whole
from alnair.state import wire

CARD_RESOURCES = names.GPU_RESOURCES - {names.NVIDIA_GPU}  # counted on cards, never by a device plugin

Amounts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ContainerNeed:
    """One container, in the units that the kubelet counts: CPUs, bytes, devices.

    `passes_on`: an ordinary init container, whose CPUs, memory and devices the containers after it use again.
    """

    name: str
    cpus: int = 0  # exclusive ones; 0 = it runs in the shared pool
    memory: Amounts = ()  # memory and hugepages-*
    devices: Amounts = ()
    passes_on: bool = False
    stays: bool = False  # a sidecar: an init container that runs beside the others


@dataclass(frozen=True, slots=True)
class Alignment:
    """The containers in the order in which the kubelet admits them: init containers first."""

    containers: tuple[ContainerNeed, ...]


def alignment_of(spec: wire.PodSpec) -> Alignment | None:
    """Raises BadQuantity."""
    everyone = [*spec.init_containers, *spec.containers] if spec.init_containers else spec.containers
    devices = False
    for container in everyone:
        for name in container.resources.limits:
            if "/" in name and name not in CARD_RESOURCES:
                devices = True
    # The managers leave pods with resources of their own (spec.resources) alone, but for devices.
    guaranteed = spec.resources is None and is_guaranteed(everyone)
    if not (devices or guaranteed):
        return None
    initial = len(spec.init_containers)
    return Alignment(
        tuple(
            _need(container, guaranteed=guaranteed, init=number < initial)
            for number, container in enumerate(everyone)
        )
    )


def is_guaranteed(containers: Sequence[wire.Container]) -> bool:
    """Every container has limits for cpu and memory, and requests the same."""
    for container in containers:
        limits, requests = container.resources.limits, container.resources.requests
        for name in ("cpu", "memory"):
            limit = limits.get(name)
            if limit is None:
                return False
            request = requests.get(name, limit)
            amount = nano(limit, field=f"resources.limits[{name}]")
            if not amount:
                return False
            if request != limit and nano(request, field=f"resources.requests[{name}]") != amount:
                return False
    return bool(containers)


def _need(container: wire.Container, *, guaranteed: bool, init: bool) -> ContainerNeed:
    limits, requests = container.resources.limits, container.resources.requests
    devices = tuple(
        sorted(
            (name, whole(amount, field=f"resources.limits[{name}]"))
            for name, amount in limits.items()
            if "/" in name and name not in CARD_RESOURCES
        )
    )
    cpus = 0
    memory: Amounts = ()
    if guaranteed:
        asked = nano(requests.get("cpu", limits["cpu"]), field="resources.requests[cpu]")
        cpus = asked // BILLION if asked % BILLION == 0 else 0
        memory = tuple(
            sorted(
                (name, whole(requests.get(name, limit), field=f"resources.requests[{name}]"))
                for name, limit in limits.items()
                if name == "memory" or name.startswith("hugepages-")
            )
        )
    sidecar = init and container.restart_policy == "Always"
    return ContainerNeed(container.name, cpus, memory, devices, passes_on=init and not sidecar, stays=sidecar)
