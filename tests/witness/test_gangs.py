"""The checker finds gangs that are begun, or left, in halves, in hand-made histories, and nothing else."""

from __future__ import annotations

import pytest

from witness.checker import GRACE
from witness.findings import HALF_GANG, MISMATCH
from witness.tale import Tale, entry, main, piece, place, share
from witness.words import RECORDS

breaks, spares = pytest.mark.breaks, pytest.mark.spares


def begun(tale: Tale, *bound: str, least: int = 2) -> None:
    """A gang of x and y, committed, of which these are bound."""
    tale.gang("g", "x", "y", least=least)
    tale.commit("g", "x", "y", least=least)
    if bound:
        tale.bind_members(*bound)


# -- no member is bound before its gang's commit -------------------------------------------------------------------


@breaks("3: no member before its gang's commit")
def test_a_member_bound_before_its_record_is_committed(tale: Tale) -> None:
    tale.gang("g", "x", least=1)
    tale.commit("g", least=1)
    revision = tale.bind_members("x")
    tale.commit("g", "x", least=1)
    assert tale.said() == [(MISMATCH, revision)], "the empty object was no commit"


@breaks("3: no member before its gang's commit")
def test_a_member_without_gpus_bound_as_if_it_were_alone(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    revision = tale.bind("x", "n")
    assert tale.said() == [(MISMATCH, revision)]


@breaks("3: no member before its gang's commit")
def test_a_member_bound_beside_a_commit_of_others(tale: Tale) -> None:
    tale.gang("g", "x", "y", "z", least=2)
    tale.commit("g", "x", "y", least=2)
    revision = tale.bind_members("x", "y", "z")
    tale.commit("g", "x", "y", "z", least=2)
    assert tale.said() == [(MISMATCH, revision)]


@breaks("3: no member before its gang's commit")
def test_a_member_bound_by_a_record_of_its_own(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    tale.record("x", share("x"))
    revision = tale.bind_members("x")
    assert tale.said() == [(MISMATCH, revision)], "so its gang would never be asked for"


@breaks("3: no member before its gang's commit")
def test_a_member_bound_by_the_record_of_another_gang(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    tale.gang("h", "v", "w", least=1)
    tale.commit("h", "v", "x", least=1)
    revision = tale.bind_members("v", "x")
    assert tale.said() == [(MISMATCH, revision)]


@breaks("3: no member before its gang's commit")
def test_a_lone_pod_that_fills_up_a_gang(tale: Tale) -> None:
    tale.gang("g", "x", least=2)
    tale.pod("alone")
    tale.commit("g", "x", "alone", least=2)
    revision = tale.bind_members("x", "alone")
    assert tale.said() == [(MISMATCH, revision)]


@spares("3: no member before its gang's commit")
def test_a_member_bound_at_the_revision_after_the_commit(tale: Tale) -> None:
    begun(tale, "x", "y")


@spares("3: no member before its gang's commit")
def test_a_member_of_a_gang_of_one_may_have_a_record_of_its_own(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=1)
    tale.record("x", share("x"))
    tale.bind_members("x")
    assert tale.findings == [], "the extender's pods come one by one"


# -- enough of them at the commit ----------------------------------------------------------------------------------


@breaks("3: enough members at the commit")
def test_half_a_gang_is_committed(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    revision = tale.commit("g", "x", least=2)
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: enough members at the commit")
def test_a_record_that_says_that_fewer_would_do(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    revision = tale.commit("g", "x", least=1)
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: enough members at the commit")
def test_an_elastic_gang_is_begun_below_its_least_size(tale: Tale) -> None:
    tale.group("g", 1, elastic=3)
    for name in ("x", "y"):
        tale.pod(name, group="g")
    revision = tale.commit("g", "x", "y", least=1)
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: enough members at the commit")
def test_half_a_gang_in_a_record_that_kept_places_before_it_had_pods(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    kept = [place(number, "n", main(piece("a"))) for number in (1, 2)]
    tale.record("g", group="g", least=2, reserved=kept)
    revision = tale.commit("g", "x", least=2)
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: enough members at the commit")
def test_half_a_gang_decided_by_the_creation_of_its_record(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    one = entry("x", "p", counts={"main": 1})
    revision = tale.record("g", one, group="g", least=2, by_creation=True)
    assert tale.said() == [(HALF_GANG, revision)]


@spares("3: enough members at the commit")
@breaks("3: enough members at the commit")
def test_a_member_that_went_a_moment_ago_counts_for_its_gang_and_one_that_went_long_ago_does_not(
    tale: Tale,
) -> None:
    begun(tale, "x")
    tale.pod("z", group="g")
    tale.phase("x", "Succeeded")
    tale.deleted("y")
    tale.gone(RECORDS, "ns/g")
    tale.deleted("x")
    tale.commit("g", "z", least=1)
    assert tale.findings == []
    tale.gone(RECORDS, "ns/g")
    tale.wait(GRACE + 1)
    revision = tale.commit("g", "z", least=1)
    assert tale.said() == [(HALF_GANG, revision)]


@spares("3: enough members at the commit")
@breaks("3: enough members at the commit")
def test_members_in_another_record_count_until_they_are_told_to_go(tale: Tale) -> None:
    """Their group was made anew, and z is new."""
    begun(tale, "x", "y")
    tale.pod("z", group="g")
    tale.terminating("x")
    tale.terminating("y")
    tale.commit("again", "z", group="g", least=1)
    assert tale.findings == [], "of that the operator may not have heard"
    tale.gone(RECORDS, "ns/again")
    tale.wait(GRACE + 1)
    revision = tale.commit("again", "z", group="g", least=1)
    assert tale.said() == [(HALF_GANG, revision)]


@spares("3: enough members at the commit")
def test_a_member_that_is_done_counts_for_its_gang(tale: Tale) -> None:
    begun(tale, "x")
    tale.phase("x", "Succeeded")
    tale.deleted("y")
    tale.gone(RECORDS, "ns/g")
    tale.pod("z", group="g")
    tale.commit("g", "z", least=1)


@spares("3: enough members at the commit")
def test_places_for_members_to_come_count_for_their_gang(tale: Tale) -> None:
    tale.gang("g", "x", least=2)
    tale.record("g", share("x"), group="g", least=2, reserved=[place(1, "n", main(piece("a")))])


# -- minMember that is edited --------------------------------------------------------------------------------------


@spares("3: minMember that is edited")
@breaks("3: minMember that is edited")
def test_a_gang_may_be_as_large_as_its_group_wanted_a_moment_ago_and_not_as_it_wanted_long_ago(
    tale: Tale,
) -> None:
    tale.gang("g", "x", "y", least=1)
    tale.group("g", 2)
    tale.commit("g", "x", least=1)
    assert tale.findings == []
    tale.gone(RECORDS, "ns/g")
    tale.wait(GRACE + 1)
    revision = tale.commit("g", "x", least=1)
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: minMember that is edited")
def test_a_gang_that_was_raised_twice_is_not_what_it_wanted_before_both(tale: Tale) -> None:
    tale.gang("g", "x", least=1)
    tale.group("g", 2)
    tale.wait(GRACE + 1)
    tale.group("g", 3)
    revision = tale.commit("g", "x", least=1)
    assert tale.said() == [(HALF_GANG, revision)], "a moment ago it wanted two"


@breaks("3: minMember that is edited")
def test_a_gang_that_wanted_fewer_only_for_a_while(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    tale.group("g", 1)
    tale.group("g", 2)
    tale.wait(GRACE + 1)
    revision = tale.commit("g", "x", least=1)
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: minMember that is edited")
def test_a_gang_that_rests_with_what_its_group_wanted_long_before_the_commit(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=1)
    tale.group("g", 2)
    tale.wait(GRACE + 1)
    tale.commit("g", "x", "y", least=2)
    tale.bind_members("x")
    tale.restate("g", minMember=1)
    revision = tale.rest()
    assert tale.said() == [(HALF_GANG, revision)]


@spares("3: minMember that is edited")
def test_a_gang_may_be_as_small_as_its_group_wants_by_now(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=2)
    tale.group("g", 1)
    tale.commit("g", "x", least=1)
    tale.bind_members("x")
    tale.rest()


@spares("3: minMember that is edited")
def test_a_gang_may_rest_with_what_its_group_wanted_when_it_was_committed(tale: Tale) -> None:
    tale.gang("g", "x", "y", least=1)
    tale.commit("g", "x", least=1)
    tale.bind_members("x")
    tale.wait(GRACE + 1)
    tale.group("g", 2)
    tale.rest()


# -- whole or nothing at rest --------------------------------------------------------------------------------------


@breaks("3: whole or nothing at rest")
def test_a_gang_that_rests_half_bound(tale: Tale) -> None:
    begun(tale, "x")
    revision = tale.rest()
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: whole or nothing at rest")
def test_a_gang_that_was_never_whole_though_members_came_and_went(tale: Tale) -> None:
    begun(tale, "x")
    tale.deleted("y")
    tale.commit("g", "x", least=2)
    revision = tale.rest()
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: whole or nothing at rest")
def test_a_gang_whose_replacement_waits_for_ever(tale: Tale) -> None:
    begun(tale, "x")
    tale.pod("y", group="g", uid="newer!")
    tale.record("g", share("x"), entry("y", "n", main(piece("a")), uid="newer!"), group="g", least=2)
    revision = tale.rest()
    assert tale.said() == [(HALF_GANG, revision)]


@breaks("3: whole or nothing at rest")
def test_a_gang_that_is_called_whole_with_fewer(tale: Tale) -> None:
    begun(tale, "x")
    tale.deleted("y")
    tale.commit("g", "x", least=1)
    revision = tale.rest()
    assert tale.said() == [(HALF_GANG, revision)], "its group never wanted one"


@breaks("3: whole or nothing at rest")
def test_a_gang_begun_anew_does_not_count_those_of_its_earlier_record(tale: Tale) -> None:
    begun(tale, "x", "y")
    for name in ("x", "y"):
        tale.deleted(name)
    tale.gone(RECORDS, "ns/g")
    for name in ("v", "w"):
        tale.pod(name, group="g")
    tale.commit("again", "v", "w", least=2, group="g")
    tale.bind_members("v")
    revision = tale.rest()
    assert tale.said() == [(HALF_GANG, revision)]


@spares("3: whole or nothing at rest")
def test_a_gang_that_is_whole_or_not_bound_at_all_may_rest(tale: Tale) -> None:
    begun(tale, "x", "y")
    tale.gang("other", "v", "w", least=2)
    tale.commit("other", "v", "w", least=2)
    tale.gang("third", "z", least=2)
    tale.rest()


@spares("3: whole or nothing at rest")
def test_a_gang_that_lost_a_member_after_it_was_whole_may_rest(tale: Tale) -> None:
    begun(tale, "x", "y")
    tale.deleted("y")
    tale.commit("g", "x", least=2)
    tale.rest()


@spares("3: whole or nothing at rest")
def test_a_gang_whose_group_wants_fewer_by_now_may_rest_with_those(tale: Tale) -> None:
    begun(tale, "x")
    tale.group("g", 1)
    tale.rest()


@spares("3: whole or nothing at rest")
def test_a_gang_may_rest_with_fewer_in_its_record_if_the_others_were_done_before_it(tale: Tale) -> None:
    begun(tale, "x")
    tale.phase("x", "Succeeded")
    tale.deleted("y")
    tale.gone(RECORDS, "ns/g")
    tale.pod("z", group="g")
    tale.commit("again", "z", least=1, group="g")
    tale.bind_members("z")
    tale.deleted("x")
    tale.wait(GRACE + 1)
    tale.rest()
