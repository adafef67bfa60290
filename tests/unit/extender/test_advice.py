"""What `alnair extender config` tells kube-scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from alnair.api import names
from alnair.api.config import BadConfig, parse_config
from alnair.cli import extender
from alnair.extender.advice import Way

PROFILES = "profiles: [{schedulerName: alnair, scorers: [BinPack], picker: best-fit}]"


def told(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(extender.app, ["config", *arguments])
    assert result.exit_code == 0, result.output
    said: dict[str, object] = yaml.safe_load(result.output)
    return said


def test_a_pod_waits_rather_than_to_be_bound_without_cards_and_no_node_is_left_out() -> None:
    said = told("--url", "http://127.0.0.1:8888")
    (extender,) = said["extenders"]  # type: ignore[misc]
    assert (extender["ignorable"], extender["nodeCacheCapable"]) == (False, True)
    assert {extender[f"{verb}Verb"] for verb in ("filter", "prioritize", "preempt", "bind")} == {
        "filter",
        "prioritize",
        "preempt",
        "bind",
    }
    assert all(each["ignoredByScheduler"] for each in extender["managedResources"])
    assert names.NVIDIA_GPU not in {each["name"] for each in extender["managedResources"]}
    assert said["percentageOfNodesToScore"] == 100


def test_the_secret_is_the_password_of_the_address(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef\n")
    said = told("--url", "http://127.0.0.1:8888", "--secret-file", str(secret))
    assert said["extenders"][0]["urlPrefix"] == "http://alnair:0123456789abcdef@127.0.0.1:8888"  # type: ignore[index]


def test_with_https_the_files_are_named_that_are_given() -> None:
    said = told("--url", "https://10.0.0.1:8888", "--ca-file", "/ca", "--cert-file", "/c", "--key-file", "/k")
    (extender,) = said["extenders"]  # type: ignore[misc]
    assert extender["enableHTTPS"] is True
    assert extender["tlsConfig"] == {"certFile": "/c", "keyFile": "/k", "caFile": "/ca"}


def test_names_and_whole_cards_come_from_alnairs_config(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{PROFILES}\nextender: {{schedulerNames: [mine, yours], wholeCards: true}}")
    said = told("--url", "http://127.0.0.1:8888", "--config", str(config))
    assert said["profiles"] == [{"schedulerName": "mine"}, {"schedulerName": "yours"}]
    managed = said["extenders"][0]["managedResources"]  # type: ignore[index]
    assert {"name": names.NVIDIA_GPU, "ignoredByScheduler": True} in managed


@pytest.mark.parametrize("url", ["127.0.0.1:8888", "ftp://h:1", "http://", "http://u:p@h:1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is no http"):
        Way(url)


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("{profile: other}", "extender.profile 'other' is none of the profiles; there are alnair"),
        ("{schedulerNames: [alnair]}", "extender.schedulerNames: 'alnair' is a profile of Alnair's"),
        ("{schedulerNames: [a, a]}", "used twice"),
        ("{schedulerNames: []}", "at least 1"),
        ("{port: 1}", "no field"),
    ],
)
def test_a_section_that_does_not_go_with_the_profiles_is_refused(section: str, why: str) -> None:
    with pytest.raises(BadConfig, match="f: ") as refused:
        parse_config(f"{PROFILES}\nextender: {section}", origin="f")
    assert why in str(refused.value)


def test_pods_of_the_extender_get_their_cards_through_their_environment() -> None:
    config = parse_config(f"{PROFILES}\nextender: {{}}", origin="f")
    assert config.delivering() == {"alnair", "default-scheduler"}
    assert parse_config(PROFILES, origin="f").delivering() == {"alnair"}
    off = parse_config(f"{PROFILES}\nextender: {{}}\ndelivery: {{enabled: false}}", origin="f")
    assert off.delivering() == frozenset()
