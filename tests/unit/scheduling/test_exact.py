"""Whenever a placement exists, one is found; whenever none does, the reason is right: against all placements, tried.

`EXACT_GANGS` and `EXACT_SEED` make it longer or different.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from alnair.scheduling import exact, search
from alnair.scheduling.classes import Member
from alnair.scheduling.plugins import card_packing
from alnair.scheduling.search import Gang, Plan, Refusal, Unsure
from alnair.state.charges import guest
from alnair.state.holding import Holding
from harness.builders import Manifest, PodBuilder
from unit.builders import PACK, SPREAD, Cluster, as_pod
from unit.scheduling import oracle
from unit.scheduling.drawn import Case, draw, draw_alike
from unit.scheduling.oracle import Piece, Standing

PARTS = 4
GANGS = int(os.environ.get("EXACT_GANGS", "2000")) // PARTS
SEED = int(os.environ.get("EXACT_SEED", "1"))
SECONDS = 60.0

Verdict = Plan | Refusal | Unsure


@pytest.mark.parametrize("part", range(PARTS))
def test_every_gang_that_fits_is_placed_and_every_refusal_is_right(part: int) -> None:
    seen: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for number in range(part * GANGS, (part + 1) * GANGS):
        case = draw(random.Random(f"{SEED}/{number}"))
        seen.update(set(rules_in(case)))
        greedy, verdict = check(case, number)
        ends[f"{type(verdict).__name__}, {'exact' if isinstance(greedy, Unsure) else 'greedy'}"] += 1
    print(f"\n{GANGS} gangs: {dict(ends)}")
    for rule, often in seen.most_common():
        print(f"  {rule:36} {often / GANGS:6.1%}")
    if GANGS >= 500:
        assert {rule for rule in ALL_RULES if seen[rule] < 0.1 * GANGS} == set()
        assert min(ends.values()) >= 0.01 * GANGS, ends


def test_nothing_is_missed_where_many_nodes_are_alike() -> None:
    for number in range(GANGS):
        check(draw_alike(random.Random(f"{SEED}/alike/{number}")), number)


def test_where_members_with_init_containers_are_too_many_to_seat_apart_nothing_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the rows ask for too little: a plan may be missed, and is called unsure."""
    monkeypatch.setattr(card_packing, "MOST_SEATS_APART", 0)
    ends: Counter[str] = Counter()
    for number in range(GANGS):
        case = draw(random.Random(f"{SEED}/together/{number}"))
        if not any(each.stage == "Init" for one in case.gang for each in oracle.demands(one.manifest())):
            continue
        most = oracle.most_that_fit([each.manifest() for each in case.gang], case.world)
        for word in decided(case, number)[1:]:
            ends[type(word).__name__] += 1
            told = f"EXACT_SEED={SEED}, gang {number}, {case.needed} needed, {most} fit: {word}"
            if isinstance(word, Plan):
                check_plan(case, word, told)
            assert not isinstance(word, Refusal) or most < case.needed, told
    print(f"\n{dict(ends)}")
    assert ends["Plan"]
    assert ends["Refusal"]


def check(case: Case, number: int) -> tuple[Verdict, Verdict]:
    """The gang against all its placements. Returns what greedy placement said, and the last word."""
    most = oracle.most_that_fit([each.manifest() for each in case.gang], case.world)
    greedy, alone, verdict = decided(case, number)
    for word in (alone, verdict) if alone is not verdict else (verdict,):
        told = f"EXACT_SEED={SEED}, gang {number}, {case.needed} needed, {most} fit: {word}"
        if most >= case.needed:
            assert isinstance(word, Plan), told
            check_plan(case, word, told)
        else:
            assert isinstance(word, Refusal), told
            check_refusal(case, word, most, told)
    assert not isinstance(alone, Plan) or len(alone.placements) == most, "the solver places all that can be"
    return greedy, verdict


