"""Rules of third parties: found by their entry points, asked at arm's length, done without where they are broken."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import BaseModel

from alnair.api.config import BadConfig, parse_config
from alnair.scheduling.guard import Guarded, RuleFailed
from alnair.scheduling.plugins import FILTERS
from alnair.scheduling.plugins.interface import Scope
from alnair.scheduling.profile import Profile, build_all
from alnair.scheduling.registry import Registry, installed
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass
from harness.builders import node, pod
from unit.builders import Cluster, where


class LastNode:
    """Likes the node whose name sorts last."""

    name = "acme.com/LastNode"
    scope = Scope.DOMAIN

    class Options(BaseModel, extra="forbid"):
        strength: float = 1.0

    def __init__(self, options: Options) -> None:
        self.strength = options.strength

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Any:
        last = max(name for name in draft.names if name)
        return np.array([self.strength * (name == last) for name in draft.names])


class Chooser:
    """The node that comes last, and its last card."""

    name = "acme.com/Chooser"

    def choose(self, pod: PodClass, draft: Draft, rows: Any, scores: Any) -> int:
        return len(rows) - 1

    def keys(self, pod: PodClass, demand: Any, draft: Draft, row: int, candidates: Any) -> Any:
        return -candidates


class NotOnA:
    name = "acme.com/NotOnA"

    def passes(self, pod: PodClass, draft: Draft) -> Any:
        return np.array([name != "a" for name in draft.names])


class Answers:
    """Whatever it is told to, at every point."""

    name = "acme.com/Answers"
    scope = Scope.ROW
    answer: ClassVar[Callable[[int], Any]]

    def concerns(self, pod: PodClass, draft: Draft) -> bool:
        return True

    def score(self, pod: PodClass, draft: Draft) -> Any:
        return Answers.answer(len(draft.names))

    def passes(self, pod: PodClass, draft: Draft) -> Any:
        return Answers.answer(len(draft.names))

    def keys(self, pod: PodClass, demand: Any, draft: Draft, row: int, candidates: Any) -> Any:
        return Answers.answer(len(candidates))

    def choose(self, pod: PodClass, draft: Draft, rows: Any, scores: Any) -> Any:
        return Answers.answer(len(rows))

    def rank(self, gang: Any) -> Any:
        return Answers.answer(1)


class CannotBeMade:
    name = "acme.com/CannotBeMade"

    def __init__(self) -> None:
        raise OSError("no licence")

    score = Answers.score


class NoOptions:
    name = "acme.com/NoOptions"
    Options = dict  # no model

    score = Answers.score


@pytest.fixture(autouse=True)
def package() -> Iterator[None]:
    module = types.ModuleType("acme_rules")
    for rule in (LastNode, Chooser, NotOnA, Answers, CannotBeMade, NoOptions):
        setattr(module, rule.__name__, rule)
    module.Nameless = type("Nameless", (), {"score": Answers.score})  # type: ignore[attr-defined]
    module.Unqualified = type("Unqualified", (), {"name": "BinPack", "score": Answers.score})  # type: ignore[attr-defined]
    module.Useless = type("Useless", (), {"name": "acme.com/Useless"})  # type: ignore[attr-defined]
    sys.modules["acme_rules"] = module
    yield
    del sys.modules["acme_rules"]


def found(*names: str) -> Registry:
    return installed(EntryPoint(f"acme.com/{name}", f"acme_rules:{name}", "alnair.plugins") for name in names)


EVERYTHING = ("LastNode", "Chooser", "NotOnA", "Answers", "CannotBeMade", "NoOptions")


def built(profile: str, *, more: str = "") -> Profile:
    given = {"scorers": "[BinPack]", "picker": "best-fit"} | dict(
        line.split(": ", 1) for line in profile.splitlines()
    )
    body = ", ".join(f"{key}: {value}" for key, value in given.items())
    config = parse_config(f"profiles: [{{schedulerName: mine, {body}}}{more}]", origin="f")
    return build_all(config, found(*EVERYTHING))["mine"]


def cluster() -> Cluster:
    return Cluster(*(node(name).with_cards(2) for name in "abc"))


ASKING = pod("p").slice(memory_gib=2)


# -- they have a say -----------------------------------------------------------------------------------------------


def test_a_scorer_decides_and_has_its_options() -> None:
    assert where(cluster().place(ASKING, profile=built("scorers: [acme.com/LastNode]"))) == {"p": "c"}
    weak = "scorers: [{name: acme.com/LastNode, options: {strength: 0.0}}]"
    assert where(cluster().place(ASKING, profile=built(weak))) == {"p": "a"}


def test_a_picker_decides_node_and_card() -> None:
    there = cluster()
    plan = there.place(ASKING, profile=built("nodePicker: acme.com/Chooser\npicker: acme.com/Chooser"))
    assert where(plan) == {"p": "c"}
    assert [users for _, users in there.cards("c")] == [0, 1]


def test_a_filter_beside_ours_is_asked_and_told_of() -> None:
    profile = built("filters: {enable: [acme.com/NotOnA]}")
    assert where(cluster().place(ASKING, profile=profile)) == {"p": "b"}
    refusal = Cluster(node("a").with_cards(1)).refuses(ASKING, profile=profile)
    assert "1 does not pass acme.com/NotOnA" in refusal


def test_a_mistake_in_their_options_refuses_the_config() -> None:
    with pytest.raises(BadConfig, match=r"scorers\[0\]\.options\.power: is no field"):
        built("scorers: [{name: acme.com/LastNode, options: {power: 3}}]")


# -- and cannot do harm --------------------------------------------------------------------------------------------


def raises(count: int) -> Any:
    raise KeyError("nobody thought of this")


def exits(count: int) -> Any:
    sys.exit(3)


def cancels(count: int) -> Any:
    raise asyncio.CancelledError


def stops(count: int) -> Any:
    return next(iter(()))


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (lambda failed: [("is full", failed[:1])], "each node that failed has one reason"),
        (
            lambda failed: [("is full", failed), ("has no licence", failed[:1])],
            "each node that failed has one",
        ),
        (lambda failed: [("is full", failed + 1)], "each node that failed has one reason"),
        (lambda failed: [("is full", len(failed))], "an array of rows"),
        (lambda failed: [("too full", failed)], "starts with is, has or does"),
        (lambda failed: [(None, failed)], "starts with is, has or does"),
        (lambda failed: None, "TypeError"),
    ],
)
def test_reasons_are_of_the_nodes_that_failed_and_can_be_read_after_a_number(
    told: Callable[[Any], Any], why: str
) -> None:
    class Mutters(NotOnA):
        def reasons(self, pod: PodClass, draft: Draft, failed: Any) -> Any:
            return told(failed)

    there = cluster()
    guarded = Guarded(Mutters(), package="acme_rules")
    with pytest.raises(RuleFailed, match="failed to reasons") as failure:
        guarded.reasons(there.kind(ASKING), there.state.draft(), np.array([0, 1]))
    assert why in str(failure.value)


@pytest.mark.parametrize(
    ("point", "answer", "why"),
    [
        ("scorers: [acme.com/Answers]", raises, "KeyError: 'nobody thought of this'"),
        ("scorers: [acme.com/Answers]", exits, "SystemExit: 3"),
        ("scorers: [acme.com/Answers]", cancels, "CancelledError"),
        ("scorers: [acme.com/Answers]", stops, "StopIteration"),
        ("scorers: [acme.com/Answers]", lambda n: (1.0 for _ in range(n)), "of shape"),
        ("scorers: [acme.com/Answers]", lambda n: np.ones(n + 1), "of shape"),
        ("scorers: [acme.com/Answers]", lambda n: 0.5, "of shape"),
        ("scorers: [acme.com/Answers]", lambda n: None, "of shape"),
        ("scorers: [acme.com/Answers]", lambda n: np.full(n, np.nan), "finite"),
        ("scorers: [acme.com/Answers]", lambda n: np.full(n, 57.0), "from 0 to 1; they are from 57 to 57"),
        ("scorers: [acme.com/Answers]", lambda n: ["high"] * n, "numbers"),
        ("filters: {enable: [acme.com/Answers]}", raises, "KeyError"),
        ("filters: {enable: [acme.com/Answers]}", np.ones, "true or false"),
        ("picker: acme.com/Answers", raises, "KeyError"),
        ("picker: acme.com/Answers", lambda n: np.full(n, 0.5), "whole numbers"),
        ("picker: acme.com/Answers", lambda n: np.full(n, np.inf), "finite"),
        ("nodePicker: acme.com/Answers", raises, "KeyError"),
        ("nodePicker: acme.com/Answers", lambda n: n, "a position from 0 to 2"),
        ("nodePicker: acme.com/Answers", lambda n: -1, "a position"),
        ("nodePicker: acme.com/Answers", lambda n: "a", "a position"),
    ],
)
def test_nonsense_is_one_kind_of_failure_that_names_the_rule_and_the_fallback_places(
    point: str, answer: Callable[[int], Any], why: str
) -> None:
    Answers.answer = answer
    profile, there = built(point), cluster()
    before = there.state.free.copy()
    with pytest.raises(RuleFailed, match=r"rule acme.com/Answers of package acme_rules") as failure:
        there.place(ASKING, profile=profile)
    assert why in str(failure.value)
    assert np.array_equal(there.state.free, before)
    assert profile.fallback is not None
    assert where(there.place(ASKING, profile=profile.fallback)) == {"p": "a"}


@pytest.mark.parametrize("array", ["free", "card_free_memory", "card_usable", "exists"])
def test_the_books_cannot_be_written_to(array: str) -> None:
    there = cluster()

    def scribbles(self: Any, pod: PodClass, draft: Draft) -> Any:
        getattr(draft, array)[:] = 0
        return np.zeros(len(draft.names))

    profile = built("scorers: [acme.com/LastNode]")
    LastNode.score, kept = scribbles, LastNode.score  # type: ignore[method-assign]
    try:
        with pytest.raises(RuleFailed, match="read-only"):
            there.place(ASKING, profile=profile)
    finally:
        LastNode.score = kept  # type: ignore[method-assign]
    assert where(there.place(ASKING, profile=profile)) == {"p": "c"}


def test_nobody_can_take_capacity_through_the_draft_that_a_rule_sees() -> None:
    draft = cluster().state.draft()
    with pytest.raises(ValueError, match="read-only"):
        draft.sealed().take(0, cluster().kind(ASKING), ())
    assert not draft.journal


# -- what cannot be loaded, or made --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Missing", "AttributeError"),
        ("Nameless", "no class with a name"),
        ("Unqualified", "has no domain in front"),
        ("Useless", "none of the methods"),
    ],
)
def test_a_rule_that_cannot_be_loaded_leaves_its_profile_without_third_parties(name: str, why: str) -> None:
    registry = found(name, "NotOnA")
    assert why in registry.broken[f"acme.com/{name}"]
    text = f"""
