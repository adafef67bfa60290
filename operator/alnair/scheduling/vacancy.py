"""Kept places: which replacement takes which lost member's place.

A place suits a replacement that asks for the very same parts of cards, and that every rule of the profile lets onto
that node once the kept parts are given back to it: the node may have been cordoned, tainted or filled since. Only cards
are kept, so the rest of the node may be spoken for: pods that a preemption has made room for go first, as in a search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from alnair.scheduling.domains import Together
from alnair.scheduling.plugins.cards_that_fit import candidates
from alnair.scheduling.profile import Profile
from alnair.scheduling.search import minds_nobody
from alnair.state.draft import Draft
from alnair.state.holding import Holding
from alnair.state.shapes import PodClass, PodShape, ghost

Part = tuple[str, int, int, bool]  # container, MiB, per cent, whole; a whole card asks for no number


def match_vacancies(
    replacements: Iterable[tuple[str, PodClass]],
    vacant: Mapping[str, Holding],
    *,
    profile: Profile,
    draft: Draft,
    expected: Sequence[tuple[int, PodClass]] = (),
) -> dict[str, str]:
    """Replacement UID -> UID of the lost member whose place it takes; one place to one pod.

    `expected` are pods of others that a preemption made room for: (row, pod). The draft keeps no trace of them.
    """
    rows = {name: row for row, name in enumerate(draft.names) if name}
    open_places = {uid: holding for uid, holding in vacant.items() if holding.node in rows}
    matched: dict[str, str] = {}
    for uid, pod in replacements:
        for old, holding in open_places.items():
            row = rows[holding.node]
            coming = [other for at, other in expected if at == row]
            if _asked(pod.shape) == _held(holding) and _let_in(pod, holding, row, coming, profile, draft):
                matched[uid] = old
                del open_places[old]
                break
    return matched


def kept_together(
    vacant: Mapping[str, Holding], together: Together, domain: Callable[[Holding], str | None]
) -> dict[str, Holding]:
    """Only the places in the one domain that the gang must be in: where it has members, else where most of these are.
    They were all in one when they were taken, but a node's label may have changed since."""
    counts = Counter(name for holding in vacant.values() if (name := domain(holding)) is not None)
    allowed = set(together.home) or {name for name, _ in counts.most_common(1)}
    return {uid: holding for uid, holding in vacant.items() if domain(holding) in allowed}


def _let_in(
    pod: PodClass, holding: Holding, row: int, coming: Sequence[PodClass], profile: Profile, draft: Draft
) -> bool:
    draft.hand_out(row, holding.containers, -1)
    for other in coming:
        draft.take(row, ghost(other), ())
    one = draft.only(row)
    let_in = bool(profile.passes(pod, one)[0]) and _still_good(pod.shape, holding, one)
    for other in reversed(coming):
        draft.put_back(row, ghost(other), ())
    let_in = let_in and (not coming or minds_nobody(pod, row, coming, profile, draft))
    if let_in:
        draft.take(row, pod, holding.containers)
    else:
        draft.hand_out(row, holding.containers)
    return let_in


def _still_good(shape: PodShape, holding: Holding, one: Draft) -> bool:
    """The very cards that were kept could serve again: none has vanished, fallen ill or shrunk."""
    demands = {demand.container: demand for demand in shape.gpu.demands}
    for share in holding.containers:
        fitting = candidates(demands[share.name], shape.gpu, one)[0]
        good = {card for index, card in enumerate(one.card_ids[0]) if fitting[index]}
        if not good.issuperset(piece.card for piece in share.slices):
            return False
    return True


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
