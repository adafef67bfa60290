"""What GPUs a pod asks for, container by container, whichever of the four dialects it speaks.

A request is read into one shape here and never re-read elsewhere. One that contradicts itself is refused with
a sentence, never guessed at: a wrong guess costs somebody a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from alnair.api import names
from alnair.api.quantity import BadQuantity, integer, mib, milli, shown, whole

MOST_CARDS: Final = 1024  # for one container
MOST_MEMORY_MIB: Final = 1_048_576 * 64  # 64 TiB on one card: more is a slip of the pen
_MOST_MODELS: Final = 32
_LONGEST_MODEL: Final = 128
_UNITS: Final = ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class BadRequest(ValueError):
    """A GPU request that cannot be honoured. The message names the field, the value and what to write."""

    def __init__(self, field: str, value: object, advice: str) -> None:
        super().__init__(f"{field}: {shown(value)} {advice}")
        self.field = field
        self.value = value
        self.advice = advice


@dataclass(frozen=True, slots=True)
class CardDemand:
    """One container's demand: `cards` distinct cards of one node, and on each of them this much."""

    container: str
    cards: int
    memory_mib: int  # 0 with whole=True
    compute_percent: int  # of one card; 0 = counts no compute
    whole: bool  # a whole card each, shared with nobody


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """All GPU demands of a pod."""

    demands: tuple[CardDemand, ...]  # in container order; empty = no GPU
    models: tuple[str, ...] = ()  # allowed models, as the pod spells them; empty = any


NO_GPU: Final = GpuRequest(())


def gpu_request(
    containers: Iterable[tuple[str, Mapping[str, str | int]]], annotations: Mapping[str, str]
) -> GpuRequest:
    """Read a pod's request. `containers` yields (name, resources: limits over requests) of main containers.

    Raises BadRequest.
    """
    first: str | None = None
    demands: list[CardDemand] = []
    for name, resources in containers:
        if first is None:
            first = name
        if not names.GPU_RESOURCES.isdisjoint(resources):
            demand = _by_resource(name, resources)
            if demand is not None:
                demands.append(demand)
    models = _models(annotations[names.GPU_MODEL]) if names.GPU_MODEL in annotations else ()
    demand = _by_annotation(first or "", annotations)
    if demand is not None:
        if demands:
            raise BadRequest(
                names.GPU_MEMORY,
                annotations[names.GPU_MEMORY],
                f"asks for a slice, but container {shown(demands[0].container)} asks for GPUs by resource; "
                "keep one of the two",
            )
        if first is None:
            raise BadRequest(
                names.GPU_MEMORY, annotations[names.GPU_MEMORY], "is set on a pod without containers"
            )
        demands.append(demand)
    # A list of models alone asks for nothing (a launcher often shares its workers' annotations).
    return GpuRequest(tuple(demands), models) if demands else NO_GPU


