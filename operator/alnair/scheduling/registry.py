"""Every rule that a profile can name: Alnair's own, and those of third parties.

A third party ships a Python package with an entry point in the group `alnair.plugins` for each rule, which is a class
as plugins/interface describes it. Its `name` begins with a domain of theirs (`acme.com/Licences`), so that it is never
taken for one of ours, and its entry point is called the same, so that it is known by name if it cannot be loaded. What
a class can do is told by its methods: with `score` it is a scorer, with `keys` a picker.

What must never happen here: a package that cannot be loaded keeps the scheduler from starting. Its rules are known as
broken, and a profile that names one runs without it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from alnair.api.profiles import RULE_PATTERN
from alnair.scheduling.plugins import FILTERS, PICKERS, SCORERS, SORTERS

log = logging.getLogger(__name__)

GROUP = "alnair.plugins"

# The points of a profile, by the names of its fields, and the method that makes a class fit for each.
POINTS: Mapping[str, str] = {
    "sort": "rank",
    "filters": "passes",
    "scorers": "score",
    "nodePicker": "choose",
    "picker": "keys",
    "reserve": "reserve",
    "preBind": "pre_bind",
    "postBind": "post_bind",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """A rule that can be had. `package` is empty for our own."""

    rule: type[Any]
    package: str = ""


@dataclass(frozen=True, slots=True)
class Registry:
    """By point and name. `broken`: rules of third parties that cannot be loaded, and why."""

    offers: Mapping[str, Mapping[str, Offer]]
    broken: Mapping[str, str] = field(default_factory=dict)

    def names(self, point: str) -> list[str]:
        return list(self.offers[point])


_OURS: Mapping[str, Mapping[str, type[Any]]] = {
    "sort": SORTERS,
    "filters": FILTERS,
    "scorers": SCORERS,
    "picker": PICKERS,
}

OURS = Registry(
    {point: {name: Offer(rule) for name, rule in _OURS.get(point, {}).items()} for point in POINTS}
)


def installed(found: Iterable[EntryPoint] | None = None) -> Registry:
    """Our own rules, and those of all packages that are installed here."""
    offers = {point: dict(OURS.offers[point]) for point in POINTS}
    broken: dict[str, str] = {}
    for point in entry_points(group=GROUP) if found is None else found:
        package = point.dist.name if point.dist is not None else point.module
        try:
            rule = point.load()
            name = _checked_name(rule)
            if point.name != name:
                broken[name] = (
                    f"{package} calls its entry point {point.name}, which must be called as the rule is"
                )
                log.error("rule %s: %s", name, broken[name])
                continue
            served = list(_serves(rule))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - somebody else's code, sys.exit and all: we go on without it
            broken[point.name] = f"{package} cannot be loaded: {type(error).__name__}: {error}"
            log.error("rule %s of package %s", point.name, broken[point.name])
            continue
        for each in served:
            if name in offers[each]:
                broken[name] = f"{package} and {offers[each][name].package} both have a rule of this name"
                log.error("rule %s: %s", name, broken[name])
            else:
                offers[each][name] = Offer(rule, package)
        log.info("rule %s of package %s, for %s", name, package, ", ".join(served))
    return Registry(offers, broken)


class Unfit(TypeError):
    """An entry point that is no rule."""


def _checked_name(rule: Any) -> str:
    name = getattr(rule, "name", None)
    if not isinstance(rule, type) or not isinstance(name, str):
        raise Unfit("it is no class with a name")
    if "/" not in name or not re.fullmatch(RULE_PATTERN, name):
        raise Unfit(f"its name {name!r} has no domain in front, as in acme.com/{name}")
    return name


def _serves(rule: type[Any]) -> Iterator[str]:
    points = [point for point, method in POINTS.items() if callable(getattr(rule, method, None))]
    if not points:
        raise Unfit(f"it has none of the methods {', '.join(POINTS.values())}")
    yield from points
