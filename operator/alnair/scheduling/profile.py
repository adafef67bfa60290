"""A profile ready to run: the rules that a schedulerName stands for, made of what the config names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from alnair.api.config import BadConfig, Config, complaints
from alnair.api.profiles import Filters, Rule
from alnair.api.profiles import Profile as ProfileConfig
from alnair.api.quantity import shown
from alnair.scheduling.guard import Guarded, Limit
from alnair.scheduling.plugins.interface import (
    Awaiting,
    Filter,
    Floats,
    Learner,
    NodePicker,
    Picker,
    Scope,
    Scorer,
    Sorter,
)
from alnair.scheduling.registry import OURS, Offer, Registry
from alnair.state.draft import Bools, Draft
from alnair.state.shapes import PodClass

NOWHERE = -np.inf
WORTH_LEAVING_OUT = (
    256  # nodes that did not pass: to score so many in vain costs more than to pick out the others
)

# In place of a third party's rule that is all there is at its point.
SPARE_SCORER, SPARE_PICKER = "BinPack", "best-fit"


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What was remembered of a profile's answers goes by its identity: `renewed` has the same rules, and is another."""

    name: str
    filters: tuple[Filter, ...]
    scorers: tuple[tuple[Scorer, float], ...]
    picker: Picker
    node_picker: NodePicker | None = None
    sorter: Sorter | None = None
    reserve: tuple[Any, ...] = ()
    pre_bind: tuple[Any, ...] = ()
    post_bind: tuple[Any, ...] = ()
    fallback: Profile | None = None  # without rules of third parties; None = it has none itself
    broken: tuple[str, ...] = ()  # why rules that it names could not be had: it is its own fallback then
    local_filters: tuple[Filter, ...] = field(init=False)
    wide_filters: tuple[Filter, ...] = field(init=False)
    local_scorers: tuple[tuple[Scorer, float], ...] = field(init=False)
    wide_scorers: tuple[tuple[Scorer, float], ...] = field(init=False)
    learners: tuple[Learner, ...] = field(init=False)
    _awaiting: tuple[Callable[[PodClass, Draft], bool], ...] = field(init=False)

    def __post_init__(self) -> None:
        for part, wide in (("local", False), ("wide", True)):
            filters = tuple(rule for rule in self.filters if (rule.scope is Scope.DOMAIN) is wide)
            scorers = tuple(pair for pair in self.scorers if (pair[0].scope is Scope.DOMAIN) is wide)
            object.__setattr__(self, f"{part}_filters", filters)
            object.__setattr__(self, f"{part}_scorers", scorers)
        rules = (
            *self.filters,
            *(rule for rule, _ in self.scorers),
            self.picker,
            self.node_picker,
            self.sorter,
        )
        awaiting = (
            rule.awaits if isinstance(rule, Awaiting) else rule.concerns for rule in self.wide_filters
        )
        object.__setattr__(self, "_awaiting", tuple(awaiting))
        learners = {id(rule): rule for rule in rules if learns(rule)}
        # Ours first: they learn whatever becomes of the others.
        in_order = sorted(learners.values(), key=lambda rule: isinstance(rule, Guarded))
        object.__setattr__(self, "learners", tuple(in_order))

    def renewed(self) -> Profile:
        return replace(self)

    def after(self, pod: PodClass, *, all_told: bool = True) -> Profile:
        """The profile that has learned of this arrival: a renewed one if answers are others now, else itself. Without
        `all_told` third parties' rules do not hear of it."""
        changed = [rule.arrived(pod) for rule in self.learners if all_told or not isinstance(rule, Guarded)]
        return self.renewed() if any(changed) else self

    def passes(self, pod: PodClass, draft: Draft) -> Bools:
        """Every filter, asked of every node of the draft."""
        return self.pass_all(self.filters, pod, draft)

    @staticmethod
    def pass_all(filters: Iterable[Filter], pod: PodClass, draft: Draft) -> Bools:
        mask = draft.exists.copy()
        for rule in filters:
            if rule.concerns(pod, draft):
                mask &= rule.passes(pod, draft)
                if not mask.any():
                    break
        return mask

    def score(self, pod: PodClass, draft: Draft) -> Floats:
        """Every scorer, asked of every node of the draft."""
        return self.score_all(self.scorers, pod, draft)

    @staticmethod
    def score_all(scorers: Iterable[tuple[Scorer, float]], pod: PodClass, draft: Draft) -> Floats:
        total = np.zeros(len(draft.names))
        for scorer, weight in scorers:
            if scorer.concerns(pod, draft):
                total += weight * scorer.score(pod, draft)
        return total

    def rated_locally(self, pod: PodClass, draft: Draft) -> Floats:
        """By the rules that hang on the node alone: the score where they pass, NOWHERE elsewhere."""
        passes = self.pass_all(self.local_filters, pod, draft)
        rows = np.flatnonzero(passes)
        if len(rows) and len(passes) - len(rows) < WORTH_LEAVING_OUT:
            return np.where(passes, self.score_all(self.local_scorers, pod, draft), NOWHERE)
        ratings = np.full(len(passes), NOWHERE)
        if len(rows):
            ratings[rows] = self.score_all(self.local_scorers, pod, draft.glance(rows))
        return ratings

    def rated_by_company(self, pod: PodClass, draft: Draft) -> Floats | None:
        """By the rules that speak of other pods, to be added to the local rating; None if none has anything to say."""
        filters = [rule for rule in self.wide_filters if rule.concerns(pod, draft)]
        scorers = [(rule, weight) for rule, weight in self.wide_scorers if rule.concerns(pod, draft)]
        if not filters and not scorers:
            return None
        scores = self.score_all(scorers, pod, draft)
        return np.where(self.pass_all(filters, pod, draft), scores, NOWHERE) if filters else scores

    def awaits_company(self, pod: PodClass, draft: Draft) -> bool:
        """Whether one more pod in the cluster can be what it waits for."""
        return any(awaits(pod, draft) for awaits in self._awaiting)

    def chosen(self, pod: PodClass, draft: Draft, total: Floats) -> int:
        """The row of the node that gets the pod: the first of the best, or whichever the node picker chooses. Where no
        node passes it is one that does not."""
        if self.node_picker is None:
            return int(total.argmax())
        rows = np.flatnonzero(total != NOWHERE)
        return int(rows[self.node_picker.choose(pod, draft, rows, total[rows])]) if len(rows) else 0


