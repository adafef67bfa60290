"""The checker finds what is given twice in hand-made histories, at the revision where it happens, and nothing else."""

from __future__ import annotations

import pytest

from witness.checker import GRACE
from witness.findings import MISMATCH, OVER_ALLOCATION
from witness.tale import Tale, card, entry, main, piece, place, share
from witness.words import NODES, RECORDS, TOPOLOGIES

breaks, spares = pytest.mark.breaks, pytest.mark.spares

# -- more than a card has ------------------------------------------------------------------------------------------


@spares("1: memory")
@spares("1: compute")
@spares("1: a whole card has one holder")
def test_a_card_filled_to_the_brim_by_several_pods_is_fine(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 6000, 50)))
    tale.recorded_and_bound("y", "n", main(piece("a", 4000, 50)))
    tale.recorded_and_bound("z", "n", main(piece("b", whole=True)))
    assert tale.findings == []


@breaks("1: memory")
def test_more_memory_than_the_card_has(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 6000)))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 4001))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]
    assert "10001 MiB are given, it has 10000" in tale.findings[0].what
    assert tale.findings[0].objects == ("ns/y", "ns/x")


@breaks("1: memory")
def test_a_newcomer_to_a_bound_gang_is_given_more_than_is_left(tale: Tale) -> None:
    tale.recorded_and_bound("z", "n", main(piece("a", 8000)))
    tale.gang("g", "x", "y", least=1)
    tale.commit("g", "x", least=1)
    tale.bind_members("x")
    late = entry("y", "n", main(piece("a", 1001)))
    revision = tale.record("g", share("x"), late, group="g")
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: memory")
def test_a_pod_that_two_records_give_a_part_takes_both(tale: Tale) -> None:
    tale.pod("x")
    tale.record("x", entry("x", "n", main(piece("a", 6000))))
    revision = tale.record("other", entry("x", "n", main(piece("a", 6000))))
    assert tale.said() == [(MISMATCH, revision), (OVER_ALLOCATION, revision)]


@breaks("1: memory")
def test_a_pod_that_waits_is_re_targeted_to_a_card_that_is_full(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("b", 6000)))
    tale.pod("y")
    tale.record("y", entry("y", "n", main(piece("a", 6000))))
    revision = tale.record("y", entry("y", "n", main(piece("b", 6000))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: compute")
def test_more_compute_than_the_card_has(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 10, 60)))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 10, 41))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: compute")
def test_a_pod_that_waits_is_given_more_compute_than_is_left(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 10, 60)))
    tale.pod("y")
    tale.record("y", entry("y", "n", main(piece("a", 10, 40))))
    revision = tale.record("y", entry("y", "n", main(piece("a", 10, 50))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: compute")
def test_a_gang_whose_members_take_more_compute_than_their_card_has(tale: Tale) -> None:
    tale.gang("g", "x", "y", "z", least=3)
    entries = [entry(name, "n", main(piece("a", 10, 34))) for name in ("x", "y", "z")]
    revision = tale.record("g", *entries, group="g", least=3)
    assert (OVER_ALLOCATION, revision) in tale.said()


@breaks("1: compute")
def test_the_compute_of_a_sidecar_and_of_what_it_runs_beside_count_together(tale: Tale) -> None:
    tale.pod("x")
    both = [main(piece("a", 10, 60), name="side", stage="Sidecar"), main(piece("a", 10, 41))]
    revision = tale.record("x", entry("x", "n", *both))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: compute")
def test_compute_that_is_kept_for_a_member_to_come_is_given_to_nobody_else(tale: Tale) -> None:
    tale.grown(place(1, "n", main(piece("b", 10, 70))))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("b", 10, 31))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@spares("1: compute")
def test_slices_without_compute_count_none(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 10, 100)))
    tale.recorded_and_bound("y", "n", main(piece("a", 10)))


