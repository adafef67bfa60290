"""The books: every pod is charged once, where it is or where it was put, and no slice comes free by itself."""

from __future__ import annotations

import numpy as np
import pytest

from alnair.state.cluster import SPARE_TAINT_SETS
from alnair.state.draft import BY_NODE
from alnair.state.selectors import PodSet, Requirement, Selector
from harness.builders import node, pod
from unit.builders import GIB, Cluster, advertising, all_of, as_node, as_pod, card, holds, part

TOTAL = 64_000  # thousandths of a core on a node of the harness
MINE = pod("mine").asking(cpu="4").slice(memory_gib=6, compute=30)
MY_PLACE = holds("a", part("a", 0, 6 * GIB, 30))


def one_node(cards: int = 2, memory_mib: int = 24576) -> Cluster:
    return Cluster(node("a").with_cards(cards, memory_mib=memory_mib))


# -- one charge a pod --------------------------------------------------------------------------------------------


def test_a_plan_is_charged_before_the_apiserver_knows_of_it() -> None:
    cluster = one_node()
    cluster.state.put_pod(as_pod(MINE))
    assert cluster.free("a", "cpu") == TOTAL
    cluster.state.hold("uid-mine", MY_PLACE)
    assert cluster.free("a", "cpu") == TOTAL - 4000
    assert cluster.cards("a") == [(6144, 1), (0, 0)]


def test_a_bind_confirms_a_plan_without_counting_twice() -> None:
    cluster = one_node()
    cluster.state.put_pod(as_pod(MINE))
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.running(MINE, on="a", holding=MY_PLACE)
    assert cluster.free("a", "cpu") == TOTAL - 4000
    assert cluster.cards("a") == [(6144, 1), (0, 0)]


def test_a_record_known_before_its_pods_holds_their_slices() -> None:
    cluster = one_node()
    cluster.state.hold("uid-mine", MY_PLACE)
    assert cluster.cards("a") == [(6144, 1), (0, 0)]
    assert cluster.free("a", "cpu") == TOTAL
    cluster.running(MINE, on="a")
    assert cluster.free("a", "cpu") == TOTAL - 4000


def test_a_plan_that_is_taken_back_leaves_no_trace() -> None:
    cluster = one_node()
    cluster.state.put_pod(as_pod(MINE))
    before = cluster.state.freed
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.state.release("uid-mine")
    assert (cluster.free("a", "cpu"), cluster.cards("a")) == (TOTAL, [(0, 0), (0, 0)])
    assert cluster.state.freed > before


def test_releasing_what_is_not_held_changes_nothing() -> None:
    cluster = one_node()
    before = cluster.state.freed
    cluster.state.release("nobody")
    cluster.state.drop_pod("nobody")
    cluster.state.drop_node("nowhere")
    assert cluster.state.freed == before


def test_a_pod_that_says_the_same_again_wakes_nobody() -> None:
    cluster = one_node()
    cluster.running(MINE, on="a", holding=MY_PLACE)
    before = cluster.state.freed
    cluster.running(MINE, on="a", holding=MY_PLACE)
    assert cluster.state.freed == before


# -- a slice never comes free by itself --------------------------------------------------------------------------


def test_a_terminating_pod_keeps_everything() -> None:
    cluster = one_node()
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.running(MINE, on="a", terminating=True)
    assert (cluster.free("a", "cpu"), cluster.cards("a")[0]) == (TOTAL - 4000, (6144, 1))


def test_a_finished_pod_gives_back_cpu_at_once_and_its_slices_when_the_ledger_says_so() -> None:
    cluster = one_node()
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.running(MINE, on="a", phase="Succeeded", holding=MY_PLACE)
    assert (cluster.free("a", "cpu"), cluster.cards("a")[0]) == (TOTAL, (6144, 1))
    cluster.state.release("uid-mine")
    assert cluster.cards("a")[0] == (0, 0)


def test_a_deleted_pod_keeps_its_slices_until_the_ledger_releases_them() -> None:
    cluster = one_node()
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.running(MINE, on="a", holding=MY_PLACE)
    cluster.state.drop_pod("uid-mine")
    assert (cluster.free("a", "cpu"), cluster.cards("a")[0]) == (TOTAL, (6144, 1))
    cluster.state.release("uid-mine")
    assert cluster.cards("a")[0] == (0, 0)


def test_a_slice_released_while_its_pod_still_shows_it_is_charged_to_the_pod() -> None:
    cluster = one_node()
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.running(MINE, on="a", holding=MY_PLACE)
    cluster.state.release("uid-mine")
    assert cluster.cards("a")[0] == (6144, 1)