def learns(rule: Any) -> bool:
    return isinstance(rule.rule if isinstance(rule, Guarded) else rule, Learner)


# -- making them -------------------------------------------------------------------------------------------------


class BadProfile(ValueError):
    """A profile that cannot be made; one line for each mistake, as (field, what is wrong with it)."""

    def __init__(self, mistakes: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {complaint}" for field, complaint in mistakes))
        self.mistakes = mistakes


def build_all(
    config: Config, registry: Registry = OURS, *, origin: str = "the config", limit: Limit = nullcontext
) -> dict[str, Profile]:
    """All profiles by schedulerName, or BadConfig with every mistake in any of them."""
    built: dict[str, Profile] = {}
    lines: list[str] = []
    places = {profile.scheduler_name: place for place, profile in enumerate(config.profiles)}
    by_name = config.by_name()
    for name, profile in by_name.items():
        try:
            built[name] = build(profile, registry, fallbacks=by_name, limit=limit)
        except BadProfile as error:
            place = f"profiles[{places[name]}]" if name in places else f"profile {name}"
            lines += [f"{origin}: {place}.{field}: {complaint}" for field, complaint in error.mistakes]
    if lines:
        raise BadConfig("\n".join(lines))
    return built


def build(
    profile: ProfileConfig,
    registry: Registry = OURS,
    *,
    fallbacks: Mapping[str, ProfileConfig] | None = None,
    limit: Limit = nullcontext,
) -> Profile:
    """Raises BadProfile. `fallbacks`: the profiles that it may name as its fallback."""
    workshop = _Workshop(registry, limit)
    made = workshop.make(profile)
    if workshop.mistakes:
        raise BadProfile(workshop.mistakes)
    if not workshop.packages and not workshop.broken:
        return made
    named = (fallbacks or {}).get(profile.fallback) if profile.fallback is not None else None
    spare = _Workshop(registry, limit)
    fallback = spare.make(named or without_third_parties(profile))
    if named is not None and (spare.packages or spare.broken):
        complaint = "names rules of third parties itself, so it may break too"
        raise BadProfile([("fallback", f"{shown(profile.fallback)}: {complaint}")])
    fallback = replace(fallback, name=made.name, broken=tuple(workshop.broken))
    return fallback if workshop.broken else replace(made, fallback=fallback)


def without_third_parties(profile: ProfileConfig) -> ProfileConfig:
    """The same with our own rules alone."""

    def ours(point: str, rule: Rule) -> bool:
        return rule.name in OURS.offers[point]

    filters = profile.filters
    if filters.only is not None:
        kept = [rule for rule in filters.only if ours("filters", rule)]
        filters = Filters(only=kept) if kept else Filters()  # never none at all
    else:
        kept = [rule for rule in filters.enable if ours("filters", rule)]
        filters = Filters(
            enable=kept, disable=[name for name in filters.disable if name in OURS.offers["filters"]]
        )
    scorers = [scorer for scorer in profile.scorers if ours("scorers", scorer)]
    return profile.model_copy(
        update={
            "filters": filters,
            "scorers": scorers or [type(profile.scorers[0])(name=SPARE_SCORER)],
            "picker": profile.picker if ours("picker", profile.picker) else Rule(name=SPARE_PICKER),
            "node_picker": None,
            "sort": profile.sort if profile.sort is not None and ours("sort", profile.sort) else None,
            "reserve": [],
            "pre_bind": [],
            "post_bind": [],
            "fallback": None,
        }
    )


class _Workshop:
    """Makes the rules of one profile: one object for a class and its options, at however many points they stand."""

    def __init__(self, registry: Registry, limit: Limit) -> None:
        self._registry = registry
        self._limit = limit
        self._made: list[tuple[type[Any], dict[str, Any], Any]] = []
        self.mistakes: list[tuple[str, str]] = []
        self.broken: list[str] = []
        self.packages: set[str] = set()

    def make(self, profile: ProfileConfig) -> Profile:
        scorers = [
            (self._rule("scorers", f"scorers[{place}]", scorer), float(scorer.weight))
            for place, scorer in enumerate(profile.scorers)
        ]
        return Profile(
            name=profile.scheduler_name,
            filters=self._filters(profile.filters),
            scorers=tuple(pair for pair in scorers if pair[0] is not None),
            picker=self._rule("picker", "picker", profile.picker),
            node_picker=self._maybe("nodePicker", profile.node_picker),
            sorter=self._maybe("sort", profile.sort),
            reserve=self._several("reserve", profile.reserve),
            pre_bind=self._several("preBind", profile.pre_bind),
            post_bind=self._several("postBind", profile.post_bind),
        )

    def _maybe(self, point: str, rule: Rule | None) -> Any:
        return None if rule is None else self._rule(point, point, rule)

    def _several(self, point: str, rules: Iterable[Rule]) -> tuple[Any, ...]:
        made = [self._rule(point, f"{point}[{place}]", rule) for place, rule in enumerate(rules)]
        return tuple(rule for rule in made if rule is not None)

    def _filters(self, filters: Filters) -> tuple[Filter, ...]:
        """Ours in the order in which they are asked, then the others."""
        ours = OURS.names("filters")
        if filters.only is not None:
            chosen = [(f"filters[{place}]", rule) for place, rule in enumerate(filters.only)]
        else:
            for place, name in enumerate(filters.disable):
                if name not in ours:
                    self._unknown("filters", f"filters.disable[{place}]", name)
            said = {*filters.disable, *(rule.name for rule in filters.enable)}
            chosen = [("filters", Rule(name=name)) for name in ours if name not in said]
            chosen += [(f"filters.enable[{place}]", rule) for place, rule in enumerate(filters.enable)]
        made = [self._rule("filters", field, rule) for field, rule in chosen]
        order = {name: place for place, name in enumerate(ours)}
        return tuple(
            sorted(
                (rule for rule in made if rule is not None), key=lambda rule: order.get(rule.name, len(ours))
            )
        )

    def _rule(self, point: str, field: str, rule: Rule) -> Any:
        """None: it cannot be had, and why is noted."""
        offer = self._registry.offers[point].get(rule.name)
        if rule.name in self._registry.broken and (offer is None or offer.package):
            self.broken.append(f"rule {rule.name}: {self._registry.broken[rule.name]}")
        elif offer is None:
            self._unknown(point, field, rule.name)
        else:
            return self._object(offer, point, field, rule)
        return None

    def _object(self, offer: Offer, point: str, field: str, rule: Rule) -> Any:
        for made_of, given, made in self._made:
            if made_of is offer.rule and given == rule.options:
                return made
        if not offer.package:
            arguments = self._options(offer, field, rule)
            made = None if arguments is None else offer.rule(*arguments)
        else:
            self.packages.add(offer.package)
            try:
                with self._limit():
                    arguments = self._options(offer, field, rule)
                    made = None if arguments is None else self._guarded(offer, arguments)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - somebody else's code, sys.exit and all
                why = f"{offer.package} cannot make it: {type(error).__name__}: {error}"
                self.broken.append(f"rule {rule.name}: {why}"[:500])
                return None
        if made is not None:
            self._made.append((offer.rule, rule.options, made))
        return made

    def _guarded(self, offer: Offer, arguments: list[Any]) -> Guarded:
        return Guarded(offer.rule(*arguments), package=offer.package, limit=self._limit)

    def _options(self, offer: Offer, field: str, rule: Rule) -> list[Any] | None:
        """What the rule is made with; None: they are wrong, and why is noted."""
        options = getattr(offer.rule, "Options", None)
        if options is None and rule.options:
            self.mistakes.append((f"{field}.options", f"{rule.name} has none"))
            return None
        try:
            # A copy: what a rule does to its options is not done to the config.
            return [] if options is None else [options.model_validate(deepcopy(rule.options))]
        except ValidationError as error:
            self.mistakes += [(f"{field}.options.{place}", text) for place, text in complaints(error)]
            return None

    def _unknown(self, point: str, field: str, name: str) -> None:
        known = ", ".join(self._registry.names(point)) or "none"
        self.mistakes.append((field, f"{shown(name)}: {point} knows no rule of that name; it knows {known}"))
