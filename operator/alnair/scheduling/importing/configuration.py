"""A KubeSchedulerConfiguration, of v1alpha1 to v1, as profiles: its filter and score plugins, and their arguments.

A profile there is a change of kube-scheduler's defaults: plugins are enabled and disabled by point, or at all points
that they have (`multiPoint`). `default-scheduler` is kube-scheduler's own name and becomes another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from alnair.api.profiles import SchedulerName
from alnair.scheduling.importing.arguments import (
    Labels,
    Name,
    RatioArguments,
    Resources,
    Shape,
    resource_options,
)
from alnair.scheduling.importing.assembly import DEFAULT_NAME, Assembly, Imported
from alnair.scheduling.importing.equivalents import (
    DEFAULT_FILTERS,
    DEFAULT_SCORES,
    DEFAULT_SCORES_BY_VERSION,
    FRAMEWORK_FILTERS,
    FRAMEWORK_SCORES,
    INHERENT,
)
from alnair.scheduling.importing.extenders import Extender, tell_extenders
from alnair.scheduling.importing.reading import Model, Part, Unreadable, checked

GROUP: Final = "kubescheduler.config.k8s.io/"
LEAST: Final = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
MOST: Final = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
EVENLY: Final = {"resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
# Of the file, but not of a profile: how kube-scheduler runs, not where pods go.
ELSEWHERE: Final = {
    "leaderElection", "clientConnection", "parallelism", "percentageOfNodesToScore", "podInitialBackoffSeconds",
    "podMaxBackoffSeconds", "healthzBindAddress", "metricsBindAddress", "enableProfiling", "disablePreemption",
    "enableContentionProfiling", "bindTimeoutSeconds", "delayCacheUntilActive",
}  # fmt: skip


class Plugin(Part):
    name: Name
    weight: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0


class PluginSet(Part):
    enabled: list[Plugin] = Field(default_factory=list)
    disabled: list[Plugin] = Field(default_factory=list)


class Plugins(Part):
    multi_point: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    score: PluginSet = PluginSet()

    def elsewhere(self) -> dict[str, PluginSet]:
        """Points that a profile of ours has in another way, or not at all."""
        points = {key: each for key, each in (self.model_extra or {}).items() if isinstance(each, dict)}
        return {key: checked(PluginSet, each, origin=f"plugins.{key}") for key, each in points.items()}


class PluginConfig(Part):
    name: Name
    args: dict[str, Any] = Field(default_factory=dict)


class Strategy(Part):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: Resources = Field(default_factory=list)
    requested_to_capacity_ratio: dict[str, Any] = Field(default_factory=dict)


class FitArguments(Part):
    scoring_strategy: Strategy = Strategy()


class AllocatedArguments(Part):
    resources: Resources = Field(default_factory=list)


class InterPodAffinityArguments(Part):
    hard_pod_affinity_weight: Annotated[int, Field(ge=0, le=100)] = 1


class NodeLabelArguments(Part):
    present_labels: Labels = Field(default_factory=list)
    absent_labels: Labels = Field(default_factory=list)
    present_labels_preference: Labels = Field(default_factory=list)
    absent_labels_preference: Labels = Field(default_factory=list)


class ServiceAffinityArguments(Part):
    affinity_labels: Labels = Field(default_factory=list)
    anti_affinity_labels_preference: Labels = Field(default_factory=list)


class RatioShape(Part):
    shape: Shape


class Profile(Part):
    scheduler_name: SchedulerName = "default-scheduler"
    plugins: Plugins = Plugins()
    plugin_config: list[PluginConfig] = Field(default_factory=list)


class Configuration(Profile):
    """The whole file. Before v1beta1 it was one profile itself."""

    api_version: str
    kind: str
    profiles: Annotated[list[Profile], Field(max_length=64)] = Field(default_factory=list)
    extenders: list[Extender] = Field(default_factory=list)


def from_configuration(
    tree: dict[str, Any], *, origin: str, scheduler_name: str | None, exact: bool
) -> list[Imported]:
    file = checked(Configuration, tree, origin=origin)
    if not file.api_version.startswith(GROUP):
        raise Unreadable(
            f"{origin}: apiVersion: {file.api_version!r}: a KubeSchedulerConfiguration has {GROUP}…"
        )
    profiles: list[Profile] = file.profiles or [file]
    if scheduler_name is not None and len(profiles) > 1:
        names = ", ".join(profile.scheduler_name for profile in profiles)
        raise Unreadable(f"{origin}: has {len(profiles)} profiles ({names}): one name cannot be given to all")
    imported: list[Imported] = []
    for number, profile in enumerate(profiles):
        assembly = Assembly()
        name = scheduler_name or _own_name(profile, assembly)
        if number == 0:
            tell_extenders(file.extenders, assembly)
            for key in file.unknown():
                if key not in ELSEWHERE:
                    assembly.remark(
                        "the file", f"the field {key} says nothing about where pods go, or is not known"
                    )
        if any(each.scheduler_name == name for each in imported):
            raise Unreadable(f"{origin}: two profiles would be called {name}")
        translation = _Translation(profile, file.api_version.removeprefix(GROUP), assembly, origin)
        translation.take()
        imported.append(
            assembly.finished(
                origin=origin, scheduler_name=name, all_filters=translation.all_filters, exact=exact
            )
        )
    return imported


def _own_name(profile: Profile, assembly: Assembly) -> str:
    if profile.scheduler_name != "default-scheduler":
        return profile.scheduler_name
    assembly.remark(
        "schedulerName", f"default-scheduler is kube-scheduler's; the profile is called {DEFAULT_NAME}"
    )
    return DEFAULT_NAME


class _Translation:
    """One profile."""

    def __init__(self, profile: Profile, version: str, assembly: Assembly, origin: str) -> None:
        self.profile = profile
        self.assembly = assembly
        self.origin = origin
        defaults = DEFAULT_SCORES_BY_VERSION.get(version, DEFAULT_SCORES)
        self.scores = _applied(defaults, profile.plugins.multi_point, profile.plugins.score)
        filters = dict.fromkeys(DEFAULT_FILTERS, 1)
        self.filters = _applied(filters, profile.plugins.multi_point, profile.plugins.filter)
        self.all_filters = set(DEFAULT_FILTERS) <= set(self.filters)
        self.arguments = {each.name: each.args for each in profile.plugin_config}
        self.read: set[str] = set()

    def take(self) -> None:
        for name in self.filters:
            self._take_filter(name)
        for name, weight in self.scores.items():
            self._take_score(name, weight)
        for point, plugins in self.profile.plugins.elsewhere().items():
            for plugin in plugins.enabled:
                self._tell(f"plugins.{point} {plugin.name}", plugin.name)
        for name in self.arguments:
            if name not in self.read and name not in INHERENT:
                self.assembly.lose(f"pluginConfig {name}", "its arguments have no equivalent here")

    def _take_filter(self, name: str) -> None:
        if name in FRAMEWORK_FILTERS:
            self.assembly.filter(name, *FRAMEWORK_FILTERS[name])
        elif name == "NodeLabel":
            labels = self._arguments(name, NodeLabelArguments)
            options = {"present": labels.present_labels, "absent": labels.absent_labels}
            self.assembly.filter(name, "NodeLabel", options=options)
        elif name == "ServiceAffinity":
            groups = self._arguments(name, ServiceAffinityArguments)
            self.assembly.filter(name, "ServiceAffinity", options={"labels": groups.affinity_labels})
        elif name not in FRAMEWORK_SCORES:
            self._tell(f"plugins.filter {name}", name)

    def _take_score(self, name: str, weight: int) -> None:
        score = self.assembly.score
        if name == "NodeResourcesFit":
            self._take_strategy(self._arguments(name, FitArguments).scoring_strategy, name, weight)
        elif name in ("NodeResourcesLeastAllocated", "NodeResourcesMostAllocated"):
            resources = self._arguments(name, AllocatedArguments).resources
            kind: Any = "LeastAllocated" if "Least" in name else "MostAllocated"
            self._take_strategy(Strategy(type=kind, resources=resources), name, weight)
        elif name == "RequestedToCapacityRatio":
            self._take_ratio(self._arguments(name, RatioArguments).options(), name, weight)
        elif name == "InterPodAffinity":
            hard = self._arguments(name, InterPodAffinityArguments).hard_pod_affinity_weight
            score(name, "InterPodAffinity", weight, {"hardPodAffinityWeight": hard} if hard != 1 else {})
        elif name == "NodeLabel":
            labels = self._arguments(name, NodeLabelArguments)
            for label in labels.present_labels_preference:
                self.assembly.score_label(name, "LabelPreference", weight, {"label": label, "presence": True})
            for label in labels.absent_labels_preference:
                self.assembly.score_label(
                    name, "LabelPreference", weight, {"label": label, "presence": False}
                )
        elif name == "ServiceAffinity":
            groups = self._arguments(name, ServiceAffinityArguments)
            for label in groups.anti_affinity_labels_preference:
                self.assembly.score_label(name, "ServiceAntiAffinity", weight, {"label": label})
        elif name in FRAMEWORK_SCORES:
            for ours in FRAMEWORK_SCORES[name]:
                score(name, ours, weight)
        elif name not in FRAMEWORK_FILTERS:
            self._tell(f"plugins.score {name}", name)

    def _take_strategy(self, strategy: Strategy, name: str, weight: int) -> None:
        resources = resource_options(strategy.resources)
        if strategy.type == "RequestedToCapacityRatio":
            where = f"{self.origin}: pluginConfig {name}"
            shape = checked(RatioShape, strategy.requested_to_capacity_ratio, origin=where).shape
            ratio = RatioArguments(shape=shape, resources=strategy.resources)
            self._take_ratio(ratio.options(), name, weight)
        elif resources and resources != EVENLY:
            shape_options = LEAST if strategy.type == "LeastAllocated" else MOST
            self._take_ratio({"shape": shape_options} | resources, name, weight)
        else:
            ours = "LeastRequested" if strategy.type == "LeastAllocated" else "MostRequested"
            self.assembly.score(name, ours, weight)

    def _take_ratio(self, options: Mapping[str, Any], name: str, weight: int) -> None:
        if self.assembly.scores("RequestedToCapacityRatio"):
            self.assembly.lose(
                f"plugins.score {name}", "a profile has one RequestedToCapacityRatio, and has it already"
            )
        else:
            self.assembly.score(name, "RequestedToCapacityRatio", weight, options)

    def _tell(self, where: str, name: str) -> None:
        if name in INHERENT:
            self.assembly.remark(where, f"needs no rule: {INHERENT[name]}")
        elif name not in FRAMEWORK_FILTERS and name not in FRAMEWORK_SCORES:
            self.assembly.lose(where, "has no rule of that name here; one of your own can be a plugin")

    def _arguments(self, name: str, model: type[Model]) -> Model:
        self.read.add(name)
        arguments = checked(model, self.arguments.get(name, {}), origin=f"{self.origin}: pluginConfig {name}")
        for field in arguments.unknown():
            if field not in ("apiVersion", "kind"):
                self.assembly.lose(f"pluginConfig {name}", f"{field} has no equivalent here")
        return arguments


def _applied(defaults: Mapping[str, int], everywhere: PluginSet, here: PluginSet) -> dict[str, int]:
    """Name -> weight of what is enabled at one point. What is said of the point goes before what is said of all."""
    found = dict(defaults)
    for plugins in (everywhere, here):
        for plugin in plugins.disabled:
            if plugin.name == "*":
                found.clear()
            found.pop(plugin.name, None)
        for plugin in plugins.enabled:
            found[plugin.name] = plugin.weight or 1  # who is enabled anew does not keep its default weight
    return found
