"""A pod at the kubelet's door: admitted or not, and where its containers would be.

By container: each is aligned by itself, after what those before it took. By pod: all together once, and then each
takes its part of that. With policy `none` nobody aligns anything, but the memory manager may still say no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from alnair.scheduling.numa import hints
from alnair.scheduling.numa.allocate import Desk, Refused
from alnair.scheduling.numa.hints import Hints
from alnair.scheduling.numa.merge import Affinity, merge
from alnair.state.alignment import Alignment, ContainerNeed
from alnair.state.machine import NONE, POD, SINGLE, Machine, Rules

TOPOLOGY, UNEXPECTED = "TopologyAffinityError", "UnexpectedAdmissionError"

ANYWHERE = Affinity(None, preferred=False, admitted=True)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`masks`: by container, as far as it came; None = anywhere. `machine`: with the pod in it, if admitted.

    `certain` False: the verdict itself hangs on what the kubelet leaves to chance. `unsettled`: devices that the pod
    got, but from which NUMA nodes is left to chance.
    """

    admitted: bool
    masks: tuple[int | None, ...]
    machine: Machine
    reason: str = ""
    certain: bool = True
    unsettled: frozenset[str] = frozenset()


@lru_cache(maxsize=1 << 13)
def admit(pod: Alignment, machine: Machine, rules: Rules) -> Verdict:
    desk = Desk(machine, alone=rules.policy == SINGLE)
    masks: list[int | None] = []
    certain = True
    together = ANYWHERE
    if rules.policy != NONE and rules.scope == POD:
        together = merge(rules.policy, machine.every, _of_pod(pod, machine, rules))
        if not together.admitted:
            return Verdict(False, (), machine, TOPOLOGY)
    for need in pod.containers:
        affinity = together
        if rules.policy != NONE and rules.scope != POD:
            certain = certain and not any(name in desk.uncertain for name, _ in need.devices)
            affinity = merge(rules.policy, machine.every, _of_container(need, desk, rules))
            if not affinity.admitted:
                return Verdict(False, tuple(masks), machine, TOPOLOGY, certain)
        masks.append(affinity.mask)
        try:
            desk.take(need, affinity)
        except Refused:
            return Verdict(False, tuple(masks), machine, UNEXPECTED, certain)
    return Verdict(True, tuple(masks), desk.machine, certain=certain, unsettled=frozenset(desk.uncertain))


def _of_container(need: ContainerNeed, desk: Desk, rules: Rules) -> Sequence[Hints]:
    nothing = (0,) * len(desk.machine.ids)
    return _gather(
        desk.machine,
        rules,
        cpus=need.cpus,
        memory=dict(need.memory),
        devices=dict(need.devices),
        desk=desk,
        nothing=nothing,
    )


def _of_pod(pod: Alignment, machine: Machine, rules: Rules) -> Sequence[Hints]:
    return _gather(
        machine,
        rules,
        cpus=_effective([{"": need.cpus} for need in pod.containers], pod).get("", 0),
        memory=_effective([dict(need.memory) for need in pod.containers], pod, memory=True),
        devices=_effective([dict(need.devices) for need in pod.containers], pod),
        desk=Desk(machine),
        nothing=(0,) * len(machine.ids),
    )


def _gather(
    machine: Machine,
    rules: Rules,
    *,
    cpus: int,
    memory: Mapping[str, int],
    devices: Mapping[str, int],
    desk: Desk,
    nothing: tuple[int, ...],
) -> Sequence[Hints]:
    alone = rules.policy == SINGLE
    found = []
    stocks = dict(machine.devices)
    for name, wanted in devices.items():
        if name in stocks:
            again = desk.devices_again.get(name, nothing)
            enough = sum(stocks[name].free) + sum(again) >= wanted
            possible = (
                hints.countable(stocks[name], wanted, again, alone=alone) if enough else hints.IMPOSSIBLE
            )
            found.append(possible)
    if cpus and machine.cpus is not None:
        found.append(hints.countable(machine.cpus, cpus, desk.cpus_again, alone=alone))
    if memory and machine.memory:
        told = hints.memory(machine, memory, desk.memory_again, alone=alone)
        # Where nothing would do the memory manager has no opinion, and refuses later.
        if told.possible or alone:
            found.append(told)
    return found


def _effective(
    amounts: Sequence[Mapping[str, int]], pod: Alignment, *, memory: bool = False
) -> dict[str, int]:
    """What the pod needs at its largest moment. Of memory only kinds count that an ordinary container asks for."""
    running: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for need, asked in zip(pod.containers, amounts, strict=True):
        for name, amount in asked.items():
            if need.stays:
                sidecars[name] = sidecars.get(name, 0) + amount
            elif need.passes_on:
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + amount)
            else:
                running[name] = running.get(name, 0) + amount
    kinds = running.keys() if memory else running.keys() | sidecars.keys() | peak.keys()
    return {
        name: max(running.get(name, 0) + sidecars.get(name, 0), peak.get(name, 0)) for name in sorted(kinds)
    }
