"""What rules there are, in words: for `alnair profile list` and `alnair profile check`."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from alnair.api.profiles import Profile, Rule
from alnair.scheduling.registry import POINTS, Registry


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule at one point. `options` by name, each with what it is without the profile's say."""

    point: str
    name: str
    purpose: str
    options: dict[str, Any]
    package: str  # empty for our own


def entries(registry: Registry) -> Iterator[Entry]:
    for point in POINTS:
        for name, offer in registry.offers[point].items():
            yield Entry(point, name, purpose(offer.rule), _defaults(offer.rule), offer.package)


def purpose(rule: type[Any]) -> str:
    """The first sentence of the class's own words, or of its file's, without the name in front."""
    text = rule.__doc__ or getattr(sys.modules.get(rule.__module__), "__doc__", None) or ""
    first = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    sentence = first.split(". ")[0].rstrip(".")
    head, colon, rest = sentence.partition(": ")
    told = rest if colon and (rule.__name__ in head or rule.name in head) else sentence
    return told[:1].upper() + told[1:]


def _defaults(rule: type[Any]) -> dict[str, Any]:
    model = getattr(rule, "Options", None)
    if model is None:
        return {}
    try:
        return dict(to_jsonable_python(model(), by_alias=True))
    except Exception:  # noqa: BLE001 - a third party's: then it is listed without
        return {}


def description(profile: Profile) -> dict[str, str]:
    """Point -> what the profile has there, in words."""
    filters = profile.filters
    if filters.only is not None:
        told = f"only {_several(filters.only)}"
    else:
        told = "all of Alnair's"
        if filters.disable:
            told += f", less {', '.join(filters.disable)}"
        if filters.enable:
            told += f", and {_several(filters.enable)}"
    parts = {
        "sort": _rule(profile.sort) if profile.sort else "by priority, then by age",
        "filters": told,
        "scorers": ", ".join(f"{scorer.weight} x {_rule(scorer)}" for scorer in profile.scorers),
        "nodePicker": _rule(profile.node_picker) if profile.node_picker else "the highest score",
        "picker": _rule(profile.picker),
        "reserve": _several(profile.reserve),
        "preBind": _several(profile.pre_bind),
        "postBind": _several(profile.post_bind),
        "fallback": profile.fallback or "",
    }
    return {point: text for point, text in parts.items() if text}


def _several(rules: list[Rule]) -> str:
    return ", ".join(map(_rule, rules))


def _rule(rule: Rule) -> str:
    options = ", ".join(f"{key}: {json.dumps(value)}" for key, value in rule.options.items())
    return f"{rule.name} ({options})" if options else rule.name