def _by_resource(container: str, resources: Mapping[str, str | int]) -> CardDemand | None:
    where = f"container {shown(container)[1:-1]}: "
    cards = _count(resources, names.NVIDIA_GPU, where, MOST_CARDS)
    memory = _count(resources, names.NVIDIA_GPUMEM, where, MOST_MEMORY_MIB)
    cores = _percent(resources, names.NVIDIA_GPUCORES, where)
    own_memory = _count(resources, names.VGPU_MEMORY, where, MOST_MEMORY_MIB // 1024)
    own_compute = _percent(resources, names.VGPU_COMPUTE, where)

    if own_memory is not None or own_compute is not None:
        for other, amount in (
            (names.NVIDIA_GPU, cards),
            (names.NVIDIA_GPUMEM, memory),
            (names.NVIDIA_GPUCORES, cores),
        ):
            if amount:
                advice = "cannot stand beside alnair/*: a container takes whole cards or one kind of slice"
                raise BadRequest(where + other, amount, advice)
        return _own_slice(container, where, own_memory, own_compute)
    if memory is not None:
        return _hami_slices(container, where, cards, memory, cores)
    if cores:
        advice = (
            f"is compute without memory; add {names.NVIDIA_GPUMEM} (MiB), or leave it out for whole cards"
        )
        raise BadRequest(where + names.NVIDIA_GPUCORES, cores, advice)
    return CardDemand(container, cards, 0, 0, whole=True) if cards else None


def _own_slice(container: str, where: str, memory_gib: int | None, compute: int | None) -> CardDemand:
    """alnair/vgpu-memory and alnair/vgpu-compute: one slice."""
    if memory_gib is None:
        advice = f"is compute without memory; add {names.VGPU_MEMORY} (GiB)"
        raise BadRequest(where + names.VGPU_COMPUTE, compute, advice)
    if memory_gib == 0:
        raise BadRequest(where + names.VGPU_MEMORY, 0, "is no memory; write at least 1 (GiB) or leave it out")
    return CardDemand(container, 1, memory_gib * 1024, compute or 0, whole=False)


def _hami_slices(
    container: str, where: str, cards: int | None, memory_mib: int, cores: int | None
) -> CardDemand:
    """nvidia.com/gpumem and nvidia.com/gpucores on each of nvidia.com/gpu cards; without a count, on one."""
    if memory_mib == 0:
        raise BadRequest(
            where + names.NVIDIA_GPUMEM, 0, "is no memory; write at least 1 (MiB) or leave it out"
        )
    if cards == 0:
        advice = f"is memory on no card; set {names.NVIDIA_GPU} to 1 or more, or leave it out for one"
        raise BadRequest(where + names.NVIDIA_GPUMEM, memory_mib, advice)
    return CardDemand(container, 1 if cards is None else cards, memory_mib, cores or 0, whole=False)


def _by_annotation(container: str, annotations: Mapping[str, str]) -> CardDemand | None:
    memory = annotations.get(names.GPU_MEMORY)
    compute = annotations.get(names.GPU_COMPUTE)
    count = annotations.get(names.GPU_COUNT)
    if memory is None:
        for key, value in ((names.GPU_COMPUTE, compute), (names.GPU_COUNT, count)):
            if value is not None:
                raise BadRequest(key, value, f"is set without {names.GPU_MEMORY}; add it, for example 6Gi")
        return None
    try:
        memory_mib = mib(memory, field=names.GPU_MEMORY)
        if not memory.endswith(_UNITS):
            raise BadRequest(
                names.GPU_MEMORY, memory, "has no unit of bytes; write for example 6Gi or 6000Mi"
            )
        if whole(memory, field=names.GPU_MEMORY) < 1 << 20:
            raise BadRequest(names.GPU_MEMORY, memory, "is less than 1Mi; write for example 6Gi or 6000Mi")
        if memory_mib > MOST_MEMORY_MIB:
            raise BadRequest(
                names.GPU_MEMORY, memory, f"is more than any card has ({MOST_MEMORY_MIB}Mi is the most)"
            )
        percent = 0 if compute is None else integer(compute, field=names.GPU_COMPUTE, low=0, high=100)
        cards = 1 if count is None else integer(count, field=names.GPU_COUNT, low=1, high=MOST_CARDS)
    except BadQuantity as error:
        raise BadRequest(error.field, error.value, error.reason) from error
    return CardDemand(container, cards, memory_mib, percent, whole=False)


def _models(text: str) -> tuple[str, ...]:
    """The allow list, in order, each model once."""
    field = names.GPU_MODEL
    if len(text) > _MOST_MODELS * (_LONGEST_MODEL + 2):
        raise BadRequest(field, text, f"is too long; name at most {_MOST_MODELS} models")
    models = tuple(dict.fromkeys(part.strip(" ") for part in text.split(",")))
    if "" in models:
        raise BadRequest(field, text, "has an empty entry; separate models by single commas")
    if len(models) > _MOST_MODELS:
        raise BadRequest(field, text, f"names {len(models)} models; at most {_MOST_MODELS} are allowed")
    for model in models:
        if len(model) > _LONGEST_MODEL or not (model.isascii() and model.isprintable()):
            raise BadRequest(
                field, model, f"is no model name; write at most {_LONGEST_MODEL} printable ASCII characters"
            )
    return models


def _count(resources: Mapping[str, str | int], name: str, where: str, most: int) -> int | None:
    """A resource that is counted in whole units, or None where it is not asked for."""
    if name not in resources:
        return None
    value = resources[name]
    try:
        thousandths = milli(value, field=where + name)
    except BadQuantity as error:
        raise BadRequest(error.field, error.value, error.reason) from error
    amount, rest = divmod(thousandths, 1000)
    if rest:
        raise BadRequest(where + name, value, "is not a whole number")
    if amount > most:
        raise BadRequest(where + name, value, f"is out of range; {most} is the most")
    return amount


def _percent(resources: Mapping[str, str | int], name: str, where: str) -> int | None:
    amount = _count(resources, name, where, MOST_MEMORY_MIB)
    if amount is not None and amount > 100:
        raise BadRequest(where + name, resources[name], "is more than 100 per cent of a card; write 0 to 100")
    return amount
