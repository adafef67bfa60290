"""Kept places: which replacement takes which lost member's place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from alnair.state.holding import Holding
from alnair.state.pods import PodShape

Part = tuple[str, int, int, bool]  # container, MiB, per cent, whole; a whole card asks for no number


def match_vacancies(
    replacements: Iterable[tuple[str, PodShape]], vacant: Mapping[str, Holding]
) -> dict[str, str]:
    """Replacement UID -> UID of the lost member whose place fits it exactly; one place to one pod."""
    open_places = dict(vacant)
    matched: dict[str, str] = {}
    for uid, shape in replacements:
        for old, holding in open_places.items():
            if _asked(shape) == _held(holding):
                matched[uid] = old
                del open_places[old]
                break
    return matched


def _asked(shape: PodShape) -> Counter[Part]:
    parts: Counter[Part] = Counter()
    for demand in shape.gpu.demands:
        amount = (0, 0) if demand.whole else (demand.memory_mib, demand.compute_percent)
        parts[demand.container, *amount, demand.whole] += demand.cards
    return parts


def _held(holding: Holding) -> Counter[Part]:
    parts: Counter[Part] = Counter()
    for share in holding.containers:
        if share.counted:
            parts[share.name, 0, 0, True] += share.counted
        for piece in share.slices:
            amount = (0, 0) if piece.whole else (piece.memory_mib, piece.compute_percent)
            parts[share.name, *amount, piece.whole] += 1
    return parts
