"""A profile: what one schedulerName stands for. And the profiles that Alnair ships.

    schedulerName: alnair-cost-saving
    sort: FewestCards                                  # who is tried first among equals in priority; else by age
    filters: {disable: [NodeVolumeLimits], enable: [acme.com/Licences]}   # left out: all of Alnair's
    scorers: [{name: BinPack, weight: 1}, {name: NodeAffinity, weight: 2}]
    nodePicker: {name: acme.com/Learned, options: {temperature: 0.1}} # left out: the highest score
    picker: best-fit                                   # the cards on that node
    reserve: [acme.com/Quota]                          # before, preBind and postBind: around a placement
    fallback: alnair-best-fit                          # where a third party's rule is broken; else without it

Which names there are is known where rules are made (scheduling/profile.py), and so are their options: a rule of
somebody else's has a domain in front of its name, and comes in a package of theirs.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from alnair.api import names
from alnair.api.quantity import shown

RULE_PATTERN: Final = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z][A-Za-z0-9._-]{0,62}$"
SCHEDULER_PATTERN: Final = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"

RuleName = Annotated[str, Field(max_length=317, pattern=RULE_PATTERN)]
SchedulerName = Annotated[str, Field(min_length=1, max_length=253, pattern=SCHEDULER_PATTERN)]


class Part(BaseModel):
    """A piece of the config file: no type is guessed, no field is too much."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, strict=True, extra="forbid", frozen=True
    )


def refuse_repeats(values: list[str], field: str) -> None:
    for position, value in enumerate(values):
        if value in values[:position]:
            raise ValueError(f"{field} {shown(value)} is used twice; each may stand once")


class Rule(Part):
    """One rule at one point of a profile; a bare name is one without options."""

    name: RuleName
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Scorer(Rule):
    """One scorer and how much it counts beside the others."""

    weight: Annotated[int, Field(ge=1, le=1000)] = 1


class Filters(Part):
    """All of Alnair's, less `disable`, and `enable` beside them. A list instead is `only`: those and no others, which
    is for experiments, and can place pods where they cannot run."""

    only: Annotated[list[Rule], Field(max_length=64)] | None = None
    enable: Annotated[list[Rule], Field(max_length=64)] = []
    disable: Annotated[list[RuleName], Field(max_length=64)] = []

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return {"only": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _one_way(self) -> Filters:
        if self.only is not None and (self.enable or self.disable):
            raise ValueError("only goes without enable and disable: it names all filters there are to be")
        return self

    @field_validator("only", "enable")
    @classmethod
    def _each_once(cls, filters: list[Rule] | None) -> list[Rule] | None:
        refuse_repeats([rule.name for rule in filters or ()], "name")
        return filters


Rules = Annotated[list[Rule], Field(max_length=16)]


class Profile(Part):
    """How the pods of one schedulerName are placed."""

    scheduler_name: SchedulerName
    sort: Rule | None = None
    filters: Filters = Filters()
    scorers: Annotated[list[Scorer], Field(min_length=1, max_length=16)]
    node_picker: Rule | None = None
    picker: Rule
    reserve: Rules = []
    pre_bind: Rules = []
    post_bind: Rules = []
    fallback: SchedulerName | None = None

    @field_validator("scheduler_name")
    @classmethod
    def _not_the_default_schedulers(cls, name: str) -> str:
        if name == "default-scheduler":
            raise ValueError("belongs to kube-scheduler; choose a name of your own, for example alnair")
        return name

    @field_validator("scorers", "reserve", "pre_bind", "post_bind")
    @classmethod
    def _each_once(cls, rules: list[Rule]) -> list[Rule]:
        refuse_repeats([rule.name for rule in rules], "name")
        return rules


# -- what Alnair ships -------------------------------------------------------------------------------------------

# What a manifest wishes for goes before how the cluster is to be filled: weights as in kube-scheduler.
WISHES: Final = (
    Scorer(name="NodeAffinity", weight=2),
    Scorer(name="InterPodAffinity", weight=2),
    Scorer(name="PodTopologySpread", weight=2),
    Scorer(name="TaintToleration", weight=3),
    Scorer(name="ImageLocality", weight=1),
)


def _profile(name: str, scorers: list[Scorer], picker: str) -> Profile:
    return Profile(scheduler_name=name, scorers=scorers, picker=Rule(name=picker))


def _wishing(name: str, scorer: str, picker: str) -> Profile:
    return _profile(name, [Scorer(name=scorer), *WISHES], picker)


def _by_load(name: str) -> Profile:
    """UtilSched. Its three scorers together weigh as much beside the wishes as one does elsewhere."""
    scorers = [
        Scorer(name="Basic", weight=1),
        Scorer(name="Utilization", weight=2),
        Scorer(name="Allocated", weight=1),
    ]
    wishes = [Scorer(name=wish.name, weight=4 * wish.weight) for wish in WISHES]
    return _profile(name, [*scorers, *wishes], "coolest")


SHIPPED: Final = (
    _profile(
        names.PROFILE_DEFAULT,
        [Scorer(name="Potential"), Scorer(name="Protection"), *WISHES],
        "Potential",
    ),
    _wishing(names.PROFILE_COST_SAVING, "BinPack", "best-fit"),
    _wishing(names.PROFILE_HIGH_PERFORMANCE, "Spread", "worst-fit"),
    _wishing(names.PROFILE_BEST_FIT, "TightestNode", "best-fit"),
    _by_load(names.PROFILE_UTILIZATION),
    _by_load(names.PROFILE_UTILSCHED),
)

# As their papers have them, so without wishes. Only to compare with.
BASELINES: Final = (
    _profile("alnair-fgd", [Scorer(name="FGD")], "FGD"),
    _profile("alnair-packing", [Scorer(name="Packing")], "best-fit"),
    _profile("alnair-clustering", [Scorer(name="Clustering")], "best-fit"),
    _profile("alnair-dot-product", [Scorer(name="DotProduct")], "best-fit"),
    _profile("alnair-random", [Scorer(name="Random")], "Random"),
)
