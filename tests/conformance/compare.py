"""Scenario by scenario: the two answers side by side.

kube-scheduler learns of a scenario by its own watches, a moment after the apiserver has it. So a disagreement is asked
about again, with a fresh pod and after a pause, and only one that persists counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from alnair.scheduling.profile import Profile
from conformance import kube, ours, rules, stage
from conformance.drawing.words import Manifest
from conformance.plane import Plane
from conformance.scenario import Scenario, draw

SETTLE_SECONDS = 0.1
MOST_REFUSED = 10
PAUSES = (0.5, 1.5, 4.0)
"""Before asking kube-scheduler again about a disagreement, in seconds."""


@dataclass(frozen=True)
class Disagreement:
    """About one pod; `nodes` has those where the two differ: name -> kube-scheduler's verdict."""

    scenario: Scenario
    world: stage.World
    pod: Manifest
    nodes: dict[str, bool]
    answer: kube.Answer
    opinion: ours.Opinion


@dataclass
class Outcome:
    pairs: int = 0
    fit: int = 0
    """Pairs in which kube-scheduler says yes."""
    errors: int = 0
    """Pods that kube-scheduler broke down over; it places them nowhere, and so must we."""
    scenarios: int = 0
    refused: list[str] = field(default_factory=list)
    """Scenarios that the apiserver would not have: the drawer's mistakes, left out."""
    asked_again: int = 0
    decided: Counter[str] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)

    @property
    def disagreeing_pairs(self) -> int:
        return sum(len(each.nodes) for each in self.disagreements)


async def run(
    plane: Plane,
    *,
    seed: int,
    pairs: int,
    told: Callable[[Outcome], None] = lambda outcome: None,
    on_disagreement: Callable[[Disagreement], None] = lambda disagreement: None,
    first: int = 0,
) -> Outcome:
    """Scenarios of that seed until there are so many pairs of a pod and a node."""
    outcome = Outcome(decided=Counter(dict.fromkeys((*ours.filter_names(), *rules.names()), 0)))
    number = first
    while outcome.pairs < pairs:
        try:
            await judge(plane, draw(seed, number), outcome, on_disagreement)
        except stage.BadScenario as bad:
            outcome.refused.append(str(bad))
            if len(outcome.refused) > MOST_REFUSED:
                raise
        number += 1
        told(outcome)
    await stage.clear(plane.api)
    return outcome


async def judge(
    plane: Plane,
    scenario: Scenario,
    outcome: Outcome,
    on_disagreement: Callable[[Disagreement], None] = lambda disagreement: None,
    *,
    profile: Profile = ours.PROFILE,
    pauses: Sequence[float] = PAUSES,
) -> None:
    """One scenario, on an empty cluster; it stays."""
    world = await set_up(plane, scenario)
    books = ours.Books(world, profile)
    answers = await kube.ask(plane, scenario.judged)
    opinions = {name: books.ask(answer.pod) for name, answer in answers.items()}
    for pause in pauses:
        doubtful = [pod for pod in scenario.judged if answers[_name(pod)].nodes != opinions[_name(pod)].nodes]
        if not doubtful:
            break
        outcome.asked_again += len(doubtful)
        await kube.forget(plane, doubtful)
        await asyncio.sleep(pause)
        again = await kube.ask(plane, doubtful)
        answers |= again
        opinions |= {name: books.ask(answer.pod) for name, answer in again.items()}
    for pod in scenario.judged:
        answer, opinion = answers[_name(pod)], opinions[_name(pod)]
        differing = {name: name in answer.nodes for name in sorted(answer.nodes ^ opinion.nodes)}
        if differing:
            found = Disagreement(scenario, world, pod, differing, answer, books.ask(answer.pod, explain=True))
            outcome.disagreements.append(found)
            on_disagreement(found)
    outcome.pairs += len(scenario.nodes) * len(scenario.judged)
    outcome.fit += sum(len(answer.nodes) for answer in answers.values())
    outcome.errors += sum(answer.reason == "SchedulerError" for answer in answers.values())
    outcome.scenarios += 1
    judged = [(answers[_name(pod)].pod, opinions[_name(pod)]) for pod in scenario.judged]
    rules.count(world, books, judged, outcome.decided)


async def set_up(plane: Plane, scenario: Scenario) -> stage.World:
    """The scenario and nothing else, as the apiserver shows it; kube-scheduler has had a moment to see it, too."""
    await stage.clear(plane.api)
    await stage.put(plane.api, scenario)
    world = await stage.read(plane.api)
    await asyncio.sleep(SETTLE_SECONDS)
    return world


def _name(pod: Manifest) -> str:
    return str(pod["metadata"]["name"])
