"""What one pod holds on its node: the words that plans, records, Bindings and the books share.

A holding is a value. It goes from a plan into the record, from there into the pod's annotation, and is read back
from either after a restart; it means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from alnair.state.pods import Pod

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


@dataclass(frozen=True, slots=True)
class Holding:
    """Where a pod is, and what it holds there. No containers = it holds no GPU."""

    node: str
    containers: tuple[ContainerShare, ...] = ()

    def slices(self) -> Iterable[Slice]:
        return (piece for container in self.containers for piece in container.slices)

    @property
    def cards(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(piece.card for piece in self.slices()))


MOST_COUNTED = 1024


def shares_to_json(shares: Iterable[ContainerShare]) -> dict[str, Any]:
    """As it stands in a record, with each pod: `containers` for cards, `gpuCounts` for numbers of them. An object in a
    list costs the apiserver as much as the rest of the pod's entry, and a number needs none."""
    shares = list(shares)
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
    )


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


def foreign_slices(pod: Pod) -> tuple[Slice, ...]:
    """What a bound pod that we have no record of says it holds: another instance's, or from before our time."""
    if not pod.slices or pod.annotated_node != pod.node:
        return ()
    try:
        return tuple(piece for container in parse_annotation(pod.slices) for piece in container.slices)
    except ValueError:
        return ()
