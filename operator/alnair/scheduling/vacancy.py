"""Kept places: which replacement takes which lost member's place.

A place suits a replacement that asks for the very same parts of cards, and that every rule of the profile lets onto
that node once the kept parts are given back to it: the node may have been cordoned, tainted or filled since. Mostly
only cards are kept, so the rest of the node may be spoken for: pods that a preemption has made room for go first, as in
a search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from alnair.api.gpurequest import CardDemand
from alnair.scheduling.domains import Together
from alnair.scheduling.plugins.cards_by_numa import hang_near
from alnair.scheduling.plugins.cards_that_fit import room_for
from alnair.scheduling.profile import Profile
from alnair.scheduling.search import minds_nobody
from alnair.state.draft import Draft
from alnair.state.holding import ContainerShare, Holding
from alnair.state.shapes import PodClass, PodShape, ghost, room_of

NO_ROOM = PodClass(PodShape(requests=()), ghost=True)


def match_vacancies(
    replacements: Iterable[tuple[str, PodClass]],
    vacant: Mapping[str, Holding],
    *,
    profile: Profile,
    draft: Draft,
    expected: Sequence[tuple[int, PodClass]] = (),
    roomy: Mapping[str, PodClass] = MappingProxyType({}),
) -> dict[str, str]:
    """Replacement UID -> UID of the lost member whose place it takes; one place to one pod.

    `expected` are pods of others that a preemption made room for: (row, pod). The draft keeps no trace of them.
    `roomy` are places for which more than cards is kept: what such a pod asks of its node, too.
    """
    rows = {name: row for row, name in enumerate(draft.names) if name}
    open_places = {uid: holding for uid, holding in vacant.items() if holding.node in rows}
    matched: dict[str, str] = {}
    for uid, pod in replacements:
        for old, holding in open_places.items():
            row = rows[holding.node]
            coming = [other for at, other in expected if at == row]
            if _the_same(pod.shape, holding, draft.only(row)) and _let_in(
                pod, holding, row, coming, profile, draft, roomy.get(old)
            ):
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
    pod: PodClass,
    holding: Holding,
    row: int,
    coming: Sequence[PodClass],
    profile: Profile,
    draft: Draft,
    kept_for: PodClass | None,
) -> bool:
    room = room_of(kept_for) if kept_for is not None else NO_ROOM
    draft.put_back(row, room, holding.containers)
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
        draft.take(row, room, holding.containers)
    return let_in


def _the_same(shape: PodShape, holding: Holding, one: Draft) -> bool:
    """The pod asks for what is kept, container by container: the very same parts, of as many cards."""
    shares = {share.name: share for share in holding.containers}
    if shares.keys() != {demand.container for demand in shape.gpu.demands}:
        return False
    sizes = _sizes(one)
    return all(_is_for(demand, shares[demand.container], sizes) for demand in shape.gpu.demands)


def _sizes(one: Draft) -> Mapping[str, int]:
    """MiB of the node's cards."""
    return dict(zip(one.card_ids[0], one.card_memory[0].tolist(), strict=False))


def _is_for(demand: CardDemand, share: ContainerShare, sizes: Mapping[str, int]) -> bool:
    if share.stage != demand.stage:
        return False
    if share.counted:
        return demand.whole and not demand.named and share.counted == demand.cards and not share.slices
    return len(share.slices) == demand.cards and all(
        piece.whole is demand.whole
        and (
            piece.whole
            or (piece.memory_mib, piece.compute_percent)
            == (demand.memory_on(sizes.get(piece.card, 0)), demand.compute_percent)
        )
        for piece in share.slices
    )


def _still_good(shape: PodShape, holding: Holding, one: Draft) -> bool:
    """The very cards that were kept could serve again: none has vanished, fallen ill or shrunk, and all hang where the
    kubelet would put this pod."""
    shares, sizes = {share.name: share for share in holding.containers}, _sizes(one)
    return (
        room_for(holding.footprint(), shape.gpu, one)
        and all(
            sizes[piece.card] >= demand.memory_mib
            for demand in shape.gpu.demands
            for piece in shares[demand.container].slices
        )
        and hang_near(shape, holding.containers, one)
    )
