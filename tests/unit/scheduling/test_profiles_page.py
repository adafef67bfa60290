"""docs/profiles.md is right: its samples can be used, its tables are the program's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alnair.api.config import parse_config
from alnair.cli.profile import app
from alnair.scheduling.importing.equivalents import ALWAYS, NO_PRIORITY, OPTIONAL, PREDICATES, PRIORITIES
from alnair.scheduling.profile import BadProfile, build, build_all
from alnair.scheduling.registry import POINTS
from unit.scheduling.importing import samples

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "profiles.md").read_text()
EXAMPLE = ROOT / "examples" / "plugins" / "quiet-rack"


def section(name: str) -> str:
    return PAGE.split(f"## {name}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    lines = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines if "---" not in line[0]][1:]


def quoted(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def test_the_sample_profiles_can_be_made() -> None:
    ours, learned = re.findall(r"```yaml\n(profiles:.*?)```", PAGE, flags=re.DOTALL)
    build_all(parse_config(ours, origin="docs/profiles.md"))
    (theirs,) = parse_config(learned, origin="docs/profiles.md").profiles
    with pytest.raises(
        BadProfile, match=r"'example\.com/LearnedPicker': nodePicker knows no rule of that name"
    ):
        build(theirs)  # all else of it is right


def test_every_point_is_explained_in_order() -> None:
    assert [row[0].strip("`") for row in rows(section("Points"))] == [*POINTS, "fallback"]


def test_the_method_of_every_point_is_told() -> None:
    told = {row[0].strip("`"): row[1] for row in rows(section("Rules of your own").split("### ")[0])}
    assert list(told) == list(POINTS)
    for point, method in POINTS.items():
        assert re.match(rf"`(async )?{method}\(", told[point]), point


def test_the_example_that_is_shown_is_the_one_that_is_there() -> None:
    code, entry = re.findall(r"```(?:python|toml)\n(.*?)```", section("Rules of your own"), flags=re.DOTALL)
    assert code == (EXAMPLE / "quiet_rack.py").read_text()
    assert entry in (EXAMPLE / "pyproject.toml").read_text()


def test_the_import_that_is_shown_is_what_the_command_prints(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```console\n(\$ alnair profile import.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "policy.cfg").write_text(samples.CLASSIC)
    arguments = ["import", str(tmp_path / "policy.cfg"), "--scheduler-name", "classic"]
    result = CliRunner().invoke(app, arguments)
    remarks, printed = shown.split("\n", 1)[1].split("…\n")
    assert remarks == result.stderr
    assert result.stdout.endswith(printed)


def test_the_table_says_what_becomes_of_every_predicate_and_priority() -> None:
    told: dict[str, list[str]] = {}
    for old, ours in rows(section("From kube-scheduler's files")):
        several = old.split(", ")
        names = quoted(ours.split(":")[0])
        paired = len(several) == len(names) > 1
        for place, name in enumerate(several):
            told[name] = [names[place]] if paired else names
    assert told.pop("GeneralPredicates") == []
    for name, filters in PREDICATES.items():
        if name != "GeneralPredicates":
            assert told[name] == list(filters), name
    for name, scorer in PRIORITIES.items():
        if name != "InterPodAffinityPriority":
            assert told[name] == [scorer], name
    for name in NO_PRIORITY:
        assert told[name] == [], name


def test_which_filters_stay_on_is_told() -> None:
    (text,) = re.findall(r"\*\*Which filters\.\*\*(.*?)\n\n", PAGE, flags=re.DOTALL)
    goes, stays = text.split("The others stay on")
    assert quoted(goes) == list(OPTIONAL)
    assert set(quoted(stays.split("`--exact`")[0])) == set(ALWAYS)
