"""Where the two sides differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from alnair.state.machine import NONE
from topology import ours
from topology.drawing import Case

Answers = list[dict[str, Any]]
Ask = Callable[[Case], Answers]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`difference` is empty where both sides say the same. `admitted` is about the last pod that was compared; None
    where the kubelet leaves all of it to chance."""

    admitted: bool | None
    difference: str = ""


def compare(case: Case, ask: Ask) -> Outcome:
    """Admitted or not, pod by pod, and of those that are: on which NUMA nodes each container would be."""
    theirs = ask(case)
    admitted: bool | None = None
    for number, (verdict, machine) in enumerate(ours.verdicts(case)):
        if not verdict.certain:
            break
        told = theirs[number]
        if verdict.admitted != told["admitted"]:
            return Outcome(None, f"pod {number}: admitted is {verdict.admitted} here, {told} there")
        admitted = verdict.admitted
        masks = [None if mask is None else list(machine.numbers(mask)) for mask in verdict.masks]
        known = verdict.masks and case["policy"] != NONE and verdict.admitted
        if known and masks != told["masks"]:
            return Outcome(None, f"pod {number}: masks {masks} here, {told['masks']} there")
    return Outcome(admitted)


def shrink(case: Case, ask: Ask) -> Case:
    """The smallest case of this kind that the two sides still differ about."""
    found = True
    while found:
        found = False
        for smaller in _smaller(case):
            if smaller["pods"] and all(smaller["pods"]) and compare(smaller, ask).difference:
                case, found = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for number, pod in enumerate(case["pods"]):
        yield _without(case, ("pods", number))
        for at, container in enumerate(pod):
            here = ("pods", number, at)
            yield _without(case, here)
            for name in container["limits"]:
                if "/" in name or name.startswith("hugepages"):
                    yield _without(case, (*here, "limits", name), (*here, "requests", name))
    for name in case["devices"]:
        yield _without(case, ("devices", name))
    for switch in ("cpu_manager", "memory_manager"):
        if case[switch]:
            yield {**deepcopy(case), switch: False}
    for place, zone in enumerate(case["zones"]):
        if zone["used"]:
            copy = deepcopy(case)
            copy["zones"][place]["used"] = 0
            yield copy


def _without(case: Case, *paths: tuple[str | int, ...]) -> Case:
    copy = deepcopy(case)
    for *way, last in paths:
        inside: Any = copy
        for step in way:
            inside = inside[step]
        del inside[last]
    return copy
