"""`alnair profile`: import prints what can be run, check says what a file does, list knows every rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from alnair.api.config import parse_config
from alnair.cli.profile import app
from alnair.scheduling.plugins import FILTERS, PICKERS, SCORERS, SORTERS
from unit.scheduling.importing import samples


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], input=stdin)


@pytest.fixture
def classic(tmp_path: Path) -> Path:
    path = tmp_path / "policy.cfg"
    path.write_text(samples.CLASSIC)
    return path


def test_import_prints_a_config_file_and_warns_beside_it(classic: Path) -> None:
    result = run("import", classic, "--scheduler-name", "classic")
    assert result.exit_code == 0
    (profile,) = parse_config(result.stdout, origin="printed").profiles
    assert profile.scheduler_name == "classic"
    assert "alnair: filters: " in result.stderr
    assert f"# From {classic}" in result.stdout


def test_import_reads_standard_input() -> None:
    result = run("import", "-", stdin=samples.PACKING)
    assert result.exit_code == 0
    assert "MostRequested" in result.stdout


def test_import_writes_a_file_that_check_takes(classic: Path, tmp_path: Path) -> None:
    output = tmp_path / "config.yaml"
    assert run("import", classic, "-o", output).stdout == ""
    checked = run("check", output, "--json")
    assert checked.exit_code == 0
    profiles = json.loads(checked.stdout.splitlines()[-1])["profiles"]
    assert "1 x LeastRequested" in profiles["alnair-imported"]["scorers"]
    assert "less VolumeZone" in profiles["alnair-imported"]["filters"]


def test_import_as_json_is_one_line_with_the_remarks(classic: Path) -> None:
    result = run("import", classic, "--json")
    (line,) = result.stdout.splitlines()
    answer = json.loads(line)
    printed = yaml.safe_load(run("import", classic).stdout)
    assert answer["profiles"] == printed["profiles"]
    assert {remark["lost"] for remark in answer["remarks"]} == {False}


def test_strict_fails_where_something_is_lost_and_prints_nothing(classic: Path, tmp_path: Path) -> None:
    assert run("import", classic, "--strict").exit_code == 0
    path = tmp_path / "gpushare.json"
    path.write_text(samples.GPUSHARE)
    lenient, strict = run("import", path), run("import", path, "--strict", "-o", tmp_path / "out")
    assert (lenient.exit_code, strict.exit_code) == (0, 1)
    assert "not taken over: extenders[0]" in lenient.stderr
    assert strict.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere/policy.cfg"], "/nowhere/policy.cfg: cannot be read"),
        (["-"], "found nothing"),
        (["-", "--scheduler-name", "default-scheduler"], "found nothing"),
    ],
)
def test_import_says_what_is_wrong(arguments: list[str], message: str) -> None:
    result = run("import", *arguments, stdin="")
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


def test_import_refuses_a_name_that_is_kube_schedulers(classic: Path) -> None:
    result = run("import", classic, "--scheduler-name", "default-scheduler")
    assert result.exit_code == 1
    assert "belongs to kube-scheduler" in result.stderr


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("profiles: [{schedulerName: a, scorers: [{name: Nonsense}], picker: best-fit}]")
    result = run("check", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Nonsense" in result.stderr


def test_list_knows_every_rule_of_ours_with_its_purpose_and_options() -> None:
    rules = json.loads(run("list", "--json").stdout)["rules"]
    named = {(rule["point"], rule["name"]) for rule in rules if not rule["package"]}
    ours = {"filters": FILTERS, "scorers": SCORERS, "picker": PICKERS, "sort": SORTERS}
    assert named == {(point, name) for point, there in ours.items() for name in there}
    assert all(len(rule["purpose"]) > 10 for rule in rules)
    (labels,) = (rule for rule in rules if rule["name"] == "NodeLabel")
    assert labels["options"] == {"present": [], "absent": []}


def test_list_can_be_narrowed_to_a_point() -> None:
    text = run("list", "--point", "picker").stdout
    assert "best-fit" in text
    assert "NodeName" not in text
    assert run("list", "--point", "nonsense").exit_code == 2
