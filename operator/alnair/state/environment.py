"""Whether the containers of a pod read their cards from the annotations that its Binding will fill.

The environment is put there at creation by the chart's admission policy, and cannot be changed afterwards. A variable
whose annotation is missing resolves to an empty string, so a pod is only bound where every annotation that it reads
will be written: `names.env_key` of each container with cards, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from alnair.api import names
from alnair.api.gpurequest import CardDemand, GpuRequest
from alnair.api.quantity import shown
from alnair.api.text import one_line
from alnair.state import wire

Reading = Mapping[str, str]  # variable -> field path that it reads, empty if none

_DECODER = msgspec.json.Decoder(list[wire.EnvVar])
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
        read = {container.name: _reading(container) for container in _containers(spec)}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return True, f"spec.containers: the environment cannot be read: {one_line(str(error), most=300)}"
    told = any(_OURS in path for reading in read.values() for path in reading.values())
    by_resource = {each.name for each in _containers(spec) if names.NVIDIA_GPU in each.resources.limits}
    if not told and all(demand.whole and demand.container in by_resource for demand in gpu.demands):
        return False, ""
    return True, _lacking(gpu.demands, read) or _unwritten(gpu.demands, read)


def _lacking(demands: tuple[CardDemand, ...], read: Mapping[str, Reading]) -> str:
    for demand in demands:
        if demand.cards > names.MOST_LIMITED_CARDS and not demand.whole:
            asked = f"asks for slices of {demand.cards} cards"
            return f"{_named(demand.container)}: {asked}; its environment has room for {names.MOST_LIMITED_CARDS}"
        there = read.get(demand.container, {})
        for variable, path in _wanted(demand.container, demand.cards, demand.whole).items():
            if there.get(variable) != path:
                return f"{_named(demand.container)}: env {variable} is not read from {path}: {ADVICE}"
    return ""


def _unwritten(demands: tuple[CardDemand, ...], read: Mapping[str, Reading]) -> str:
    written, cards = _written(demands), {demand.container: demand.cards for demand in demands}
    for container, reading in read.items():
        for variable, path in reading.items():
            if _OURS in path and path not in written and not _is_limit(path, cards):
                reads = f"env {shown(variable)[1:-1]} reads {shown(path)[1:-1]}"
                return f"{_named(container)}: {reads}, which is of no card of this pod; remove it"
    return ""


def _is_limit(path: str, cards: Mapping[str, int]) -> bool:
    """It reads the limit of one of a container's cards, however many these are."""
    container, _, value = path.removeprefix("metadata.annotations['").removesuffix("']").partition(_OURS)
    index = value.removeprefix(names.MEMORY_LIMIT)
    if not (index.isascii() and index.isdecimal() and len(index) <= 4):
        return False
    limit = _path(container, f"{names.MEMORY_LIMIT}{int(index)}")
    return path == limit and int(index) < cards.get(container, 0)


def _path(container: str, value: str) -> str:
    return f"metadata.annotations['{names.env_key(container, value)}']"


def _named(container: str) -> str:
    return f"container {shown(container)[1:-1]}"


@lru_cache(maxsize=1024)
def _wanted(container: str, cards: int, whole: bool) -> Reading:
    return {
        variable: _path(container, value)
        for variable, value in names.env_of_container(cards, whole=whole).items()
    }


@lru_cache(maxsize=64)
def _written(demands: tuple[CardDemand, ...]) -> frozenset[str]:
    """What a Binding tells the containers, limits of whole cards too; those of the first cards."""
    return frozenset(
        path
        for demand in demands
        for path in _wanted(demand.container, min(demand.cards, names.MOST_LIMITED_CARDS), False).values()
    )


def _containers(spec: wire.PodSpec) -> Iterator[wire.Container]:
    yield from spec.init_containers
    yield from spec.containers


def _reading(container: wire.Container) -> Reading:
    """Of two variables with one name the last counts."""
    if not wire.present(container.env):
        return {}
    return {
        variable.name: variable.value_from.field_ref.field_path
        if variable.value_from is not None and variable.value_from.field_ref is not None
        else ""
        for variable in _DECODER.decode(container.env)
    }
