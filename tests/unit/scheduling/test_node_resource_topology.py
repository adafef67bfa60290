"""NodeResourceTopologyMatch: no pod goes where the kubelet would turn it away, lag of the publisher and all."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.api import names
from alnair.api.topology import NodeResourceTopology
from alnair.scheduling import exact
from alnair.scheduling.classes import Member
from alnair.scheduling.numa import admit, orders
from alnair.scheduling.plugins import FILTERS
from alnair.scheduling.search import Gang, Plan, Refusal, Unsure
from alnair.scheduling.vacancy import match_vacancies
from alnair.state.charges import guest
from harness.builders import PodBuilder, node, pod
from harness.numa import card_zone, published, zone
from unit.builders import (
    GIB,
    PACK,
    Cluster,
    advertising,
    as_pod,
    given,
    holds,
    let_through,
    part,
    reasons,
    scores,
    times,
    where,
)

RULE = "NodeResourceTopologyMatch"
GPU = names.NVIDIA_GPU

A = node("a").holding(cpu="16", memory="64Gi")
HALF = zone(cpu=(8, 8), memory=("32Gi", "32Gi"))
FULL = zone(cpu=(8, 0), memory=("32Gi", "0"))


def publish(cluster: Cluster, *zones: Any, on: str = "a", **words: Any) -> None:
    cluster.state.put_topology(on, NodeResourceTopology.model_validate(published(on, *zones, **words)))


def two_halves(**words: Any) -> Cluster:
    cluster = Cluster(A)
    publish(cluster, HALF, HALF, **words)
    return cluster


def worker(cpu: str = "8", memory: str = "8Gi") -> PodBuilder:
    return pod("w").asking(cpu=cpu, memory=memory)


@pytest.mark.parametrize(
    ("policy", "asking", "passes"),
    [
        pytest.param("single-numa-node", worker("8"), True, id="a NUMA node's worth of CPUs"),
        pytest.param("single-numa-node", worker("9"), False, id="one CPU more than a NUMA node has"),
        pytest.param(
            "single-numa-node", worker("8500m"), True, id="a fraction of a CPU shares, and aligns nowhere"
        ),
        pytest.param("single-numa-node", worker("1", "33Gi"), False, id="more memory than a NUMA node has"),
        pytest.param("restricted", worker("9", "33Gi"), True, id="restricted: it needs two and gets two"),
        pytest.param(
            "restricted", worker("9"), False, id="restricted: the CPUs need two, the memory prefers one"
        ),
        pytest.param("best-effort", worker("9"), True, id="best effort takes anybody"),
        pytest.param("none", worker("9"), True, id="none aligns nothing"),
        pytest.param(
            "single-numa-node",
            pod("w").with_(
                lambda it: it["spec"]["containers"][0].update(
                    resources={"requests": {"cpu": "9", "memory": "1Gi"}}
                )
            ),
            True,
            id="a Burstable pod's CPUs and memory are nobody's",
        ),
        pytest.param("single-numa-node", pod("w"), True, id="a pod that asks for nothing"),
    ],
)
def test_what_the_policy_lets_in(policy: str, asking: PodBuilder, passes: bool) -> None:
    assert let_through(RULE, two_halves(policy=policy), asking) == (["a"] if passes else [])


def test_a_restricted_pod_that_one_numa_node_could_hold_does_not_get_two() -> None:
    cluster = Cluster(A)
    half_taken = zone(cpu=(8, 4), memory=("32Gi", "16Gi"))
    publish(cluster, half_taken, half_taken, policy="restricted")
    assert let_through(RULE, cluster, worker("6")) == []
    publish(cluster, half_taken, half_taken, policy="best-effort")
    assert let_through(RULE, cluster, worker("6")) == ["a"]


def test_cpus_memory_and_devices_must_be_free_on_the_same_numa_node() -> None:
    cluster = Cluster(advertising(A, GPU, 2))
    publish(cluster, zone(cpu=(8, 0), gpu=(2, 2)), zone(cpu=(8, 8), gpu=(2, 0)))
    assert let_through(RULE, cluster, worker("4")) == ["a"]
    assert let_through(RULE, cluster, pod("w").asking(gpu=1)) == ["a"]
    assert let_through(RULE, cluster, worker("4").asking(gpu=1)) == []


def test_devices_are_aligned_for_pods_of_every_qos() -> None:
    cluster = Cluster(advertising(A, GPU, 4))
    publish(cluster, zone(gpu=(2, 1)), zone(gpu=(2, 1)))
    assert let_through(RULE, cluster, pod("w").asking(gpu=1)) == ["a"]
    assert let_through(RULE, cluster, pod("w").asking(gpu=2)) == []


def test_a_device_that_no_zone_tells_of_is_the_hosts_and_passes() -> None:
    assert let_through(RULE, two_halves(), pod("w").asking(resources={"example.com/dongle": "3"})) == ["a"]


def test_by_container_each_is_aligned_by_itself_and_by_pod_all_together() -> None:
    two = worker("8").with_container("second").asking(cpu="8", memory="8Gi")
    assert let_through(RULE, two_halves(scope="container"), two) == ["a"]
    assert let_through(RULE, two_halves(scope="pod"), two) == []


def test_nodes_without_a_topology_and_clusters_without_any_are_not_asked() -> None:
    cluster = two_halves()
    cluster.add(node("b").holding(cpu="16"))
    assert let_through(RULE, cluster, worker("16")) == ["b"]
    empty = Cluster(A)
    assert not FILTERS[RULE]().concerns(empty.kind(worker()), empty.state.draft())
    assert not FILTERS[RULE]().concerns(cluster.kind(pod("w")), cluster.state.draft())


# -- gangs ---------------------------------------------------------------------------------------------------------


def test_members_of_a_gang_fill_numa_nodes_exactly_and_one_more_is_refused() -> None:
    cluster = two_halves()
    assert where(cluster.try_(times(worker("4"), 4))) == {f"w-{number}": "a" for number in range(4)}
    # Ten CPUs are left of sixteen, but no NUMA node has six.
    assert "2 of 3 members fit" in cluster.refuses(*times(worker("5"), 3))
    verdict = cluster.try_(times(worker("5"), 3))
    assert isinstance(verdict, Refusal)
    assert "has no NUMA nodes left to align the pod with (topology policy single-numa-node" in verdict.message


def test_unequal_members_are_placed_only_if_they_fit_in_every_order() -> None:
    cluster = two_halves()
    large, small = worker("5").named("large"), worker("3").named("small")
    assert where(cluster.try_([large, small]))
    # 5+3 twice would fill both, but 3+3 may come first and leave 2 and 8: the second 5 would be turned away.
    four = [*times(large, 2), *times(small, 2)]
    assert "3 of 4 members fit" in cluster.refuses(*four)


def test_ways_that_grow_faster_than_the_crowd_are_not_all_gone_through() -> None:
    """Eight pods of eight sizes on four NUMA nodes: first-fit in every order ends in hundreds of ways."""
    cluster = Cluster(A.holding(cpu="256", memory="1024Gi"))
    publish(cluster, *[zone(cpu=(64, 64), memory=("256Gi", "256Gi"))] * 4, counting=[])
    for number in range(7):
        cluster.running(worker(str(20 + number)).named(f"theirs-{number}"), on="a", phase="Pending")
    orders.ends.cache_clear()
    admit.admit.cache_clear()
    assert let_through(RULE, cluster, worker("27")) == []
    assert admit.admit.cache_info().misses < 1000
    cluster.state.drop_pod("uid-theirs-6")
    cluster.state.drop_pod("uid-theirs-5")
    cluster.state.drop_pod("uid-theirs-4")
    assert let_through(RULE, cluster, worker("27")) == ["a"]


# -- lag -------------------------------------------------------------------------------------------------------------


def test_two_pods_in_quick_succession_do_not_both_get_the_one_free_numa_node() -> None:
    cluster = Cluster(A.holding(cpu="32"))
    publish(cluster, HALF, FULL, counting=[])
    cluster.place(worker("6").named("first"))
    assert "1 pod that its NodeResourceTopology does not count yet" in cluster.refuses(worker("6"))
    assert where(cluster.try_([worker("2")])) == {"w": "a"}


def test_another_schedulers_pod_takes_its_place_on_some_numa_node() -> None:
    cluster = Cluster(A.holding(cpu="32"))
    publish(cluster, HALF, FULL, counting=[])
    cluster.running(worker("6").named("theirs"), on="a", phase="Pending")
    assert let_through(RULE, cluster, worker("6")) == []
    cluster.state.drop_pod("uid-theirs")
    assert let_through(RULE, cluster, worker("6")) == ["a"]


def test_a_pod_that_ended_is_no_longer_on_its_way() -> None:
    cluster = Cluster(A.holding(cpu="32"))
    publish(cluster, HALF, FULL, counting=[])
    cluster.place(worker("6").named("first"))
    cluster.state.put_pod(as_pod(worker("6").named("first"), on="a", phase="Failed", reader=cluster.reader))
    assert let_through(RULE, cluster, worker("6")) == ["a"]


def test_a_pod_is_counted_once_when_the_fingerprint_shows_that_the_publisher_has_it() -> None:
    cluster = Cluster(A)
    publish(cluster, HALF, HALF, counting=[])
    cluster.running(worker("8").named("first"), on="a")
    assert let_through(RULE, cluster, worker("8")) == ["a"]
    # A newer object that does not have it yet: still subtracted.
    publish(cluster, HALF, HALF, counting=[("team", "somebody")])
    assert "first" in {each.name for each in cluster.state.zones.nodes["a"].residents.values()}
    assert len(cluster.state.zones.nodes["a"].pending()) == 1
    # One that has it: the other NUMA node is free, and only the other.
    publish(cluster, FULL, HALF, counting=[("team", "first")])
    assert cluster.state.zones.nodes["a"].pending() == ()
    assert let_through(RULE, cluster, worker("8")) == ["a"]
    assert "1 of 2 members fit" in cluster.refuses(*times(worker("8"), 2))


def test_the_fingerprint_may_be_of_all_but_the_last_to_come() -> None:
    cluster = Cluster(A)
    for number, name in enumerate(("one", "two", "three")):
        born = f"2026-01-01T00:00:0{number}Z"
        cluster.running(worker("2").named(name), on="a", creationTimestamp=born)
    publish(cluster, HALF, HALF, counting=[("team", "two"), ("team", "one")])
    residents = cluster.state.zones.nodes["a"]
    assert len(residents.pending()) == 1
    assert [each.name for each in residents.residents.values() if not each.counted] == ["three"]


def test_without_a_fingerprint_a_pod_is_counted_when_an_object_came_after_it_ran() -> None:
    cluster = Cluster(A)
    publish(cluster, HALF, HALF)
    cluster.place(worker("8").named("first"))
    assert len(cluster.state.zones.nodes["a"].pending()) == 1
    publish(cluster, HALF, zone(cpu=(8, 8)))
    assert len(cluster.state.zones.nodes["a"].pending()) == 1, "it does not run yet"
    cluster.state.put_pod(as_pod(worker("8").named("first"), on="a", reader=cluster.reader))
    assert len(cluster.state.zones.nodes["a"].pending()) == 1, "no object came since"
    publish(cluster, FULL, HALF)
    assert cluster.state.zones.nodes["a"].pending() == ()


def test_a_fingerprint_that_fits_nothing_does_not_close_the_node_for_ever() -> None:
    cluster = Cluster(A)
    publish(cluster, HALF, HALF, counting=[("else", "where")])
    cluster.running(worker("8").named("first"), on="a")
    for number in range(3):
        assert len(cluster.state.zones.nodes["a"].pending()) == 1, number
        publish(cluster, FULL, HALF, counting=[("else", f"where-{number}")])
    assert cluster.state.zones.nodes["a"].pending() == ()


# -- cards ------------------------------------------------------------------------------------------------------------

OWNED = node("a").holding(cpu="16", memory="64Gi").labelled({names.GPU_OWNER: names.OWNED_BY_ALNAIR})


def with_cards(*numa: int, zones: tuple[Any, ...] = (HALF, HALF), **words: Any) -> Cluster:
    cluster = Cluster(OWNED)
    publish(cluster, *zones, cards=[card_zone("a", index, numa=at) for index, at in enumerate(numa)], **words)
    return cluster


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_the_cards_of_a_slice_follow_the_numa_node_that_the_kubelet_will_choose(policy: str) -> None:
    tenant = worker("4").slice(memory_gib=6)
    cluster = with_cards(1, 1, 0, 0, zones=(FULL, HALF), policy=policy)
    assert given(cluster.try_([tenant])) == {"w": ["a#0"]}
    cluster = with_cards(1, 1, 0, 0, zones=(HALF, FULL), policy=policy)
    assert given(cluster.try_([tenant])) == {"w": ["a#2"]}
    cluster = with_cards(1, 1, zones=(HALF, FULL), policy=policy)
    assert "has such cards, but on other NUMA nodes" in cluster.refuses(tenant)


def test_under_best_effort_near_cards_are_a_wish() -> None:
    tenant = worker("4").slice(memory_gib=6)
    assert given(with_cards(1, 0, zones=(HALF, FULL), policy="best-effort").try_([tenant])) == {"w": ["a#1"]}
    assert given(with_cards(1, 1, zones=(HALF, FULL), policy="best-effort").try_([tenant])) == {"w": ["a#0"]}


def test_members_get_cards_where_each_of_them_will_be() -> None:
    pair = times(worker("8").slice(memory_gib=20), 2)
    assert given(with_cards(1, 0).try_(pair)) == {"w-0": ["a#1"], "w-1": ["a#0"]}


def test_a_slice_of_a_pod_that_is_not_aligned_may_be_on_any_card() -> None:
    assert given(with_cards(1, 1, zones=(HALF, FULL)).try_([pod("w").slice(memory_gib=6)])) == {"w": ["a#0"]}


def test_the_exact_search_gives_nobody_a_card_far_from_its_numa_node() -> None:
    tenant = worker("4").slice(memory_gib=6)
    for numa, zones, near in (((1, 0), (HALF, FULL), "a#1"), ((1, 0), (FULL, HALF), "a#0")):
        cluster = with_cards(*numa, zones=zones)
        assert given(solved(cluster, tenant)) == {"w": [near]}
    # The kubelet would put both containers on NUMA node 0, where only one of the two cards hangs.
    two = worker("2").slice(memory_gib=20).with_container("second").asking(cpu="2", memory="8Gi")
    two = two.slice(memory_gib=20)
    assert not isinstance(solved(with_cards(0, 1), two), Plan)
    assert isinstance(solved(with_cards(0, 1, policy="best-effort"), two), Plan)
    assert isinstance(solved(with_cards(0, 0), two), Plan)


def test_a_kept_card_that_hangs_far_from_the_replacements_numa_node_is_not_taken() -> None:
    tenant = worker("4").slice(memory_gib=6)
    for numa, taken in ((0, {"new": "old"}), (1, {})):
        cluster = with_cards(numa, 1 - numa)
        kept = holds("a", part("a", 0, 6 * GIB))
        cluster.state.hold("old", kept)
        draft, new = cluster.state.draft(), cluster.kind(tenant)
        assert match_vacancies([("new", new)], {"old": kept}, profile=PACK, draft=draft) == taken


def solved(cluster: Cluster, *pods: PodBuilder) -> Plan | Refusal | Unsure:
    """By the exact search alone."""
    read = [as_pod(each, reader=cluster.reader) for each in pods]
    gang = Gang(tuple(Member(each.uid, each.name, guest(each)) for each in read), needed=len(read))
    with cluster.state.draft() as draft:
        return exact.conclude(exact.formulate(gang, PACK, draft).solve(), PACK, draft)


# -- what cannot be read, scores -------------------------------------------------------------------------------------


def test_a_topology_that_cannot_be_read_closes_the_node_to_aligned_pods_only_and_says_so() -> None:
    cluster = Cluster(A)
    made = published("a", HALF, HALF)
    made["zones"][1]["name"] = "left"
    cluster.state.put_topology("a", NodeResourceTopology.model_validate(made))
    assert let_through(RULE, cluster, pod("w")) == ["a"]
    assert let_through(RULE, cluster, worker("1")) == []
    assert "cannot be read" in reasons(RULE, cluster, worker("1"))[0][0]
    assert "do not end in different numbers" in cluster.state.zones.nodes["a"].problem


def test_the_deprecated_list_of_policies_is_read_where_no_attribute_tells() -> None:
    cluster = Cluster(A)
    made = published("a", HALF, HALF)
    del made["attributes"]
    made["topologyPolicies"] = ["SingleNUMANodePodLevel"]
    cluster.state.put_topology("a", NodeResourceTopology.model_validate(made))
    assert let_through(RULE, cluster, worker("9")) == []


def test_more_numa_nodes_than_can_be_looked_at_together_close_a_restricted_node_only() -> None:
    cluster = Cluster(A)
    for policy, passes in (("restricted", []), ("best-effort", ["a"])):
        made = published("a", *[zone(cpu=(8, 8))] * 12, policy=policy)
        made["attributes"].append({"name": "topologyManagerMaxNUMANodes", "value": "12"})
        cluster.state.put_topology("a", NodeResourceTopology.model_validate(made))
        assert let_through(RULE, cluster, worker("1")) == passes
    made["attributes"][0]["value"] = "single-numa-node"
    cluster.state.put_topology("a", NodeResourceTopology.model_validate(made))
    assert let_through(RULE, cluster, worker("8")) == ["a"]
    assert let_through(RULE, cluster, worker("9")) == []


def test_scores_like_few_numa_nodes_and_near_ones() -> None:
    cluster = Cluster(A, node("b").holding(cpu="16"), node("c").holding(cpu="16"))
    quarter = zone(cpu=(4, 4))
    publish(
        cluster, zone(cpu=(8, 8)), zone(cpu=(8, 8)), on="a", policy="restricted", costs=[[10, 20], [20, 10]]
    )
    costs = [[10, 12, 30, 30], [12, 10, 30, 30], [30, 30, 10, 12], [30, 30, 12, 10]]
    publish(cluster, *[quarter] * 4, on="b", policy="restricted", costs=costs)
    assert scores("LeastNUMANodes", cluster, worker("8")) == {"a": 1.0, "b": 0.5, "c": 0.0}
    near = scores("NUMACost", cluster, worker("8"))
    assert near == {"a": 1.0, "b": 0.95, "c": 0.0}
    assert scores("LeastNUMANodes", cluster, pod("w")) is None
