"""Whatever happens in whatever order, the arrays say what a recount of everything from scratch says."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from alnair.api.topology import NodeResourceTopology
from alnair.sandbox.fleet import A10, T4, topology
from alnair.state.cluster import ClusterState, foreign_slices
from alnair.state.holding import Holding, Slice
from alnair.state.inventory import conclude
from alnair.state.nodes import Node
from alnair.state.pods import Pod
from harness.builders import node, pod
from unit.builders import advertising, as_node, as_pod, card, holds

NODES = st.sampled_from(["a", "b", "c", "d"])
UIDS = st.sampled_from([f"u{number}" for number in range(6)])
PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
SLICES = st.builds(
    lambda name, index, memory, compute, whole: Slice(card(name, index), memory, compute, whole),
    NODES,
    st.integers(0, 3),
    st.integers(1, 30_000),
    st.integers(0, 100),
    st.booleans(),
)
HOLDINGS = st.builds(lambda name, slices: holds(name, *slices), NODES, st.lists(SLICES, max_size=3))


class Books(RuleBasedStateMachine):
    """The same happenings to the books and to four plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.nodes: dict[str, Node] = {}
        self.topologies: dict[str, NodeResourceTopology] = {}
        self.pods: dict[str, Pod] = {}
        self.holdings: dict[str, Holding] = {}

    @rule(
        name=NODES,
        cards=st.integers(0, 4),
        memory=st.sampled_from([8192, 24576]),
        extra=st.sampled_from([("example.com/x", 0), ("example.com/x", 5), ("example.com/y", 7)]),
        cordoned=st.booleans(),
    )
    def node_changes(
        self, name: str, cards: int, memory: int, extra: tuple[str, int], cordoned: bool
    ) -> None:
        sentence = advertising(node(name).with_cards(cards, memory_mib=memory), *extra)
        read = as_node((sentence.cordoned() if cordoned else sentence).manifest())
        self.nodes[name] = read
        self.state.put_node(read)

    @rule(name=NODES)
    def node_goes(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.state.drop_node(name)

    @rule(name=NODES, kinds=st.lists(st.sampled_from([A10, T4]), min_size=1, max_size=3))
    def topology_changes(self, name: str, kinds: list[object]) -> None:
        told = NodeResourceTopology.model_validate(topology(name, kinds))  # type: ignore[arg-type]
        self.topologies[name] = told
        self.state.put_topology(name, told)

    @rule(name=NODES)
    def topology_goes(self, name: str) -> None:
        self.topologies.pop(name, None)
        self.state.drop_topology(name)

    @rule(
        uid=UIDS,
        on=st.one_of(st.just(""), NODES),
        phase=PHASES,
        cpu=st.integers(0, 4),
        extra=st.sampled_from([{}, {"example.com/x": "2"}, {"example.com/z": "1"}]),
        annotated=st.one_of(st.none(), HOLDINGS),
    )
    def pod_changes(
        self, uid: str, on: str, phase: str, cpu: int, extra: dict[str, str], annotated: Holding | None
    ) -> None:
        sentence = pod(uid).asking(cpu=str(cpu), resources=extra)
        read = as_pod(sentence, uid=uid, on=on, phase=phase, holding=annotated)
        self.pods[uid] = read
        self.state.put_pod(read)

    @rule(uid=UIDS)
    def pod_goes(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.state.drop_pod(uid)

    @rule(uid=UIDS, holding=HOLDINGS)
    def pod_is_given(self, uid: str, holding: Holding) -> None:
        self.holdings[uid] = holding
        self.state.hold(uid, holding)

    @rule(uid=UIDS)
    def pod_is_released(self, uid: str) -> None:
        self.holdings.pop(uid, None)
        self.state.release(uid)

    @invariant()
    def arrays_say_what_a_recount_says(self) -> None:
        draft = self.state.draft()
        rows = {name: row for row, name in enumerate(draft.names) if name}
        assert set(rows) == set(self.nodes)
        for name, row in rows.items():
            there = Counter(dict(self.nodes[name].allocatable))
            taken = self.recount_requests(name)
            for resource, column in draft.columns.items():
                assert draft.allocatable[row, column] == there[resource]
                assert draft.free[row, column] == there[resource] - taken[resource], resource
            assert draft.unschedulable[row] == self.nodes[name].unschedulable
            self.check_cards(name, row)
        empty = [row for row, name in enumerate(draft.names) if not name]
        assert not draft.exists[empty].any()
        assert not self.state.used[empty].any()
        assert not draft.card_memory[empty].any()
        assert not draft.card_users[empty].any()

    def check_cards(self, name: str, row: int) -> None:
        draft = self.state.draft()
        cards = conclude(self.nodes[name], self.topologies.get(name)).cards
        assert draft.card_ids[row] == tuple(each.id for each in cards)
        slices = self.recount_slices(name)
        for index, each in enumerate(cards):
            on_it = [piece for piece in slices if piece.card == each.id]
            assert draft.card_memory[row, index] == each.memory_mib
            assert draft.models[draft.card_model[row, index]] == each.model
            assert draft.card_free_memory[row, index] == each.memory_mib - sum(p.memory_mib for p in on_it)
            assert draft.card_free_compute[row, index] == 100 - sum(p.compute_percent for p in on_it)
            assert draft.card_free_slots[row, index] == 16 - len(on_it)
            assert draft.card_users[row, index] == len(on_it)
            assert draft.card_exclusive[row, index] == any(p.whole for p in on_it)
        assert not draft.card_memory[row, len(cards) :].any()
        assert not draft.card_users[row, len(cards) :].any()

    def recount_requests(self, name: str) -> Counter[str]:
        taken: Counter[str] = Counter()
        for uid, each in self.pods.items():
            held = self.holdings.get(uid)
            if (each.node or (held.node if held else "")) == name and not each.terminal:
                taken.update(dict(each.shape.requests))
        return taken

    def recount_slices(self, name: str) -> list[Slice]:
        slices = [piece for held in self.holdings.values() if held.node == name for piece in held.slices()]
        for uid, each in self.pods.items():
            if uid not in self.holdings and each.node == name and not each.terminal:
                slices += foreign_slices(each)
        return slices


Books.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBooks = Books.TestCase
