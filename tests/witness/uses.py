"""What a pod takes of each card, out of the containers that a record or an annotation lists.

This is the checker's own arithmetic, on purpose not the product's. A pod takes the most that its containers take at
any moment of its life, in each measure: every init container runs alone with the sidecars that were started before
it; then all sidecars and main containers run together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

INIT, SIDECAR = "Init", "Sidecar"


class Piece(NamedTuple):
    card: str
    memory_mib: int
    compute_percent: int
    whole: bool


class Part(NamedTuple):
    """One container's cards."""

    container: str
    stage: str
    """Init, Sidecar or nothing."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """What a pod was given, as a record or its annotations say."""

    node: str
    parts: tuple[Part, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    """Container -> whole cards that a device plugin picks."""

    @property
    def cards(self) -> tuple[str, ...]:
        """Each once, in the order of the containers."""
        return tuple(dict.fromkeys(piece.card for part in self.parts for piece in part.pieces))


class Use(NamedTuple):
    """The most that one pod takes of one card."""

    memory_mib: int
    compute_percent: int
    slots: int
    whole: bool


NOTHING = Use(0, 0, 0, whole=False)


def given(node: str, containers: list[dict[str, Any]], counts: dict[str, int]) -> Given:
    """From the JSON of a record's pod. The annotation's `gpuCount` of a container is a count like the record's."""
    counts = dict(counts)
    parts = []
    for container in containers:
        if container.get("gpuCount"):
            counts[container["name"]] = container["gpuCount"]
        if container.get("slices"):
            parts.append(Part(container["name"], container.get("stage") or "", _pieces(container["slices"])))
    return Given(node, tuple(parts), tuple(sorted(counts.items())))


def renamed(held: Given, name: Callable[[str], str]) -> Given:
    """The same, with its cards called otherwise: two names of one card are one."""
    parts = (
        part._replace(pieces=tuple(piece._replace(card=name(piece.card)) for piece in part.pieces))
        for part in held.parts
    )
    return Given(held.node, tuple(parts), held.counts)


def together(one: Use, other: Use) -> Use:
    """Both at once."""
    return Use(
        one.memory_mib + other.memory_mib,
        one.compute_percent + other.compute_percent,
        one.slots + other.slots,
        one.whole or other.whole,
    )


def _pieces(slices: list[dict[str, Any]]) -> tuple[Piece, ...]:
    return tuple(
        Piece(each["gpu"], each.get("memoryMiB", 0), each.get("computePercent", 0), each.get("whole") is True)
        for each in slices
    )


def moments(parts: tuple[Part, ...]) -> list[list[Part]]:
    """Who runs beside whom, moment by moment."""
    found: list[list[Part]] = []
    sidecars: list[Part] = []
    for part in parts:
        if part.stage == INIT:
            found.append([*sidecars, part])
        elif part.stage == SIDECAR:
            sidecars.append(part)
    found.append([*sidecars, *(part for part in parts if not part.stage)])
    return found


def uses(held: Given) -> dict[str, Use]:
    """Card -> what the pod takes of it."""
    most: dict[str, Use] = {}
    for moment in moments(held.parts):
        now: dict[str, Use] = {}
        for part in moment:
            for piece in part.pieces:
                now[piece.card] = _and(now.get(piece.card, NOTHING), piece)
        for card, use in now.items():
            most[card] = _at_least(most.get(card, NOTHING), use)
    return most


def conflicts(held: Given) -> list[str]:
    """Cards that one pod gives out twice by itself: whole, and to another container at the same moment."""
    found = []
    for moment in moments(held.parts):
        pieces = [piece for part in moment for piece in part.pieces]
        whole = {piece.card for piece in pieces if piece.whole}
        found += [card for card in sorted(whole) if sum(piece.card == card for piece in pieces) > 1]
    for part in held.parts:
        cards = [piece.card for piece in part.pieces]
        found += sorted({card for card in cards if cards.count(card) > 1})
    return list(dict.fromkeys(found))


def _and(use: Use, piece: Piece) -> Use:
    return Use(
        use.memory_mib + piece.memory_mib,
        use.compute_percent + piece.compute_percent,
        use.slots + 1,
        use.whole or piece.whole,
    )


def _at_least(one: Use, other: Use) -> Use:
    return Use(
        max(one.memory_mib, other.memory_mib),
        max(one.compute_percent, other.compute_percent),
        max(one.slots, other.slots),
        one.whole or other.whole,
    )