def test_a_pod_bound_elsewhere_by_somebody_else_keeps_its_slices_where_the_record_says() -> None:
    cluster = Cluster(node("a").with_cards(1), node("b").with_cards(1))
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.running(MINE, on="b")
    assert (cluster.free("a", "cpu"), cluster.cards("a")) == (TOTAL, [(6144, 1)])
    assert (cluster.free("b", "cpu"), cluster.cards("b")) == (TOTAL - 4000, [(0, 0)])
    cluster.state.release("uid-mine")
    assert cluster.cards("a") == [(0, 0)]
    assert cluster.free("b", "cpu") == TOTAL - 4000


# -- pods of others ----------------------------------------------------------------------------------------------


def test_a_bound_pod_that_no_record_knows_counts_by_its_annotation() -> None:
    cluster = one_node()
    cluster.running(MINE, on="a", holding=MY_PLACE)
    assert cluster.cards("a") == [(6144, 1), (0, 0)]
    cluster.running(MINE, on="a", holding=MY_PLACE, phase="Failed")
    assert cluster.cards("a") == [(0, 0), (0, 0)]


def test_an_annotation_that_speaks_of_another_node_or_makes_no_sense_counts_nothing() -> None:
    cluster = one_node()
    cluster.running(MINE, on="a", holding=holds("b", part("a", 0, 6 * GIB)))
    assert cluster.cards("a") == [(0, 0), (0, 0)]
    junk = MINE.annotated({"ai.centaurus.io/node": "a", "ai.centaurus.io/gpu-slices": "[" * 5000})
    cluster.running(junk, on="a")
    assert cluster.cards("a") == [(0, 0), (0, 0)]
    assert cluster.free("a", "cpu") == TOTAL - 4000


def test_a_pod_beyond_all_reason_takes_its_node_and_no_more() -> None:
    cluster = one_node()
    for name in ("one", "two", "three"):
        cluster.running(pod(name).asking(memory="7Ei"), on="a")
    assert cluster.free("a", "memory") < 0


# -- nodes and cards come and go ---------------------------------------------------------------------------------


def test_a_node_that_comes_back_still_has_its_pods() -> None:
    cluster = one_node()
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.running(MINE, on="a")
    cluster.state.drop_node("a")
    assert not cluster.state.draft().exists.any()
    cluster.add(node("a").with_cards(2))
    assert (cluster.free("a", "cpu"), cluster.cards("a")) == (TOTAL - 4000, [(6144, 1), (0, 0)])


def test_what_was_released_while_the_node_was_away_is_free_when_it_is_back() -> None:
    cluster = one_node()
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.running(MINE, on="a")
    cluster.state.drop_node("a")
    cluster.state.drop_pod("uid-mine")
    cluster.state.release("uid-mine")
    cluster.add(node("a").with_cards(2))
    assert (cluster.free("a", "cpu"), cluster.cards("a")) == (TOTAL, [(0, 0), (0, 0)])


def test_a_pod_seen_before_its_node_is_charged_when_the_node_comes() -> None:
    cluster = Cluster()
    cluster.running(MINE, on="a", holding=MY_PLACE)
    cluster.add(node("a").with_cards(2))
    assert (cluster.free("a", "cpu"), cluster.cards("a")[0]) == (TOTAL - 4000, (6144, 1))


def test_a_new_node_in_an_old_row_has_nothing_of_the_old_one() -> None:
    cluster = Cluster(node("a").with_cards(4).labelled(pool="x").tainted("t").cordoned())
    cluster.running(MINE, on="a", holding=MY_PLACE)
    cluster.state.drop_node("a")
    cluster.add(node("b"))
    draft, row = cluster.state.draft(), cluster.row("b")
    assert cluster.free("b", "cpu") == TOTAL
    assert not draft.card_memory[row].any()
    assert not draft.unschedulable[row]
    assert draft.taint_sets[draft.taint_set[row]] == ()
    assert not draft.labelled("pool", "x")[row]


def test_taints_that_no_node_has_any_more_are_let_go_and_the_others_keep_their_nodes() -> None:
    cluster = Cluster(node("a").tainted("gpu"), node("gone").tainted("x"), node("b"))
    cluster.state.drop_node("gone")
    for second in range(3 * SPARE_TAINT_SETS):
        cluster.add(node("b").tainted("ToBeDeletedByClusterAutoscaler", str(second)))
    draft = cluster.state.draft()
    taints = {name: draft.taint_sets[draft.taint_set[cluster.row(name)]] for name in ("a", "b")}
    assert [(each.key, each.value) for each in taints["a"]] == [("gpu", "")]
    assert [each.value for each in taints["b"]] == [str(3 * SPARE_TAINT_SETS - 1)]
    assert len(draft.taint_sets) < SPARE_TAINT_SETS + 10
    assert draft.taint_set.max() < len(draft.taint_sets)


