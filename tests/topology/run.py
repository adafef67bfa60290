"""A run: as many decided cases as asked for, every combination of policy, scope and QoS in turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from topology.compare import Ask, compare, shrink
from topology.drawing import COMBINATIONS, draw

MOST_SHRUNK = 3
MOST_DRAWS = 5  # for one decided case; a generator that finds none must not run for ever


@dataclass(slots=True)
class Result:
    """`decided`: policy/scope/QoS -> verdict of the last pod -> how often."""

    cases: int = 0
    left_to_chance: int = 0
    disagreements: list[str] = field(default_factory=list)
    decided: dict[str, dict[str, int]] = field(
        default_factory=lambda: {"/".join(each): {"admitted": 0, "refused": 0} for each in COMBINATIONS}
    )


def run(seed: int, cases: int, ask: Ask, told: Callable[[Result], None] = lambda _: None) -> Result:
    result = Result()
    for number in range(cases * MOST_DRAWS):
        if result.cases == cases:
            break
        combination = COMBINATIONS[number % len(COMBINATIONS)]
        case = draw(Random(f"{seed}/{number}"), combination)
        outcome = compare(case, ask)
        if outcome.difference:
            smallest = shrink(case, ask) if len(result.disagreements) < MOST_SHRUNK else case
            again = compare(smallest, ask).difference or outcome.difference
            result.disagreements.append(f"case {number} of seed {seed}: {again}\n{json.dumps(smallest)}")
        elif outcome.admitted is None:
            result.left_to_chance += 1
            continue
        else:
            result.decided["/".join(combination)]["admitted" if outcome.admitted else "refused"] += 1
        result.cases += 1
        told(result)
    return result