@spares("1: slots")
@breaks("1: slots")
def test_more_sharers_than_the_card_has_slots(tale: Tale) -> None:
    for number in range(16):
        tale.recorded_and_bound(f"x{number}", "n", main(piece("a", 10)))
    assert tale.findings == []
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 10))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: slots")
def test_slots_that_the_node_itself_tells_count(tale: Tale) -> None:
    tale.node("h", card("c", slots=2))
    for name in ("x", "y"):
        tale.recorded_and_bound(name, "h", main(piece("c", 10)))
    tale.pod("z")
    revision = tale.record("z", entry("z", "h", main(piece("c", 10))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: slots")
def test_each_container_of_a_pod_is_a_sharer(tale: Tale) -> None:
    tale.node("h", card("c", slots=2))
    tale.recorded_and_bound("x", "h", main(piece("c", 10)))
    tale.pod("y")
    both = [main(piece("c", 10)), main(piece("c", 10), name="other")]
    revision = tale.record("y", entry("y", "h", *both))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: slots")
def test_a_place_for_a_member_to_come_is_a_sharer(tale: Tale) -> None:
    tale.node("h", card("c", slots=2))
    for name in ("y", "z"):
        tale.recorded_and_bound(name, "h", main(piece("c", 10)))
    revision = tale.grown(place(1, "h", main(piece("c", 10))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@spares("1: slots")
def test_containers_that_run_one_after_the_other_share_a_slot(tale: Tale) -> None:
    tale.node("h", card("c", slots=2))
    tale.recorded_and_bound("x", "h", main(piece("c", 10)))
    both = [main(piece("c", 10), name="i", stage="Init"), main(piece("c", 10))]
    tale.recorded_and_bound("y", "h", *both)


@breaks("1: a whole card has one holder")
@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_a_whole_card_has_one_holder(tale: Tale, first: bool, second: bool) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 10, whole=first)))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 10, whole=second))))
    assert (OVER_ALLOCATION, revision) in tale.said()
    assert any("whole card" in finding.what for finding in tale.findings)


@breaks("1: memory")
def test_two_pods_of_one_record_count_together(tale: Tale) -> None:
    tale.group("g", 2)
    for name in ("x", "y"):
        tale.pod(name, group="g")
    entries = [entry(name, "n", main(piece("a", 6000))) for name in ("x", "y")]
    revision = tale.record("g", *entries, group="g", least=2)
    assert (OVER_ALLOCATION, revision) in tale.said()


@spares("1: memory")
def test_a_slice_given_again_once_its_record_has_dropped_it_is_fine(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 9000)))
    tale.deleted("x")
    tale.gone(RECORDS, "ns/x")
    tale.recorded_and_bound("y", "n", main(piece("a", 9000)))
    assert tale.findings == []


@breaks("1: memory")
def test_a_slice_given_again_while_a_record_still_lists_it(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 9000)))
    tale.deleted("x")
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 9000))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@spares("1: memory")
def test_a_replacement_takes_the_place_of_a_lost_member_in_one_write(tale: Tale) -> None:
    tale.group("g", 1)
    tale.pod("x", group="g")
    tale.record("g", entry("x", "n", main(piece("a", 9000))), group="g")
    tale.deleted("x")
    tale.pod("y", group="g")
    tale.record("g", entry("y", "n", main(piece("a", 9000))), group="g")
    assert tale.findings == []


# -- moments of a pod's life ---------------------------------------------------------------------------------------


@spares("1: compute")
@breaks("1: memory")
def test_init_containers_count_as_the_most_at_any_moment(tale: Tale) -> None:
    containers = [
        main(piece("a", 9000, 90), name="first", stage="Init"),
        main(piece("a", 2000, 10), name="side", stage="Sidecar"),
        main(piece("a", 8000, 90), name="second", stage="Init"),
        main(piece("a", 7000, 50)),
    ]
    tale.recorded_and_bound("x", "n", *containers)
    assert tale.findings == []
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 1))))
    assert tale.said() == [(OVER_ALLOCATION, revision)], "the moment of `second` takes all of the card"


