"""The config file of `alnair run`: which scheduler names Alnair answers to, how each places pods, and which levels the
cluster has.

    profiles:
      - schedulerName: alnair-cost-saving
        scorers: [{name: BinPack, weight: 1}, {name: NodeAffinity, weight: 2}]
        picker: best-fit
    baselines: false
    topology:
      levels: [{name: rack, label: topology.kubernetes.io/rack}]
    readings: {freshSeconds: 60, halfLifeSeconds: 60, forgottenSeconds: 300}
    delivery:
      enabled: true
    elastic: {stabilizationSeconds: 60, growAfterSeconds: 10, changesPerMinute: 60, handSeconds: 600}

A wrong file is refused whole, with file, field, value and what is allowed; nothing is ever guessed, ignored or
repaired. At the start that is the end of it; a file that changes under a running operator and is wrong then leaves
everything as it was. `DEFAULT` is what runs without a file, and what the chart ships.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from alnair.api.extender import Extender
from alnair.api.profiles import BASELINES, SHIPPED, Part, Profile, refuse_repeats
from alnair.api.quantity import shown

# A label's key as the apiserver takes it: an optional DNS prefix, then a name.
LABEL_PATTERN: Final = (
    r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
)

LabelKey = Annotated[str, Field(max_length=317, pattern=LABEL_PATTERN)]

_LARGEST_FILE: Final = 256 * 1024
_MOST_VALUES: Final = 100_000

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class BadConfig(ValueError):
    """A config file that cannot be used; the message has one line for each mistake in it."""


class Level(Part):
    """A kind of domain: all nodes with one value of a label are together."""

    name: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
    label: LabelKey


class Topology(Part):
    """The levels that gangs can ask for, the widest first."""

    levels: Annotated[list[Level], Field(max_length=16)]

    @field_validator("levels")
    @classmethod
    def _each_once(cls, levels: list[Level]) -> list[Level]:
        refuse_repeats([level.name for level in levels], "name")
        refuse_repeats([level.label for level in levels], "label")
        return levels


# Kubernetes has a label for zones only; rack and block are what its own documents use as examples.
DEFAULT_TOPOLOGY: Final = Topology(
    levels=[
        Level(name="zone", label="topology.kubernetes.io/zone"),
        Level(name="block", label="topology.kubernetes.io/block"),
        Level(name="rack", label="topology.kubernetes.io/rack"),
        Level(name="nvlink", label="nvidia.com/gpu.clique"),
    ]
)


class Readings(Part):
    """How long what a profiler measured still says something. In seconds, for one that writes every 30."""

    fresh_seconds: Seconds = 60.0  # counts in full: two periods
    half_life_seconds: Seconds = 60.0  # then half as much with each
    forgotten_seconds: Seconds = 300.0  # and nothing from here on: ten periods

    @model_validator(mode="after")
    def _in_order(self) -> Readings:
        if self.forgotten_seconds < self.fresh_seconds:
            raise ValueError(
                "forgottenSeconds is less than freshSeconds; a reading is fresh first and forgotten later"
            )
        return self


class Delivery(Part):
    """How containers get the cards that were recorded for them."""

    # Through their environment, which the chart's admission policy gives them; a pod that should have one and does not
    # is not placed. False: something else does it, and nobody asks.
    enabled: bool = True


class Elastic(Part):
    """How elastic gangs are sized."""

    stabilization_seconds: Seconds = 60.0  # a change is not undone within this
    grow_after_seconds: Seconds = 10.0  # capacity must have been idle for so long before a gang grows into it
    changes_per_minute: Annotated[int, Field(ge=1, le=10_000)] = 60  # of all gangs together
    hand_seconds: Seconds = 600.0  # a number that somebody set by hand is left alone for so long
    place_seconds: Seconds = 60.0  # a committed place waits so long for its pod
    restart_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = (
        30.0  # what a change costs a job
    )
    horizon_seconds: Seconds = 600.0  # over which a change has to pay


class Config(Part):
    """The whole file."""

    profiles: Annotated[list[Profile], Field(min_length=1, max_length=64)]
    baselines: bool = False  # the research baselines too, unless a profile above has their name
    topology: Topology = DEFAULT_TOPOLOGY
    readings: Readings = Readings()
    delivery: Delivery = Delivery()
    elastic: Elastic = Elastic()
    extender: Extender | None = None

    @field_validator("profiles")
    @classmethod
    def _each_name_once(cls, profiles: list[Profile]) -> list[Profile]:
        refuse_repeats([profile.scheduler_name for profile in profiles], "schedulerName")
        return profiles

    @model_validator(mode="after")
    def _extender_goes_with_the_profiles(self) -> Config:
        if self.extender is not None:
            self.extender.fits(list(self.by_name()))
        return self

    @model_validator(mode="after")
    def _fallbacks_are_there(self) -> Config:
        known = self.by_name()
        for profile in self.profiles:
            if profile.fallback is not None and profile.fallback not in known:
                raise ValueError(
                    f"the fallback {shown(profile.fallback)} of profile {profile.scheduler_name} is no profile here; "
                    f"there are {', '.join(known)}"
                )
        return self

    def by_name(self) -> dict[str, Profile]:
        """The profiles by the schedulerName that they answer to."""
        own = {profile.scheduler_name: profile for profile in self.profiles}
        return {profile.scheduler_name: profile for profile in BASELINES if self.baselines} | own

    def profile(self, scheduler_name: str) -> Profile | None:
        """The profile that answers to that name, or None: the pod is somebody else's."""
        return self.by_name().get(scheduler_name)

    def delivering(self) -> frozenset[str]:
        """The scheduler names whose pods get their cards through their environment."""
        guests = self.extender.scheduler_names if self.extender is not None else ()
        return frozenset((*self.by_name(), *guests) if self.delivery.enabled else ())

    def measuring(self) -> frozenset[str]:
        """The scheduler names for whose pods it matters what their like used before."""
        return frozenset(
            name
            for name, profile in self.by_name().items()
            if any(scorer.name == "Allocated" for scorer in profile.scorers)
        )


