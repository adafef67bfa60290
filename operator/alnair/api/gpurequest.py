"""What GPUs a pod asks for, container by container, whichever of the dialects it speaks.

A request is read into one shape here and never re-read elsewhere. One that contradicts itself is refused with
a sentence, never guessed at: a wrong guess costs somebody a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

from alnair.api import names
from alnair.api.gpuchoice import ANY_CARD, BadRequest, CardChoice, card_choice, refuse_too_few
from alnair.api.quantity import BadQuantity, integer, mib, milli, shown, whole
from alnair.api.stages import INIT, MAIN, SIDECAR, Stage, moments

__all__ = ["NO_GPU", "BadRequest", "CardChoice", "CardDemand", "GpuRequest", "gpu_request"]

MOST_CARDS: Final = 1024  # for one container
MOST_CONTAINERS: Final = 128  # of one pod that ask for GPUs: as many as a record lists
MOST_MEMORY_MIB: Final = 1_048_576 * 64  # 64 TiB on one card: more is a slip of the pen
_UNITS: Final = ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@dataclass(frozen=True, slots=True)
class CardDemand:
    """One container's demand: `cards` distinct cards of one node, and on each of them this much.

    A slice says its memory in MiB or in per cent of whichever card it lands on, never both. With `whole` each is a
    whole card, shared with nobody, of `memory_mib` at least.
    """

    container: str
    cards: int
    memory_mib: int
    compute_percent: int  # of one card; 0 = counts no compute
    whole: bool
    memory_percent: int = 0
    stage: Stage = MAIN
    named: bool = False  # a whole card that nvidia.com/gpu does not ask for: no device plugin gives it

    def memory_on(self, card_mib: int) -> int:
        """MiB that a slice takes on a card of this size."""
        return -(-card_mib * self.memory_percent // 100) if self.memory_percent else self.memory_mib

    @property
    def size(self) -> int:
        """How large it is beside others, before it is known on which card: a guess where it is in per cent."""
        return self.memory_mib or self.memory_percent * 256


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """All GPU demands of a pod."""

    demands: tuple[CardDemand, ...]  # in running order: init containers first; empty = no GPU
    choice: CardChoice = ANY_CARD
    moments: tuple[tuple[CardDemand, ...], ...] = field(init=False, compare=False, repr=False)
    """Which demands stand beside each other; see api/stages."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "moments", tuple(moments(self.demands)))

    @property
    def from_plugin(self) -> bool:
        """What a device plugin can give: whole cards of its own choice, by number."""
        return not self.choice.by_name and all(demand.whole and not demand.named for demand in self.demands)


NO_GPU: Final = GpuRequest(())

Asked = Mapping[str, str | int]


def gpu_request(
    containers: Iterable[tuple[str, Asked]],
    annotations: Mapping[str, str],
    *,
    init: Iterable[tuple[str, bool, Asked]] = (),
) -> GpuRequest:
    """Read a pod's request. `containers` yields (name, resources: limits over requests) of ordinary containers, `init`
    (name, whether it is a sidecar, resources) of init containers.

    Raises BadRequest.
    """
    everyone: list[tuple[str, Stage, Asked]] = [
        (name, SIDECAR if sidecar else INIT, resources) for name, sidecar, resources in init
    ]
    everyone += [(name, MAIN, resources) for name, resources in containers]
    demands = [
        replace(demand, stage=stage) if stage else demand
        for name, stage, resources in everyone
        if not names.GPU_RESOURCES.isdisjoint(resources)
        and (demand := _by_resource(name, resources)) is not None
    ]
    if len(demands) > MOST_CONTAINERS:
        advice = f"containers ask for GPUs; {MOST_CONTAINERS} is the most"
        raise BadRequest("spec.containers and spec.initContainers", len(demands), advice)
    if not annotations:
        return GpuRequest(tuple(demands)) if demands else NO_GPU
    choice = card_choice(annotations)
    asked = names.GPU_MEMORY if names.GPU_MEMORY in annotations else names.GPU_COUNT
    demand = _by_annotation(annotations)
    if demand is not None:
        if demands:
            raise BadRequest(
                asked,
                annotations[asked],
                f"asks for GPUs, but container {shown(demands[0].container)} asks for some by resource; "
                "keep one of the two",
            )
        stages = {name: stage for name, stage, _ in everyone}
        first = next((name for name, stage in stages.items() if stage == MAIN), None)
        if first is None:
            raise BadRequest(asked, annotations[asked], "is set on a pod without containers")
        container = annotations.get(names.GPU_CONTAINER, first)
        if container not in stages:
            raise BadRequest(names.GPU_CONTAINER, container, "is no container of the pod; write its name")
        demands.append(replace(demand, container=container, stage=stages[container]))
    if names.GPU_SHARING in annotations:
        by_number = {name for name, _, resources in everyone if names.NVIDIA_GPU in resources}
        demands = _as_shared(demands, annotations[names.GPU_SHARING], by_number)
    # A choice of cards alone asks for nothing (a launcher often shares its workers' annotations).
    if not demands:
        return NO_GPU
    request = GpuRequest(tuple(demands), choice)
    refuse_too_few(choice, max(map(_different_cards, request.moments)), annotations)
    return request


