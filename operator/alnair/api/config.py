"""The config file of `alnair run`: which scheduler names Alnair answers to, how each places pods, and which levels the
cluster has.

    profiles:
      - schedulerName: alnair-cost-saving
        scorers: [{name: BinPack, weight: 1}, {name: NodeAffinity, weight: 2}]
        picker: best-fit
    topology:
      levels: [{name: rack, label: topology.kubernetes.io/rack}]
    delivery:
      enabled: true

A wrong file stops the start with file, field, value and what is allowed; nothing is ever guessed, ignored or
repaired. `DEFAULT` is what runs without a file, and what the chart ships.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from alnair.api import names
from alnair.api.quantity import shown

# A label's key as the apiserver takes it: an optional DNS prefix, then a name.
LABEL_PATTERN: Final = (
    r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
)

_LARGEST_FILE: Final = 256 * 1024

ScorerName = Literal[
    "BinPack",
    "Spread",
    "LeastRequested",
    "MostRequested",
    "BalancedResource",
    "ServiceSpreading",
    "Equal",
    "LeastNUMANodes",
    "NUMACost",
    "NodeAffinity",
    "InterPodAffinity",
    "PodTopologySpread",
    "TaintToleration",
    "ImageLocality",
]
PickerName = Literal["best-fit", "worst-fit"]


class BadConfig(ValueError):
    """A config file that cannot be used; the message has one line for each mistake in it."""


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, strict=True, extra="forbid", frozen=True
    )


def _refuse_repeats(values: list[str], field: str) -> None:
    for position, value in enumerate(values):
        if value in values[:position]:
            raise ValueError(f"{field} {shown(value)} is used twice; each may stand once")


class Scorer(_Part):
    """One scorer of a profile and how much it counts beside the others."""

    name: ScorerName
    weight: Annotated[int, Field(ge=1, le=1000)] = 1


class Profile(_Part):
    """How the pods of one schedulerName are placed."""

    scheduler_name: Annotated[
        str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
    ]
    # None is every filter there is; a list is for experiments, and can place pods where they cannot run
    filters: (
        Annotated[list[Annotated[str, Field(pattern=r"^[A-Z][A-Za-z]{0,62}$")]], Field(max_length=64)] | None
    ) = None
    scorers: Annotated[list[Scorer], Field(min_length=1, max_length=16)]
    picker: PickerName  # which of the cards that fit: the fullest or the emptiest

    def uses(self, scorer: ScorerName) -> bool:
        return any(each.name == scorer for each in self.scorers)

    @field_validator("scheduler_name")
    @classmethod
    def _not_the_default_schedulers(cls, name: str) -> str:
        if name == "default-scheduler":
            raise ValueError("belongs to kube-scheduler; choose a name of your own, for example alnair")
        return name

    @field_validator("scorers")
    @classmethod
    def _each_scorer_once(cls, scorers: list[Scorer]) -> list[Scorer]:
        _refuse_repeats([scorer.name for scorer in scorers], "name")
        return scorers


class Level(_Part):
    """A kind of domain: all nodes with one value of a label are together."""

    name: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
    label: Annotated[str, Field(max_length=317, pattern=LABEL_PATTERN)]


class Topology(_Part):
    """The levels that gangs can ask for, the widest first."""

    levels: Annotated[list[Level], Field(max_length=16)]

    @field_validator("levels")
    @classmethod
    def _each_once(cls, levels: list[Level]) -> list[Level]:
        _refuse_repeats([level.name for level in levels], "name")
        _refuse_repeats([level.label for level in levels], "label")
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


class Delivery(_Part):
    """How containers get the cards that were recorded for them."""

    # Through their environment, which the chart's admission policy gives them; a pod that should have one and does not
    # is not placed. False: something else does it, and nobody asks.
    enabled: bool = True


class Config(_Part):
    """The whole file."""

    profiles: Annotated[list[Profile], Field(min_length=1, max_length=64)]
    topology: Topology = DEFAULT_TOPOLOGY
    delivery: Delivery = Delivery()

    @field_validator("profiles")
    @classmethod
    def _each_name_once(cls, profiles: list[Profile]) -> list[Profile]:
        _refuse_repeats([profile.scheduler_name for profile in profiles], "schedulerName")
        return profiles

    def profile(self, scheduler_name: str) -> Profile | None:
        """The profile that answers to that name, or None: the pod is somebody else's."""
        return next((each for each in self.profiles if each.scheduler_name == scheduler_name), None)

    def delivering(self) -> frozenset[str]:
        """The scheduler names whose pods get their cards through their environment."""
        return frozenset(each.scheduler_name for each in self.profiles if self.delivery.enabled)


# What a manifest wishes for goes before how the cluster is to be filled: weights as in kube-scheduler.
WISHES: Final = (
    Scorer(name="NodeAffinity", weight=2),
    Scorer(name="InterPodAffinity", weight=2),
    Scorer(name="PodTopologySpread", weight=2),
    Scorer(name="TaintToleration", weight=3),
    Scorer(name="ImageLocality", weight=1),
)


def _profile(name: str, scorer: ScorerName, picker: PickerName) -> Profile:
    return Profile(scheduler_name=name, scorers=[Scorer(name=scorer), *WISHES], picker=picker)


DEFAULT: Final = Config(
    profiles=[
        _profile(names.PROFILE_DEFAULT, "BinPack", "best-fit"),
        _profile(names.PROFILE_COST_SAVING, "BinPack", "best-fit"),
        _profile(names.PROFILE_HIGH_PERFORMANCE, "Spread", "worst-fit"),
    ]
)


def load_config(path: str | Path) -> Config:
    """Read and check the file. Raises BadConfig."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > _LARGEST_FILE:
        raise BadConfig(f"{path}: is larger than {_LARGEST_FILE} bytes; is it the right file?")
    return parse_config(content, origin=str(path))


def parse_config(content: bytes | str, *, origin: str) -> Config:
    """The config in this YAML text; `origin` is what errors call it. Raises BadConfig."""
    try:
        tree = yaml.load(content, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
        # Mistakes inside are reported by the field's own rules; RecursionError is YAML nested beyond reason.
        return Config.model_validate(tree)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadConfig(f"{origin}: is not valid YAML: {error}") from error
    except ValidationError as error:
        lines = [f"{origin}: {_field(each['loc'])}: {_complaint(each)}" for each in error.errors()]
        raise BadConfig("\n".join(lines)) from error


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
