"""The config file: a right one is read, a wrong one is refused by file, field, value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from alnair.api import names
from alnair.api.config import DEFAULT, BadConfig, load_config, parse_config
from alnair.api.profiles import BASELINES, Filters

GOOD = "profiles: [{schedulerName: a, scorers: [{name: BinPack, weight: 2}], picker: best-fit}]"


@pytest.mark.parametrize(
    ("readings", "complaint"),
    [
        ("{freshSeconds: 0}", "readings.freshSeconds"),
        ("{halfLifeSeconds: .inf}", "readings.halfLifeSeconds"),
        ("{forgottenSeconds: soon}", "readings.forgottenSeconds"),
        ("{freshSeconds: 60, forgottenSeconds: 30}", "forgottenSeconds is less than freshSeconds"),
        ("{period: 30}", "readings.period: is no field"),
    ],
)
def test_times_that_make_no_sense_are_refused(readings: str, complaint: str) -> None:
    profile = "{schedulerName: x, scorers: [BinPack], picker: best-fit}"
    with pytest.raises(BadConfig, match=complaint):
        parse_config(f"profiles: [{profile}]\nreadings: {readings}", origin="f")


def test_the_shipped_profiles() -> None:
    assert [profile.scheduler_name for profile in DEFAULT.profiles] == [
        names.PROFILE_DEFAULT,
        names.PROFILE_COST_SAVING,
        names.PROFILE_HIGH_PERFORMANCE,
        names.PROFILE_BEST_FIT,
        names.PROFILE_UTILIZATION,
        names.PROFILE_UTILSCHED,
    ]
    spread = DEFAULT.profile(names.PROFILE_HIGH_PERFORMANCE)
    assert spread is not None
    assert (spread.scorers[0].name, spread.picker.name) == ("Spread", "worst-fit")
    wishes = {
        "NodeAffinity": 2,
        "InterPodAffinity": 2,
        "PodTopologySpread": 2,
        "TaintToleration": 3,
        "ImageLocality": 1,
    }
    for profile in DEFAULT.profiles:
        weights = {scorer.name: scorer.weight for scorer in profile.scorers}
        # Protection only has something to say where places for large requests are scarce.
        others = sum(weight for name, weight in weights.items() if name not in {*wishes, "Protection"})
        assert {name: weight / others for name, weight in weights.items() if name in wishes} == wishes
        assert profile.filters == Filters()
    assert DEFAULT.profile("default-scheduler") is None


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(GOOD)
    profile = load_config(path).profiles[0]
    assert (profile.scheduler_name, profile.filters, profile.scorers[0].weight) == ("a", Filters(), 2)


def test_a_file_without_levels_has_the_usual_ones_and_may_have_none() -> None:
    assert parse_config(GOOD, origin="f").topology == DEFAULT.topology
    assert parse_config(GOOD + "\ntopology: {levels: []}", origin="f").topology.levels == []


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("", "the file", "None"),
        ("[]", "the file", "dictionary"),
        ("profiles: []", "profiles", "at least 1"),
        ("profiles: 3", "profiles", "3: "),
        ("profiles: [{}]", "profiles[0].schedulerName", "missing"),
        (GOOD + "\nextra: 1", "extra", "no field"),
        (GOOD.replace("picker", "piker"), "profiles[0].piker", "no field"),
        (GOOD.replace("best-fit", "first fit"), "profiles[0].picker.name", "'first fit'"),
        (GOOD.replace("best-fit", "{nom: best-fit}"), "profiles[0].picker.name", "missing"),
        (GOOD.replace("picker", "fallback: b, picker"), "the file", "the fallback 'b' of profile a"),
        (GOOD.replace("picker", "filters: {only: [], disable: [X]}, picker"), "profiles[0].filters", "only"),
        (GOOD.replace("picker", "reserve: [X, X], picker"), "profiles[0].reserve", "'X' is used twice"),
        (GOOD.replace("weight: 2", "weight: 0"), "profiles[0].scorers[0].weight", "0: "),
        (GOOD.replace("weight: 2", "weight: '2'"), "profiles[0].scorers[0].weight", "integer"),
        (GOOD.replace("weight: 2", "weight: 1001"), "profiles[0].scorers[0].weight", "1000"),
        (GOOD.replace("schedulerName: a", "schedulerName: A"), "profiles[0].schedulerName", "'A'"),
        (GOOD.replace("schedulerName: a", "schedulerName: 1"), "profiles[0].schedulerName", "string"),
        (
            GOOD.replace("schedulerName: a", "schedulerName: default-scheduler"),
            "profiles[0].schedulerName",
            "kube-scheduler",
        ),
        (GOOD.replace("picker", "filters: [oops!], picker"), "profiles[0].filters.only[0].name", "'oops!'"),
        (
            GOOD.replace("weight: 2}", "weight: 2}, {name: BinPack}"),
            "profiles[0].scorers",
            "'BinPack' is used twice",
        ),
        (GOOD + "\ndelivery: {enabled: maybe}", "delivery.enabled", "'maybe'"),
        (GOOD + "\ndelivery: {wholeCards: Environment}", "delivery.wholeCards", "is no field"),
        (GOOD[:-1] + "," + GOOD[len("profiles: [") :], "profiles", "'a' is used twice"),
        (GOOD + "\ntopology: {}", "topology.levels", "missing"),
        (GOOD + "\ntopology: {levels: [{name: rack}]}", "topology.levels[0].label", "missing"),
        (GOOD + "\ntopology: {levels: [{name: Rack, label: rack}]}", "topology.levels[0].name", "'Rack'"),
        (GOOD + "\ntopology: {levels: [{name: r, label: a/b/c}]}", "topology.levels[0].label", "'a/b/c'"),
        (
            GOOD + "\ntopology: {levels: [{name: r, label: a}, {name: r, label: b}]}",
            "topology.levels",
            "name 'r' is used twice",
        ),
        (
            GOOD + "\ntopology: {levels: [{name: r, label: a}, {name: s, label: a}]}",
            "topology.levels",
            "label 'a' is used twice",
        ),
    ],
)
def test_a_mistake_is_named_by_file_field_and_remedy(text: str, field: str, reason: str) -> None:
    with pytest.raises(BadConfig) as refusal:
        parse_config(text, origin="alnair.yaml")
    line = str(refusal.value).splitlines()[0]
    if field.endswith("piker"):  # the missing field is reported beside the one that is too much
        line = next(each for each in str(refusal.value).splitlines() if "piker" in each)
    assert line.startswith(f"alnair.yaml: {field}: ")
    assert reason in line


@pytest.mark.parametrize(
    "text",
    [
        "[1",
        "a: b: c",
        "a: !!python/object:os.system {}",
        "a: " + "[" * 5000,
        "a: 1\na: 2",
        "? [a]\n: 1",
        "\x00",
    ],
)
def test_what_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(BadConfig, match=r"^alnair\.yaml: "):
        parse_config(text, origin="alnair.yaml")


def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(BadConfig, match="found the key 'picker' twice"):
        parse_config(GOOD.replace("picker", "picker: worst-fit, picker"), origin="alnair.yaml")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(BadConfig, match=r"^alnair\.yaml: "):
        parse_config(b"\xff\xfe\xfa", origin="alnair.yaml")


def test_every_mistake_has_a_line_of_its_own() -> None:
    with pytest.raises(BadConfig) as refusal:
        parse_config("profiles: [{schedulerName: A, scorers: [], picker: 3}]", origin="f")
    assert len(str(refusal.value).splitlines()) == 3


def test_a_file_that_is_not_there_or_too_large_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"missing\.yaml: cannot be read"):
        load_config(tmp_path / "missing.yaml")
    (tmp_path / "large.yaml").write_text("#" * 300_000)
    with pytest.raises(BadConfig, match=r"large\.yaml: is larger"):
        load_config(tmp_path / "large.yaml")


@pytest.mark.parametrize(
    ("text", "delivering"),
    [("", {"a"}), ("\ndelivery: {}", {"a"}), ("\ndelivery: {enabled: false}", set())],
    ids=["left out", "nothing said", "off"],
)
def test_delivery_is_on_unless_it_is_switched_off(text: str, delivering: set[str]) -> None:
    assert parse_config(GOOD + text, origin="f").delivering() == delivering


def test_the_baselines_answer_only_when_they_are_asked_for() -> None:
    names_ = {profile.scheduler_name for profile in BASELINES}
    assert not names_ & parse_config(GOOD, origin="f").by_name().keys()
    assert parse_config(GOOD + "\nbaselines: true", origin="f").by_name().keys() == names_ | {"a"}


def test_a_profile_of_the_file_goes_before_a_baseline_of_its_name() -> None:
    config = parse_config(
        GOOD.replace("schedulerName: a", "schedulerName: alnair-fgd") + "\nbaselines: true", origin="f"
    )
    profile = config.profile("alnair-fgd")
    assert profile is not None
    assert profile.scorers[0].name == "BinPack"


def test_aliases_that_stand_for_more_than_fits_into_memory_are_refused() -> None:
    lines = ["x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 12)]
    bomb = "\n".join(lines)
    with pytest.raises(BadConfig, match="aliases counted"):
        parse_config(bomb, origin="f")
    with pytest.raises(BadConfig, match="aliases counted"):
        parse_config("x: &x [*x]", origin="f")


@pytest.mark.parametrize("text", ["profiles: 2026-13-01", "profiles: !!int x", "profiles: !!float y"])
def test_a_scalar_that_is_not_what_it_looks_like_is_refused(text: str) -> None:
    with pytest.raises(BadConfig, match="f: is not valid YAML"):
        parse_config(text, origin="f")