def decided(case: Case, number: int) -> tuple[Verdict, Verdict, Verdict]:
    """What greedy placement says alone, what the solver says alone, and the last word."""
    cluster = Cluster()
    for sentence in case.sentences:
        cluster.add(sentence, ready=sentence.name not in case.world.unready)
    for each in case.world.running:
        meta = each.pod["metadata"]
        cluster.running(PodBuilder(each.pod), on=each.node, uid=meta["uid"])
    pods = [as_pod(each, reader=cluster.reader) for each in case.gang]
    assert not any(pod.problem for pod in pods), pods
    gang = Gang(tuple(Member(pod.uid, pod.name, guest(pod)) for pod in pods), needed=case.needed)
    profile = (PACK, SPREAD)[number % 2]
    with cluster.state.draft() as draft, overheard() as said:
        verdict = exact.decide(gang, profile, draft, seconds=SECONDS)
        assert isinstance(verdict, Plan) or not draft.journal, "a no leaves no trace"
    (greedy,) = said
    if isinstance(greedy, Unsure):  # then the last word was the solver's
        return greedy, verdict, verdict
    assert verdict is greedy
    with cluster.state.draft() as draft:
        alone = exact.conclude(exact.formulate(gang, profile, draft).solve(SECONDS), profile, draft)
    return greedy, alone, verdict


@contextmanager
def overheard() -> Iterator[list[Verdict]]:
    """What greedy placement says meanwhile, to whoever asks it: asked once more, it would say the same."""
    said: list[Verdict] = []
    place = search.place

    def listening(*arguments: Any) -> Verdict:
        said.append(place(*arguments))
        return said[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "place", listening)
        yield said


# -- a plan is good to the oracle --------------------------------------------------------------------------------


def standing(case: Case, placements: Iterable[tuple[Member, Holding]]) -> list[Standing]:
    manifests = {each.body["metadata"]["name"]: each.manifest() for each in case.gang}
    return [
        Standing(
            manifests[member.name],
            holding.node,
            tuple(
                Piece(
                    piece.card, piece.memory_mib, piece.compute_percent, piece.whole, share.name, share.stage
                )
                for share in holding.containers
                for piece in share.slices
            ),
        )
        for member, holding in placements
    ]


def check_plan(case: Case, plan: Plan, told: str) -> None:
    names = [member.name for member, _ in plan.placements]
    assert len(set(names)) == len(names) >= case.needed, told
    assert oracle.objection(standing(case, plan.placements), case.world) == "", told


# -- a refusal says what the oracle says -------------------------------------------------------------------------

PHRASES = {
    "does? not match the node selector|do not match the node selector": "NodeSelector",
    "not match the node affinity": "NodeAffinity",
    "cordoned": "NodeUnschedulable",
    "untolerated taint": "TaintToleration",
    "not Ready": "NodeReady",
    "host port": "NodePorts",
    "pods near": "InterPodAffinity",
    "to spread by|too many such pods": "PodTopologySpread",
    "too little": "NodeResourcesFit",
    "fit all containers of the pod together": "CardsTogether",
    "break a rule of another member": "OtherMembers",
    "GPU|cards? with|too few nvidia.com/gpu": "GPUCards",
}
SENTENCE = re.compile(r", but of (\d+) nodes?: (.*?)\.(?= \d+ more | The pod needs |$)")


def check_refusal(case: Case, refusal: Refusal, most: int, told: str) -> None:
    stand = standing(case, refusal.most)
    assert len(stand) == most, told
    assert oracle.objection(stand, case.world) == "", told
    if case.needed > 1:
        assert refusal.message.startswith(f"{most} of {case.needed} members fit. "), told
    if refusal.message.endswith("…"):
        return
    said = [(int(nodes), reasons(text)) for nodes, text in SENTENCE.findall(refusal.message)]
    assert said, told
    for nodes, counts in said:
        assert nodes == counts.total() == len(case.world.nodes), told
    found = [counts for _, counts in said]
    wanted = [
        Counter(oracle.first_failure(pod, name, stand, case.world) for name in case.world.nodes)
        for pod in left_out(case, stand)
    ]
    # As sets: kinds that no rule can tell apart are told of together.
    assert set(map(sorted_items, found)) == set(map(sorted_items, wanted)), f"{wanted} {told}"


