"""A Policy, as kube-scheduler 1.0 to 1.22 read it, as a profile.

Where versions differ, the last one counts: a list that is not there stands for its defaults, an empty one for nothing;
names that kube-scheduler has win over arguments.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, field_validator, model_validator

from alnair.api.config import LabelKey
from alnair.scheduling.importing.arguments import Labels, Name, RatioArguments
from alnair.scheduling.importing.assembly import DEFAULT_NAME, Assembly, Imported
from alnair.scheduling.importing.equivalents import (
    DEFAULT_PRIORITIES,
    NO_PRIORITY,
    PREDICATES,
    PRIORITIES,
)
from alnair.scheduling.importing.extenders import Extender, tell_extenders
from alnair.scheduling.importing.reading import Part, checked

HEAVIEST: Final = (2**63 - 1) // 100  # kube-scheduler's own bound
SERVICES_ONLY: Final = "ServiceSpreading looks at Services only: pods that no Service selects are not spread"

Weight = Annotated[int, Field(ge=1, le=HEAVIEST)]


class ServiceAffinity(Part):
    labels: Labels = Field(default_factory=list)


class LabelsPresence(Part):
    labels: Labels = Field(default_factory=list)
    presence: bool = False


class ServiceAntiAffinity(Part):
    label: LabelKey


class LabelPreference(Part):
    label: LabelKey
    presence: bool = False


class _Argument(Part):
    @model_validator(mode="after")
    def _exactly_one(self) -> _Argument:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one kind of argument must be given, and there are {len(given)}")
        return self


class PredicateArgument(_Argument):
    service_affinity: ServiceAffinity | None = None
    labels_presence: LabelsPresence | None = None


class PriorityArgument(_Argument):
    service_anti_affinity: ServiceAntiAffinity | None = None
    label_preference: LabelPreference | None = None
    requested_to_capacity_ratio_arguments: RatioArguments | None = None


class Predicate(Part):
    name: Name
    argument: PredicateArgument | None = None


class Priority(Part):
    name: Name
    weight: Weight
    argument: PriorityArgument | None = None


class Policy(Part):
    """The whole file."""

    api_version: str = "v1"
    kind: str = "Policy"
    predicates: Annotated[list[Predicate], Field(max_length=1000)] | None = None
    priorities: Annotated[list[Priority], Field(max_length=1000)] | None = None
    extenders: Annotated[list[Extender], Field(max_length=1000)] = Field(default_factory=list)
    hard_pod_affinity_symmetric_weight: Annotated[int, Field(ge=0, le=100)] = 0  # 0 is not given
    always_check_all_predicates: bool = False

    @field_validator("api_version")
    @classmethod
    def _only_version(cls, version: str) -> str:
        if version != "v1":
            raise ValueError("a Policy has apiVersion v1")
        return version


def from_policy(tree: dict[str, Any], *, origin: str, scheduler_name: str | None, exact: bool) -> Imported:
    policy = checked(Policy, tree, origin=origin)
    assembly = Assembly()
    _tell_unknown_fields(policy, assembly)
    _take_predicates(policy, assembly)
    _take_priorities(policy, assembly)
    tell_extenders(policy.extenders, assembly)
    if policy.hard_pod_affinity_symmetric_weight > 1 and not assembly.scores("InterPodAffinity"):
        assembly.remark(
            "hardPodAffinitySymmetricWeight",
            "counts in InterPodAffinityPriority, which the file does not have",
        )
    if policy.always_check_all_predicates:
        assembly.remark(
            "alwaysCheckAllPredicates",
            "changes no placement; Alnair tells the first filter that each node fails",
        )
    return assembly.finished(
        origin=origin,
        scheduler_name=scheduler_name or DEFAULT_NAME,
        all_filters=policy.predicates is None,
        exact=exact,
    )


def _take_predicates(policy: Policy, assembly: Assembly) -> None:
    present: list[str] = []
    absent: list[str] = []
    groups: list[str] = []
    for number, predicate in enumerate(policy.predicates or ()):
        where, argument = f"predicates[{number}] {predicate.name}", predicate.argument
        if predicate.name in PREDICATES:
            assembly.filter(predicate.name, *PREDICATES[predicate.name])
            if argument is not None:
                assembly.remark(where, "its argument was ignored by kube-scheduler, and is here")
        elif argument is None:
            assembly.lose(where, "is no predicate of kube-scheduler's; a rule of your own can be a plugin")
        elif argument.labels_presence is not None:
            wanted = present if argument.labels_presence.presence else absent
            wanted += [label for label in argument.labels_presence.labels if label not in wanted]
            assembly.filter(predicate.name, "NodeLabel", options={"present": present, "absent": absent})
        elif argument.service_affinity is not None:
            groups += [label for label in argument.service_affinity.labels if label not in groups]
            assembly.filter(predicate.name, "ServiceAffinity", options={"labels": groups})


def _take_priorities(policy: Policy, assembly: Assembly) -> None:
    priorities = policy.priorities
    if priorities is None:
        priorities = [Priority(name=name, weight=weight) for name, weight in DEFAULT_PRIORITIES.items()]
        assembly.remark(
            "priorities",
            "not given, so these are kube-scheduler's defaults, less NodePreferAvoidPodsPriority: "
            + NO_PRIORITY["NodePreferAvoidPodsPriority"],
        )
    last = {priority.name: number for number, priority in enumerate(priorities)}
    for number, priority in enumerate(priorities):
        where = f"priorities[{number}] {priority.name}"
        if last[priority.name] != number:
            assembly.remark(
                where, "stands again further down, and the last one counts, as for kube-scheduler"
            )
        else:
            _take_priority(priority, where, policy, assembly)


def _take_priority(priority: Priority, where: str, policy: Policy, assembly: Assembly) -> None:
    name, weight, argument = priority.name, priority.weight, priority.argument
    if name in PRIORITIES:
        options = {}
        if name == "InterPodAffinityPriority" and policy.hard_pod_affinity_symmetric_weight > 1:
            options = {"hardPodAffinityWeight": policy.hard_pod_affinity_symmetric_weight}
        if name == "SelectorSpreadPriority":
            assembly.remark(where, SERVICES_ONLY)
        if argument is not None:
            assembly.remark(where, "its argument was ignored by kube-scheduler, and is here")
        assembly.score(name, PRIORITIES[name], weight, options)
    elif name in NO_PRIORITY:
        assembly.lose(where, NO_PRIORITY[name])
    elif argument is None:
        assembly.lose(where, "is no priority of kube-scheduler's; a rule of your own can be a plugin")
    elif argument.label_preference is not None:
        preference = argument.label_preference
        entry = {"label": preference.label, "presence": preference.presence}
        assembly.score_label(name, "LabelPreference", weight, entry)
    elif argument.service_anti_affinity is not None:
        label = argument.service_anti_affinity.label
        assembly.score_label(name, "ServiceAntiAffinity", weight, {"label": label})
    elif argument.requested_to_capacity_ratio_arguments is not None:
        ratio = argument.requested_to_capacity_ratio_arguments
        if assembly.scores("RequestedToCapacityRatio"):
            assembly.lose(
                where, "a profile has one RequestedToCapacityRatio, and the file's first one is taken"
            )
        else:
            assembly.score(name, "RequestedToCapacityRatio", weight, ratio.options())


def _tell_unknown_fields(policy: Policy, assembly: Assembly) -> None:
    parts: list[tuple[str, Part]] = [("the file", policy)]
    parts += [(f"predicates[{number}]", each) for number, each in enumerate(policy.predicates or ())]
    parts += [(f"priorities[{number}]", each) for number, each in enumerate(policy.priorities or ())]
    for where, part in parts:
        for field in part.unknown():
            assembly.remark(where, f"the field {field} was ignored by kube-scheduler, and is here")
