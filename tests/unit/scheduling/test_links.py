"""Cards that are near each other: pairs stay whole for those who need pairs, whoever comes and goes."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from alnair.sandbox.fleet import nvlink_pairs
from alnair.scheduling import exact, search
from alnair.scheduling.classes import Member
from alnair.scheduling.links import EXACT, best_set
from alnair.scheduling.plugins import PICKERS
from alnair.scheduling.profile import Profile
from alnair.scheduling.search import Plan
from alnair.state.charges import guest
from alnair.state.draft import Ints
from harness.builders import PodBuilder, node, pod
from unit.builders import GIB, PACK, PROFILES, SPREAD, Cluster, as_pod, card, given, holds, part, times

EIGHT = node("a").with_cards(8).linked()


def matrix(cards: int) -> Ints:
    links = np.array([[nvlink_pairs(one, other) for other in range(cards)] for one in range(cards)])
    np.fill_diagonal(links, 0)
    return links


def chosen(cards: int, of: list[int], links: Ints, keys: list[int] | None = None) -> list[int]:
    free = np.array(of)
    return best_set(cards, free, np.array(keys or [0] * len(of)), links, free).tolist()


# -- which set ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cards", "idle", "expected"),
    [
        (2, [0, 2, 3, 5, 7], [2, 3]),
        (2, [0, 2, 4, 6], [0, 2]),  # no pair is whole: the same switch
        (2, [1, 2, 4, 5, 6, 7], [4, 5]),
        (1, [0, 1, 2, 4, 5], [2]),  # its partner is gone
        (1, [0, 1, 2, 4, 5, 6, 7], [2]),
        (1, [0, 1, 4, 5, 6, 7], [0]),  # all pairs are whole: the one with fewest others on its switch
        (3, [0, 1, 2, 4, 5, 6, 7], [0, 1, 2]),  # not one of a whole pair
        (4, [1, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7]),
        (8, list(range(8)), list(range(8))),
    ],
)
def test_the_nearest_cards_go_together_and_near_ones_stay_together(
    cards: int, idle: list[int], expected: list[int]
) -> None:
    assert chosen(cards, idle, matrix(8)) == expected


def test_the_worst_link_counts_before_all_of_them_together() -> None:
    links = np.full((4, 4), 3)
    for one, other, distance in ((0, 1, 1), (0, 2, 1), (1, 2, 4), (1, 3, 3), (2, 3, 3)):
        links[one, other] = links[other, one] = distance
    assert chosen(3, [0, 1, 2, 3], links) == [0, 1, 3]  # 1 + 3 + 3, not 1 + 1 + 4


def test_a_picker_decides_between_sets_that_are_linked_alike_and_links_between_cards_that_it_likes_alike() -> (
    None
):
    assert chosen(2, list(range(8)), matrix(8), [5, 5, 5, 5, 1, 9, 4, 4]) == [6, 7]
    assert chosen(1, [0, 1, 2, 4, 5], matrix(8), [1, 1, 2, 2, 2]) == [0]


def test_any_64_bit_distances_are_compared_and_not_added_up() -> None:
    links = np.full((4, 4), 2**63 - 1)
    links[0, 3] = links[3, 0] = -(2**63)
    links[1, 2] = links[2, 1] = 0
    assert chosen(2, [0, 1, 2, 3], links) == [0, 3]
    assert chosen(3, [0, 1, 2, 3], links) == [0, 1, 3]


def test_a_link_is_as_bad_as_its_worse_direction() -> None:
    links = np.full((3, 3), 5)
    links[0, 1], links[1, 0] = 1, 9
    assert chosen(2, [0, 1, 2], links) == [0, 2]


def ranked(links: Ints) -> Ints:
    both = np.maximum(links, links.T)
    return np.searchsorted(np.unique(both[~np.eye(len(both), dtype=np.bool_)]), both)


def quality(some: tuple[int, ...], ranks: Ints) -> tuple[int, int]:
    inside = [int(ranks[pair]) for pair in combinations(some, 2)]
    return max(inside), sum(inside)


@pytest.mark.parametrize("seed", range(40))
def test_no_set_of_up_to_16_cards_is_linked_better(seed: int) -> None:
    dice = random.Random(seed)
    count = dice.choice((3, 5, 8, 8, 12)) if seed else EXACT
    levels = dice.choice((2, 3, 1000))
    links = np.array([[dice.randrange(levels) for _ in range(count)] for _ in range(count)])
    idle = sorted(dice.sample(range(count), dice.randint(3, count)))
    cards = dice.randint(2, len(idle))
    best = min(quality(some, ranked(links)) for some in combinations(idle, cards))
    assert quality(tuple(chosen(cards, idle, links)), ranked(links)) == best


@pytest.mark.parametrize("seed", range(5))
def test_beyond_16_cards_pairs_are_still_the_nearest_and_sets_are_whole_boxes_where_there_are_any(
    seed: int,
) -> None:
    dice = random.Random(seed)
    links = np.array([[dice.randrange(1 << 60) for _ in range(40)] for _ in range(40)])
    best = min(quality(some, ranked(links)) for some in combinations(range(40), 2))
    assert quality(tuple(chosen(2, list(range(40)), links)), ranked(links)) == best
    boxes = np.array([[0 if one % 5 == other % 5 else 1 for other in range(40)] for one in range(40)])
    assert len({card % 5 for card in chosen(8, list(range(40)), boxes)}) == 1


# -- on a node ---------------------------------------------------------------------------------------------------


def test_a_slice_goes_by_memory_first_and_then_where_it_breaks_no_pair() -> None:
    cluster = Cluster(EIGHT)
    cluster.state.hold("old", holds("a", part("a", 3, 20 * GIB)))
    assert given(cluster.try_([pod("p").slice(memory_gib=4)])) == {"p": ["a#3"]}  # the fullest that holds it
    assert given(cluster.try_([pod("p").slice(memory_gib=6)])) == {"p": ["a#2"]}  # its partner is shared


def test_slices_on_several_cards_are_near_each_other() -> None:
    cluster = Cluster(EIGHT)
    cluster.state.hold("old", holds("a", part("a", 0, 4 * GIB), part("a", 3, 4 * GIB)))
    asking = pod("p").slice_by_annotation("6Gi", count=2)
    assert given(cluster.try_([asking])) == {"p": ["a#0", "a#1"]}
    assert given(cluster.try_([asking], profile=SPREAD)) == {"p": ["a#4", "a#5"]}


def test_without_links_the_order_is_the_picker_s() -> None:
    cluster = Cluster(node("a").with_cards(4))
    cluster.state.hold("old", holds("a", part("a", 2, 4 * GIB)))
    assert given(cluster.try_([pod("p").slice_by_annotation("6Gi", count=2)])) == {"p": ["a#2", "a#0"]}


def test_an_ill_partner_makes_no_pair_whole() -> None:
    cluster = Cluster(EIGHT)
    state = cluster.state
    state.card_usable[cluster.row("a"), 6] = False
    assert given(cluster.try_([pod("p").asking(gpu=1)])) == {"p": ["a#7"]}


def test_the_exact_search_gives_linked_cards_too() -> None:
    cluster = Cluster(EIGHT)
    cluster.state.hold("old", holds("a", part("a", 0, GIB), part("a", 5, GIB)))
    members = times(pod("p").asking(gpu=2), 2)
    pods = [as_pod(each, reader=cluster.reader) for each in members]
    gang = search.Gang(tuple(Member(each.uid, each.name, guest(each)) for each in pods), needed=2)
    with cluster.state.draft() as draft:
        verdict = exact.conclude(exact.formulate(gang, PACK, draft).solve(), PACK, draft)
    assert sorted(given(verdict).values()) == [["a#2", "a#3"], ["a#6", "a#7"]]


def test_the_solver_s_cards_stay_where_the_picker_s_do_not_fit_together() -> None:
    """10 + 8 + 6 and 9 + 8 + 7 GiB: best-fit, largest first, puts 10 and 9 on one card and is stuck."""
    cluster = Cluster(node("a").with_cards(2).linked())
    sizes = (10, 9, 8, 8, 7, 6)
    pods = [as_pod(pod(f"p{at}").slice(memory_gib=size)) for at, size in enumerate(sizes)]
    gang = search.Gang(tuple(Member(each.uid, each.name, guest(each)) for each in pods), needed=len(pods))
    with cluster.state.draft() as draft:
        assert isinstance(search.place(gang, PACK, draft), search.Unsure)
        verdict = exact.decide(gang, PACK, draft)
    assert isinstance(verdict, Plan)
    used: Counter[str] = Counter()
    for _, holding in verdict.placements:
        used.update({piece.card: piece.memory_mib for piece in holding.slices()})
    assert list(used.values()) == [24 * GIB, 24 * GIB]


# -- whoever comes and goes --------------------------------------------------------------------------------------

PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7)]


def idle_cards(cluster: Cluster) -> set[int]:
    return {index for index, (_, users) in enumerate(cluster.cards("a")) if not users}


def whole_pairs(idle: set[int]) -> int:
    return sum(idle.issuperset(pair) for pair in PAIRS)


KINDS = (
    pod("p").asking(gpu=1),
    pod("p").asking(gpu=2),
    pod("p").asking(gpu=2),
    pod("p").asking(gpu=3),
    pod("p").slice(memory_gib=6),
    pod("p").slice(memory_gib=20, compute=50),
    pod("p").slice_by_annotation("10Gi", count=2),
)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("seed", range(20))
def test_two_cards_are_a_linked_pair_while_one_is_whole(seed: int, profile: Profile) -> None:
    assert {each.picker.name for each in PROFILES.values()} == PICKERS.keys() - {"FGD", "Random"}
    dice = random.Random(seed)
    cluster, living, pairs_given = Cluster(EIGHT), list[str](), 0
    positions = {card("a", index): index for index in range(8)}
    for step in range(120):
        if living and dice.random() < 0.45:
            uid = living.pop(dice.randrange(len(living)))
            cluster.state.release(uid)
            cluster.state.drop_pod(uid)
            continue
        asking: PodBuilder = dice.choice(KINDS).named(f"p{step}")
        idle = idle_cards(cluster)
        verdict = cluster.try_([asking], profile=profile)
        if not isinstance(verdict, Plan):
            continue
        cluster.place(asking, profile=profile)
        ((member, holding),) = verdict.placements
        living.append(member.uid)
        taken = sorted(positions[piece.card] for piece in holding.slices())
        demand = member.shape.gpu.demands[0]
        broken = whole_pairs(idle) - whole_pairs(idle_cards(cluster))
        if demand.whole and demand.cards == 2 and whole_pairs(idle):
            assert tuple(taken) in PAIRS, (step, idle, taken)
            pairs_given += 1
        if demand.whole and demand.cards == 1:
            single = any(len(idle.intersection(pair)) == 1 for pair in PAIRS)
            assert broken == (not single), (step, idle, taken)
    assert pairs_given >= 3, "or the test shows nothing"
