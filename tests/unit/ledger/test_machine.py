"""Whatever happens, in whatever order, the ledger keeps its word: histories drawn by hypothesis.

Rules are what tenants, kubelets, nodes, rivals and the network do; `unit.ledger.history` says what must hold after
every revision and at the end. A history that breaks a promise is printed as the shortest one that does.

`ALNAIR_HISTORIES=2000 ALNAIR_STEPS=60 pytest tests/unit/ledger/test_machine.py` for a longer look. That the
machine can fail is shown by the mistakes in `mutants.py`: those that are found soon it has to find in every run, and
with `ALNAIR_HISTORIES` it is asked for all of them, some of which it does not find yet.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Coroutine, Iterator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from alnair.control import outcomes, ponder
from alnair.ledger import writer
from alnair.scheduling.exact import Problem, Solution
from unit.jumping import Fate, JumpingLoop, LoopClock
from unit.ledger.history import KINDS, NODES, History
from unit.ledger.mutants import FOUND_SOON, MUTANTS

HISTORIES = int(os.environ.get("ALNAIR_HISTORIES", "30"))
STEPS = int(os.environ.get("ALNAIR_STEPS", "25"))
HUNT = 200  # histories within which every mistake has to be found

GANGS = st.sampled_from(("g", "h"))
NUMBERS = st.integers(0, 7)
SECONDS = st.sampled_from((0.0, 0.005, 0.015, 0.025, 0.035, 0.05, 0.08, 0.2, 1.0, 5.0, 11.0, 35.0, 70.0))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pauses are as long as in earnest; time jumps over them."""

    async def at_once(self: ponder.Solver, problem: Problem) -> Solution:
        return problem.solve(self._seconds)

    monkeypatch.setattr(outcomes, "TICK_SECONDS", 5.0)
    monkeypatch.setattr(writer, "time", LoopClock())
    monkeypatch.setattr(ponder.Solver, "solve", at_once)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = JumpingLoop()
        self.history = self.run(self._new())
        self.failed = False

    async def _new(self) -> History:
        history = History()
        await history.begins()
        return history

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def act(self, does: Any, *args: Any, seconds: float, **fields: Any) -> None:
        """It happens, and then time passes."""

        async def acted() -> None:
            done = does(*args, **fields)
            if done is not None:
                await done
            await asyncio.sleep(seconds)

        self.run(acted())

    # -- what tenants do -----------------------------------------------------------------------------------------

    @initialize(kind=st.sampled_from(sorted(KINDS)), size=st.integers(1, 3), seconds=SECONDS)
    def begins(self, kind: str, size: int, seconds: float) -> None:
        self.act(self.history.somebody_leads, seconds=1.0)
        self.act(self.history.gang, "g", size=size, least=min(size, 2), kind=kind, seconds=seconds)

    @rule(
        name=GANGS,
        size=st.integers(1, 4),
        least=st.integers(1, 3),
        kind=st.sampled_from(sorted(KINDS)),
        policy=st.sampled_from(("", "Replace", "RestartGang", "Fail", "elastic")),
        seconds=SECONDS,
    )
    def gang(self, name: str, size: int, least: int, kind: str, policy: str, seconds: float) -> None:
        fields: dict[str, Any] = {"most": 4} if policy == "elastic" else {}
        fields |= {"onMemberFailure": policy} if policy and policy != "elastic" else {}
        self.act(self.history.gang, name, size=size, least=least, kind=kind, seconds=seconds, **fields)

    @rule(number=st.integers(0, 1), kind=st.sampled_from(sorted(KINDS)), seconds=SECONDS)
    def lone_pod(self, number: int, kind: str, seconds: float) -> None:
        self.act(self.history.comes, f"lone-{number}", kind=kind, group="", seconds=seconds)

    @rule(name=GANGS, number=st.integers(0, 3), kind=st.sampled_from(sorted(KINDS)), seconds=SECONDS)
    def member_comes(self, name: str, number: int, kind: str, seconds: float) -> None:
        self.act(self.history.comes, f"{name}-{number}", kind=kind, group=name, seconds=seconds)

    @rule(name=GANGS, least=st.integers(1, 4), seconds=SECONDS)
    def least_is_edited(self, name: str, least: int, seconds: float) -> None:
        self.act(self.history.needs, name, least, seconds=seconds)

    @rule(name=GANGS, seconds=SECONDS)
    def group_goes(self, name: str, seconds: float) -> None:
        self.act(self.history.group_goes, name, seconds=seconds)

    @precondition(lambda self: self.history.there())
    @rule(number=NUMBERS, seconds=SECONDS)
    def is_told_to_go(self, number: int, seconds: float) -> None:
        self.act(self.history.is_told_to_go, self._pick(number), seconds=seconds)

    @precondition(lambda self: self.history.there())
    @rule(number=NUMBERS, seconds=SECONDS)
    def goes(self, number: int, seconds: float) -> None:
        self.act(self.history.goes, self._pick(number), seconds=seconds)

    @precondition(lambda self: self.history.there())
    @rule(number=NUMBERS, seconds=SECONDS)
    def is_deleted_by_force(self, number: int, seconds: float) -> None:
        self.act(self.history.is_deleted_by_force, self._pick(number), seconds=seconds)

    @precondition(lambda self: self.history.there())
    @rule(number=NUMBERS, kind=st.sampled_from(sorted(KINDS)), seconds=SECONDS)
    def is_replaced_by_a_namesake(self, number: int, kind: str, seconds: float) -> None:
        name = self._pick(number)
        group = "" if name.startswith("lone") else name.split("-")[0]
        self.act(self.history.is_deleted_by_force, name, seconds=0.0)
        self.act(self.history.comes, name, kind=kind, group=group, seconds=seconds)

    @precondition(lambda self: self.history.there())
    @rule(number=NUMBERS, phase=st.sampled_from(("Succeeded", "Failed")), seconds=SECONDS)
    def ends(self, number: int, phase: str, seconds: float) -> None:
        self.act(self.history.ends_as, self._pick(number), phase, seconds=seconds)

    @precondition(lambda self: self.history.there())
    @rule(number=NUMBERS, where=st.sampled_from([each.name for each in NODES]), seconds=SECONDS)
    def rival_binds(self, number: int, where: str, seconds: float) -> None:
        self.act(self.history.rival_binds, self._pick(number), where, seconds=seconds)

    def _pick(self, number: int) -> str:
        there = self.history.there()
        return there[number % len(there)]

    # -- what the world does -------------------------------------------------------------------------------------

    @rule(name=st.sampled_from([each.name for each in NODES]), ready=st.booleans(), seconds=SECONDS)
    def node(self, name: str, ready: bool, seconds: float) -> None:
        self.act(self.history.node_is, name, ready=ready, seconds=seconds)

    @rule(fate=st.sampled_from(Fate), after=st.integers(0, 6))
    def trouble(self, fate: Fate, after: int) -> None:
        self.history.meets(fate, after=after)

    @rule(fates=st.lists(st.sampled_from(Fate), min_size=1, max_size=4), seconds=SECONDS)
    def troubles(self, fates: list[Fate], seconds: float) -> None:
        for after, fate in enumerate(fates):
            self.history.meets(fate, after=after)
        self.act(lambda: None, seconds=seconds)

    @rule(
        what=st.sampled_from(("namesake", "force", "deletion", "rival", "end", "takeover", "death")),
        after=st.integers(0, 5),
        number=NUMBERS,
        seconds=SECONDS,
    )
    def meanwhile(self, what: str, after: int, number: int, seconds: float) -> None:
        self.act(self.history.happens_meanwhile, what, after=after, number=number, seconds=seconds)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.act(lambda: None, seconds=seconds)

    @rule(seconds=SECONDS)
    def somebody_else_leads(self, seconds: float) -> None:
        self.act(self.history.somebody_leads, seconds=seconds)

    @precondition(lambda self: self.history.living)
    @rule(number=NUMBERS, seconds=SECONDS)
    def leader_dies(self, number: int, seconds: float) -> None:
        self.act(self.history.dies, number, seconds=seconds)

    @rule(number=NUMBERS, seconds=SECONDS)
    def leader_hears_nothing(self, number: int, seconds: float) -> None:
        self.act(self.history.hears_nothing, number, seconds=seconds)

    @rule(seconds=SECONDS)
    def leaders_hear_again(self, seconds: float) -> None:
        self.act(self.history.hear_again, seconds=seconds)

    @rule(number=NUMBERS, seconds=SECONDS)
    def grows(self, number: int, seconds: float) -> None:
        self.act(self.history.grows, number, seconds=seconds)

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def every_promise_is_kept(self) -> None:
        if self.history.broken:
            self.failed = True
            raise AssertionError("\n".join([*self.history.broken[:3], *self.history.network.writes]))

    def teardown(self) -> None:
        try:
            if not self.failed:
                self.run(self.history.comes_to_rest())
                self.run(self.history.empties())
        finally:
            self.run(self.history.is_over())
            self.loop.close()