@breaks("1: memory")
def test_a_sidecar_runs_beside_the_main_containers(tale: Tale) -> None:
    tale.pod("x")
    both = [main(piece("a", 6000), name="side", stage="Sidecar"), main(piece("a", 6000))]
    revision = tale.record("x", entry("x", "n", *both))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@spares("1: a whole card has one holder")
@breaks("1: a whole card has one holder")
def test_a_card_whole_for_an_init_container_is_nobody_elses(tale: Tale) -> None:
    tale.recorded_and_bound(
        "x", "n", main(piece("a", whole=True), name="i", stage="Init"), main(piece("a", 10))
    )
    assert tale.findings == [], "one after the other within the pod is fine"
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 0))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: a whole card has one holder")
def test_a_whole_card_for_one_container_and_a_slice_of_it_for_another(tale: Tale) -> None:
    tale.pod("x")
    both = [main(piece("a", whole=True)), main(piece("a", 0), name="other")]
    revision = tale.record("x", entry("x", "n", *both))
    assert {(OVER_ALLOCATION, revision)} == set(tale.said())


def test_two_slices_of_one_card_are_not_two_cards(tale: Tale) -> None:
    tale.pod("x")
    revision = tale.record("x", entry("x", "n", main(piece("a", 10), piece("a", 10))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


# -- cards that fail -----------------------------------------------------------------------------------------------


@spares("1: the card is there and healthy")
def test_what_is_given_just_after_the_card_failed_is_forgiven(tale: Tale) -> None:
    tale.node("n", card("a", healthy=False), card("b"))
    tale.recorded_and_bound("x", "n", main(piece("a")))
    assert tale.findings == []
    assert 0 < tale.checker.latest_use < GRACE
    assert tale.checker.forgiven == 1


@breaks("1: the card is there and healthy")
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda tale: tale.node("n", card("a", healthy=False), card("b")), id="unhealthy"),
        pytest.param(lambda tale: tale.node("n", card("b")), id="vanished"),
        pytest.param(lambda tale: tale.gone(NODES, "n"), id="node deleted"),
    ],
)
def test_nothing_new_on_a_card_that_is_out_of_use(tale: Tale, trouble) -> None:  # type: ignore[no-untyped-def]
    tale.recorded_and_bound("x", "n", main(piece("a")))
    trouble(tale)
    tale.wait(GRACE + 1)
    assert tale.findings == [], "who has it keeps it"
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a"))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@spares("1: the card is there and healthy")
def test_a_card_that_came_back_may_be_given(tale: Tale) -> None:
    tale.node("n", card("b"))
    tale.wait(GRACE + 1)
    tale.node("n", card("a"), card("b"))
    tale.recorded_and_bound("x", "n", main(piece("a")))
    assert tale.findings == []


@breaks("1: the card is there and healthy")
def test_a_card_of_another_node(tale: Tale) -> None:
    tale.node("m", card("c"))
    tale.pod("x")
    revision = tale.record("x", entry("x", "m", main(piece("a"))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: memory")
def test_a_card_that_shrank_keeps_its_holders_and_gets_nothing_new(tale: Tale) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a", 6000)))
    tale.node("n", card("a", memory_mib=5000), card("b"))
    tale.wait(GRACE + 1)
    tale.record("x", entry("x", "n", main(piece("a", 6000))), epoch=2)
    assert tale.findings == []
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("a", 1))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: memory")
def test_one_card_under_two_names_is_one_card(tale: Tale) -> None:
    tale.topology("n", card("u"))
    tale.recorded_and_bound("x", "n", main(piece("u", 6000)))
    tale.gone(TOPOLOGIES, "n")
    tale.node("n", card("n/0", card="u"))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("n/0", 6000))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: memory")
