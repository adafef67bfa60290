"""Kept places: a replacement takes the place of a lost member that held exactly what it asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alnair.api import names
from alnair.scheduling.vacancy import match_vacancies
from alnair.state.holding import ContainerShare, Holding
from harness.builders import NodeBuilder, PodBuilder, node, pod
from unit.builders import PACK, Cluster, advertising, all_of, holds, part

A = node("a").with_cards(2, memory_mib=24576).labelled(pool="x")
WHOLE = holds("a", all_of("a", 0, 24576))
SLICE = holds("a", part("a", 1, 6144, 50))
EARLY = pod("p").slice(memory_gib=6, compute=50).with_init("i", {names.NVIDIA_GPU: "1"})
EARLIER = Holding(
    "a",
    (
        ContainerShare("i", (all_of("a", 1, 24576),), stage="Init"),
        ContainerShare("main", (part("a", 1, 6144, 50),)),
    ),
)
HALF = pod("p").asking(resources={names.NVIDIA_GPUMEM_PERCENTAGE: "50"})
COUNTED = Holding("b", (ContainerShare("main", counted=2),))


def two_nodes(**held: Holding) -> Cluster:
    """Alnair's node a, a device plugin's node b, and places that are kept on them."""
    cluster = Cluster(A, node("b").with_cards(2).owned_by("device-plugin"))
    for uid, holding in held.items():
        cluster.state.hold(uid, holding)
    return cluster


def matched(
    cluster: Cluster, asking: dict[str, PodBuilder], vacant: dict[str, Holding], *, priority: int = 0
) -> dict[str, str]:
    replacements = [(uid, cluster.kind(each)) for uid, each in asking.items()]
    expected = cluster.state.expected(priority=priority, beside=())
    with cluster.state.draft() as draft:
        return match_vacancies(replacements, vacant, profile=PACK, draft=draft, expected=expected)


@pytest.mark.parametrize(
    ("asking", "place", "fits"),
    [
        pytest.param(pod("p").asking(gpu=1), WHOLE, True, id="a whole card for a whole card"),
        pytest.param(pod("p").asking(gpu=2), WHOLE, False, id="two are not one"),
        pytest.param(pod("p").asking(gpu=2), COUNTED, True, id="two counted cards for two"),
        pytest.param(pod("p").slice(memory_gib=6, compute=50), SLICE, True, id="the same slice"),
        pytest.param(pod("p").slice(memory_gib=6), SLICE, False, id="less compute is another slice"),
        pytest.param(
            pod("p").slice(memory_gib=5, compute=50), SLICE, False, id="less memory is another slice"
        ),
        pytest.param(pod("p").slice(memory_gib=24), WHOLE, False, id="a slice is not a whole card"),
        pytest.param(pod("p"), WHOLE, False, id="who needs no GPU takes no card"),
        pytest.param(pod("p"), Holding("a"), True, id="no GPU for no GPU"),
        pytest.param(EARLY, EARLIER, True, id="the same before it starts"),
        pytest.param(
            EARLY, replace(EARLIER, containers=EARLIER.containers[1:]), False, id="nothing before it"
        ),
        pytest.param(
            pod("p").slice(memory_gib=6, compute=50).with_init("i", {names.NVIDIA_GPU: "1"}, sidecar=True),
            EARLIER,
            False,
            id="a sidecar is no init container",
        ),
        pytest.param(HALF, holds("a", part("a", 1, 12288)), True, id="half of the very card"),
        pytest.param(HALF, holds("a", part("a", 1, 12287)), False, id="less than half of it"),
        pytest.param(pod("p").slice(memory_gib=6).exclusively(), WHOLE, True, id="large enough, all of it"),
        pytest.param(pod("p").slice(memory_gib=25).exclusively(), WHOLE, False, id="all of it is not enough"),
        pytest.param(pod("p").asking(gpu=1).on_cards("a/1"), WHOLE, False, id="another card than it names"),
        pytest.param(
            pod("p").annotated({names.GPU_COUNT: "2"}), COUNTED, False, id="no number to ask a plugin for"
        ),
    ],
)
def test_a_place_fits_exactly_or_not_at_all(asking: PodBuilder, place: Holding, fits: bool) -> None:
    assert matched(two_nodes(old=place), {"new": asking}, {"old": place}) == ({"new": "old"} if fits else {})


def test_one_place_goes_to_one_pod_and_each_finds_its_own() -> None:
    whole, small = pod("p").asking(gpu=1), pod("p").slice(memory_gib=6, compute=50)
    cluster = two_nodes(w=WHOLE, s=SLICE)
    assert matched(cluster, {"n1": small, "n2": whole, "n3": whole}, {"w": WHOLE, "s": SLICE}) == {
        "n1": "s",
        "n2": "w",
    }


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(A.cordoned(), id="cordoned"),
        pytest.param(A.tainted("sick"), id="tainted"),
        pytest.param(A.holding(cpu="1"), id="too small by now"),
        pytest.param(A.labelled(pool="other"), id="labelled otherwise"),
    ],
)
def test_a_place_on_a_node_that_lets_nobody_in_any_more_is_not_taken(change: NodeBuilder) -> None:
    cluster = two_nodes(old=WHOLE)
    asking = pod("p").asking(gpu=1, cpu="2").selecting(pool="x")
    assert matched(cluster, {"new": asking}, {"old": WHOLE}) == {"new": "old"}
    cluster.add(change)
    assert matched(cluster, {"new": asking}, {"old": WHOLE}) == {}


def test_a_place_on_a_node_that_is_gone_is_not_taken() -> None:
    cluster = two_nodes(old=WHOLE)
    cluster.state.drop_node("a")
    assert matched(cluster, {"new": pod("p").asking(gpu=1)}, {"old": WHOLE}) == {}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(node("a").with_cards(1, memory_mib=24576), id="vanished"),
        pytest.param(node("a").with_cards(2, memory_mib=4096), id="shrunk"),
    ],
)
def test_a_card_that_cannot_serve_any_more_is_not_taken_even_where_others_could(change: NodeBuilder) -> None:
    cluster = two_nodes(old=SLICE)
    cluster.add(change)
    asking = pod("p").slice(memory_gib=6, compute=50)
    assert matched(cluster, {"new": asking}, {"old": SLICE}) == {}


def test_a_card_that_became_a_device_plugins_is_not_given_out_again_by_name() -> None:
    cluster = two_nodes(old=WHOLE)
    theirs = A.labelled({names.GPU_OWNER: names.OWNED_BY_DEVICE_PLUGIN})
    cluster.add(advertising(theirs, names.NVIDIA_GPU, 2))
    assert matched(cluster, {"new": pod("p").asking(gpu=1)}, {"old": WHOLE}) == {}


def test_replacements_on_one_node_see_each_others_cpu() -> None:
    cluster = Cluster(A.holding(cpu="3"))
    places = {"one": Holding("a"), "two": Holding("a")}
    asking = {"n1": pod("p").asking(cpu="2"), "n2": pod("p").asking(cpu="2")}
    assert matched(cluster, asking, places) == {"n1": "one"}


HIGHER = pod("theirs").asking(cpu="2").nominated_to("a").with_(lambda it: it["spec"].update(priority=10))


def test_room_that_a_preemption_made_for_somebody_else_is_not_taken() -> None:
    cluster = Cluster(A.holding(cpu="3"))
    asking, places = {"new": pod("p").asking(cpu="2")}, {"old": Holding("a")}
    assert matched(cluster, asking, places) == {"new": "old"}
    cluster.waiting(HIGHER)
    assert matched(cluster, asking, places) == {}
    assert matched(cluster, asking, places, priority=11) == {"new": "old"}, "who is less important gives way"


def test_who_is_expected_is_minded_like_who_is_there() -> None:
    cluster = Cluster(A.holding(cpu="30"))
    cluster.waiting(HIGHER.labelled(app="loud"))
    quiet = pod("p").apart_from({"app": "loud"}, key="pool")
    assert matched(cluster, {"new": quiet}, {"old": Holding("a")}) == {}
    assert matched(cluster, {"new": pod("p")}, {"old": Holding("a")}) == {"new": "old"}


def test_the_books_are_as_they_were_when_somebody_is_expected() -> None:
    cluster = Cluster(A.holding(cpu="5"))
    cluster.waiting(HIGHER)
    matched(cluster, {"new": pod("p").asking(cpu="2")}, {"old": Holding("a")})
    assert cluster.free("a", "cpu") == 5000


def test_what_is_looked_at_and_not_taken_stays_kept() -> None:
    cluster = two_nodes(old=WHOLE)
    draft = cluster.state.draft()
    asking = cluster.kind(pod("p").asking(gpu=1, cpu="1000"))
    assert match_vacancies([("new", asking)], {"old": WHOLE}, profile=PACK, draft=draft) == {}
    assert draft.card_exclusive[cluster.row("a"), 0]
    assert int(draft.card_users[cluster.row("a"), 0]) == 1
