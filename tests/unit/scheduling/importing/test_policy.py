"""A Policy in, a profile out: predicates as filters, priorities as scorers, nothing dropped in silence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alnair.api.config import parse_config
from alnair.scheduling.importing import Imported, Unreadable, import_profiles, written
from alnair.scheduling.importing.equivalents import ALWAYS, NO_PRIORITY, OPTIONAL, PREDICATES, PRIORITIES
from alnair.scheduling.plugins import FILTERS, SCORERS
from alnair.scheduling.profile import Profile, build
from unit.scheduling.importing import samples


def policy(predicates: list[Any] | None = None, priorities: list[Any] | None = None, **rest: Any) -> str:
    lists = {"predicates": predicates, "priorities": priorities}
    given = {key: value for key, value in lists.items() if value is not None}
    return json.dumps({"kind": "Policy", "apiVersion": "v1", **given, **rest})


def imported(text: str, **options: Any) -> Imported:
    (profile,) = import_profiles(text, origin="policy.cfg", **options)
    return profile


def built(text: str, **options: Any) -> Profile:
    """The profile as `alnair run` would make it of what is printed."""
    (profile,) = parse_config(written([imported(text, **options)]), origin="printed").profiles
    return build(profile)


def filters(text: str, **options: Any) -> list[str]:
    return [rule.name for rule in built(text, **options).filters]


def scorers(text: str) -> dict[str, float]:
    return {rule.name: weight for rule, weight in built(text).scorers}


def lost(text: str) -> list[str]:
    return [remark.where for remark in imported(text).remarks if remark.lost]


# -- tables ------------------------------------------------------------------------------------------------------


def test_every_rule_that_the_tables_name_is_there() -> None:
    assert {name for ours in PREDICATES.values() for name in ours} <= set(FILTERS)
    assert set(PRIORITIES.values()) <= set(SCORERS)
    assert not set(PRIORITIES) & set(NO_PRIORITY)


def test_every_filter_is_one_that_stays_one_that_may_go_or_one_that_does_nothing_unasked() -> None:
    silent = {"NodeLabel", "ServiceAffinity"}
    assert set(ALWAYS) | set(OPTIONAL) | silent == set(FILTERS)
    assert not set(ALWAYS) & set(OPTIONAL)
    assert all(PREDICATES[old] == (ours,) for ours, old in OPTIONAL.items())


@pytest.mark.parametrize("name", PREDICATES)
def test_each_predicate_switches_its_filters_on(name: str) -> None:
    without = set(filters(policy([]), exact=True))
    assert set(filters(policy([{"name": name}]), exact=True)) == without | set(PREDICATES[name])


@pytest.mark.parametrize("name", PRIORITIES)
def test_each_priority_becomes_its_scorer_with_its_weight(name: str) -> None:
    assert scorers(policy([], [{"name": name, "weight": 7}])) == {PRIORITIES[name]: 7}


# -- whole files -------------------------------------------------------------------------------------------------


def test_the_lectures_policy_is_taken_over_whole() -> None:
    assert scorers(samples.CLASSIC) == {
        "LeastRequested": 1,
        "BalancedResource": 1,
        "ServiceSpreading": 1,
        "Equal": 1,
    }
    assert built(samples.CLASSIC).picker.name == "worst-fit"
    assert set(FILTERS) - set(filters(samples.CLASSIC)) == {
        "VolumeZone",
        "NodeVolumeLimits",
        "InterPodAffinity",
        "PodTopologySpread",
    }
    assert lost(samples.CLASSIC) == []


def test_arguments_become_options() -> None:
    profile = imported(samples.FIRST)
    assert {taken.name: taken.options for taken in profile.enable} == {
        "ServiceAffinity": {"labels": ["region"]},
        "NodeLabel": {"present": ["foo"], "absent": ["retiring", "example.com/broken"]},
    }
    options = {taken.name: (taken.weight, taken.options) for taken in profile.scorers if taken.options}
    assert options == {
        "ServiceAntiAffinity": (
            4,
            {"labels": [{"label": "zone", "weight": 3}, {"label": "rack", "weight": 1}]},
        ),
        "LabelPreference": (
            10,
            {
                "labels": [
                    {"label": "ssd", "presence": True, "weight": 4},
                    {"label": "busy", "presence": False, "weight": 6},
                ]
            },
        ),
    }
    assert lost(samples.FIRST) == []
    assert scorers(samples.FIRST)["ServiceSpreading"] == 2


def test_the_last_kind_of_policy_loses_what_there_is_none_of_and_says_each() -> None:
    assert lost(samples.LAST) == [
        "priorities[5] NodePreferAvoidPodsPriority",
        "priorities[11] ResourceLimitsPriority",
        "extenders[0]",
    ]
    profile = imported(samples.LAST)
    assert (profile.disable, filters(samples.LAST)) == ((), list(FILTERS))
    options = {taken.name: taken.options for taken in profile.scorers}
    assert options["InterPodAffinity"] == {"hardPodAffinityWeight": 5}
    assert options["RequestedToCapacityRatio"]["resources"] == [
        {"name": "nvidia.com/gpu", "weight": 3},
        {"name": "cpu", "weight": 1},
    ]
    told = " ".join(map(str, profile.remarks))
    assert "https://10.0.0.1/prefix was asked to filter, prioritize, bind" in told
    assert "alwaysCheckAllPredicates" in told


def test_a_sharers_extender_is_told_with_what_does_its_work_here() -> None:
    (extender,) = (remark for remark in imported(samples.GPUSHARE).remarks if remark.lost)
    assert "gpushare-scheduler was asked to filter, bind" in extender.text
    assert "alnair/vgpu-memory" in extender.text


def test_a_policy_in_a_config_map_is_found() -> None:
    assert scorers(samples.IN_A_CONFIG_MAP) == {"LeastRequested": 1}


def test_a_policy_that_packs_nodes_packs_cards() -> None:
    assert built(samples.PACKING).picker.name == "best-fit"


@pytest.mark.parametrize("text", samples.POLICIES)
@pytest.mark.parametrize("exact", [False, True])
def test_what_is_printed_says_the_same_as_what_was_imported(text: str, exact: bool) -> None:
    profile = imported(text, exact=exact, scheduler_name="mine")
    (read,) = parse_config(written([profile]), origin="printed").profiles
    assert read.scheduler_name == "mine"
    assert [(each.name, each.weight, each.options) for each in read.scorers] == [
        (each.name, each.weight, each.options) for each in profile.scorers
    ]
    assert read.filters.disable == [each.name for each in profile.disable]
    assert [(each.name, each.options) for each in read.filters.enable] == [
        (each.name, each.options) for each in profile.enable
    ]
    assert (read.filters.only is None) == (profile.only is None)
    build(read)


# -- filters stay on ---------------------------------------------------------------------------------------------


def test_a_policy_without_predicates_keeps_what_pods_cannot_run_without() -> None:
    assert set(filters(policy([], []))) >= set(ALWAYS)
    assert not set(filters(policy([], []))) & set(OPTIONAL)


def test_a_policy_that_leaves_predicates_to_kube_scheduler_has_all_filters() -> None:
    assert filters(policy(None, [])) == filters(policy(None, []), exact=True) == list(FILTERS)


def test_exactly_a_policy_is_what_kube_scheduler_ran() -> None:
    assert filters(policy([{"name": "HostName"}]), exact=True) == [
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
    ]
    told = [remark.text for remark in imported(policy([]), exact=True).remarks]
    assert any("GPUCards" in text and "cannot run" in text for text in told)


def test_what_is_off_and_what_stays_on_is_told() -> None:
    told = [remark.text for remark in imported(samples.CLASSIC).remarks]
    assert any("GPUCards" in text and "stay on" in text for text in told)
    assert any("InterPodAffinity" in text and "are off" in text for text in told)


# -- scorers and weights -----------------------------------------------------------------------------------------


def test_priorities_that_are_not_given_are_kube_schedulers_defaults_and_empty_ones_are_none() -> None:
    assert scorers(policy()) == {
        "ServiceSpreading": 1,
        "InterPodAffinity": 1,
        "LeastRequested": 1,
        "BalancedResource": 1,
        "NodeAffinity": 1,
        "TaintToleration": 1,
        "ImageLocality": 1,
        "PodTopologySpread": 2,
    }
    assert scorers(policy([], [])) == {"Equal": 1}


def test_two_priorities_that_are_one_scorer_here_add_up() -> None:
    both = [
        {"name": "SelectorSpreadPriority", "weight": 2},
        {"name": "ServiceSpreadingPriority", "weight": 3},
    ]
    assert scorers(policy([], both)) == {"ServiceSpreading": 5}


def test_of_one_priority_twice_the_last_counts() -> None:
    twice = [{"name": "EqualPriority", "weight": 2}, {"name": "EqualPriority", "weight": 3}]
    assert scorers(policy([], twice)) == {"Equal": 3}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param((1, 1000), (1, 1000), id="as they are"),
        pytest.param((2000, 4000), (1, 2), id="by their common part"),
        pytest.param((7, 70_000), (1, 1000), id="roughly, and never to nothing"),
        pytest.param((30_000, 70_000), (3, 7), id="thousands"),
        pytest.param((50_001, 100_000), (500, 1000), id="rounded"),
    ],
)
def test_large_weights_keep_their_proportion(weights: tuple[int, int], expected: tuple[int, int]) -> None:
    names = ("LeastRequestedPriority", "EqualPriority")
    found = scorers(
        policy([], [{"name": name, "weight": weight} for name, weight in zip(names, weights, strict=True)])
    )
    assert (found["LeastRequested"], found["Equal"]) == expected


def test_a_symmetric_weight_without_the_priority_that_it_counts_in_is_told() -> None:
    assert any(
        remark.where == "hardPodAffinitySymmetricWeight" for remark in imported(samples.CLASSIC).remarks
    )


def test_a_rule_of_ones_own_is_lost_and_said_so() -> None:
    own = policy([{"name": "FitsMyRack"}], [{"name": "LikesMyRack", "weight": 1}])
    assert lost(own) == ["predicates[0] FitsMyRack", "priorities[0] LikesMyRack"]


def test_fields_that_nobody_knows_are_told() -> None:
    told = [str(remark) for remark in imported(policy([{"name": "HostName", "order": 2}], [])).remarks]
    assert "predicates[0]: the field order was ignored by kube-scheduler, and is here" in told


def test_names_cannot_break_out_of_a_comment() -> None:
    evil = 'x\nprofiles: []\r\x85\u2028y\x1b[2J"#'
    text = written([imported(policy([{"name": evil}], [{"name": evil, "weight": 1}], **{evil: 1}))])
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line.startswith("profiles")] == ["profiles:"]
    parse_config(text, origin="printed")


# -- what kube-scheduler refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found nothing"),
        ("{}", "found None"),
        ("{", "JSON"),
        ('{\t"kind": "Policy",}', "JSON"),
        ("kind: [", "YAML"),
        ("kind: Deployment", "found 'Deployment'"),
        ("kind: Policy\n---\nkind: Policy", "2 objects"),
        ("kind: Policy\napiVersion: v2", "apiVersion v1"),
        (b"\xff\xfe", "YAML"),
        ("kind: Policy\nkind: Policy", "stands twice"),
        ('{"kind": "Policy", "kind": "Policy"}', "stands twice"),
        ("kind: Policy\nx: &a [1]\ny: *a", "aliases"),
        ("[" * 100_000, "YAML"),
        (policy({"name": "HostName"}), "predicates: "),  # type: ignore[arg-type]
        (policy([{}]), "predicates[0].name: is missing"),
        (policy([{"name": 3}]), "predicates[0].name: 3"),
        (policy([], [{"name": "EqualPriority"}]), "priorities[0].weight: is missing"),
        (policy([], [{"name": "EqualPriority", "weight": 0}]), "priorities[0].weight: 0"),
        (policy([], [{"name": "EqualPriority", "weight": -1}]), "priorities[0].weight: -1"),
        (policy([], [{"name": "EqualPriority", "weight": 2**63}]), "priorities[0].weight"),
        (policy([], [{"name": "EqualPriority", "weight": "1"}]), "priorities[0].weight: '1'"),
        (policy([], [{"name": "EqualPriority", "weight": True}]), "priorities[0].weight: True"),
        (policy([{"name": "X", "argument": {}}]), "exactly one kind of argument"),
        (
            policy([{"name": "X", "argument": {"serviceAffinity": {"labels": ["a b"]}}}]),
            "serviceAffinity.labels[0]: 'a b'",
        ),
        (
            policy([], [{"name": "X", "weight": 1, "argument": {"labelPreference": {}}}]),
            "labelPreference.label: is missing",
        ),
        (policy(hardPodAffinitySymmetricWeight=101), "hardPodAffinitySymmetricWeight: 101"),
        (policy(extenders=[{"urlPrefix": 3}]), "extenders[0].urlPrefix: 3"),
        ('{"kind": "Policy", "hardPodAffinitySymmetricWeight": NaN}', "NaN"),
        ("kind: Policy\nx: 2001-99-99", "month"),
    ],
)
def test_what_kube_scheduler_would_refuse_is_refused_with_file_and_field(
    text: str | bytes, message: str
) -> None:
    with pytest.raises(Unreadable, match=r"policy\.cfg") as caught:
        import_profiles(text, origin="policy.cfg")
    assert message in str(caught.value)