def test_a_pod_that_is_given_one_card_by_both_its_names(tale: Tale) -> None:
    tale.topology("n", card("u"))
    tale.gone(TOPOLOGIES, "n")
    tale.node("n", card("n/0", card="u"))
    tale.pod("x")
    both = [main(piece("u", 6000)), main(piece("n/0", 6000), name="other")]
    revision = tale.record("x", entry("x", "n", *both))
    assert set(tale.said()) == {(OVER_ALLOCATION, revision)}


@breaks("1: a whole card has one holder")
def test_a_card_that_is_whole_under_one_name_and_shared_under_the_other(tale: Tale) -> None:
    tale.topology("n", card("u"))
    tale.recorded_and_bound("x", "n", main(piece("u", whole=True)))
    tale.gone(TOPOLOGIES, "n")
    tale.node("n", card("n/0", card="u"))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("n/0", 0))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


# -- places kept for members to come -------------------------------------------------------------------------------


@spares("1: memory")
def test_a_place_beside_what_pods_have_is_fine_as_long_as_there_is_so_much(tale: Tale) -> None:
    tale.grown(place(1, "n", main(piece("a", 6000))), place(2, "n", main(piece("b", whole=True))))
    assert tale.findings == []


@breaks("1: memory")
def test_a_place_counts_as_a_pod_does(tale: Tale) -> None:
    revision = tale.grown(place(1, "n", main(piece("a", 6001))))
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: memory")
def test_two_places_of_one_record_count_together(tale: Tale) -> None:
    revision = tale.grown(*(place(number, "n", main(piece("b", 5001))) for number in (1, 2)))
    assert (OVER_ALLOCATION, revision) in tale.said()


@breaks("1: a whole card has one holder")
def test_what_is_kept_is_given_to_nobody_else(tale: Tale) -> None:
    tale.grown(place(1, "n", main(piece("b", whole=True))))
    tale.pod("y")
    revision = tale.record("y", entry("y", "n", main(piece("b", 10))))
    assert (OVER_ALLOCATION, revision) in tale.said()


@spares("1: a whole card has one holder")
def test_a_pod_that_takes_the_place_kept_for_it_takes_nothing_more(tale: Tale) -> None:
    tale.grown(place(1, "n", main(piece("b", whole=True))))
    tale.pod("z", group="g")
    taken = entry("z", "n", main(piece("b", whole=True)))
    tale.record("g", entry("x", "n", main(piece("a", 4000))), taken, group="g")
    tale.bind("z", "n", main(piece("b", whole=True)))
    assert tale.findings == []


@spares("1: a whole card has one holder")
def test_a_place_that_was_given_up_may_be_given_to_others(tale: Tale) -> None:
    tale.grown(place(1, "n", main(piece("b", whole=True))))
    tale.record("g", entry("x", "n", main(piece("a", 4000))), group="g")
    tale.recorded_and_bound("y", "n", main(piece("b", whole=True)))
    assert tale.findings == []


@breaks("1: the card is there and healthy")
def test_a_lost_members_part_of_a_lost_card_may_be_kept_but_not_given_again(tale: Tale) -> None:
    tale.grown()
    tale.gone(NODES, "n")
    tale.wait(GRACE + 1)
    tale.deleted("x")
    kept = place(1, "n", main(piece("a", 4000)))
    tale.record("g", group="g", reserved=[kept])
    assert tale.findings == []
    tale.pod("y", group="g")
    revision = tale.record("g", entry("y", "n", main(piece("a", 4000))), group="g")
    assert tale.said() == [(OVER_ALLOCATION, revision)]


@breaks("1: the card is there and healthy")
def test_more_than_a_lost_member_had_is_not_kept_of_a_lost_card(tale: Tale) -> None:
    tale.grown()
    tale.gone(NODES, "n")
    tale.wait(GRACE + 1)
    tale.deleted("x")
    revision = tale.record("g", group="g", reserved=[place(1, "n", main(piece("a", 4001)))])
    assert tale.said() == [(OVER_ALLOCATION, revision)]