def _different_cards(demands: Iterable[CardDemand]) -> int:
    """How many cards these need at least: slices may share with slices, whole cards with nothing."""
    demands = tuple(demands)
    shared = max((demand.cards for demand in demands if not demand.whole), default=0)
    return shared + sum(demand.cards for demand in demands if demand.whole)


def _by_resource(container: str, resources: Asked) -> CardDemand | None:
    where = f"container {shown(container)[1:-1]}: "
    cards = _count(resources, names.NVIDIA_GPU, where, MOST_CARDS)
    memory = _count(resources, names.NVIDIA_GPUMEM, where, MOST_MEMORY_MIB)
    percentage = _percent(resources, names.NVIDIA_GPUMEM_PERCENTAGE, where)
    cores = _percent(resources, names.NVIDIA_GPUCORES, where)
    own_memory = _count(resources, names.VGPU_MEMORY, where, MOST_MEMORY_MIB // 1024)
    own_compute = _percent(resources, names.VGPU_COMPUTE, where)

    if own_memory is not None or own_compute is not None:
        for other, amount in (
            (names.NVIDIA_GPU, cards),
            (names.NVIDIA_GPUMEM, memory),
            (names.NVIDIA_GPUMEM_PERCENTAGE, percentage),
            (names.NVIDIA_GPUCORES, cores),
        ):
            if amount:
                advice = "cannot stand beside alnair/*: a container takes whole cards or one kind of slice"
                raise BadRequest(where + other, amount, advice)
        return _own_slice(container, where, own_memory, own_compute)
    if memory is not None or percentage is not None or cores:
        return _hami_slices(container, where, cards, memory, percentage, cores)
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
    container: str,
    where: str,
    cards: int | None,
    memory_mib: int | None,
    percentage: int | None,
    cores: int | None,
) -> CardDemand:
    """HAMi's names on each of nvidia.com/gpu cards; without a count, on one.

    As HAMi reads them: gpumem goes before gpumem-percentage, and compute without memory has all of the card's.
    """
    asked, amount, unit = names.NVIDIA_GPUMEM, memory_mib, "MiB"
    if not memory_mib and percentage is not None:
        asked, amount, unit = names.NVIDIA_GPUMEM_PERCENTAGE, percentage, "per cent"
    elif memory_mib is None:
        asked, amount, unit = names.NVIDIA_GPUCORES, cores, "per cent"
    if not amount:
        raise BadRequest(where + asked, 0, f"is no memory; write at least 1 ({unit}) or leave it out")
    if cards == 0:
        advice = f"is a part of no card; set {names.NVIDIA_GPU} to 1 or more, or leave it out for one"
        raise BadRequest(where + asked, amount, advice)
    return CardDemand(
        container,
        1 if cards is None else cards,
        memory_mib or 0,
        cores or 0,
        whole=False,
        memory_percent=0 if memory_mib else (100 if percentage is None else percentage),
    )


def _by_annotation(annotations: Mapping[str, str]) -> CardDemand | None:
    """Of a container yet to be named."""
    memory = annotations.get(names.GPU_MEMORY)
    compute = annotations.get(names.GPU_COMPUTE)
    count = annotations.get(names.GPU_COUNT)
    if memory is None and compute is not None:
        advice = f"is set without {names.GPU_MEMORY}; add it, for example 6Gi"
        raise BadRequest(names.GPU_COMPUTE, compute, advice)
    if memory is None and count is None:
        return None
    try:
        cards = 1 if count is None else integer(count, field=names.GPU_COUNT, low=1, high=MOST_CARDS)
        if memory is None:
            return CardDemand("", cards, 0, 0, whole=True, named=True)
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
    except BadQuantity as error:
        raise BadRequest(error.field, error.value, error.reason) from error
    return CardDemand("", cards, memory_mib, percent, whole=False)


def _as_shared(demands: list[CardDemand], sharing: str, by_number: Set[str]) -> list[CardDemand]:
    """As ai.centaurus.io/gpu-sharing says: with `exclusive`, slices become whole cards of at least their size.

    `by_number`: containers that a device plugin would hear of.
    """
    if sharing not in (names.EXCLUSIVE, names.SHARED):
        advice = f"is neither {names.EXCLUSIVE} nor {names.SHARED}; write one of them"
        raise BadRequest(names.GPU_SHARING, sharing, advice)
    if sharing == names.EXCLUSIVE:
        return [
            demand
            if demand.whole
            else replace(
                demand,
                whole=True,
                compute_percent=0,
                memory_percent=0,
                named=demand.container not in by_number,
            )
            for demand in demands
        ]
    for demand in demands:
        if demand.whole:
            advice = f"cannot be: container {shown(demand.container)} asks for whole cards; ask for a slice"
            raise BadRequest(names.GPU_SHARING, sharing, advice)
    return demands


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
