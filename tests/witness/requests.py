"""What a drawn pod asks for, in words of the drawing's own, and whether what it was given is that."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from witness.truth import Capacity
from witness.uses import Given, Part


@dataclass(frozen=True, slots=True)
class Ask:
    """One container's: `cards` distinct cards, and on each of them this much."""

    container: str
    cards: int = 1
    memory_mib: int | None = None
    """Beside `whole`: the least that the card must have."""
    percent: int | None = None
    """Of the memory of whichever card it gets, instead of MiB; rounded up."""
    compute: int = 0
    whole: bool = False
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod's whole request."""

    asks: tuple[Ask, ...] = ()
    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    """Names of the only cards that may be given."""
    not_cards: tuple[str, ...] = ()


def told(request: Asked) -> str:
    """For the annotation `words.ASKS`."""
    return json.dumps(asdict(request))


def asked(text: str) -> Asked:
    fields: dict[str, Any] = json.loads(text)
    return Asked(
        asks=tuple(Ask(**ask) for ask in fields["asks"]),
        models=tuple(fields["models"]),
        not_models=tuple(fields["not_models"]),
        cards=tuple(fields["cards"]),
        not_cards=tuple(fields["not_cards"]),
    )


def differs(request: Asked, held: Given, card: Callable[[str], Capacity]) -> str:
    """What is wrong with what the pod was given; empty if nothing is."""
    if held.counts:
        counted = tuple(sorted((ask.container, ask.cards) for ask in request.asks))
        if held.parts or not all(ask.whole for ask in request.asks) or held.counts != counted:
            return f"whole cards {held.counts} by number, wanted {request.asks}"
        return ""
    parts = {part.container: part for part in held.parts}
    if len(parts) != len(held.parts) or parts.keys() != {ask.container for ask in request.asks}:
        return f"cards for containers {sorted(parts)}, wanted {request.asks}"
    wrong = [text for ask in request.asks if (text := _wrong(ask, parts[ask.container], card))]
    for name in held.cards:
        models = card(name).models
        if request.models and not models & set(request.models):
            wrong.append(f"{name} is of {sorted(models)}, wanted {request.models}")
        if models and models <= set(request.not_models):
            wrong.append(f"{name} is of {sorted(models)}, which was ruled out")
        if request.cards and name not in request.cards:
            wrong.append(f"{name} is none of {request.cards}")
        if name in request.not_cards:
            wrong.append(f"{name} was ruled out")
    return "; ".join(wrong)


def _wrong(ask: Ask, part: Part, card: Callable[[str], Capacity]) -> str:
    if part.stage != ask.stage or len(part.pieces) != ask.cards:
        return f"{part} for {ask}"
    for piece in part.pieces:
        sizes = card(piece.card).sizes
        if ask.whole:
            fits = piece.whole and piece.memory_mib in sizes and piece.memory_mib >= (ask.memory_mib or 0)
        elif ask.percent is not None:
            fits = piece.memory_mib in {-(-size * ask.percent // 100) for size in sizes}
        else:
            fits = piece.memory_mib == ask.memory_mib
        if (
            not fits
            or piece.whole != ask.whole
            or piece.compute_percent != (100 if ask.whole else ask.compute)
        ):
            return f"{piece} for {ask}"
    return ""
