"""The checker finds what is half done or restless at rest, and pods bound twice or let go too soon."""

from __future__ import annotations

import pytest

from witness.checker import GRACE, RELEASE
from witness.findings import HALF_GANG, LEAK, MISMATCH, NOISE
from witness.tale import Tale, card, entry, main, piece
from witness.words import GROUPS, PODS, RECORDS

HERE = "ns"


def whole(tale: Tale, *, bound: int = 2, least: int = 2) -> None:
    """A gang of two, of which so many are bound."""
    tale.group("g", least)
    for name in ("x", "y"):
        tale.pod(name, group="g")
    entries = [entry(name, "n", main(piece("a"))) for name in ("x", "y")]
    tale.record("g", *entries, group="g", least=least)
    for name in ("x", "y")[:bound]:
        tale.bind(name, "n", main(piece("a")))


# -- at rest -------------------------------------------------------------------------------------------------------


def test_a_gang_that_is_whole_or_not_bound_at_all_may_rest(tale: Tale) -> None:
    whole(tale)
    tale.group("other", 2)
    tale.pod("z", group="other")
    tale.checker.rests(HERE)
    assert tale.findings == []


def test_a_gang_that_rests_half_bound(tale: Tale) -> None:
    whole(tale, bound=1)
    tale.checker.rests(HERE)
    assert [kind for kind, _ in tale.said()] == [HALF_GANG]


def test_a_gang_that_was_never_whole_though_members_came_and_went(tale: Tale) -> None:
    whole(tale, bound=1)
    tale.deleted("y")
    tale.record("g", entry("x", "n", main(piece("a"))), group="g", least=2)
    tale.checker.rests(HERE)
    assert [kind for kind, _ in tale.said()] == [HALF_GANG]


def test_a_gang_begun_anew_does_not_count_those_of_its_earlier_record(tale: Tale) -> None:
    whole(tale)
    for name in ("x", "y"):
        tale.deleted(name)
    tale.gone(RECORDS, "ns/g")
    for name in ("v", "w"):
        tale.pod(name, group="g")
    entries = [entry(name, "n", main(piece("a"))) for name in ("v", "w")]
    tale.record("again", *entries, group="g", least=2)
    tale.bind("v", "n", main(piece("a")))
    tale.checker.rests(HERE)
    assert [kind for kind, _ in tale.said()] == [HALF_GANG]


def test_a_gang_that_lost_a_member_after_it_was_whole_may_rest(tale: Tale) -> None:
    whole(tale)
    tale.deleted("y")
    tale.record("g", entry("x", "n", main(piece("a"))), group="g", least=2)
    tale.checker.rests(HERE)
    assert tale.findings == []


def test_a_gang_whose_group_wants_fewer_by_now_may_rest_with_those(tale: Tale) -> None:
    whole(tale, bound=1)
    tale.group("g", 1)
    tale.checker.rests(HERE)
    assert tale.findings == []


def test_a_pod_that_is_gone_is_listed_by_no_record_at_rest(tale: Tale) -> None:
    whole(tale)
    tale.deleted("y")
    tale.checker.rests(HERE)
    assert [kind for kind, _ in tale.said()] == [LEAK]


# -- silence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PODS, RECORDS, GROUPS])
def test_a_write_where_all_is_at_rest(tale: Tale, kind: str) -> None:
    whole(tale)
    tale.checker.rests(HERE)
    writes = {
        PODS: lambda: tale.pod("late"),
        RECORDS: lambda: tale.gone(RECORDS, "ns/none"),
        GROUPS: lambda: tale.group("late", 1),
    }
    revision = writes[kind]()
    assert tale.said() == [(NOISE, revision)]


def test_elsewhere_later_and_by_leases_and_nodes_anything_may_be_written(tale: Tale) -> None:
    whole(tale)
    tale.checker.rests("other")
    tale.pod("z")
    tale.checker.rests(HERE)
    tale.node("n", card("a"))
    tale.wait(1)
    tale.checker.stirs(HERE)
    tale.pod("zz")
    assert tale.findings == []


# -- bound once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", ["p", "elsewhere", ""])
def test_a_bound_pod_that_is_bound_again_or_no_more(tale: Tale, node: str) -> None:
    tale.recorded_and_bound("x", "n", main(piece("a")))
    revision = tale.moved("x", node)
    assert tale.said() == [(MISMATCH, revision)]


# -- out of reach --------------------------------------------------------------------------------------------------


def out_of_reach(tale: Tale, seconds: float = GRACE + 1) -> None:
    """The pod x is deleted by force on a node that is not ready for so long."""
    tale.recorded_and_bound("x", "n", main(piece("a", 6000)))
    tale.node("n", card("a"), card("b"), ready=False)
    tale.wait(seconds)
    tale.deleted("x")


def test_a_slice_released_while_its_pod_may_run_on_out_of_reach(tale: Tale) -> None:
    out_of_reach(tale)
    revision = tale.gone(RECORDS, "ns/x")
    assert tale.said() == [(MISMATCH, revision)]


def test_a_slice_dropped_from_a_record_that_stays_while_its_pod_may_run_on(tale: Tale) -> None:
    out_of_reach(tale)
    revision = tale.record("x")
    assert tale.said() == [(MISMATCH, revision)]


def test_a_slice_given_to_another_while_its_pod_may_run_on(tale: Tale) -> None:
    out_of_reach(tale)
    tale.pod("y")
    revision = tale.record("x", entry("y", "n", main(piece("a", 6000))))
    assert tale.said() == [(MISMATCH, revision)]


@pytest.mark.parametrize("how", ["ready again", "gone", "just lost"])
def test_it_may_be_released_once_the_node_is_ready_or_gone_or_if_nobody_could_know(
    tale: Tale, how: str
) -> None:
    out_of_reach(tale, seconds=GRACE / 2 if how == "just lost" else GRACE + 1)
    tale.checker.rests("elsewhere")
    if how == "ready again":
        tale.node("n", card("a"), card("b"))
    elif how == "gone":
        tale.gone("nodes", "n")
    tale.gone(RECORDS, "ns/x")
    assert tale.findings == []


def test_what_is_out_of_reach_is_no_leak_until_the_node_is_back(tale: Tale) -> None:
    out_of_reach(tale)
    tale.wait(RELEASE + 1)
    assert tale.findings == []
    tale.node("n", card("a"), card("b"))
    tale.wait(RELEASE + 1)
    assert [kind for kind, _ in tale.said()] == [LEAK]


# -- minMember that is edited --------------------------------------------------------------------------------------


def test_a_gang_may_be_as_large_as_its_group_wanted_a_moment_ago_and_not_as_it_wanted_long_ago(
    tale: Tale,
) -> None:
    tale.group("g", 1)
    for name in ("x", "y"):
        tale.pod(name, group="g")
    tale.group("g", 2)
    tale.record("g", entry("x", "n", main(piece("a"))), group="g", least=1)
    assert tale.findings == []
    tale.gone(RECORDS, "ns/g")
    tale.wait(GRACE + 1)
    revision = tale.record("g", entry("x", "n", main(piece("a"))), group="g", least=1)
    assert tale.said() == [(HALF_GANG, revision)]