profiles:
  - {{schedulerName: mine, scorers: [acme.com/{name}], picker: best-fit, filters: {{enable: [acme.com/NotOnA]}}}}
"""
    profile = build_all(parse_config(text, origin="f"), registry)["mine"]
    assert why in profile.broken[0]
    assert profile.fallback is None
    assert where(cluster().place(ASKING, profile=profile)) == {"p": "a"}


def test_a_rule_that_cannot_be_made_does_not_keep_the_scheduler_from_starting() -> None:
    profile = built("scorers: [acme.com/CannotBeMade]")
    assert profile.broken == ("rule acme.com/CannotBeMade: acme_rules cannot make it: OSError: no licence",)
    assert where(cluster().place(ASKING, profile=profile)) == {"p": "a"}


class Exits:
    """A module with one that is read ends the process that reads it."""

    def __getattr__(self, name: str) -> Any:
        sys.exit(f"usage: {name}")


def test_a_package_that_exits_when_it_is_loaded_does_not_end_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "acme_exits", Exits())  # type: ignore[arg-type]
    registry = installed([EntryPoint("acme.com/Rule", "acme_exits:Rule", "alnair.plugins")])
    assert "SystemExit: usage" in registry.broken["acme.com/Rule"]


def test_a_package_that_cannot_be_loaded_breaks_no_rule_of_ours() -> None:
    registry = installed(
        EntryPoint(name, "acme_rules:Missing", "alnair.plugins")
        for name in ("BinPack", "best-fit", "GPUCards")
    )
    text = "profiles: [{schedulerName: mine, scorers: [BinPack], picker: best-fit}]"
    profile = build_all(parse_config(text, origin="f"), registry)["mine"]
    assert not profile.broken
    assert where(cluster().place(ASKING, profile=profile)) == {"p": "a"}


def test_an_entry_point_is_called_as_its_rule_is() -> None:
    """Or nobody would know which rule it is that cannot be loaded, and a profile that names it would be refused."""
    registry = installed([EntryPoint("not-on-a", "acme_rules:NotOnA", "alnair.plugins")])
    assert "calls its entry point not-on-a" in registry.broken["acme.com/NotOnA"]
    assert "acme.com/NotOnA" not in registry.offers["filters"]


def test_the_fallback_of_a_profile_with_nobody_elses_filters_has_all_of_ours() -> None:
    profile = built("filters: [acme.com/NotOnA]")
    assert [rule.name for rule in profile.filters] == ["acme.com/NotOnA"]
    assert profile.fallback is not None
    assert [rule.name for rule in profile.fallback.filters] == list(FILTERS)


def test_a_rule_whose_options_cannot_be_read_does_not_keep_the_scheduler_from_starting() -> None:
    profile = built("scorers: [acme.com/NoOptions]")
    (why,) = profile.broken
    assert why.startswith("rule acme.com/NoOptions: acme_rules cannot make it: AttributeError: ")
    assert where(cluster().place(ASKING, profile=profile)) == {"p": "a"}


def test_two_packages_cannot_have_one_name() -> None:
    registry = found("NotOnA", "NotOnA")
    assert "both have a rule of this name" in registry.broken["acme.com/NotOnA"]


def test_the_fallback_may_be_named_and_must_not_break_itself() -> None:
    other = ", {schedulerName: other, scorers: [Spread], picker: worst-fit}"
    profile = built("scorers: [acme.com/LastNode]\nfallback: other", more=other)
    assert profile.fallback is not None
    assert [rule.name for rule, _ in profile.fallback.scorers] == ["Spread"]
    assert profile.fallback.name == "mine"
    other = ", {schedulerName: other, scorers: [acme.com/LastNode], picker: worst-fit}"
    with pytest.raises(
        BadConfig, match=r"profiles\[0\]\.fallback: 'other': names rules of third parties itself"
    ):
        built("scorers: [acme.com/LastNode]\nfallback: other", more=other)