def test_a_card_that_vanishes_takes_nothing_from_the_others_and_comes_back_taken() -> None:
    cluster = one_node(cards=2)
    cluster.state.hold("uid-mine", holds("a", part("a", 1, 6 * GIB)))
    cluster.add(node("a").with_cards(1))
    assert cluster.cards("a") == [(0, 0)]
    cluster.add(node("a").with_cards(2))
    assert cluster.cards("a") == [(0, 0), (6144, 1)]


def test_a_slice_released_while_its_card_was_gone_is_free_when_it_is_back() -> None:
    cluster = one_node(cards=2)
    cluster.state.hold("uid-mine", holds("a", part("a", 1, 6 * GIB)))
    cluster.add(node("a").with_cards(1))
    cluster.state.release("uid-mine")
    cluster.add(node("a").with_cards(2))
    assert cluster.cards("a") == [(0, 0), (0, 0)]


def test_memory_that_shrinks_under_its_users_leaves_less_than_nothing_free() -> None:
    cluster = one_node(cards=1, memory_mib=24576)
    cluster.state.hold("uid-mine", MY_PLACE)
    cluster.add(node("a").with_cards(1, memory_mib=4096))
    assert int(cluster.state.draft().card_free_memory[cluster.row("a"), 0]) == 4096 - 6144
    assert cluster.refuses(pod("x").slice(memory_gib=1)).startswith("The pod needs 1 GiB on one card")


def test_a_whole_card_stays_whole_when_its_memory_changes() -> None:
    cluster = one_node(cards=1, memory_mib=24576)
    cluster.state.hold("uid-w", holds("a", all_of("a", 0, 24576)))
    cluster.add(node("a").with_cards(1, memory_mib=40960))
    assert "all cards are taken" in cluster.refuses(pod("x").slice(memory_gib=1))


def test_zones_that_come_and_go_change_the_cards_of_the_node() -> None:
    cluster = Cluster(
        node("a").with_cards(1, model="A", memory_mib=8192).with_cards(1, model="B", memory_mib=4096)
    )
    assert [memory for _, _, memory, _, _ in cluster.state.card_usage()] == [8192, 4096]
    cluster.state.drop_topology("a")
    assert cluster.cards("a") == []


def test_a_topology_seen_before_its_node_counts_when_the_node_comes() -> None:
    mixed = node("a").with_cards(1, model="A").with_cards(1, model="B")
    late = Cluster(mixed)
    late.state.drop_node("a")
    late.state.put_node(as_node(mixed.manifest()))
    assert [uuid for _, uuid, *_ in late.state.card_usage()] == [card("a", 0), card("a", 1)]


def test_a_node_that_did_not_change_wakes_nobody() -> None:
    cluster = one_node()
    before = cluster.state.freed
    cluster.add(node("a").with_cards(2))
    assert cluster.state.freed == before
    cluster.add(node("a").with_cards(2).labelled(pool="x"))
    assert cluster.state.freed > before


def test_a_label_is_looked_up_anew_when_a_node_changes() -> None:
    cluster = one_node()
    row = cluster.row("a")
    assert not cluster.state.draft().labelled("pool", "x").any()
    assert cluster.state.draft().label("pool")[row] == -1
    cluster.add(node("a").with_cards(2).labelled(pool="x"))
    assert cluster.state.draft().labelled("pool", "x")[row]
    cluster.add(node("a").with_cards(2).labelled(pool="y"))
    assert not cluster.state.draft().labelled("pool", "x").any()
    assert cluster.state.draft().labelled("pool", "y")[row]
    cluster.state.drop_node("a")
    assert not cluster.state.draft().labelled("pool", "y").any()


def test_an_image_is_looked_up_anew_when_a_node_changes() -> None:
    cluster = Cluster(node("a"), node("b"))
    assert not cluster.state.draft().image("x").any()
    cluster.add(node("a").with_image("x", 500))
    assert cluster.state.draft().image("x")[cluster.row("a")] == 500
    assert cluster.state.draft().image("x")[cluster.row("b")] == 0
    cluster.add(node("a"))
    assert not cluster.state.draft().image("x").any()


