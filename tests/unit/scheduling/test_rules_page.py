"""docs/rules.md names every rule that there is, and no other, with the weights that Alnair ships."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from alnair.api import config, profiles
from alnair.api.config import parse_config
from alnair.api.podgroup import PodGroupSpec
from alnair.scheduling.plugins import FILTERS, SCORERS
from alnair.scheduling.profile import build

PAGE = (Path(__file__).parents[3] / "docs" / "rules.md").read_text()


def rows(section: str) -> list[list[str]]:
    """The rows of the section's tables, without their heads."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line] for line in lines]


def test_the_filters_stand_there_in_the_order_in_which_they_are_asked() -> None:
    assert [row[0].strip("`") for row in rows("Filters")] == list(FILTERS)


def test_the_scorers_stand_there_with_the_weights_of_the_wishes() -> None:
    found = rows("Scorers")
    assert [row[0].strip("`") for row in found] == list(SCORERS)
    weights = {row[0].strip("`"): int(row[2]) for row in found if len(row) == 3}
    assert weights == {wish.name: wish.weight for wish in profiles.WISHES}


SAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_sample_profile_can_be_used() -> None:
    (sample,) = (each for each in SAMPLES if each.startswith("profiles:"))
    for profile in parse_config(sample, origin="docs/rules.md").profiles:
        assert [rule.name for rule in build(profile).filters] == list(FILTERS)


def test_the_sample_group_asks_for_a_level_that_there_is() -> None:
    (sample,) = (each for each in SAMPLES if each.startswith("spec:"))
    spec = PodGroupSpec.model_validate(yaml.safe_load(sample)["spec"])
    assert spec.topology is not None
    assert spec.topology.required in {level.name for level in config.DEFAULT.topology.levels}
