"""What one pod holds on its node: the words that plans, records, Bindings and the books share.

A holding is a value. It goes from a plan into the record, from there into the pod's annotation, and is read back
from either after a restart; it means the same everywhere.

What must never happen here: slices added up. Containers that never run at the same time share what they hold; what
a pod takes of its cards is its `footprint`, and whoever counts asks for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from alnair.api.gpurequest import MOST_CONTAINERS
from alnair.api.stages import INIT, MAIN, SIDECAR, Stage, moments

LONGEST = 65_536


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of one card, or all of it (`whole`: then shared with nobody)."""

    card: str
    memory_mib: int
    compute_percent: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ContainerShare:
    """One container's part: exact slices, or on a device plugin's node just a number of whole cards."""

    name: str
    slices: tuple[Slice, ...] = ()
    counted: int = 0
    stage: Stage = MAIN


@dataclass(frozen=True, slots=True)
class CardUse:
    """What a pod takes of one card, over all moments of its life: the most of each."""

    card: str
    memory_mib: int
    compute_percent: int
    slots: int  # containers that use it at the same time
    whole: int  # those of them that share with nobody: 0 or 1, if nobody wrote nonsense
    clash: bool = False  # in some moment one that shares with nobody is not alone


@dataclass(frozen=True, slots=True)
class Holding:
    """Where a pod is, and what it holds there, in running order. No containers = it holds no GPU."""

    node: str
    containers: tuple[ContainerShare, ...] = ()

    def slices(self) -> Iterable[Slice]:
        return (piece for container in self.containers for piece in container.slices)

    @property
    def cards(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(piece.card for piece in self.slices()))

    def footprint(self) -> tuple[CardUse, ...]:
        """What it takes of each card."""
        return footprint(self.containers)

    @property
    def counted(self) -> int:
        """Whole cards that a device plugin picks."""
        return max((sum(share.counted for share in moment) for moment in moments(self.containers)), default=0)


def footprint(containers: Sequence[ContainerShare]) -> tuple[CardUse, ...]:
    """What these containers of one pod, in running order, take of each card, one entry a card."""
    if (
        len(containers) == 1 and len(containers[0].slices) == 1
    ):  # most pods, and this is asked with every event
        (piece,) = containers[0].slices
        return (CardUse(piece.card, piece.memory_mib, piece.compute_percent, 1, int(piece.whole)),)
    peaks: dict[str, CardUse] = {}
    for moment in moments(containers):
        beside: dict[str, list[Slice]] = {}
        for container in moment:
            for piece in container.slices:
                beside.setdefault(piece.card, []).append(piece)
        for card, pieces in beside.items():
            now = _together(card, pieces)
            before = peaks.get(card)
            peaks[card] = now if before is None else _larger(before, now)
    return tuple(peaks.values())


def _together(card: str, pieces: Sequence[Slice]) -> CardUse:
    whole = sum(piece.whole for piece in pieces)
    return CardUse(
        card,
        sum(piece.memory_mib for piece in pieces),
        sum(piece.compute_percent for piece in pieces),
        len(pieces),
        whole,
        clash=bool(whole) and len(pieces) > 1,
    )


def _larger(one: CardUse, other: CardUse) -> CardUse:
    return CardUse(
        one.card,
        max(one.memory_mib, other.memory_mib),
        max(one.compute_percent, other.compute_percent),
        max(one.slots, other.slots),
        max(one.whole, other.whole),
        one.clash or other.clash,
    )


MOST_COUNTED = 1024
STAGES: tuple[Stage, ...] = (MAIN, INIT, SIDECAR)


def shares_to_json(shares: Iterable[ContainerShare]) -> dict[str, Any]:
    """As it stands in a record, with each pod: `containers` for cards, `gpuCounts` for numbers of them. An object in a
    list costs the apiserver as much as the rest of the pod's entry, and a number needs none; but a map has no order, so
    where some are init containers the numbers stand in the list too."""
    shares = list(shares)
    if any(share.stage for share in shares):
        return {"containers": containers_to_json(shares)}
    containers = containers_to_json(share for share in shares if share.slices)
    counts = {share.name: share.counted for share in shares if share.counted}
    return {
        **({"containers": containers} if containers else {}),
        **({"gpuCounts": counts} if counts else {}),
    }


def shares_from_json(entry: dict[str, Any]) -> tuple[ContainerShare, ...]:
    """The reverse, for text that anybody may have written. Raises ValueError with what is wrong."""
    counts = entry.get("gpuCounts") or {}
    if not isinstance(counts, dict):
        raise ValueError(f"gpuCounts is {type(counts).__name__}, not a map")
    counted = (ContainerShare(name, counted=_number(counts, name, most=MOST_COUNTED)) for name in counts)
    return containers_from_json(entry.get("containers") or []) + tuple(counted)


def containers_to_json(containers: Iterable[ContainerShare]) -> list[dict[str, Any]]:
    """As it stands in the pod's annotation and, where they hold cards by name, in the record."""
    return [
        {
            "name": container.name,
            **({"stage": container.stage} if container.stage else {}),
            **({"gpuCount": container.counted} if container.counted else {}),
            **({"slices": [_piece(piece) for piece in container.slices]} if container.slices else {}),
        }
        for container in containers
    ]


def _piece(piece: Slice) -> dict[str, Any]:
    return {
        "gpu": piece.card,
        "memoryMiB": piece.memory_mib,
        "computePercent": piece.compute_percent,
        **({"whole": True} if piece.whole else {}),
    }


def containers_from_json(value: object) -> tuple[ContainerShare, ...]:
    """The reverse, for text that anybody may have written. Raises ValueError with what is wrong."""
    if not isinstance(value, list):
        raise ValueError(f"containers is {type(value).__name__}, not a list")
    if len(value) > MOST_CONTAINERS:
        raise ValueError(f"{len(value)} containers; {MOST_CONTAINERS} are the most")
    return tuple(_share(entry) for entry in value)


def parse_annotation(text: str) -> tuple[ContainerShare, ...]:
    """The annotation `gpu-slices` of a bound pod. Raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    return containers_from_json(orjson.loads(text))


def _share(entry: object) -> ContainerShare:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ValueError("a container without a name")
    slices = entry.get("slices") or []
    if not isinstance(slices, list):
        raise ValueError(f"slices of container {entry['name'][:80]!r} is not a list")
    return ContainerShare(
        name=entry["name"],
        slices=tuple(_slice(piece) for piece in slices),
        counted=_number(entry, "gpuCount", most=MOST_COUNTED),
        stage=_stage(entry.get("stage")),
    )


def _stage(value: object) -> Stage:
    for stage in STAGES:
        if (value or MAIN) == stage:
            return stage
    raise ValueError(f"stage is {str(value)[:80]!r}, not {INIT} or {SIDECAR}")


def _slice(piece: object) -> Slice:
    if not isinstance(piece, dict) or not isinstance(piece.get("gpu"), str) or not piece["gpu"]:
        raise ValueError("a slice without a gpu")
    return Slice(
        card=piece["gpu"],
        memory_mib=_number(piece, "memoryMiB", most=1 << 26),
        compute_percent=_number(piece, "computePercent", most=100),
        whole=piece.get("whole") is True,
    )


def _number(entry: dict[str, Any], key: str, *, most: int) -> int:
    value = entry.get(key, 0)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{key} is {str(value)[:80]!r}, not a number from 0 to {most}")
    return value