def test_many_nodes_cards_and_resources_find_room() -> None:
    cluster = Cluster()
    for number in range(40):
        cluster.add(advertising(node(f"n{number}").with_cards(number % 10), f"example.com/r{number}", 3))
    cluster.running(pod("p").asking(resources={"example.com/r7": "2"}), on="n7")
    assert cluster.free("n7", "example.com/r7") == 1
    assert cluster.free("n8", "example.com/r7") == 0
    assert len(cluster.cards("n9")) == 9


def test_pods_that_ask_for_what_no_node_has_yet_are_counted_when_one_has_it() -> None:
    cluster = Cluster(node("a"), node("b"))
    asking = pod("p").asking(resources={"example.com/new": "2"})
    there = cluster.running(asking, on="a")
    gone = cluster.running(asking.named("q"), on="a")
    cluster.state.drop_pod(gone.uid)
    cluster.add(advertising(node("b"), "example.com/new", 3))
    assert (cluster.free("a", "example.com/new"), cluster.free("b", "example.com/new")) == (-2, 3)
    cluster.add(advertising(node("a"), "example.com/new", 3))
    assert cluster.free("a", "example.com/new") == 1
    cluster.state.drop_pod(there.uid)
    assert cluster.free("a", "example.com/new") == 3


# -- drafts ------------------------------------------------------------------------------------------------------


APP = PodSet(("team",), Selector((Requirement("app", "In", ("x",)),)))
GUEST = MINE.labelled(app="x").on_host_port(80)


def books(cluster: Cluster) -> dict[str, object]:
    """All that a scribble could leave behind."""
    draft = cluster.state.draft()
    return {
        "free": draft.free.tolist(),
        "cards": [
            each.tolist()
            for each in (
                draft.card_free_memory,
                draft.card_free_compute,
                draft.card_free_slots,
                draft.card_users,
                draft.card_exclusive,
            )
        ],
        "counted": draft.count(APP).tolist(),
        "brought": {str(port): dict(rows) for port, rows in draft.company.brought("port/TCP/80").items()},
    }


def test_what_is_taken_shows_in_the_books_until_the_end_of_the_draft_and_no_longer() -> None:
    cluster = one_node()
    row, before = cluster.row("a"), books(cluster)
    with cluster.state.draft() as draft:
        draft.take(row, cluster.kind(GUEST), MY_PLACE.containers)
        assert cluster.cards("a") == [(6144, 1), (0, 0)]
        assert int(draft.card_free_memory[row, 0]) == 18 * GIB
        assert cluster.free("a", "cpu") == TOTAL - 4000
        assert draft.count(APP)[row] == 1
        assert [str(port) for port in draft.company.brought("port/TCP/80")] == ["80/TCP"]
        assert books(cluster) != before
    assert books(cluster) == before


def test_what_is_taken_is_wiped_when_planning_fails_too() -> None:
    cluster = one_node()
    before = books(cluster)

    def fail() -> None:
        with cluster.state.draft() as draft:
            draft.take(cluster.row("a"), cluster.kind(GUEST), MY_PLACE.containers)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert books(cluster) == before


def test_what_is_put_back_is_as_if_it_had_never_been_taken() -> None:
    cluster = one_node()
    row, kind, before = cluster.row("a"), cluster.kind(GUEST), books(cluster)
    with cluster.state.draft() as draft:
        draft.take(row, kind, MY_PLACE.containers)
        draft.put_back(row, kind, MY_PLACE.containers)
        assert books(cluster) == before
        assert len(draft.journal) == 2
        draft.take(row, kind, ())
        draft.wipe()
        assert (books(cluster), draft.journal) == (before, [])
        draft.take(row, kind, ())
        assert cluster.free("a", "cpu") == TOTAL - 4000
    assert books(cluster) == before


def test_kept_parts_of_a_card_can_be_handed_back_for_a_moment() -> None:
    cluster = one_node()
    cluster.state.hold("uid-mine", MY_PLACE)
    with cluster.state.draft() as draft:
        draft.hand_out(cluster.row("a"), MY_PLACE.containers, -1)
        assert cluster.cards("a") == [(0, 0), (0, 0)]
        draft.hand_out(cluster.row("a"), MY_PLACE.containers)
        assert cluster.cards("a") == [(6144, 1), (0, 0)]
        draft.hand_out(cluster.row("a"), MY_PLACE.containers, -1)
    assert cluster.cards("a") == [(6144, 1), (0, 0)]


def test_a_set_of_pods_first_asked_about_in_mid_draft_counts_the_scribbles_and_forgets_them_after() -> None:
    cluster = one_node()
    cluster.running(GUEST.named("there"), on="a")
    row = cluster.row("a")
    with cluster.state.draft() as draft:
        draft.take(row, cluster.kind(GUEST), ())
        draft.take(row, cluster.kind(GUEST), ())
        draft.put_back(row, cluster.kind(GUEST), ())
        assert draft.count(APP)[row] == 2
    assert cluster.state.draft().count(APP)[row] == 1