DEFAULT: Final = Config(profiles=list(SHIPPED))


def load_config(path: str | Path) -> Config:
    """Read and check the file. Raises BadConfig."""
    return parse_config(read_config(path), origin=str(path))


def read_config(path: str | Path) -> bytes:
    """What is in the file. Raises BadConfig."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > _LARGEST_FILE:
        raise BadConfig(f"{path}: is larger than {_LARGEST_FILE} bytes; is it the right file?")
    return content


def parse_config(content: bytes | str, *, origin: str) -> Config:
    """The config in this YAML text; `origin` is what errors call it. Raises BadConfig."""
    try:
        tree = yaml.load(content, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
        _must_be_small(tree)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError is a scalar that is not what it looks like, 2026-13-01 say; RecursionError is nested beyond reason.
        raise BadConfig(f"{origin}: is not valid YAML: {error}") from error
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise BadConfig(
            "\n".join(f"{origin}: {field}: {text}" for field, text in complaints(error))
        ) from error


def _must_be_small(tree: Any) -> None:
    """A few hundred bytes of anchors and aliases can stand for more than fits into memory once they are read."""
    left, seen = [tree], 0
    while left:
        seen += 1
        if seen > _MOST_VALUES:
            raise ValueError(
                f"has more than {_MOST_VALUES} values, aliases counted as often as they stand there"
            )
        each = left.pop()
        if isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, (list, tuple, set)):
            left += each


def complaints(error: ValidationError) -> list[tuple[str, str]]:
    """Each mistake as (field, what is wrong with it)."""
    return [(_field(each["loc"]), _complaint(each)) for each in error.errors()]


def _field(location: tuple[int | str, ...]) -> str:
    """("profiles", 0, "picker") as people write it: profiles[0].picker."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.lstrip(".") or "the file"


def _complaint(error: Any) -> str:
    match error["type"]:
        case "missing":
            return "is missing; it must be given"
        case "extra_forbidden":
            return (
                f"is no field of this file; remove it or mend its name (its value is {shown(error['input'])})"
            )
        case "value_error":
            # Repeats are about two entries of a list: printing the whole list would hide them.
            return str(error["ctx"]["error"]) if isinstance(error["input"], list) else _with_value(error)
        case _:
            return _with_value(error)


def _with_value(error: Any) -> str:
    message = error["msg"].removeprefix("Value error, ")
    return f"{shown(error['input'])}: {message}"


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML, except that a key that stands twice is a mistake and not a last word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # left to SafeLoader, which refuses what cannot be a key
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    "while reading a mapping",
                    node.start_mark,
                    f"found the key {shown(key.value)} twice",
                    key.start_mark,
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)
