"""A profile is made of what the config names, or refused whole with every mistake in it."""

from __future__ import annotations

import pytest

from alnair.api.config import DEFAULT, BadConfig, Config, parse_config
from alnair.scheduling.plugins import FILTERS
from alnair.scheduling.profile import Profile, build_all
from harness.builders import pod
from unit.builders import Cluster


def built(profile: str) -> Profile:
    """The profile `mine` with these fields beside what it must have."""
    (made,) = build_all(configured(profile)).values()
    return made


def configured(profile: str) -> Config:
    given = {"scorers": "[BinPack]", "picker": "best-fit"} | dict(
        line.split(": ", 1) for line in profile.splitlines() if line
    )
    body = ", ".join(f"{key}: {value}" for key, value in given.items())
    return parse_config(f"profiles: [{{schedulerName: mine, {body}}}]", origin="f")


def test_every_profile_that_ships_can_be_made_with_the_baselines() -> None:
    config = Config(profiles=DEFAULT.profiles, baselines=True)
    assert build_all(config).keys() == config.by_name().keys()


def test_without_filters_it_has_all_of_them_in_their_order() -> None:
    assert [rule.name for rule in built("").filters] == list(FILTERS)


def test_filters_can_be_left_out_and_beside_a_list_there_are_no_others() -> None:
    assert [rule.name for rule in built("filters: {disable: [NodePorts]}").filters] == [
        name for name in FILTERS if name != "NodePorts"
    ]
    assert [rule.name for rule in built("filters: [GPUCards, NodeReady]").filters] == [
        "NodeReady",
        "GPUCards",
    ]


def test_a_filter_of_ours_that_is_enabled_with_options_stands_there_once() -> None:
    made = built("filters: {enable: [{name: NodeLabel, options: {present: [a]}}]}")
    assert [rule.name for rule in made.filters] == list(FILTERS)


def test_scorers_have_their_weights() -> None:
    made = built("scorers: [{name: Spread, weight: 3}, BinPack]\npicker: worst-fit")
    assert [(scorer.name, weight) for scorer, weight in made.scorers] == [("Spread", 3.0), ("BinPack", 1.0)]
    assert made.picker.name == "worst-fit"


def test_a_rule_at_two_points_is_one_object_unless_its_options_differ() -> None:
    made = built("scorers: [Potential]\npicker: Potential")
    assert made.scorers[0][0] is made.picker
    made = built("scorers: [{name: Random, options: {seed: 1}}]\npicker: {name: Random, options: {seed: 2}}")
    assert made.scorers[0][0] is not made.picker


def test_two_profiles_never_share_what_a_rule_has_learned() -> None:
    first, second = (built("scorers: [Potential]\npicker: Potential") for _ in range(2))
    assert first.picker is not second.picker


def test_who_learns_is_told_of_an_arrival_once_and_the_profile_is_another_one_when_that_changed_its_mind() -> (
    None
):
    made, kind = (
        built("scorers: [Potential]\npicker: Potential"),
        Cluster().kind(pod("p").slice(memory_gib=1)),
    )
    assert len(made.learners) == 1
    later = made.after(kind)
    assert later is not made
    for _ in range(30):
        later = later.after(kind)
    assert later.after(kind) is later  # with so many behind it, one more is no news
    assert later.picker is made.picker
    plain = built("")
    assert plain.after(kind) is plain


@pytest.mark.parametrize(
    ("profile", "field", "reason"),
    [
        (
            "scorers: [binpack]",
            "scorers[0]",
            "'binpack': scorers knows no rule of that name; it knows BinPack, ",
        ),
        (
            "picker: first-fit",
            "picker",
            "'first-fit': picker knows no rule of that name; it knows best-fit, ",
        ),
        ("filters: [NodeMood]", "filters[0]", "it knows NodeName, "),
        ("filters: {enable: [NodeMood]}", "filters.enable[0]", "'NodeMood'"),
        ("filters: {disable: [NodeMood]}", "filters.disable[0]", "'NodeMood'"),
        ("nodePicker: acme.com/Best", "nodePicker", "it knows none"),
        ("sort: Loudest", "sort", "it knows FewestCards, MostCards"),
        ("preBind: [acme.com/Licence]", "preBind[0]", "'acme.com/Licence'"),
        ("scorers: [{name: BinPack, options: {depth: 3}}]", "scorers[0].options", "BinPack has none"),
        ("scorers: [{name: Random, options: {sed: 3}}]", "scorers[0].options.sed", "is no field"),
        ("scorers: [{name: Random, options: {seed: x}}]", "scorers[0].options.seed", "'x': "),
    ],
)
def test_a_mistake_is_named_by_field_value_and_what_there_is(profile: str, field: str, reason: str) -> None:
    with pytest.raises(BadConfig) as refusal:
        build_all(configured(profile), origin="alnair.yaml")
    assert str(refusal.value).startswith(f"alnair.yaml: profiles[0].{field}: ")
    assert reason in str(refusal.value)


def test_every_mistake_of_every_profile_has_a_line_of_its_own() -> None:
    text = "{schedulerName: %s, scorers: [Nay, Nor], picker: neither}"
    config = parse_config(f"profiles: [{text % 'a'}, {text % 'b'}]", origin="f")
    with pytest.raises(BadConfig) as refusal:
        build_all(config)
    assert len(str(refusal.value).splitlines()) == 6
