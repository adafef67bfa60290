"""A KubeSchedulerConfiguration in, profiles out: what it changes of kube-scheduler's defaults."""

from __future__ import annotations

from typing import Any

import pytest

from alnair.api.config import parse_config
from alnair.scheduling.importing import Imported, Unreadable, import_profiles, written
from alnair.scheduling.importing.equivalents import DEFAULT_FILTERS, FRAMEWORK_FILTERS, FRAMEWORK_SCORES
from alnair.scheduling.plugins import FILTERS, SCORERS
from alnair.scheduling.profile import build
from unit.scheduling.importing import samples

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def imported(text: str, **options: Any) -> list[Imported]:
    return import_profiles(text, origin="scheduler.yaml", **options)


def weights(profile: Imported) -> dict[str, int]:
    return {taken.name: taken.weight for taken in profile.scorers}


def lost(profile: Imported) -> list[str]:
    return [str(remark) for remark in profile.remarks if remark.lost]


def plugins(text: str) -> Imported:
    (profile,) = imported(f"{HEAD}profiles: [{{schedulerName: mine, plugins: {text}}}]")
    return profile


def arguments(name: str, args: str) -> Imported:
    (profile,) = imported(
        f"{HEAD}profiles: [{{schedulerName: mine, plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}, "
        f"pluginConfig: [{{name: {name}, args: {args}}}]}}]"
    )
    return profile


def test_every_rule_that_the_tables_name_is_there() -> None:
    assert {name for ours in FRAMEWORK_FILTERS.values() for name in ours} <= set(FILTERS)
    assert {name for ours in FRAMEWORK_SCORES.values() for name in ours} <= set(SCORERS)
    assert set(DEFAULT_FILTERS) <= set(FRAMEWORK_FILTERS)


def test_a_file_that_changes_nothing_is_kube_schedulers_defaults() -> None:
    (profile,) = imported(HEAD)
    assert weights(profile) == {
        "BalancedResource": 1,
        "ImageLocality": 1,
        "InterPodAffinity": 2,
        "LeastRequested": 1,
        "NodeAffinity": 2,
        "PodTopologySpread": 2,
        "TaintToleration": 3,
    }
    assert (profile.scheduler_name, profile.disable, lost(profile)) == ("alnair-imported", (), [])
    assert any("default-scheduler is kube-scheduler's" in remark.text for remark in profile.remarks)


def test_the_vgpu_schedulers_profiles_pack_and_spread() -> None:
    default, saving, performance = imported(samples.VGPU_SCHEDULER)
    assert [weights(each) for each in (default, saving, performance)] == [
        {"BinPack": 1},
        {"BinPack": 1},
        {"Spread": 1},
    ]
    assert (saving.picker.name, performance.picker.name) == ("best-fit", "worst-fit")
    assert [each.scheduler_name for each in (default, saving, performance)] == [
        "alnair-imported",
        "alnair-cost-saving",
        "alnair-high-performance",
    ]
    assert not any(lost(each) for each in (default, saving, performance))


def test_utilscheds_score_is_its_three_parts_and_goes_to_the_coolest_card() -> None:
    (profile,) = imported(samples.UTILSCHED)
    assert profile.scheduler_name == "utilsched"
    assert {name: weight for name, weight in weights(profile).items() if weight > 2} == {
        "Basic": 300,
        "Utilization": 300,
        "Allocated": 300,
    }
    assert (profile.picker.name, lost(profile)) == ("coolest", [])


def test_gangs_need_no_plugin_here() -> None:
    (profile,) = imported(samples.COSCHEDULING)
    assert lost(profile) == []
    told = [remark.where for remark in profile.remarks if "whole or not at all" in remark.text]
    assert told == [
        "plugins.queueSort Coscheduling",
        "plugins.preFilter Coscheduling",
        "plugins.permit Coscheduling",
    ]


def test_strategies_over_other_resources_become_a_shape_and_what_is_ignored_is_lost() -> None:
    (profile,) = imported(samples.MOST_ALLOCATED)
    assert weights(profile) == {
        "BalancedResource": 1,
        "ImageLocality": 7,
        "RequestedToCapacityRatio": 1,
        "NodeAffinity": 2,
        "TaintToleration": 3,
    }
    (ratio,) = (taken.options for taken in profile.scorers if taken.options)
    assert ratio == {
        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
        "resources": [{"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu", "weight": 5}],
    }
    assert {taken.name for taken in profile.disable} == {"InterPodAffinity", "PodTopologySpread"}
    assert lost(profile) == ["pluginConfig NodeResourcesFit: ignoredResources has no equivalent here"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}]}}", {"ImageLocality": 1}),
        ("{multiPoint: {disabled: [{name: '*'}]}}", {"Equal": 1}),
        (
            "{multiPoint: {disabled: [{name: '*'}]}, score: {enabled: [{name: NodeAffinity, weight: 5}]}}",
            {"NodeAffinity": 5},
        ),
        (
            "{score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesMostAllocated}]}}",
            {"MostRequested": 1},
        ),
        (
            "{score: {disabled: [{name: '*'}], enabled: [{name: SelectorSpread, weight: 2}]}}",
            {"ServiceSpreading": 2},
        ),
    ],
)
def test_plugins_are_enabled_and_disabled_by_point(text: str, expected: dict[str, int]) -> None:
    assert weights(plugins(text)) == expected


