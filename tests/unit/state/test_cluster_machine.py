"""Whatever happens in whatever order, the arrays say what a recount of everything from scratch says."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from alnair.api.topology import NodeResourceTopology
from alnair.sandbox.fleet import A10, T4, topology
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.holding import ContainerShare, Holding, Slice, parse_annotation
from alnair.state.inventory import conclude
from alnair.state.nodes import Node
from alnair.state.pods import Pod
from alnair.state.selectors import PodSet, Requirement, Selector
from alnair.state.shapes import APART
from harness.builders import PodBuilder, node, pod
from unit.builders import advertising, as_node, as_pod, card
from unit.replay import Peak, peaks

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
SHARES = st.builds(
    lambda slices, stage: ContainerShare("main", tuple(slices), stage=stage),
    st.lists(SLICES, min_size=1, max_size=2),
    st.sampled_from(["", "", "Init", "Sidecar"]),
)
HOLDINGS = st.builds(Holding, NODES, st.lists(SHARES, max_size=3).map(tuple))
APP = Selector((Requirement("app", "In", ("x",)),))
ALL_OF_TEAM = PodSet(("team",), APP)
LIVING = PodSet(("team",), APP, living=True)
BY_NAMESPACE = PodSet((), APP, namespace_selector=Selector((Requirement("tier", "In", ("gold",)),)))


def meant_by(labels: dict[str, str]) -> set[str]:
    return {f"{key}={value} in one zone" for key, value in labels.items()}


class Books(RuleBasedStateMachine):
    """The same happenings to the books and to four plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.nodes: dict[str, Node] = {}
        self.topologies: dict[str, NodeResourceTopology] = {}
        self.pods: dict[str, Pod] = {}
        self.holdings: dict[str, Holding] = {}
        self.namespaces: dict[str, str] = {}

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
        app=st.sampled_from(["x", "y"]),
        rules=st.sampled_from(
            [
                pod("p"),
                pod("p").on_host_port(80),
                pod("p").apart_from({"app": "x"}, key="zone"),
                pod("p").apart_from({"app": "y"}, key="zone"),
                pod("p").apart_from({"app": "y"}, key="zone").apart_from({"role": "z"}, key="zone"),
            ]
        ),
        terminating=st.booleans(),
    )
    def pod_changes(
        self,
        uid: str,
        on: str,
        phase: str,
        cpu: int,
        extra: dict[str, str],
        annotated: Holding | None,
        app: str,
        rules: PodBuilder,
        terminating: bool,
    ) -> None:
        sentence = rules.named(uid).labelled(app=app).asking(cpu=str(cpu), resources=extra)
        read = as_pod(sentence, uid=uid, on=on, phase=phase, holding=annotated, terminating=terminating)
        self.pods[uid] = read
        self.state.put_pod(read)

    @rule(tier=st.sampled_from(["gold", "tin", None]))
    def namespace_changes(self, tier: str | None) -> None:
        if tier is None:
            self.namespaces.pop("team", None)
            self.state.company.drop_namespace("team")
        else:
            self.namespaces["team"] = tier
            self.state.company.put_namespace("team", {"tier": tier})

    @rule(uid=UIDS, on=NODES)
    def pod_is_tried_out(self, uid: str, on: str) -> None:
        """A plan that comes to nothing."""
        if uid in self.pods and on in self.nodes:
            with self.state.draft() as draft:
                row = draft.names.index(on)
                draft.take(row, guest(self.pods[uid]), ())
                draft.count(LIVING)

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
        assert not self.state.free[empty].any()
        assert not draft.card_memory[empty].any()
        assert not draft.card_users[empty].any()
        assert not draft.sliced[empty].any()

    @invariant()
    def company_says_what_a_recount_says(self) -> None:
        draft = self.state.draft()
        present = [
            (draft.names.index(where), each)
            for uid, each in self.pods.items()
            if not each.terminal and (where := self.whereabouts(uid)) in self.nodes
        ]
        for pods in (ALL_OF_TEAM, LIVING, BY_NAMESPACE):
            if len(self.pods) < 2:
                continue  # some sets are first asked about late, when they are counted from scratch
            expected = Counter(row for row, each in present if self.is_meant(pods, each))
            assert draft.count(pods).tolist() == [expected[row] for row in range(len(draft.names))]
        kinds = {each.kind for _, pod in present for each in pod.shape.ports}
        for kind, expected_things in (*((kind, "ports") for kind in kinds), (APART, "apart")):
            recount = Counter(
                (thing, row)
                for row, each in present
                for thing in getattr(each.shape, expected_things)
                if expected_things == "apart" or thing.kind == kind
            )
            brought = {
                (thing, row): number
                for thing, rows in draft.company.brought(kind).items()
                for row, number in rows.items()
            }
            assert brought == recount
        for labels in ({"app": "x"}, {"app": "y", "index": "1"}, {"role": "z", "app": "x"}, {}):
            probe = guest(as_pod(pod("probe").labelled(labels)))
            expected_terms = {
                term for _, each in present for term in each.shape.apart if str(term) in meant_by(labels)
            }
            assert {term for term, _ in draft.company.meaning(APART, probe)} == expected_terms

    def is_meant(self, pods: PodSet, each: Pod) -> bool:
        """Said again in other words than the selectors' own."""
        if each.labels.get("app") != "x" or (pods is LIVING and each.terminating):
            return False
        return pods is not BY_NAMESPACE or self.namespaces.get(each.namespace) == "gold"

    def whereabouts(self, uid: str) -> str:
        held = self.holdings.get(uid)
        return self.pods[uid].node or (held.node if held else "")

    def check_cards(self, name: str, row: int) -> None:
        draft = self.state.draft()
        cards = conclude(self.nodes[name], self.topologies.get(name)).cards
        assert draft.card_ids[row] == tuple(each.id for each in cards)
        pods = self.recount_cards(name)
        assert draft.sliced[row] == sum(len(each) for each in pods)
        for index, each in enumerate(cards):
            on_it = [had[each.id] for had in pods if each.id in had]
            assert draft.card_memory[row, index] == each.memory_mib
            assert draft.models[draft.card_model[row, index]] == each.model
            assert draft.card_index[row, index] == each.index
            assert draft.card_free_memory[row, index] == each.memory_mib - sum(p.memory for p in on_it)
            assert draft.card_free_compute[row, index] == 100 - sum(p.compute for p in on_it)
            assert draft.card_free_slots[row, index] == 16 - sum(p.users for p in on_it)
            assert draft.card_users[row, index] == sum(p.users for p in on_it)
            assert draft.card_exclusive[row, index] == sum(p.whole for p in on_it)
        assert not draft.card_memory[row, len(cards) :].any()
        assert not draft.card_users[row, len(cards) :].any()

    def recount_requests(self, name: str) -> Counter[str]:
        taken: Counter[str] = Counter()
        for uid, each in self.pods.items():
            if self.whereabouts(uid) == name and not each.terminal:
                taken.update(dict(each.shape.requests))
        return taken

    def recount_cards(self, name: str) -> list[dict[str, Peak]]:
        """What each pod takes of the node's cards: the most over its life."""
        pods = [peaks(held.containers) for held in self.holdings.values() if held.node == name]
        for uid, each in self.pods.items():
            annotated = each.slices and each.annotated_node == each.node
            if uid not in self.holdings and each.node == name and not each.terminal and annotated:
                pods.append(peaks(parse_annotation(each.slices)))
        return pods


Books.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBooks = Books.TestCase
