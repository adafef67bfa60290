"""The exact search step by step: what greedy placement misses, what happens meanwhile, and what is never believed."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from alnair.scheduling import exact, search
from alnair.scheduling.classes import Member
from alnair.scheduling.exact import Problem
from alnair.scheduling.search import Gang, Plan, Refusal, Unsure
from alnair.state.charges import guest
from harness.builders import PodBuilder, node, nodes, pod
from harness.storage import claim, volume
from unit.builders import PACK, Cluster, all_of, as_pod, given, holds, times, where
from unit.storage import host, stored

ZONE = "zone"


def asked(cluster: Cluster, *pods: PodBuilder, needed: int | None = None) -> Gang:
    read = [as_pod(each, reader=cluster.reader) for each in pods]
    members = tuple(Member(one.uid, one.name, guest(one), one.nominated) for one in read)
    return Gang(members, needed=len(members) if needed is None else needed)


def decided(cluster: Cluster, *pods: PodBuilder, needed: int | None = None) -> Plan | Refusal | Unsure:
    with cluster.state.draft() as draft:
        return exact.decide(asked(cluster, *pods, needed=needed), PACK, draft)


def formulated(cluster: Cluster, *pods: PodBuilder) -> Problem:
    with cluster.state.draft() as draft:
        return exact.formulate(asked(cluster, *pods), PACK, draft)


def concluded(cluster: Cluster, problem: Problem) -> Plan | Refusal | Unsure:
    with cluster.state.draft() as draft:
        return exact.conclude(problem.solve(), PACK, draft)


# A zone with one card and one with two: who must be together, and takes the first zone that comes, is stuck.
TOGETHER = times(pod("w").asking(gpu=1).labelled(app="w").near_to({"app": "w"}, key=ZONE), 2)


def two_zones() -> Cluster:
    return Cluster(
        node("a").labelled(zone="a").with_cards(1),
        node("b1").labelled(zone="b").with_cards(1),
        node("b2").labelled(zone="b").with_cards(1),
    )


def test_a_gang_that_greedy_placement_leads_astray_is_placed_after_all() -> None:
    cluster = two_zones()
    assert isinstance(cluster.try_(TOGETHER), Unsure)
    assert sorted(where(decided(cluster, *TOGETHER)).values()) == ["b1", "b2"]


def test_slices_are_packed_as_no_order_of_sizes_would() -> None:
    """10+7+7 and 12+12 fill two cards of 24 GiB; largest first puts 12 beside 10."""
    cluster = Cluster(node("a").with_cards(2, memory_mib=24576))
    gang = [
        *times(pod("large").slice(memory_gib=12), 2),
        pod("middle").slice(memory_gib=10),
        *times(pod("small").slice(memory_gib=7), 2),
    ]
    cards = given(decided(cluster, *gang))
    assert cards["large-0"] == cards["large-1"] != cards["middle"] == cards["small-0"] == cards["small-1"]


def test_a_member_that_waits_for_a_preemption_gets_the_node_that_was_cleared_for_it() -> None:
    gang = [each.nominated_to("b2") if number == 0 else each for number, each in enumerate(TOGETHER)]
    assert where(decided(two_zones(), *gang)) == {"w-0": "b2", "w-1": "b1"}


# -- reasons -----------------------------------------------------------------------------------------------------


def test_a_node_where_the_pod_would_be_in_a_members_way_is_told_as_such() -> None:
    cluster = Cluster(node("a").holding(cpu="2"))
    alone = (
        pod("alone").asking(cpu="1").labelled(app="x").apart_from({"app": "y"}, key="kubernetes.io/hostname")
    )
    picky = pod("picky").labelled(app="y").asking(cpu="2")
    verdict = decided(cluster, alone, picky)
    assert isinstance(verdict, Refusal)
    assert verdict.message.startswith("1 of 2 members fit. 1 more needs ")
    assert len(verdict.most) == 1


def test_a_spread_that_the_newcomer_would_break_for_others_is_the_others_rule() -> None:
    cluster = Cluster(node("a").labelled(zone="a"), node("b").labelled(zone="b").cordoned())
    even = pod("even").labelled(app="x").spread_over(ZONE, {"app": "x"})
    careless = pod("careless").labelled(app="x")
    verdict = decided(cluster, even, careless)
    assert isinstance(verdict, Refusal)
    assert verdict.message.startswith(
        "1 of 2 members fit. 1 more needs a place, but of 2 nodes: 1 is cordoned; 1 has "
    )


def test_the_number_that_fit_is_the_largest_not_what_greedy_placement_reached() -> None:
    cluster = two_zones()
    gang = times(pod("w").asking(gpu=1).labelled(app="w").near_to({"app": "w"}, key=ZONE), 3)
    assert isinstance(cluster.try_(gang), Unsure)
    verdict = decided(cluster, *gang)
    assert isinstance(verdict, Refusal)
    assert verdict.message.startswith("2 of 3 members fit. ")
    assert sorted(holding.node for _, holding in verdict.most) == ["b1", "b2"]


def test_time_that_runs_out_is_not_a_no() -> None:
    cluster = two_zones()
    with cluster.state.draft() as draft:
        verdict = exact.decide(asked(cluster, *TOGETHER), PACK, draft, seconds=0.0)
        assert not draft.journal
    assert isinstance(verdict, Unsure)
    assert verdict.message.startswith("Not decided within 0 s; it is tried again.")


# -- between the steps -------------------------------------------------------------------------------------------


def test_the_books_are_as_they_were_and_the_problem_has_nothing_of_them() -> None:
    cluster = two_zones()
    before = cluster.state.draft().free.copy()
    problem = formulated(cluster, *TOGETHER)
    assert (cluster.state.draft().free == before).all()
    for name in ("free", "allocatable", "card_free_memory", "card_memory", "owned", "exists"):
        array = getattr(cluster.state.draft(), name)
        rows = problem.rows
        for part in (
            rows.upper,
            rows.integer,
            rows.columns,
            rows.amounts,
            rows.least,
            rows.most,
            problem.seats,
        ):
            assert not np.shares_memory(array, part)


def test_it_is_solved_on_another_thread_while_the_books_go_on() -> None:
    cluster = two_zones()
    problem, found = formulated(cluster, *TOGETHER), []
    thread = threading.Thread(target=lambda: found.append(problem.solve()))
    thread.start()
    cluster.running(pod("tenant").asking(cpu="1"), on="a")
    thread.join()
    with cluster.state.draft() as draft:
        assert sorted(where(exact.conclude(found[0], PACK, draft)).values()) == ["b1", "b2"]


def taken_card(cluster: Cluster) -> None:
    cluster.running(pod("thief").asking(gpu=1), on="b2", holding=holds("b2", all_of("b2", 0, 24576)))


def lost_node(cluster: Cluster) -> None:
    cluster.state.drop_node("b2")


def cordon(cluster: Cluster) -> None:
    cluster.add(node("b2").labelled(zone="b").with_cards(1).cordoned())


def rival(cluster: Cluster) -> None:
    cluster.running(pod("rival").apart_from({"app": "w"}, key=ZONE), on="b1")


@pytest.mark.parametrize("happens", [taken_card, lost_node, cordon, rival], ids=lambda each: each.__name__)
def test_a_solution_that_is_no_longer_good_is_not_used(happens: object) -> None:
    cluster = two_zones()
    problem = formulated(cluster, *TOGETHER)
    assert isinstance(concluded(cluster, problem), Plan)
    assert callable(happens)
    happens(cluster)
    verdict = concluded(cluster, problem)
    assert isinstance(verdict, Unsure)
    assert verdict.message == "The cluster changed while a place was looked for; it is tried again."


def test_the_very_cards_are_looked_at_not_only_whether_there_are_some() -> None:
    """Two cards were free, the one of the plan was taken: the node passes every rule, and the plan is no good."""
    cluster = Cluster(node("a").with_cards(3))
    problem = formulated(cluster, pod("w").asking(gpu=1))
    plan = concluded(cluster, problem)
    (card,) = given(plan)["w"]
    index = int(card.removeprefix("a#"))
    cluster.running(pod("thief").asking(gpu=1), on="a", holding=holds("a", all_of("a", index, 24576)))
    assert isinstance(cluster.try_([pod("w").asking(gpu=1)]), Plan)
    assert isinstance(concluded(cluster, problem), Unsure)


def test_what_stood_in_the_draft_before_is_still_there_after_a_no() -> None:
    """Replacements that took kept places stand in the draft while the rest of their gang is placed."""
    cluster = two_zones()
    gang = asked(cluster, *times(pod("w").asking(gpu=1).labelled(app="w").near_to({"app": "w"}, key=ZONE), 3))
    with cluster.state.draft() as draft:
        draft.take(cluster.row("a"), cluster.kind(pod("earlier").asking(cpu="1")), ())
        before = draft.free.copy()
        assert isinstance(search.place(gang, PACK, draft), Unsure)
        assert (draft.free == before).all()
        assert isinstance(exact.decide(gang, PACK, draft), Refusal)
        assert (draft.free == before).all()
        assert len(draft.journal) == 1


# -- pods of others ----------------------------------------------------------------------------------------------


def test_a_lone_pod_does_not_count_on_company_that_may_never_come() -> None:
    cluster = two_zones()
    follower = asked(cluster, pod("f").near_to({"app": "w"}, key=ZONE))
    coming = (cluster.row("a"), cluster.kind(pod("w").labelled(app="w")))
    lone = Gang(follower.members, needed=1, expected=(coming,))
    with cluster.state.draft() as draft:
        solution = exact.formulate(lone, PACK, draft).solve()
        assert isinstance(exact.conclude(solution, PACK, draft), Refusal)


def test_room_that_was_made_for_others_is_taken() -> None:
    cluster = Cluster(node("a").holding(cpu="2"), node("b").holding(cpu="2"))
    pair = asked(cluster, *times(pod("w").asking(cpu="2"), 2))
    coming = (cluster.row("a"), cluster.kind(pod("vip").asking(cpu="1")))
    gang = Gang(pair.members, needed=2, expected=(coming,))
    with cluster.state.draft() as draft:
        verdict = exact.conclude(exact.formulate(gang, PACK, draft).solve(), PACK, draft)
    assert isinstance(verdict, Refusal)
    assert "1 of 2 members fit" in verdict.message


# -- volumes -----------------------------------------------------------------------------------------------------


def test_a_claim_for_one_pod_alone_goes_to_one_member_and_the_others_are_told_why() -> None:
    only = claim("data").asking(accessModes=["ReadWriteOncePod"]).bound_to("v")
    cluster = stored(Cluster(host("a"), host("b")), only, volume("v"))
    with cluster.state.draft() as draft:
        gang = asked(cluster, *times(pod("p").mounting("data"), 2))
        verdict = exact.conclude(exact.formulate(gang, PACK, draft).solve(), PACK, draft)
    assert isinstance(verdict, Refusal)
    assert verdict.message.startswith("1 of 2 members fit. ")
    assert "ReadWriteOncePod" in verdict.message


def test_readers_of_a_disk_share_a_node_and_its_writer_stands_alone() -> None:
    cluster = Cluster(host("a"), host("b"))
    reader = pod("r").with_volume(gcePersistentDisk={"pdName": "d", "readOnly": True})
    writer = pod("w").with_volume(gcePersistentDisk={"pdName": "d"})
    with cluster.state.draft() as draft:
        gang = asked(cluster, *times(reader, 3), writer)
        placed = where(exact.conclude(exact.formulate(gang, PACK, draft).solve(), PACK, draft))
    assert placed["r-0"] == placed["r-1"] == placed["r-2"] != placed["w"]


# -- size --------------------------------------------------------------------------------------------------------


def test_of_nodes_that_are_alike_only_as_many_are_looked_at_as_there_are_members() -> None:
    cluster = Cluster(*nodes("n", 200, node("n").labelled(zone="a").with_cards(4)))
    gang = times(
        pod("w").asking(gpu=1).labelled(app="w").spread_over("kubernetes.io/hostname", {"app": "w"}), 5
    )
    problem = formulated(cluster, *gang)
    assert len(problem.names) == 5
    assert len(where(concluded(cluster, problem))) == 5


def test_a_node_is_left_out_if_enough_others_are_better_in_everything() -> None:
    cluster = Cluster(*(node(f"n{cores}").holding(cpu=str(cores)) for cores in range(1, 60)))
    problem = formulated(cluster, pod("large").asking(cpu="31"), pod("small").asking(cpu="26"))
    # Twice as many as members are kept in any case; 57 cores is all that both could take, so n59 is like n57 and n58.
    assert set(problem.names) == {"n55", "n56", "n57", "n58"}