def test_one_row_of_a_draft_is_a_view_of_it() -> None:
    cluster = Cluster(node("a"), node("b").with_cards(1).labelled(pool="x"))
    draft, row = cluster.state.draft(), cluster.row("b")
    one = draft.only(row)
    assert list(one.names) == ["b"]
    assert one.all_nodes() is draft
    assert one.only(0).all_nodes() is draft
    assert one.labelled("pool", "x").tolist() == [True]
    draft.take(row, cluster.kind(pod("x").asking(cpu="1")), ())
    assert int(one.free[0, one.columns["cpu"]]) == TOTAL - 1000
    draft.wipe()


def test_some_rows_of_a_draft_answer_for_themselves_and_domains_for_all() -> None:
    cluster = Cluster(
        *(node(name).labelled(zone=zone) for name, zone in (("a", "x"), ("b", "y"), ("c", "y")))
    )
    cluster.running(GUEST, on="b")
    some = cluster.state.draft().at(np.array([cluster.row("c"), cluster.row("a")]))
    assert list(some.names) == ["c", "a"]
    assert some.labelled("zone", "y").tolist() == [True, False]
    assert some.count(APP).tolist() == [0, 0]
    column = some.label_column("zone")
    assert some.count_by_domain(APP, "zone")[column.code("y")] == 1
    assert some.among({cluster.row("a"), cluster.row("b")}).tolist() == [False, True]


def test_rows_are_kept_as_they_were_and_a_glance_sees_them_as_they_are() -> None:
    cluster = Cluster(node("a"), node("b").with_cards(2))
    with cluster.state.draft() as draft:
        rows = np.array([cluster.row("b")])
        kept, glance = draft.at(rows), draft.glance(rows)
        draft.take(cluster.row("b"), cluster.kind(pod("x").asking(cpu="1")), ())
        cpu = draft.columns["cpu"]
        assert (kept.free[0, cpu], glance.free[0, cpu]) == (TOTAL, TOTAL - 1000)


@pytest.mark.parametrize("name", sorted(BY_NODE - {"load"}))
def test_whatever_there_is_of_nodes_is_narrowed_with_them(name: str) -> None:
    cluster = Cluster(node("a"), node("b").with_cards(2), node("c"))
    draft = cluster.state.draft()
    rows = [cluster.row("c"), cluster.row("b")]
    expected = [np.asarray(getattr(draft, name)[row]).tolist() for row in rows]
    for narrowed in (draft.at(np.array(rows)), draft.glance(np.array(rows))):
        assert [np.asarray(each).tolist() for each in getattr(narrowed, name)] == expected
        assert len(getattr(narrowed.only(1), name)) == 1


def test_a_draft_has_nothing_that_it_has_not() -> None:
    with pytest.raises(AttributeError, match="has no colour"):
        getattr(one_node().state.draft().only(0), "colour")  # noqa: B009


# -- who is expected ---------------------------------------------------------------------------------------------


def test_a_nominated_pod_is_expected_by_those_it_goes_before() -> None:
    cluster = one_node()
    vip = pod("vip").nominated_to("a").with_(lambda it: it["spec"].update(priority=10))
    cluster.state.put_pod(as_pod(vip))
    row = cluster.row("a")

    def rows(priority: int, *beside: str) -> list[int]:
        return [row for row, _ in cluster.state.expected(priority=priority, beside=beside)]

    assert (rows(9), rows(10), rows(11)) == ([row], [row], [])
    assert rows(0, "uid-vip") == []
    cluster.state.hold("uid-vip", MY_PLACE)
    assert rows(0) == []
    cluster.state.release("uid-vip")
    assert rows(0) == [row]
    before = cluster.state.freed
    cluster.running(vip, on="a")
    assert rows(0) == []
    assert cluster.state.freed > before


def test_a_pod_nominated_to_a_node_that_is_not_there_or_that_is_done_is_not_expected() -> None:
    cluster = one_node()
    cluster.state.put_pod(as_pod(pod("lost").nominated_to("nowhere")))
    cluster.state.put_pod(as_pod(pod("done").nominated_to("a"), phase="Failed"))
    assert cluster.state.expected(priority=0, beside=()) == []
    cluster.state.put_pod(as_pod(pod("gone").nominated_to("a")))
    cluster.state.drop_pod("uid-gone")
    assert cluster.state.expected(priority=0, beside=()) == []
