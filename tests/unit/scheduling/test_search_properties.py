"""Random clusters, random gangs: whatever is placed, no card, node or pod slot is given twice."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from alnair.api import names
from alnair.scheduling.profile import Profile
from alnair.scheduling.search import Plan
from alnair.state.holding import Holding
from alnair.state.shapes import PodShape
from harness.builders import NodeBuilder, PodBuilder, node, pod
from unit.builders import PACK, SPREAD, Cluster, times
from unit.replay import Peak, peaks

SHARERS = 4
MODELS = {"T4": 16384, "A10": 24576}


def _node(number: int, cards: list[str], plugin: bool, cpu: int, cordoned: bool) -> NodeBuilder:
    sentence = node(f"n{number}").holding(cpu=str(cpu), pods=6)
    for model in cards:
        sentence = sentence.with_cards(1, model=model, memory_mib=MODELS[model])
    if plugin and len(set(cards)) == 1:
        sentence = sentence.owned_by("device-plugin")
    return sentence.cordoned() if cordoned else sentence


NODES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(sorted(MODELS)), max_size=4),
        st.booleans(),
        st.integers(1, 16),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=5,
).map(lambda drawn: [_node(number, *each) for number, each in enumerate(drawn)])

PODS = st.one_of(
    st.builds(lambda count: pod("p").asking(gpu=count), st.integers(1, 3)),
    st.builds(
        lambda size, share: pod("p").slice(memory_gib=size, compute=share),
        st.integers(1, 26),
        st.integers(0, 100),
    ),
    st.builds(
        lambda size, count: pod("p").slice_by_annotation(f"{size}Mi", count=count),
        st.integers(1, 25_000),
        st.integers(1, 3),
    ),
    st.builds(
        lambda size: pod("p").slice(memory_gib=size).with_container("second").asking(gpu=1),
        st.integers(1, 20),
    ),
    st.builds(
        lambda one, two: pod("p").slice(memory_gib=one).with_container("second").slice(memory_gib=two),
        st.integers(1, 20),
        st.integers(1, 20),
    ),
    st.builds(
        lambda percent, count: pod("p").asking(
            gpu=count, resources={names.NVIDIA_GPUMEM_PERCENTAGE: str(percent)}
        ),
        st.integers(1, 100),
        st.integers(1, 2),
    ),
    st.builds(lambda size: pod("p").slice(memory_gib=size).exclusively(), st.integers(1, 24)),
    st.just(pod("p")),
)
INITS = st.lists(
    st.tuples(
        st.one_of(
            st.integers(1, 2).map(lambda count: {names.NVIDIA_GPU: str(count)}),
            st.integers(1, 24).map(lambda size: {names.VGPU_MEMORY: str(size), names.VGPU_COMPUTE: "40"}),
        ),
        st.booleans(),
    ),
    max_size=2,
)


def _with_inits(sentence: PodBuilder, inits: list[tuple[dict[str, str], bool]]) -> PodBuilder:
    if names.GPU_MEMORY in sentence.body["metadata"].get("annotations", {}):
        return sentence  # who asks by annotation does not ask by resource too
    for number, (asked, sidecar) in enumerate(inits):
        sentence = sentence.with_init(f"i{number}", asked, sidecar=sidecar)
    return sentence


PODS = st.one_of(PODS, st.builds(_with_inits, PODS, INITS))
CLASSES = st.tuples(PODS, st.integers(1, 4), st.integers(0, 6), st.sampled_from(["", "", "T4", "A10"]))
GANGS = st.lists(CLASSES, min_size=1, max_size=3)
PROFILES = st.sampled_from([PACK, SPREAD])


def _gang(number: int, classes: list[tuple[PodBuilder, int, int, str]]) -> list[PodBuilder]:
    members = []
    for position, (sentence, count, cpu, model) in enumerate(classes):
        named = sentence.named(f"g{number}c{position}").asking(cpu=str(cpu))
        members += times(named.of_model(model) if model else named, count)
    return members


@settings(max_examples=150)
@given(nodes=NODES, gangs=st.lists(st.tuples(GANGS, PROFILES, st.integers(0, 3)), min_size=1, max_size=4))
def test_nothing_is_given_twice(
    nodes: list[NodeBuilder],
    gangs: list[tuple[list[tuple[PodBuilder, int, int, str]], Profile, int]],
) -> None:
    cluster = Cluster(*nodes, sharers=SHARERS)
    given_out: dict[str, tuple[PodShape, Holding]] = {}
    for number, (classes, profile, optional) in enumerate(gangs):
        members = _gang(number, classes)
        needed = max(1, len(members) - optional)
        before = cluster.state.draft()
        verdict = cluster.try_(members, needed=needed, profile=profile)
        after = cluster.state.draft()
        assert (before.free == after.free).all(), "looking takes nothing"
        assert (before.card_free_memory == after.card_free_memory).all()
        if not isinstance(verdict, Plan):
            assert verdict.message.endswith((".", "…"))
            continue
        assert needed <= len(verdict.placements) <= len(members)
        assert cluster.place(*members, needed=needed, profile=profile) == verdict, (
            "the same question, the same answer"
        )
        given_out |= {member.uid: (member.shape, holding) for member, holding in verdict.placements}
    _check_members(cluster, given_out)
    _check_nodes(cluster, given_out)
    _check_cards(cluster, given_out)


def _check_members(cluster: Cluster, given_out: dict[str, tuple[PodShape, Holding]]) -> None:
    for shape, holding in given_out.values():
        there = cluster.state.nodes[holding.node]
        models = {card.id: card.model for card in cluster.state.inventories[holding.node].cards}
        sizes = {card.id: card.memory_mib for card in cluster.state.inventories[holding.node].cards}
        assert not there.unschedulable
        assert [share.name for share in holding.containers] == [
            demand.container for demand in shape.gpu.demands
        ]
        for demand, share in zip(shape.gpu.demands, holding.containers, strict=True):
            if there.owned_by_alnair:
                assert share.counted == 0
                assert len({piece.card for piece in share.slices}) == demand.cards, (
                    "n cards are n different ones"
                )
                for piece in share.slices:
                    assert piece.whole is demand.whole
                    assert shape.gpu.choice.likes_model(models[piece.card])
                    size = sizes[piece.card]
                    if demand.whole:
                        assert piece.memory_mib == size >= demand.memory_mib
                    else:
                        wanted = math.ceil(size * demand.memory_percent / 100) or demand.memory_mib
                        assert (piece.memory_mib, piece.compute_percent) == (wanted, demand.compute_percent)
            else:
                assert demand.whole
                assert not demand.named, "a device plugin gives no slices"
                assert (share.counted, share.slices) == (demand.cards, ())


def _check_nodes(cluster: Cluster, given_out: dict[str, tuple[PodShape, Holding]]) -> None:
    taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for shape, holding in given_out.values():
        taken[holding.node].update(dict(shape.requests))
    for name, amounts in taken.items():
        there = dict(cluster.state.nodes[name].allocatable)
        for resource, amount in amounts.items():
            if resource != "nvidia.com/gpu" or not cluster.state.nodes[name].owned_by_alnair:
                assert amount <= there.get(resource, 0), (name, resource)


def _check_cards(cluster: Cluster, given_out: dict[str, tuple[PodShape, Holding]]) -> None:
    on_card: defaultdict[str, list[Peak]] = defaultdict(list)
    for _, holding in given_out.values():
        for card, peak in peaks(holding.containers).items():
            on_card[card].append(peak)
    sizes = {card.id: card.memory_mib for each in cluster.state.inventories.values() for card in each.cards}
    for card, pods in on_card.items():
        assert sum(peak.memory for peak in pods) <= sizes[card]
        assert sum(peak.compute for peak in pods) <= 100
        assert sum(peak.users for peak in pods) <= SHARERS
        assert len(pods) == 1 or not any(peak.whole for peak in pods), "a whole card is shared with nobody"
    draft = cluster.state.draft()
    assert (draft.card_free_memory >= 0).all()
    assert (draft.card_free_slots >= 0).all()


@settings(max_examples=100)
@given(nodes=NODES, asking=PODS, profile=PROFILES)
def test_one_pod_is_refused_only_where_no_node_could_take_it(
    nodes: list[NodeBuilder], asking: PodBuilder, profile: Profile
) -> None:
    """For a gang of one with one GPU container the search is exact: a no means that every single node says no."""
    spec = asking.body["spec"]
    if len(spec["containers"]) > 1 or "initContainers" in spec:
        return
    together = isinstance(Cluster(*nodes).try_([asking], profile=profile), Plan)
    alone = any(isinstance(Cluster(each).try_([asking], profile=profile), Plan) for each in nodes)
    assert together is alone
