"""A fixed part of `make topology`: our arithmetic and the kubelet's code on the same cases."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random

import pytest

from alnair.sandbox.progress import Report
from alnair.scheduling.numa import admit, allocate, hints
from alnair.scheduling.numa.orders import all_admitted, crowd
from topology import ours
from topology.drawing import COMBINATIONS, draw
from topology.kubelet import Kubelet, program
from topology.run import run

SEED = 100
CASES = 1500


@pytest.fixture(scope="module")
def kubelet() -> Iterator[Kubelet]:
    with Kubelet(program(Report())) as running:
        yield running


@pytest.mark.slow
def test_we_agree_with_the_kubelet_and_both_verdicts_occur_under_every_policy_scope_and_qos(
    kubelet: Kubelet,
) -> None:
    result = run(SEED, CASES, kubelet.verdicts)
    assert not result.disagreements, "\n".join(result.disagreements)
    assert result.cases == CASES
    assert not [name for name, verdicts in result.decided.items() if not all(verdicts.values())]


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (hints, "group_allows", lambda *_: True),
        (allocate, "_left_over", lambda again, *_, **__: again),
        (allocate.Desk, "_holds", lambda *_: True),
        (admit, "_of_pod", lambda *_: ()),
    ],
    ids=["groups of memory", "what init containers leave", "memory that is not there", "pod scope"],
)
def test_arithmetic_that_forgets_something_is_found_out(
    kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch, module: object, name: str, wrong: object
) -> None:
    admit.admit.cache_clear()
    monkeypatch.setattr(module, name, wrong)
    try:
        assert run(SEED, 400, kubelet.verdicts).disagreements
    finally:
        admit.admit.cache_clear()


@pytest.mark.slow
def test_pods_that_we_let_in_together_are_admitted_by_the_kubelet_in_every_order(kubelet: Kubelet) -> None:
    together = 0
    for number in range(1200):
        case = draw(Random(f"{SEED}/{number}"), COMBINATIONS[number % len(COMBINATIONS)])
        if len(case["pods"]) < 2:
            continue
        machine, rules = ours.machine(case)
        needs = [ours.alignment(each) or ours.NOTHING for each in case["pods"]]
        if not all_admitted(machine, rules, crowd(needs)):
            continue
        together += 1
        for order in permutations(case["pods"]):
            told = kubelet.verdicts({**case, "pods": list(order)})
            assert all(each["admitted"] for each in told), {**case, "pods": list(order)}
    assert together > 100