def hunt(histories: int, steps: int, *, shrinks: bool = True) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize="ALNAIR_HISTORIES" not in os.environ,
            database=None,
            phases=[Phase.generate, Phase.shrink] if shrinks else [Phase.generate],
            print_blob=False,
            report_multiple_bugs=False,
        ),
    )


def test_no_history_breaks_a_promise() -> None:
    hunt(HISTORIES, STEPS)


@pytest.mark.parametrize("mistake", MUTANTS if "ALNAIR_HISTORIES" in os.environ else FOUND_SOON)
def test_a_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mistake](monkeypatch)
    with pytest.raises(AssertionError):
        hunt(max(HUNT, HISTORIES), STEPS, shrinks=False)


class Exchanges:
    """Stands in for monkeypatch: what would be put in the place of what."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, Any]] = []

    def setattr(self, owner: Any, name: str, wrong: Any) -> None:
        self.made.append((getattr(owner, name), wrong))


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_mistake_is_called_as_what_it_stands_in_for(mistake: str) -> None:
    """One that cannot be called so would be found for its TypeError, and show nothing."""
    exchanges = Exchanges()
    MUTANTS[mistake](cast("pytest.MonkeyPatch", exchanges))
    for right, wrong in exchanges.made:
        fields = inspect.signature(right).parameters.values()
        for given in (fields, [each for each in fields if each.default is each.empty]):
            places = [each.name for each in given if each.kind is each.POSITIONAL_OR_KEYWORD]
            inspect.signature(wrong).bind(
                *places, **{each.name: None for each in given if each.kind is each.KEYWORD_ONLY}
            )
    assert exchanges.made