@pytest.mark.parametrize("point", ["score", "multiPoint"])
def test_a_plugin_that_is_enabled_anew_without_a_weight_counts_once(point: str) -> None:
    found = weights(plugins(f"{{{point}: {{enabled: [{{name: NodeAffinity}}]}}}}"))
    assert (found["NodeAffinity"], found["TaintToleration"]) == (1, 3)


OLD_DEFAULTS = {
    "BalancedResource": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "LeastRequested": 1,
    "NodeAffinity": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 1,
}


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1", "v1beta2"])
def test_wishes_counted_less_in_older_files(version: str) -> None:
    (profile,) = imported(HEAD.replace("/v1", f"/{version}"))
    assert weights(profile) == OLD_DEFAULTS


def test_the_plugin_that_scored_resources_before_v1beta2_can_be_taken_away() -> None:
    text = """
profiles:
  - plugins:
      score:
        disabled: [{name: NodeResourcesLeastAllocated}]
        enabled: [{name: NodeResourcesMostAllocated, weight: 5}]
"""
    (profile,) = imported(HEAD.replace("/v1", "/v1beta1") + text)
    expected = {name: weight for name, weight in OLD_DEFAULTS.items() if name != "LeastRequested"}
    assert weights(profile) == expected | {"MostRequested": 5}
    assert profile.picker.name == "best-fit"


def test_a_filter_that_pods_cannot_run_without_stays_unless_it_is_exact() -> None:
    text = f"{HEAD}profiles: [{{schedulerName: mine, plugins: {{filter: {{disabled: [{{name: '*'}}]}}}}}}]"
    (safe,), (exact,) = imported(text), imported(text, exact=True)
    assert safe.only is None
    assert {taken.name for taken in exact.only or ()} == {"NodeUnschedulable", "TaintToleration"}


@pytest.mark.parametrize(
    ("name", "args", "scorer", "options"),
    [
        ("InterPodAffinity", "{hardPodAffinityWeight: 9}", "InterPodAffinity", {"hardPodAffinityWeight": 9}),
        (
            "NodeLabel",
            "{presentLabelsPreference: [a], absentLabelsPreference: [b]}",
            "LabelPreference",
            {
                "labels": [
                    {"label": "a", "presence": True, "weight": 1},
                    {"label": "b", "presence": False, "weight": 1},
                ]
            },
        ),
        (
            "ServiceAffinity",
            "{antiAffinityLabelsPreference: [zone]}",
            "ServiceAntiAffinity",
            {"labels": [{"label": "zone", "weight": 1}]},
        ),
        (
            "RequestedToCapacityRatio",
            "{shape: [{utilization: 0, score: 5}]}",
            "RequestedToCapacityRatio",
            {"shape": [{"utilization": 0, "score": 5}]},
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{score: 3}]}}}",
            "RequestedToCapacityRatio",
            {"shape": [{"utilization": 0, "score": 3}]},
        ),
    ],
)
def test_arguments_become_options(name: str, args: str, scorer: str, options: dict[str, Any]) -> None:
    assert {taken.name: taken.options for taken in arguments(name, args).scorers}[scorer] == options


def test_label_arguments_become_filters() -> None:
    labels = arguments("NodeLabel", "{presentLabels: [a], absentLabels: [b]}")
    assert [taken.options for taken in labels.enable] == [{"present": ["a"], "absent": ["b"]}]
    service = arguments("ServiceAffinity", "{affinityLabels: [rack]}")
    assert [taken.options for taken in service.enable] == [{"labels": ["rack"]}]


def test_what_nobody_knows_is_lost_and_said_so() -> None:
    assert lost(plugins("{score: {enabled: [{name: Mine}]}, filter: {enabled: [{name: Mine}]}}")) == [
        "plugins.filter Mine: has no rule of that name here; one of your own can be a plugin",
        "plugins.score Mine: has no rule of that name here; one of your own can be a plugin",
    ]
    assert lost(arguments("PodTopologySpread", "{defaultConstraints: []}")) == [
        "pluginConfig PodTopologySpread: its arguments have no equivalent here"
    ]


@pytest.mark.parametrize("text", samples.CONFIGURATIONS)
@pytest.mark.parametrize("exact", [False, True])
def test_what_is_printed_can_be_run(text: str, exact: bool) -> None:
    profiles = imported(text, exact=exact)
    read = parse_config(written(profiles), origin="printed").profiles
    assert [each.scheduler_name for each in read] == [each.scheduler_name for each in profiles]
    for profile in read:
        build(profile)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: KubeSchedulerConfiguration", "apiVersion: is missing"),
        ("kind: KubeSchedulerConfiguration\napiVersion: v1", "apiVersion: 'v1'"),
        (HEAD + "profiles: [{schedulerName: a}, {schedulerName: a}]", "two profiles would be called a"),
        (
            HEAD + "profiles: [{plugins: {score: {enabled: [{name: X, weight: -1}]}}}]",
            "enabled[0].weight: -1",
        ),
        (
            HEAD
            + "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]",
            "hardPodAffinityWeight: 101",
        ),
        (
            HEAD + "profiles: [{schedulerName: cut-off-}]",
            "profiles[0].schedulerName: 'cut-off-'",
        ),
        (
            HEAD + "profiles: [{plugins: {permit: {enabled: 3}}}]",
            "plugins.permit: enabled: 3",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_field(text: str, message: str) -> None:
    with pytest.raises(Unreadable) as caught:
        imported(text)
    assert message in str(caught.value)


def test_one_name_cannot_be_given_to_two_profiles() -> None:
    with pytest.raises(Unreadable, match="3 profiles"):
        imported(samples.VGPU_SCHEDULER, scheduler_name="mine")
