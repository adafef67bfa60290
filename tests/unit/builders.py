"""A cluster in, a placement out: the harness's sentences poured into the books, without any cluster.

    cluster = Cluster(node("a").with_cards(2), node("b"))
    cluster.running(pod("tenant").slice(memory_gib=6), on="a")
    plan = cluster.place(*pod("worker").asking(gpu=1).times(2))
    assert where(plan) == {"worker-0": "a", "worker-1": "a"}

Objects take the same way as in the operator: manifest, wire, books. Nothing of ours is mocked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import numpy as np

from alnair.api import config, names
from alnair.api.gpurequest import CardChoice, CardDemand, GpuRequest
from alnair.api.topology import NodeResourceTopology
from alnair.kube.clock import Clock
from alnair.sandbox.fleet import card_uuid
from alnair.scheduling import search
from alnair.scheduling.classes import Member
from alnair.scheduling.domains import Together
from alnair.scheduling.plugins import FILTERS, SCORERS
from alnair.scheduling.profile import Profile, build
from alnair.scheduling.search import Plan, Refusal, Unsure
from alnair.scheduling.words import agree
from alnair.state import wire
from alnair.state.charges import guest
from alnair.state.cluster import ClusterState
from alnair.state.holding import ContainerShare, Holding, Slice, containers_to_json
from alnair.state.nodes import Node, read_node
from alnair.state.pods import Pod, PodReader
from alnair.state.shapes import PodClass
from harness.builders import NodeBuilder, PodBuilder

T = TypeVar("T")
Manifest = dict[str, Any]
GIB = 1024

PROFILES: dict[str, Profile] = {each.scheduler_name: build(each) for each in config.DEFAULT.profiles}
PACK, SPREAD = PROFILES[names.PROFILE_COST_SAVING], PROFILES[names.PROFILE_HIGH_PERFORMANCE]

READY = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]


class HandClock(Clock):
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, 0, int(self.seconds) // 60 % 60, int(self.seconds) % 60, tzinfo=UTC)

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds


def decoded(manifest: Manifest, kind: type[T]) -> T:
    """As the stream decodes it."""
    return msgspec.json.decode(msgspec.json.encode(manifest), type=kind)


def as_node(manifest: Manifest, *, ready: bool = True) -> Node:
    """A Node manifest as the books take it."""
    conditions = READY if ready else [{"type": "Ready", "status": "Unknown"}]
    manifest.setdefault("status", {})["conditions"] = conditions
    return read_node(decoded(manifest, wire.Node))


def as_pod(
    sentence: PodBuilder,
    *,
    uid: str = "",
    on: str = "",
    phase: str = "",
    terminating: bool = False,
    holding: Holding | None = None,
    reader: PodReader | None = None,
    **metadata: Any,
) -> Pod:
    """A pod of the harness as the books take it; bound with `on`, annotated as a Binding would with `holding`."""
    manifest = sentence.manifest()
    meta = manifest["metadata"]
    meta.update({"uid": uid or f"uid-{meta['name']}", "namespace": meta.get("namespace", "team"), **metadata})
    meta.setdefault("resourceVersion", "1")
    if terminating:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if on:
        manifest["spec"]["nodeName"] = on
    if holding is not None:
        text = msgspec.json.encode(containers_to_json(holding.containers)).decode()
        meta.setdefault("annotations", {}).update({names.NODE: holding.node, names.GPU_SLICES: text})
    manifest.setdefault("status", {})["phase"] = phase or ("Running" if on else "Pending")
    return (reader or PodReader()).read(decoded(manifest, wire.Pod))


def card(node: str, index: int) -> str:
    """The UUID of a node's card."""
    return card_uuid(node, index)


def holds(node: str, *slices: Slice, container: str = "main") -> Holding:
    return Holding(node, (ContainerShare(container, slices),)) if slices else Holding(node)


def part(node: str, index: int, memory_mib: int, compute: int = 0) -> Slice:
    return Slice(card(node, index), memory_mib, compute)


def all_of(node: str, index: int, memory_mib: int) -> Slice:
    return Slice(card(node, index), memory_mib, 100, whole=True)


