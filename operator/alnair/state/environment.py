"""Whether the containers of a pod read their cards from the annotations that its Binding will fill.

The environment is put there at creation by the chart's admission policy, and cannot be changed afterwards. A variable
whose annotation is missing resolves to an empty string, so a pod is only bound where every annotation that it reads
will be written: `names.env_key` of each container with cards, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from alnair.api import names
from alnair.api.gpurequest import CardDemand, GpuRequest
from alnair.api.quantity import shown
from alnair.state import wire

_DECODER = msgspec.json.Decoder(list[wire.EnvVar])
_OPENING, _CLOSING = "metadata.annotations['", "']"
_OURS = f".{names.ENV_DOMAIN}/"
ADVICE = (
    "the policy that sets it was not in force when the pod was created; delete the pod and create it again "
    "(or say delivery.enabled: false where something else hands out the cards)"
)


def environment(spec: wire.PodSpec, gpu: GpuRequest) -> tuple[bool, str]:
    """Whether the pod reads its cards from its environment, and what is wrong if it can be bound nowhere.

    Whole cards that are asked for by resource can be had from a device plugin without it; nothing else can.
    """
    try:
        read = {container.name: dict(_references(container)) for container in _containers(spec)}
    except msgspec.DecodeError as error:
        return True, f"spec.containers: the environment cannot be read: {error}"
    told = any(_OURS in key for variables in read.values() for key in variables.values())
    if not told and all(demand.whole and _by_resource(demand, spec) for demand in gpu.demands):
        return False, ""
    return True, _lacking(gpu.demands, read) or _unwritten(gpu.demands, read)


def _by_resource(demand: CardDemand, spec: wire.PodSpec) -> bool:
    return any(
        container.name == demand.container and names.NVIDIA_GPU in container.resources.limits
        for container in _containers(spec)
    )


def _lacking(demands: Iterable[CardDemand], read: dict[str, dict[str, str]]) -> str:
    for demand in demands:
        if demand.cards > names.MOST_LIMITED_CARDS and not demand.whole:
            return (
                f"container {shown(demand.container)[1:-1]}: asks for slices of {demand.cards} cards; "
                f"its environment has room for {names.MOST_LIMITED_CARDS}"
            )
        there = read.get(demand.container, {})
        for variable, value in names.env_of_container(demand.cards, whole=demand.whole).items():
            key = names.env_key(demand.container, value)
            if there.get(variable) != key:
                where = f"container {shown(demand.container)[1:-1]}"
                return f"{where}: env {variable} is not read from annotation {key}: {ADVICE}"
    return ""


def _unwritten(demands: Iterable[CardDemand], read: dict[str, dict[str, str]]) -> str:
    written = {
        names.env_key(demand.container, value)
        for demand in demands
        for value in names.env_of_container(demand.cards, whole=False).values()
    }
    for container, variables in read.items():
        for variable, key in variables.items():
            if _OURS in key and key not in written:
                where = f"container {shown(container)[1:-1]}: env {shown(variable)[1:-1]}"
                return (
                    f"{where} reads annotation {shown(key)[1:-1]}, which is of no card of this pod; remove it"
                )
    return ""


def _containers(spec: wire.PodSpec) -> Iterator[wire.Container]:
    yield from spec.init_containers
    yield from spec.containers


def _references(container: wire.Container) -> Iterator[tuple[str, str]]:
    """(variable, annotation that it reads, or nothing) in order: of two with one name the last counts."""
    if not wire.present(container.env):
        return
    for variable in _DECODER.decode(container.env):
        source = variable.value_from.field_ref if variable.value_from is not None else None
        path = source.field_path if source is not None else ""
        key = path[len(_OPENING) : -len(_CLOSING)] if path.startswith(_OPENING) else ""
        yield variable.name, key