def left_out(case: Case, stand: Sequence[Standing]) -> Iterator[Manifest]:
    """One of each kind of member that is not all placed."""
    placed = {each.pod["metadata"]["name"] for each in stand}
    kinds = {}
    for each in case.gang:
        name = each.body["metadata"]["name"]
        if name not in placed:
            kinds.setdefault(name.partition("-")[0], each.manifest())
    yield from kinds.values()


def reasons(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for part in text.split("; "):
        number, _, phrase = part.partition(" ")
        counts[next(rule for words, rule in PHRASES.items() if re.search(words, phrase))] += int(number)
    return counts


def sorted_items(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items()))


# -- which rules a gang has to do with ---------------------------------------------------------------------------

ALL_RULES = (
    "resources", "pod slots", "host ports", "taints and tolerations", "node affinity", "node selector",
    "affinity to members", "affinity to running pods", "anti-affinity among members",
    "anti-affinity to running pods", "anti-affinity of running pods", "spread", "spread with minDomains",
    "spread that counts members", "slices", "whole cards", "several cards", "two containers", "models",
    "cards by name", "init containers", "sidecars", "per cent of the memory", "exclusive",
    "device plugin", "fewer needed than members", "several classes",
)  # fmt: skip


def rules_in(case: Case) -> Iterator[str]:
    pods = [each.manifest() for each in case.gang]
    running = [each.pod for each in case.world.running]
    nodes = case.world.nodes
    tainted = any("taints" in each["spec"] for each in nodes.values())
    yield from ("fewer needed than members",) * (case.needed < len(pods))
    yield from ("several classes",) * (len({labels["kind"] for labels in map(oracle.labels_of, pods)}) > 1)
    yield from ("pod slots",) * any(
        int(each["status"]["allocatable"]["pods"]) < len(pods) for each in nodes.values()
    )
    for pod in pods:
        spec, demands = pod["spec"], oracle.demands(pod)
        spread = spec.get("topologySpreadConstraints", [])
        present = {
            "resources": "cpu" in oracle.requests(pod),
            "host ports": bool(list(oracle.ports(pod))),
            "taints and tolerations": tainted and "tolerations" in spec,
            "node affinity": "nodeAffinity" in spec.get("affinity", {}),
            "node selector": "nodeSelector" in spec,
            "affinity to members": _means(pod, "podAffinity", pods),
            "affinity to running pods": _means(pod, "podAffinity", running),
            "anti-affinity among members": _means(pod, "podAntiAffinity", pods),
            "anti-affinity to running pods": _means(pod, "podAntiAffinity", running),
            "anti-affinity of running pods": any(_means(each, "podAntiAffinity", [pod]) for each in running),
            "spread": bool(spread),
            "spread with minDomains": any(each.get("minDomains", 1) > 1 for each in spread),
            "spread that counts members": any(
                oracle.selects(each.get("labelSelector"), oracle.labels_of(other))
                for each in spread
                for other in pods
            ),
            "slices": any(not demand.whole for demand in demands),
            "whole cards": any(demand.whole for demand in demands),
            "several cards": any(demand.cards > 1 for demand in demands),
            "two containers": len(demands) > 1,
            "models": bool(demands and oracle.picky(pod)),
            "cards by name": bool(demands and oracle.names_cards(pod)),
            "init containers": any(demand.stage == "Init" for demand in demands),
            "sidecars": any(demand.stage == "Sidecar" for demand in demands),
            "per cent of the memory": any(demand.percent for demand in demands),
            "exclusive": bool(demands)
            and pod["metadata"].get("annotations", {}).get("ai.centaurus.io/gpu-sharing") == "exclusive",
            "device plugin": any(demand.whole for demand in demands)
            and not all(case.world.owned(name) for name in nodes),
        }
        yield from (rule for rule, is_present in present.items() if is_present)


def _means(pod: Manifest, kind: str, others: Sequence[Manifest]) -> bool:
    return any(oracle.term_means(term, pod, other) for term in oracle.terms(pod, kind) for other in others)