class Cluster:
    """The books, filled by sentences."""

    def __init__(self, *nodes: NodeBuilder, sharers: int = 16) -> None:
        self.state = ClusterState(sharers=sharers)
        self.reader = PodReader()
        for each in nodes:
            self.add(each)

    def add(self, sentence: NodeBuilder, *, ready: bool = True) -> None:
        node, *rest = sentence.manifests()
        for topology in rest:
            self.state.put_topology(sentence.name, NodeResourceTopology.model_validate(topology))
        self.state.put_node(as_node(node, ready=ready))

    def running(self, sentence: PodBuilder, *, on: str, uid: str = "", **fields: Any) -> Pod:
        """Somebody's pod, bound there already."""
        pod = as_pod(sentence, uid=uid, on=on, reader=self.reader, **fields)
        self.state.put_pod(pod)
        return pod

    def waiting(self, sentence: PodBuilder, **fields: Any) -> Pod:
        """Somebody's pod, bound nowhere yet."""
        pod = as_pod(sentence, reader=self.reader, **fields)
        self.state.put_pod(pod)
        return pod

    def namespace(self, name: str, **labels: str) -> None:
        self.state.company.put_namespace(name, labels)

    def kind(self, sentence: PodBuilder) -> PodClass:
        """The pod as rules see it."""
        return guest(as_pod(sentence, reader=self.reader))

    def try_(
        self,
        pods: Iterable[PodBuilder],
        *,
        needed: int | None = None,
        present: int = 0,
        profile: Profile = PACK,
        together: Together | None = None,
    ) -> Plan | Refusal | Unsure:
        """Look for a place; the books stay as they are."""
        read = [as_pod(each, reader=self.reader) for each in pods]
        members = tuple(Member(pod.uid, pod.name, guest(pod), pod.nominated) for pod in read)
        uids = {pod.uid for pod in read}
        highest = max((pod.priority for pod in read), default=0)
        gang = search.Gang(
            members,
            needed=len(members) if needed is None else needed,
            present=present,
            expected=tuple(self.state.expected(priority=highest, beside=uids)),
            together=together,
        )
        with self.state.draft() as draft:
            return search.place(gang, profile, draft)

    def place(self, *pods: PodBuilder, needed: int | None = None, profile: Profile = PACK) -> Plan:
        """Find a place and take it."""
        verdict = self.try_(pods, needed=needed, profile=profile)
        assert isinstance(verdict, Plan), verdict
        by_name = {each.body["metadata"]["name"]: each for each in pods}
        for member, holding in verdict.placements:
            self.state.put_pod(as_pod(by_name[member.name], reader=self.reader))
            self.state.hold(member.uid, holding)
        return verdict

    def refuses(
        self,
        *pods: PodBuilder,
        needed: int | None = None,
        present: int = 0,
        profile: Profile = PACK,
    ) -> str:
        """Find no place; the sentences that say why."""
        verdict = self.try_(pods, needed=needed, present=present, profile=profile)
        assert not isinstance(verdict, Plan), verdict
        return verdict.message

    def free(self, node: str, resource: str) -> int:
        draft = self.state.draft()
        return int(draft.free[self.row(node), draft.columns[resource]])

    def cards(self, node: str) -> list[tuple[int, int]]:
        """(MiB taken, users) of each card of the node."""
        return [(used, users) for name, _, _, used, users in self.state.card_usage() if name == node]

    def row(self, node: str) -> int:
        return list(self.state.draft().names).index(node)


def made(rule: type[Any], options: dict[str, Any]) -> Any:
    """As a profile with these options makes it."""
    return rule(rule.Options.model_validate(options)) if options else rule()


def let_through(rule: str, cluster: Cluster, asking: PodBuilder | PodClass, **options: Any) -> list[str]:
    """The nodes that this filter alone lets the pod onto."""
    draft, filter_ = cluster.state.draft(), made(FILTERS[rule], options)
    kind = asking if isinstance(asking, PodClass) else cluster.kind(asking)
    mask = Profile.pass_all([filter_], kind, draft)
    for row in np.flatnonzero(draft.exists):  # what it says of one row is what it says of all
        assert Profile.pass_all([filter_], kind, draft.only(int(row)))[0] == mask[row]
    return sorted(draft.names[int(row)] for row in np.flatnonzero(mask))


def reasons(
    rule: str, cluster: Cluster, asking: PodBuilder | PodClass, **options: Any
) -> list[tuple[str, int]]:
    """What it says of the others: a phrase that can be counted, and every node once."""
    draft, filter_ = cluster.state.draft(), made(FILTERS[rule], options)
    kind = asking if isinstance(asking, PodClass) else cluster.kind(asking)
    failed = np.flatnonzero(draft.exists & ~filter_.passes(kind, draft))
    found = filter_.reasons(kind, draft, failed)
    assert sorted(row for _, rows in found for row in rows) == failed.tolist()
    told = [(phrase, len(rows)) for phrase, rows in found]
    for phrase, number in told:
        agree(number, phrase)
    return told


def scores(rule: str, cluster: Cluster, asking: PodBuilder, **options: Any) -> dict[str, float] | None:
    """Node -> score of this scorer alone; None where it has nothing to say."""
    draft, kind = cluster.state.draft(), cluster.kind(asking)
    scorer = made(SCORERS[rule], options)
    if not scorer.concerns(kind, draft):
        return None
    found = scorer.score(kind, draft)
    there = np.flatnonzero(draft.exists)
    assert ((found[there] >= 0) & (found[there] <= 1)).all()
    for row in there:
        assert scorer.score(kind, draft.only(int(row)))[0] == found[row]
    assert scorer.score(kind, draft.at(there[::-1])).tolist() == found[there[::-1]].tolist()
    return {draft.names[int(row)]: round(float(found[row]), 6) for row in there}


def advertising(sentence: NodeBuilder, resource: str, amount: int) -> NodeBuilder:
    """The node has so much of an extended resource too."""
    return replace(sentence, holds={**sentence.holds, resource: str(amount)})


def times(sentence: PodBuilder, count: int) -> list[PodBuilder]:
    """`name-0`, `name-1`, …: equal pods, still as sentences."""
    name = sentence.body["metadata"]["name"]
    return [sentence.named(f"{name}-{index}") for index in range(count)]


def where(plan: Plan | Refusal | Unsure) -> dict[str, str]:
    """Pod -> node."""
    assert isinstance(plan, Plan), plan
    return {member.name: holding.node for member, holding in plan.placements}


def given(plan: Plan | Refusal | Unsure) -> dict[str, list[str]]:
    """Pod -> its cards as `node#index`."""
    assert isinstance(plan, Plan), plan
    return {
        member.name: [card_name(holding.node, piece.card) for piece in holding.slices()]
        for member, holding in plan.placements
    }


def card_name(node: str, uuid: str) -> str:
    """`node#index` of a card."""
    known = {card_uuid(node, index): index for index in range(64)}
    return f"{node}#{known[uuid]}" if uuid in known else uuid


def gpu(*demands: CardDemand, models: tuple[str, ...] = ()) -> GpuRequest:
    return GpuRequest(demands, CardChoice(models=models))
